"""Rows about trainings that run and do not learn as they should."""

from __future__ import annotations

import re

from doctor.checks.log.classes import CONDITIONS
from doctor.checks.log.differential import evidence
from doctor.checks.log.differential.rates import adapter_scaled, too_high
from doctor.checks.log.differential.relations import (
    at_least,
    both,
    changed,
    in_amp,
    in_half,
    of_family,
    of_gpu,
    of_method,
    off,
    without_bf16,
)
from doctor.checks.log.differential.row import Differential
from doctor.checks.log.differential.symptoms import (
    ANEW,
    CONTROL,
    DIVERGED,
    FLAT,
    NAN,
    OVERFITS,
    RESUMED,
    REWARDS,
    SCALER,
    STANDS,
    WORSE,
)

IN_BF16 = (
    "gemma", "qwen", "llama-3", "llama3", "mistral", "mixtral", "phi-3", "phi3", "olmo", "deepseek",
)  # fmt: skip
"""Families whose weights were trained in bf16, with activations beyond the range of fp16."""
WRONG_IN_HALF = re.compile(r"GTX 16\d\d")
"""GPUs of the Turing generation without tensor cores."""

ROWS = (
    Differential(
        id="ctc-infinite",
        symptoms=NAN,
        evidence=off("ctc_zero_infinity"),
        fix="The CTC loss is infinite where a text has more characters than the audio has frames: "
        "set ctc_zero_infinity=True (zero_infinity of CTCLoss), and drop samples whose audio is "
        "too short or whose text is empty or too long.",
        sources=("torch-ctc-loss",),
    ),
    Differential(
        id="vae-in-fp16",
        symptoms=NAN,
        evidence=both(in_half, of_family("stable-diffusion-xl", "sdxl")),
        fix="The VAE of SDXL overflows in fp16: pass "
        "--pretrained_vae_model_name_or_path=madebyollin/sdxl-vae-fp16-fix, or keep the VAE in "
        "fp32 (no_half_vae).",
        sources=("sliders-30",),
    ),
    Differential(
        id="t5-in-fp16-without-bf16",
        symptoms=(*NAN, *SCALER),
        evidence=both(in_half, of_family("t5"), without_bf16),
        fix="{model} overflows in fp16 at any learning rate, and {gpu} has no bf16: train in fp32 "
        "(fp16=False) with a smaller batch and gradient accumulation, or on an Ampere GPU or newer "
        "with bf16=True.",
        sources=("flan-t5-bf16",),
    ),
    Differential(
        id="bf16-model-in-fp16-without-bf16",
        symptoms=(*NAN, *SCALER),
        evidence=both(in_half, of_family(*IN_BF16), without_bf16),
        fix="{model} was trained in bf16 and overflows in fp16, and {gpu} has no bf16: load it in "
        "fp32 (torch_dtype=torch.float32) and compute in fp32, or train a quantized adapter with "
        "bnb_4bit_compute_dtype=torch.float32; else use an Ampere GPU or newer with bf16=True.",
        sources=("flan-t5-bf16",),
    ),
    Differential(
        id="bf16-model-in-fp16",
        symptoms=(*NAN, *SCALER),
        evidence=both(in_half, of_family(*IN_BF16, "t5")),
        fix="{model} was trained in bf16, and its activations exceed the largest number of fp16 "
        "(65,504): train with bf16=True, fp16=False on Ampere and newer, in fp32 elsewhere.",
        sources=("flan-t5-bf16",),
    ),
    Differential(
        id="gpu-wrong-in-half",
        symptoms=NAN,
        evidence=both(in_amp, of_gpu(WRONG_IN_HALF)),
        fix="{gpu} returns NaN from convolutions in half precision, whatever the data and the "
        "learning rate: train in fp32 (amp=False, fp16=False), validate in fp32 as well, or take "
        "another GPU.",
        sources=("pytorch-77955",),
    ),
    Differential(
        id="adapter-scaled",
        symptoms=(*WORSE, *NAN, *FLAT),
        evidence=adapter_scaled,
        fix="Set lora_alpha to the rank or twice the rank ({rank} or {twice}); the learning rate "
        "can then stay as it is.",
        suffices=DIVERGED,
        sources=("peft-lora",),
    ),
    Differential(
        id="rate-above-usual",
        symptoms=(*WORSE, *NAN, *FLAT, *STANDS, *REWARDS, *CONTROL, *OVERFITS),
        evidence=too_high,
        fix="Set the learning rate to {low} to {high}, and start again from the weights before "
        "this run.",
        suffices=DIVERGED,
        sources=("keras-hub-114", "alignment-handbook-25", "llava-918", "mmdetection-rate"),
    ),
    Differential(
        id="resumed-with-another-batch",
        symptoms=(*WORSE, *RESUMED, *NAN),
        evidence=changed("world_size", "global_batch"),
        fix="A step now takes {factor} times {fewer} samples at the same learning rate: "
        "change gradient_accumulation_steps by {factor} so that the global batch is what it was "
        "(with {before}), or the learning rate with the batch. Go back to the checkpoint before "
        "the resumption.",
        suffices=DIVERGED,
        sources=("mmdetection-rate",),
    ),
    Differential(
        id="resumed-with-another-length",
        symptoms=ANEW,
        evidence=evidence.same_run_made_longer,
        fix="The schedule is computed for {after} in place of {before}, so that the rate jumps at "
        "the resumption. Resume with the same number of epochs or steps, or go on with a new run "
        "from the weights with a constant or small rate.",
        suffices=ANEW,
        sources=("nnunet-197",),
    ),
    Differential(
        id="large-batch-without-warm-up",
        symptoms=(*WORSE, *NAN),
        evidence=evidence.large_batch_no_warm_up,
        fix="Raise the learning rate linearly over the first 5 epochs (or 5 % of the steps): the "
        "rate was raised with the batch, and only later steps bear it.",
        suffices=DIVERGED,
        sources=("llm-foundry-232",),
    ),
    Differential(
        id="warm-up-missing",
        symptoms=WORSE,
        evidence=evidence.no_warm_up,
        fix=CONDITIONS["warm-up-missing"].fix,
        sources=("llm-foundry-232",),
    ),
    Differential(
        id="gradients-unclipped",
        symptoms=(*WORSE, *NAN),
        evidence=off("clip"),
        fix=CONDITIONS["gradients-unclipped"].fix,
        sources=("llm-foundry-232", "zclip"),
    ),
    Differential(
        id="half-precision-without-bf16",
        symptoms=NAN,
        evidence=both(in_half, without_bf16),
        fix="{gpu} has no bf16: keep fp32 weights under fp16 autocast with a GradScaler, or train "
        "in fp32.",
        sources=("ps-P10",),
    ),
    Differential(
        id="half-precision-chosen",
        symptoms=NAN,
        evidence=in_half,
        fix=CONDITIONS["half-precision-chosen"].fix,
        sources=("ps-P10",),
    ),
    Differential(
        id="second-moment-slow",
        symptoms=("loss-spike",),
        evidence=both(of_method("pretrain"), at_least("adam_beta2", 0.99)),
        fix="Set adam_beta2 to 0.95: with {value} the second moment remembers a thousand steps and "
        "is too small when gradients grow.",
        sources=("spam",),
    ),
)
