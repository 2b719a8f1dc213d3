"""The curves of a training as checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from doctor.checks.log.curves import (
    adversaries,
    held_out,
    learning,
    nonfinite,
    pace,
    rewards,
    shape,
)
from doctor.checks.log.curves.beside import checks_beside
from doctor.checks.log.curves.explained import explained
from doctor.judge.check import Check, Owner

NUMERICS = (
    "Look in this order: (1) at the learning rate and its warm-up, against what is usual for this "
    "way of training; (2) at the precision: bf16 with fp32 weights in place of fp16; (3) at the "
    "gradient norm just before, and clip it at 1.0; (4) at the batch of that step. Go back to a "
    "checkpoint before the step that is named."
)


def _checks() -> Iterator[Check]:
    yield Check(
        code="LOG087",
        slug="loss-summed",
        owner=Owner.JOB,
        judge=held_out.averaged,
        title="The loss of the training is a mean over the accumulated steps",
        why="A loss of the training that is as many times that of the evaluation as gradients are "
        "accumulated was summed over these steps and not divided by their number, and the "
        "gradients with it: clipping acts on nearly every step, and the rate is not what was set.",
        passes=("the two losses differ by another factor",),
        warns=("at every evaluation their ratio is the number of accumulated steps, to 15 %",),
        fix="Divide the loss by gradient_accumulation_steps in a loop of your own, or update "
        "transformers.",
        sources=("transformers-37766",),
        limits="that the loss is the right one.",
    )
    yield Check(
        code="LOG088",
        slug="discriminator-won",
        owner=Owner.JOB,
        judge=adversaries.balanced,
        title="The discriminator has not won",
        why="A discriminator that tells every sample apart has a loss near 0 and passes no "
        "gradient on: the generator's loss grows and its pictures stay noise or become all alike. "
        "Losses that hover are the healthy state.",
        passes=("the discriminator's loss keeps a level", "the generator's loss did not double"),
        warns=("its loss fell to less than a tenth and near 0 while the generator's doubled",),
        fix="Lower the discriminator's learning rate or the number of its steps, smooth its labels "
        "(0.9 for real), add noise, spectral norm or a gradient penalty (R1), or augment both "
        "sides (DiffAugment, ADA) where data are few; go back to a checkpoint before it won. Check "
        "that real and generated pictures are normalized alike.",
        sources=("torch-dcgan",),
        limits="that what is generated is good.",
    )
    yield Check(
        code="LOG089",
        slug="waits-for-data",
        owner=Owner.JOB,
        judge=pace.data_arrives,
        title="Steps do not wait for their data",
        why="Where a log names the time that a step waits for its batch beside the time of the "
        "whole step, their ratio is the share in which the GPU has nothing to do. A faster GPU "
        "does not help.",
        passes=("a step waits for less than 30 % of its time",),
        notes=("it waits for 30 to 50 %",),
        warns=(
            "it waits for half of its time or longer",
            "the log says that the GPU computes for less than 30 % of the time",
        ),
        fix="Give each GPU 8 to 16 loader workers (num_workers, within the job's cores) with "
        "persistent_workers and prefetch_factor=4, put the data on a local disk or into large "
        "files (WebDataset, LMDB, Arrow) in place of small ones on a network file system, and "
        "store it decoded or resized.",
        sources=("torch-tuning-loading",),
        limits="that the GPU is busy while it computes.",
    )
    yield Check(
        code="LOG090",
        slug="loss-zero-gradnorm-nan",
        owner=Owner.JOB,
        judge=nonfinite.hidden_nan,
        title="No loss of 0.0 hides a NaN",
        why="The Trainer replaces a NaN loss by the mean of the values before it, which after some "
        "steps is 0.0; the gradient norm shows the truth. A learning rate that stands still means "
        "that the fp16 scaler skips each step, one that moves that the weights are lost.",
        passes=("no logged loss is 0.0 while the gradient norm is NaN or infinite",),
        fails=("a loss of exactly 0.0 is logged with a NaN or infinite gradient norm",),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM001",),
        sources=("transformers-31997", "cbl-root"),
        limits="that the loss was finite between the logged steps.",
    )
    yield Check(
        code="LOG091",
        slug="loss-nonfinite",
        owner=Owner.JOB,
        judge=nonfinite.finite,
        title="The loss is finite",
        why="A NaN or infinite loss ends the training in effect: with the weights updated from it, "
        "all later values are NaN. One that is finite later was of a step that was skipped, or of "
        "one batch or evaluation alone.",
        passes=(
            "every logged loss is finite",
            "the first ones are not, three at most, and all others are: a note",
        ),
        warns=("at most three values are not, and the loss is finite again",),
        fails=("more values are NaN or infinite, or the last one is",),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM001",),
        sources=("ps-P8", "ps-P10", "transformers-23918", "sliders-30"),
        limits="that the loss was finite between the logged steps.",
    )
    yield Check(
        code="LOG092",
        slug="gradient-nonfinite",
        owner=Owner.JOB,
        judge=nonfinite.stepping,
        title="The gradient norm is finite",
        why="torch's loss scaler skips a step with infinite gradients and prints nothing: a "
        "gradient norm that stays infinite while the learning rate stands still is its only trace.",
        passes=(
            "every value is finite",
            "the first ones are not, or a single one: a note, as a loss scaler skips such steps",
        ),
        warns=("up to 16 steps in a row are not, and nothing shows that the scaler recovered",),
        fails=("more than 16 steps in a row are NaN or infinite, or ten values after the start",),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM005",),
        sources=("transformers-31997", "ps-P10"),
        limits="that each step was taken.",
    )
    yield Check(
        code="LOG093",
        slug="loss-spike",
        owner=Owner.JOB,
        judge=shape.no_spikes,
        title="The loss has no spikes",
        why="A value 7.5 robust standard deviations and 60 % above the median of the values "
        "before it, on a logarithmic scale, is a spike. Large runs have some and recover; one that "
        "does not come back is a failure. The gradient norm often rises a few steps before.",
        passes=(
            "no value is 7.5 deviations and 60 % above those before it",
            "one is, and the loss came back, or there are fewer than 100 values: a note",
        ),
        warns=("the rise is short and at the end",),
        fails=("the loss stays high for five values or doubles, and does not come back",),
        fix="Go back to a checkpoint about 100 steps before it, and look in this order: (1) at the "
        "gradient norm before the spike: clip it at 1.0; (2) at the batches there: skip 200 to "
        "500; (3) at the learning rate: lower it, with a longer warm-up.",
        sources=("zclip", "spam"),
        limits="that there was none between the logged steps.",
    )
    yield Check(
        code="LOG094",
        slug="loss-divergence",
        owner=Owner.JOB,
        judge=shape.no_divergence,
        title="The loss does not diverge",
        why="The median of the last tenth is compared with the second lowest of the tenths before, "
        "on a logarithmic scale: a run that ends 1.5 times above it, by six standard errors and "
        "with a rising trend, has lost what it learned. After an early explosion of the gradients "
        "the last third is compared with what was before.",
        passes=(
            "the last tenth is at most 1.5 times the lowest level, or within the noise",
            "it is higher, in fewer than 100 values: a note",
        ),
        warns=(
            "the last third is 1.15 times the lowest tenth or higher, and the log states a setting "
            "that is far from what is usual (learning rate, alpha of an adapter, batch)",
            "a loss below -10 falls more in its last third than before, while no score changes",
        ),
        fails=("it is higher",),
        fix=NUMERICS,
        sources=("ps-P8",),
        limits="that it falls as fast as it should.",
    )
    yield Check(
        code="LOG095",
        slug="loss-plateau",
        owner=Owner.JOB,
        judge=learning.progress,
        title="The loss improves",
        why="A loss without slope over the last third that improved by less than 5 % in all trains "
        "nothing: frozen parameters, a learning rate that is too low, or labels that are masked.",
        passes=(
            "the loss improved by 5 % or still falls",
            "it hardly changed: a note, since a training at its floor looks the same, and a "
            "discriminator at the level of guessing",
        ),
        warns=(
            "all logged values are equal, or loss and gradient norm are 0 beside rewards",
            "the gradient norm is 0 at every step and the loss does not fall",
            "it stays at the level of guessing among ten classes or the stated vocabulary",
            "all values repeat in their order, three times or more",
            "it falls by less than 2.5 %, and the log states a setting with which nothing is "
            "learned (learning rate, warm-up, weight decay, dropout)",
        ),
        fails=("all logged values are equal and the gradient norm is 0, without rewards",),
        fix="Look in this order: (1) whether parameters require gradients and change (SMK007, "
        "CKP007); (2) whether labels are left, not all -100; (3) whether the learning rate is what "
        "is usual for this way of training, and reaches it.",
        commands=("doctor run --only SMK007",),
        sources=("fnr-diagnosis",),
        limits="that it generalizes.",
    )
    yield Check(
        code="LOG096",
        slug="learning-rate-zero",
        owner=Owner.JOB,
        judge=shape.rate_positive,
        title="The learning rate is above zero, and moves as its schedule says",
        why="Zero at the first step of a warm-up and at the end of a schedule is normal. Zero "
        "elsewhere trains nothing: a scheduler that was built for fewer steps than the run has, or "
        "that steps once per rank or micro-batch.",
        passes=("it is zero only at the start of a warm-up or at the end",),
        notes=("it is zero in between and rises again",),
        warns=(
            "it is below a two-hundredth of its highest value in the second half, and the loss "
            "does not improve",
            "it is one value, or swings between 0 and its highest one, and the log states a "
            "schedule of which that is not true",
        ),
        fails=("it stays at zero, or is always zero",),
        fix="Build the scheduler for the number of optimizer steps of the whole run, on all ranks "
        "together.",
        sources=("torch-lr-scheduler",),
        limits="that the schedule is the right one.",
    )
    yield Check(
        code="LOG097",
        slug="throughput-falling",
        owner=Owner.JOB,
        judge=pace.throughput_holds,
        title="The throughput holds",
        why="A throughput that falls over the run has a reason outside the model: GPUs that lower "
        "their clock, a DataLoader that runs out of prefetched or cached data, memory that grows.",
        passes=("the last third is at least 70 % as fast as the first",),
        warns=("it is slower",),
        fix="Compare the clocks and temperatures of the GPUs with the start, and the time that "
        "steps wait for data.",
        commands=("doctor run --only GPU004,GPU006",),
        sources=("thermal-throttling",),
        limits="that it is as high as it could be.",
    )
    yield Check(
        code="LOG098",
        slug="rewards-alike",
        owner=Owner.JOB,
        judge=rewards.rewards_differ,
        title="The rewards of completions differ",
        why="Policy gradients learn from differences: where every completion gets the same reward, "
        "all advantages are 0, the loss is the KL term alone, and the run looks healthy while "
        "nothing is learned.",
        passes=("the rewards differ, and end near their highest level",),
        notes=("they end far below it, in fewer than 100 values",),
        warns=(
            "they end far below it, or most of what was gained is lost",
            "they do not rise while nearly every completion is cut off at the limit of length",
            "most completions are cut off at last, and few were at first",
            "the probabilities of sampler and trainer move apart",
        ),
        fails=("they do not differ, or their mean is one value, at ten or more logged steps",),
        fix=rewards.ALIKE,
        sources=("trl-3452",),
        limits="that the reward function rewards what it should.",
    )
    yield Check(
        code="LOG099",
        slug="evaluation-rises",
        owner=Owner.JOB,
        judge=held_out.generalizes,
        title="The loss of the evaluation does not rise while the training goes on",
        why="From the evaluation with the lowest loss on, the model learns its training data by "
        "heart: what is saved last is worse than what was there before. Where already the first "
        "evaluation is the best one of a training from scratch, its data or labels are of another "
        "kind than those of the training.",
        passes=("the loss of the evaluation ends at most a quarter above its lowest value",),
        notes=(
            "it ends higher, and the loss of the training fell meanwhile",
            "it ends half above it, and the log states that the best evaluation is taken",
        ),
        warns=(
            "it ends half above it or higher, and the loss of the training fell meanwhile",
            "it is never below its first value and ends a quarter above it, or is at the level of "
            "guessing, while the loss of the training fell to less than half",
        ),
        fix="Take the checkpoint of the best evaluation (load_best_model_at_end, or early "
        "stopping). For the next run: (1) fewer epochs; (2) more or more varied data; (3) "
        "regularization: augmentation, weight decay, dropout.",
        sources=("transformers-22934",),
        limits="that the evaluation's data are of the kind that the model will meet.",
    )


CHECKS = tuple(
    replace(check, judge=explained(check.slug, check.judge, check.fix))
    for check in sorted((*_checks(), *checks_beside()), key=lambda check: check.code)
)
