"""Rows about trainings that run and do not learn as they should."""

from __future__ import annotations

from doctor.checks.log.classes import CONDITIONS
from doctor.checks.log.differential import evidence
from doctor.checks.log.differential.rates import adapter_scaled, too_high, too_low
from doctor.checks.log.differential.relations import (
    at_least,
    at_most,
    both,
    changed,
    in_half,
    of_family,
    of_method,
    off,
    without_bf16,
)
from doctor.checks.log.differential.row import Differential

NAN = ("loss-nonfinite", "loss-zero-gradnorm-nan", "gradient-nonfinite", "stopped-at-nan")
SCALER = ("scaler-collapse",)
WORSE = ("loss-divergence", "loss-spike")
FLAT = ("loss-plateau",)
DIVERGED = ("loss-divergence",)
STANDS = ("evaluation-stands-still",)
REWARDS = ("rewards-alike",)
CONTROL = ("value-function-fails", "collapsed")
RESUMED = ("loss-lost-at-resume", "schedule-begins-anew")
IN_BF16 = (
    "gemma", "qwen", "llama-3", "llama3", "mistral", "mixtral", "phi-3", "phi3", "olmo", "deepseek",
)  # fmt: skip
"""Families whose weights were trained in bf16, with activations beyond the range of fp16."""

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
        id="adapter-scaled",
        symptoms=(*WORSE, *NAN, *FLAT),
        evidence=adapter_scaled,
        fix="Set lora_alpha to the rank or twice the rank ({rank} or {twice}); the learning rate can "
        "then stay as it is.",
        suffices=DIVERGED,
        sources=("peft-lora",),
    ),
    Differential(
        id="rate-above-usual",
        symptoms=(*WORSE, *NAN, *FLAT, *STANDS, *REWARDS, *CONTROL, "evaluation-rises"),
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
        "(with {before}), or the learning rate with the batch. Go back to the checkpoint before the "
        "resumption.",
        suffices=DIVERGED,
        sources=("mmdetection-rate",),
    ),
    Differential(
        id="resumed-with-another-length",
        symptoms=("schedule-begins-anew",),
        evidence=evidence.same_run_made_longer,
        fix="The schedule is computed for {after} in place of {before}, so that the rate jumps at "
        "the resumption. Resume with the same number of epochs or steps, or go on with a new run "
        "from the weights with a constant or small rate.",
        suffices=("schedule-begins-anew",),
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
    Differential(
        id="data-in-order",
        symptoms=(*WORSE, *FLAT),
        evidence=off("shuffle"),
        fix="Shuffle the training data: batches of one kind after the other are forgotten as fast "
        "as they are learned.",
        sources=("torch-dataloader",),
    ),
    Differential(
        id="preference-factor-zero",
        symptoms=(*FLAT, *REWARDS),
        evidence=both(of_method("preference"), off("beta")),
        fix="With beta 0 the loss does not depend on the policy: set beta to 0.1 (0.01 to 0.5).",
        suffices=FLAT,
        sources=("trl-1627", "trl-dpo"),
    ),
    Differential(
        id="warm-up-too-long",
        symptoms=(*FLAT, *STANDS),
        evidence=evidence.warm_up_too_long,
        fix="Set the warm-up to 1 to 5 % of the run, here about {few} steps.",
        suffices=FLAT,
        sources=("cbl-root",),
    ),
    Differential(
        id="decay-too-strong",
        symptoms=(*FLAT, *STANDS),
        evidence=at_least("weight_decay", 5.0),
        fix="Set weight_decay to 0.01 to 0.1: AdamW keeps every weight below 1 / weight_decay, "
        "and {value} leaves hardly anything.",
        suffices=FLAT,
        sources=("llm-foundry-232",),
    ),
    Differential(
        id="classes-unequal",
        symptoms=(*STANDS, *FLAT),
        evidence=at_most("minority_share", 0.05),
        fix="Predicting the majority everywhere is nearly free with a plain loss: use a Dice or "
        "focal loss, weights per class (pos_weight), or patches that contain the rare class, and "
        "count predictions of each class.",
        sources=("fnr-diagnosis",),
    ),
    Differential(
        id="dropout-too-strong",
        symptoms=(*FLAT, *STANDS),
        evidence=at_least("dropout", 0.7),
        fix="Set dropout to 0.1 to 0.3: with {value} hardly anything of the input is left.",
        suffices=FLAT,
        sources=("torch-functional-dropout",),
    ),
    Differential(
        id="rate-below-usual",
        symptoms=(*FLAT, *STANDS),
        evidence=too_low,
        fix="Set the learning rate to {low} to {high}.",
        suffices=FLAT,
        sources=("keras-hub-114", "llava-918"),
    ),
    Differential(
        id="updates-rounded-away",
        symptoms=FLAT,
        evidence=evidence.rounded_away,
        fix="Keep the weights in fp32 and compute in bf16 (dtype=float32 with bf16 autocast), so "
        "that small steps are not lost to bf16 rounding, or use an optimizer with stochastic "
        "rounding or Kahan summation; a learning rate of 1e-5 or more hides it.",
        suffices=FLAT,
        sources=("fnr-root",),
    ),
    Differential(
        id="schedule-too-short",
        symptoms=("learning-rate-zero", *FLAT),
        evidence=evidence.schedule_too_short,
        fix="Build the scheduler for all {steps} optimizer steps of the run.",
        sources=("cbl-root",),
    ),
    Differential(
        id="schedule-stepped-per-process",
        symptoms=("learning-rate-zero",),
        evidence=evidence.stepped_per_process,
        fix="The scheduler takes one step for each unit of the {name}: call scheduler.step() once "
        "per optimizer step (in accelerate: prepare the scheduler, or multiply its steps by "
        "num_processes, with split_batches and accumulate() as documented).",
        sources=("accelerate-accumulation",),
    ),
    Differential(
        id="overfits-without-regularization",
        symptoms=("evaluation-rises",),
        evidence=evidence.unregularized,
        fix="Switch on what is off: augmentation of the data first, then weight decay (0.01 to "
        "0.1) and dropout (0.1 to 0.3); take the checkpoint of the best evaluation.",
        sources=("transformers-22934",),
    ),
    Differential(
        id="too-many-epochs",
        symptoms=("evaluation-rises",),
        evidence=evidence.many_epochs,
        fix="Train for about as many epochs as the best evaluation took (1 to 3 are usual for a "
        "fine-tuning), with the schedule built for them, and take the checkpoint of the best "
        "evaluation (load_best_model_at_end); more data helps more than any setting.",
        sources=("transformers-22934",),
    ),
    Differential(
        id="few-samples",
        symptoms=("evaluation-rises",),
        evidence=evidence.few_rows,
        fix="Get more data or augment it, train an adapter or the last layers instead of all "
        "weights, and stop at the best evaluation.",
        sources=("transformers-22934",),
    ),
    Differential(
        id="policy-unbound",
        symptoms=REWARDS,
        evidence=both(of_method("policy"), off("beta")),
        fix="Nothing holds the policy near its reference: set beta (kl_coef) to 0.01 to 0.04, or "
        "lower the learning rate, and go back to a checkpoint near the best reward.",
        sources=("trl-grpo",),
    ),
    Differential(
        id="samples-greedy",
        symptoms=REWARDS,
        evidence=at_most("temperature", 0.1, zero=True),
        fix="Sample completions with a temperature of 0.7 to 1.0: at {value} all completions of a "
        "prompt are alike, and so are their rewards.",
        sources=("trl-grpo",),
    ),
    Differential(
        id="one-completion",
        symptoms=REWARDS,
        evidence=at_most("generations", 1),
        fix="Sample 4 to 16 completions of each prompt: the advantage is the difference from their "
        "mean.",
        sources=("trl-grpo",),
    ),
    Differential(
        id="policy-epochs",
        symptoms=("value-function-fails",),
        evidence=at_least("policy_epochs", 21),
        fix="Take 4 to 10 epochs over each batch of rollouts in place of {value}, or set target_kl "
        "(0.02), so that the policy stays near the one that acted.",
        sources=("stable-baselines3-737",),
    ),
    Differential(
        id="exploration-off",
        symptoms=("collapsed",),
        evidence=off("entropy_weight"),
        fix="Give the entropy a weight (ent_coef 0.001 to 0.01) so that the policy goes on "
        "exploring.",
        sources=("stable-baselines3-737",),
    ),
    Differential(
        id="latents-pressed",
        symptoms=("collapsed",),
        evidence=at_least("kl_weight", 0.1),
        fix="Raise the weight of the KL term from 0 over the first epochs (annealing, free bits), "
        "and begin with less than {value}.",
        sources=("torch-vae",),
    ),
    Differential(
        id="discriminator-favoured",
        symptoms=("discriminator-won",),
        evidence=evidence.sides_differ,
        fix="Give both sides the same learning rate (2e-4 with beta1 0.5 for DCGAN) and one step "
        "each; more steps of the discriminator are for Wasserstein losses with a gradient penalty.",
        sources=("torch-dcgan",),
    ),
)  # fmt: skip
