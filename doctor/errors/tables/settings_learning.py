"""Settings, as a log states them, with which a training stays finite and does not learn."""

from __future__ import annotations

from doctor.errors.cause import Cause
from doctor.errors.tables.settings_training import USUAL

ROWS = (
    Cause(
        id="data-in-order",
        why="The training data are not shuffled: consecutive batches are alike, and each pulls the "
        "weights towards its own kind.",
        fix="Shuffle the training data: batches of one kind after the other are forgotten as fast "
        "as they are learned.",
        role="setting",
        sources=("torch-dataloader",),
    ),
    Cause(
        id="preference-factor-zero",
        why="beta multiplies the difference of log-probabilities in the loss of preferences (DPO). "
        "At 0 the loss is log 2 for every policy, and the gradient 0.",
        fix="With beta 0 the loss does not depend on the policy: set beta to 0.1 (0.01 to 0.5).",
        role="setting",
        sources=("trl-1627", "trl-dpo"),
    ),
    Cause(
        id="warm-up-too-long",
        why="The warm-up takes half of the run or more: the learning rate never reaches its value, "
        "or only at the end.",
        template="Set the warm-up to 1 to 5 % of the run{few:}.",
        role="setting",
        sources=("transformers-training-args",),
    ),
    Cause(
        id="decay-too-strong",
        why="Weight decay pulls every weight towards 0 at each step, and is so strong here that "
        "the gradients do not hold against it.",
        template="Set weight_decay to 0.01 to 0.1: AdamW keeps every weight below "
        "1 / weight_decay, and {value:5 or more} leaves hardly anything.",
        role="setting",
        sources=("llm-foundry-232",),
    ),
    Cause(
        id="classes-unequal",
        why="One class, or the foreground of the pictures, is 5 % of the data or less: a model "
        "that predicts the majority everywhere has a small loss already.",
        fix="Predicting the majority everywhere is nearly free with a plain loss: use a Dice or "
        "focal loss, weights per class (pos_weight), or patches that contain the rare class, and "
        "count predictions of each class.",
        role="setting",
        sources=("fnr-diagnosis",),
    ),
    Cause(
        id="dropout-too-strong",
        why="Dropout sets most of the activations to 0 in every step, so that little of a sample "
        "reaches the loss.",
        template="Set dropout to 0.1 to 0.3: with {value:0.7 or more} hardly anything of the input "
        "is left.",
        role="setting",
        sources=("torch-functional-dropout",),
    ),
    Cause(
        id="rate-below-usual",
        why="The learning rate is far below what is usual for this way of training: the weights "
        "hardly change within the run.",
        template=f"Set the learning rate to {{usual:{USUAL}}}.",
        role="setting",
        sources=("keras-hub-114", "llava-918"),
    ),
    Cause(
        id="updates-rounded-away",
        why="Weights in bf16 keep eight bits: a step that is smaller than 1/512 of a weight rounds "
        "to nothing, and at a small learning rate most steps are.",
        fix="Keep the weights in fp32 and compute in bf16 (dtype=float32 with bf16 autocast), so "
        "that small steps are not lost to bf16 rounding, or use an optimizer with stochastic "
        "rounding or Kahan summation; a learning rate of 1e-5 or more hides it.",
        role="setting",
        sources=("fnr-root",),
    ),
    Cause(
        id="schedule-too-short",
        why="The scheduler was built for fewer steps than the run has: the learning rate is at its "
        "end, mostly 0, for the rest of it.",
        template="Build the scheduler for all {steps:the} optimizer steps of the run.",
        role="setting",
        sources=("torch-lr-scheduler",),
    ),
    Cause(
        id="schedule-counts-epochs",
        why="The schedule is as long as the run has epochs and takes a step at every batch: a "
        "cosine is at its end after so many batches, and then rises to its start and falls again.",
        fix="Call scheduler.step() once per epoch, or build the scheduler for the batches of the "
        "whole run (T_max = epochs x batches per epoch; in Lightning interval: step).",
        role="setting",
        sources=("torch-lr-scheduler",),
    ),
    Cause(
        id="schedule-stands-still",
        why="The log states a schedule that moves at every step, and the learning rate is one "
        "value: the scheduler was built and takes no step, or is of another optimizer.",
        fix="Call scheduler.step() after every optimizer.step(), on the scheduler that was built "
        "with this optimizer (after wrapping and accelerate's or DeepSpeed's prepare); in "
        "Lightning return it from configure_optimizers with interval: step, and step it yourself "
        "under manual optimization.",
        role="setting",
        sources=("torch-lr-scheduler",),
    ),
    Cause(
        id="schedule-stepped-per-process",
        why="The learning rate ends after the steps of the run over the number of processes, or "
        "over the accumulation: the scheduler takes so many steps for each of the optimizer's.",
        template="The scheduler takes one step for each unit of the {name:world size or of the "
        "accumulation}: call scheduler.step() once per optimizer step (in accelerate: prepare the "
        "scheduler, or multiply its steps by num_processes, with split_batches and accumulate() as "
        "documented).",
        role="setting",
        sources=("accelerate-accumulation",),
    ),
    Cause(
        id="overfits-without-regularization",
        why="The loss of the evaluation rises while that of the training falls, and what holds a "
        "model from learning samples by heart (augmentation, weight decay, dropout) is off.",
        fix="Take the checkpoint of the best evaluation, and stop there (early stopping; "
        "load_best_model_at_end). For the next run switch on what is off: augmentation of the data "
        "first, then weight decay (0.01 to 0.1) and dropout (0.1 to 0.3).",
        role="setting",
        sources=("transformers-22934",),
    ),
    Cause(
        id="too-many-epochs",
        why="Each sample is seen so often that the model learns it by heart, and the loss of the "
        "evaluation rises after the first epochs.",
        fix="Take the checkpoint of the best evaluation, and stop there (early stopping; "
        "load_best_model_at_end). For the next run train for about as many epochs as it took (1 to "
        "3 are usual for a fine-tuning), with the schedule built for them; more data helps more "
        "than any setting.",
        role="setting",
        sources=("transformers-22934",),
    ),
    Cause(
        id="few-samples",
        why="There are so few samples that a network learns them by heart.",
        fix="Take the checkpoint of the best evaluation, and stop there (early stopping). Then get "
        "more data or augment it, or train an adapter or the last layers instead of all weights.",
        role="setting",
        sources=("transformers-22934",),
    ),
    Cause(
        id="policy-unbound",
        why="The weight of the KL term is 0: the reward alone decides, and the policy can move to "
        "texts that the reward likes and that are no longer language.",
        fix="Nothing holds the policy near its reference: set beta (kl_coef) to 0.01 to 0.04, or "
        "lower the learning rate, and go back to a checkpoint near the best reward.",
        role="setting",
        sources=("trl-grpo",),
    ),
    Cause(
        id="samples-greedy",
        why="The advantage of a completion is its difference from the others of its prompt. At a "
        "temperature near 0 they are all alike, and there is nothing to learn from.",
        template="Sample completions with a temperature of 0.7 to 1.0: at {value:0} all "
        "completions of a prompt are alike, and so are their rewards.",
        role="setting",
        sources=("trl-grpo",),
    ),
    Cause(
        id="one-completion",
        why="Each prompt gets one completion, which is its own mean: every advantage is 0.",
        fix="Sample 4 to 16 completions of each prompt: the advantage is the difference from their "
        "mean.",
        role="setting",
        sources=("trl-grpo",),
    ),
    Cause(
        id="policy-epochs",
        why="Rollouts are samples of the policy that acted. After many epochs over them the policy "
        "is another one, and the value function fits the old rollouts alone.",
        template="Take 4 to 10 epochs over each batch of rollouts in place of {value:more than "
        "20}, or set target_kl (0.02), so that the policy stays near the one that acted.",
        role="setting",
        sources=("stable-baselines3-737",),
    ),
    Cause(
        id="exploration-off",
        why="The weight of the entropy is 0: nothing keeps the policy from one action everywhere, "
        "from which it learns nothing more.",
        fix="Give the entropy a weight (ent_coef 0.001 to 0.01) so that the policy goes on "
        "exploring.",
        role="setting",
        sources=("stable-baselines3-737",),
    ),
    Cause(
        id="auxiliary-loss-heavy",
        why="The loss that balances the experts is near 1 per layer and cannot fall far: with "
        "such a weight it outweighs the loss of the tokens, and the router is trained to divide "
        "evenly, not to choose.",
        template="Set its weight to 0.001 to 0.01, in place of {value:0.9}, and look at the loss "
        "of the tokens alone; check that it is not added twice (by the model and by the trainer).",
        role="setting",
        sources=("ms-swift-5627",),
    ),
    Cause(
        id="latents-pressed",
        why="The weight of the KL term is high from the start: the cheapest encoder ignores its "
        "input, and the decoder learns without it.",
        template="Raise the weight of the KL term from 0 over the first epochs (annealing, free "
        "bits), and begin with less than {value:0.1}.",
        role="setting",
        sources=("torch-vae",),
    ),
    Cause(
        id="discriminator-favoured",
        why="The discriminator gets a higher learning rate or more steps than the generator: it "
        "tells all samples apart, and the generator's gradient vanishes.",
        fix="Give both sides the same learning rate (2e-4 with beta1 0.5 for DCGAN) and one step "
        "each; more steps of the discriminator are for Wasserstein losses with a gradient penalty.",
        role="setting",
        sources=("torch-dcgan",),
    ),
)
