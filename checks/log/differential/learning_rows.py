"""Rows about trainings that stay finite and do not learn as they should."""

from __future__ import annotations

from doctor.checks.log.differential import evidence
from doctor.checks.log.differential.rates import too_low
from doctor.checks.log.differential.relations import (
    at_least,
    at_most,
    both,
    of_method,
    off,
)
from doctor.checks.log.differential.row import Differential
from doctor.checks.log.differential.symptoms import (
    FLAT,
    OVERFITS,
    RATE_ZERO,
    REWARDS,
    STANDS,
    WORSE,
)

ROWS = (
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
        fix="Set the warm-up to 1 to 5 % of the run, here about {few}.",
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
        symptoms=(*RATE_ZERO, *FLAT),
        evidence=evidence.schedule_too_short,
        fix="Build the scheduler for all {steps} optimizer steps of the run.",
        sources=("cbl-root",),
    ),
    Differential(
        id="schedule-stepped-per-process",
        symptoms=RATE_ZERO,
        evidence=evidence.stepped_per_process,
        fix="The scheduler takes one step for each unit of the {name}: call scheduler.step() once "
        "per optimizer step (in accelerate: prepare the scheduler, or multiply its steps by "
        "num_processes, with split_batches and accumulate() as documented).",
        sources=("accelerate-accumulation",),
    ),
    Differential(
        id="overfits-without-regularization",
        symptoms=OVERFITS,
        evidence=evidence.unregularized,
        fix="Take the checkpoint of the best evaluation, and stop there (early stopping; "
        "load_best_model_at_end). For the next run switch on what is off: augmentation of the data "
        "first, then weight decay (0.01 to 0.1) and dropout (0.1 to 0.3).",
        sources=("transformers-22934",),
    ),
    Differential(
        id="too-many-epochs",
        symptoms=OVERFITS,
        evidence=evidence.many_epochs,
        fix="Take the checkpoint of the best evaluation, and stop there (early stopping; "
        "load_best_model_at_end). For the next run train for about as many epochs as it took (1 to "
        "3 are usual for a fine-tuning), with the schedule built for them; more data helps more "
        "than any setting.",
        sources=("transformers-22934",),
    ),
    Differential(
        id="few-samples",
        symptoms=OVERFITS,
        evidence=evidence.few_rows,
        fix="Take the checkpoint of the best evaluation, and stop there (early stopping). Then get "
        "more data or augment it, or train an adapter or the last layers instead of all weights.",
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
