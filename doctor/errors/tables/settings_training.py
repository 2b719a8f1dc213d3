"""Settings, as a log states them, with which a training diverges or becomes NaN."""

from __future__ import annotations

from doctor.errors.cause import Cause
from doctor.errors.tables.conditions import SET

USUAL = (
    "what is usual for the way of training (LoRA: 5e-5 to 5e-4; all weights of a language model: "
    "1e-6 to 5e-5; a model like BERT: 1e-5 to 5e-5; DPO of all weights: 5e-7 to 5e-6)"
)

ROWS = (
    Cause(
        id="ctc-infinite",
        why="A text with more characters than the audio has frames cannot be aligned, and its CTC "
        "loss is infinite. zero_infinity, which would leave it out, is switched off.",
        fix="The CTC loss is infinite where a text has more characters than the audio has frames: "
        "set ctc_zero_infinity=True (zero_infinity of CTCLoss), and drop samples whose audio is "
        "too short or whose text is empty or too long.",
        role="setting",
        sources=("torch-ctc-loss",),
    ),
    Cause(
        id="vae-in-fp16",
        why="The run computes in fp16, and activations of the VAE of SDXL exceed the largest "
        "number of fp16 (65,504): its latents are NaN, and with them the loss.",
        fix="The VAE of SDXL overflows in fp16: pass "
        "--pretrained_vae_model_name_or_path=madebyollin/sdxl-vae-fp16-fix, or keep the VAE in "
        "fp32 (no_half_vae).",
        role="setting",
        sources=("sliders-30",),
    ),
    Cause(
        id="bf16-model-in-fp16-without-bf16",
        why="The weights were trained in bf16, and their activations exceed the largest number of "
        "fp16 (65,504). The GPU of the run has no bf16.",
        template="{model:The model} was trained in bf16 and overflows in fp16, and {gpu:the GPU} "
        "has no bf16: load it in fp32 (torch_dtype=torch.float32) and compute in fp32, or train a "
        "quantized adapter with bnb_4bit_compute_dtype=torch.float32; else use an Ampere GPU or "
        "newer with bf16=True.",
        role="setting",
        sources=("flan-t5-bf16",),
    ),
    Cause(
        id="bf16-model-in-fp16",
        why="The weights were trained in bf16, whose range is that of fp32, and the run computes "
        "in fp16: activations that were sound in bf16 become infinite.",
        template="{model:The model} was trained in bf16, and its activations exceed the largest "
        "number of fp16 (65,504): train with bf16=True, fp16=False on Ampere and newer, in fp32 "
        "elsewhere.",
        role="setting",
        sources=("flan-t5-bf16",),
    ),
    Cause(
        id="gpu-wrong-in-half",
        why="The GPUs of the GTX 16 series (Turing without tensor cores) return NaN from some "
        "convolutions in half precision, and the run computes in fp16 or mixed precision.",
        template="{gpu:The GPU} returns NaN from convolutions in half precision, whatever the data "
        "and the learning rate: train in fp32 (amp=False, fp16=False), validate in fp32 as well, "
        "or take another GPU.",
        role="setting",
        sources=("pytorch-77955",),
    ),
    Cause(
        id="adapter-scaled",
        why="lora_alpha / r multiplies what an adapter adds to the weights, and with it the effect "
        "of the learning rate: 1 to 2 is usual, and here it is 8 or more.",
        template="Set lora_alpha to the rank or twice the rank ({rank:r} or {twice:2 r}); the "
        "learning rate can then stay as it is.",
        role="setting",
        sources=("peft-lora",),
    ),
    Cause(
        id="rate-above-usual",
        why="The learning rate is far above what is usual for this way of training: each step "
        "changes the weights by more than the gradient is valid for, so that the loss rises or "
        "the model forgets what it had learned.",
        template=f"Set the learning rate to {{usual:{USUAL}}}, and start again from the weights "
        "before this run.",
        role="setting",
        sources=("keras-hub-114", "alignment-handbook-25", "llava-918", "mmdetection-rate"),
    ),
    Cause(
        id="resumed-with-another-batch",
        why="The run was resumed with another number of processes or another global batch at the "
        "same learning rate, which was right for the former batch.",
        template="A step now takes {factor:several} times {fewer:fewer or more} samples at the "
        "same learning rate: change gradient_accumulation_steps by the same factor so that the "
        "global batch is what it was (with {before:the former number of processes}), or the "
        "learning rate with the batch. Go back to the checkpoint before the resumption.",
        role="setting",
        sources=("mmdetection-rate",),
    ),
    Cause(
        id="resumed-with-another-length",
        why="The schedule of the learning rate is computed of the length of the run, and the run "
        "was resumed with another one: the rate begins anew or jumps.",
        template="The schedule is computed for {after:another length} in place of {before:the "
        "first one}, so that the rate jumps at the resumption. Resume with the same number of "
        "epochs or steps, or go on with a new run from the weights with a constant or small rate.",
        role="setting",
        sources=("nnunet-197",),
    ),
    Cause(
        id="large-batch-without-warm-up",
        why="The learning rate was raised with a large batch, and the run starts with all of it: "
        "the first steps, whose gradients are the largest, do not bear it.",
        fix="Raise the learning rate linearly over the first 5 epochs (or 5 % of the steps): the "
        "rate was raised with the batch, and only later steps bear it.",
        role="setting",
        sources=("llm-foundry-232",),
    ),
    Cause(
        id="warm-up-missing",
        messages=(
            rf"warmup_(?:iters|steps|ratio|updates|epochs|fraction|samples)"
            rf"{SET}(?:0(?:\.0)?|None)(?![.\d])",
        ),
        examples=("  lr_warmup_iters ............................... 0", "warmup_steps=0,"),
        why="The settings leave out the warm-up of the learning rate: the first steps, before the "
        "optimizer's moments are estimated, are as large as any.",
        fix="Warm the learning rate up over the first 1 to 3 % of the steps, at most 2,000.",
        role="setting",
        sources=("llm-foundry-232",),
    ),
    Cause(
        id="gradients-unclipped",
        messages=(
            rf"(?:clip_grad|max_grad_norm|gradient_clipping|gradient_clip_val|clip_grad_norm)"
            rf"{SET}(?:0(?:\.0)?|None)(?![.\d])",
        ),
        examples=("  clip_grad ..................................... 0.0", "max_grad_norm=0.0,"),
        why="The settings switch the clipping of gradients off: one batch with a large gradient "
        "changes all weights.",
        fix="Clip the gradient norm at 1.0 (max_grad_norm, clip_grad) and lower the learning rate; "
        "start again, or from a checkpoint before the rise.",
        role="setting",
        sources=("llm-foundry-232", "zclip"),
    ),
    Cause(
        id="half-precision-without-bf16",
        why="The run computes in fp16, whose largest number is 65,504, on a GPU that has no bf16.",
        template="{gpu:The GPU} has no bf16: keep fp32 weights under fp16 autocast with a "
        "GradScaler, or train in fp32.",
        role="setting",
        sources=("ps-P10",),
    ),
    Cause(
        id="half-precision-chosen",
        messages=(
            rf"torch\.float16 for parameters|mixed_precision{SET}['\"]?fp16|precision{SET}['\"]?"
            r"16-mixed|fp16=True|Using 16bit (?:native )?Automatic Mixed Precision|fp16_enabled "
            r"\.{2,80} True",
        ),
        examples=("using torch.float16 for parameters ...", "bf16=False, fp16=True,"),
        why="The run computes in fp16, whose largest number is 65,504.",
        fix="On a GPU with bf16 (Ampere and newer) train in bf16. An older one (T4, V100) only "
        "emulates it, slowly, also where is_bf16_supported() is True: keep fp16 with a scaler.",
        role="setting",
        sources=("ps-P10",),
    ),
    Cause(
        id="second-moment-slow",
        why="Adam divides each step by the root of the second moment, a mean over about "
        "1 / (1 - beta2) steps. In pretraining gradients grow faster than a long mean follows, "
        "and steps become too large.",
        template="Set adam_beta2 to 0.95: with {value:0.999} the second moment remembers a "
        "thousand steps and is too small when gradients grow.",
        role="setting",
        sources=("spam",),
    ),
)
