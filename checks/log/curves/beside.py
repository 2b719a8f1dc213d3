"""Checks of what a log prints beside its losses: evaluations, critics, latents, memory, ranks."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.log.curves import (
    collapse,
    critics,
    evaluations,
    guesses,
    resources,
    resumed,
    rewards,
)
from doctor.judge.check import Check, Owner


def checks_beside() -> Iterator[Check]:
    yield Check(
        code="LOG085",
        slug="value-function-fails",
        owner=Owner.JOB,
        judge=critics.explains,
        title="The value function learns from returns of a usual size",
        why="A policy gradient needs an estimate of what a state is worth. Returns of thousands "
        "give "
        "a value function errors of millions: it explains nothing of them, its gradient takes over "
        "in layers that it shares with the policy, and the policy stays random.",
        passes=("its loss is finite and below 1,000, or it explains a part of the returns",),
        warns=(
            "its loss is above 1,000 and the explained variance at most 0.05",
            "its loss grew a hundredfold to above 1,000",
            "60 % of the samples or more are clipped in the last third",
        ),
        fails=("its loss is NaN or infinite",),
        fix=critics.SCALE,
        sources=("stable-baselines3-737", "isaaclab-1999"),
        limits="that the policy improves.",
    )
    yield Check(
        code="LOG086",
        slug="evaluation-stands-still",
        owner=Owner.JOB,
        judge=evaluations.standing,
        title="Evaluations change with the training",
        why="A loss or a score that is equal in every digit at five evaluations or more says that "
        "the evaluated weights do not change, that one answer is given to everything, or that no "
        "answer can be right.",
        passes=("the evaluations differ",),
        notes=(
            "a score is at its ceiling",
            "a score is 0 (a detector's 0.01 at most) at one to four evaluations",
            "the training began at a guess among ten classes at most, and evaluations are near it",
        ),
        warns=(
            "all evaluations are equal: a loss or score with three decimals, a score of 0; an AUC "
            "within 0.01 of 0.5, a detector's score of 0.01 at most at ten that does not rise",
            "precision or recall is 0 at the last one and half of all, and the accuracy is not",
            "two of three are, at a low score, while the loss of the training halved",
            "a score that is printed with decimals rises above 100 %",
            "an accuracy of 1/k beside a loss of ln k in the last third: a guess among k classes",
        ),
        fails=("the loss is NaN or infinite at every evaluation",),
        fix=guesses.SAME,
        commands=("doctor run --only SMK007",),
        sources=("fnr-diagnosis",),
        limits="that the score is measured as it should be.",
    )
    yield Check(
        code="LOG100",
        slug="collapsed",
        owner=Owner.JOB,
        judge=collapse.holds,
        title="Latents, codes and policies keep their variety",
        why="A KL divergence of latents near 0, a codebook with a few codes, or a policy without "
        "entropy says that a part of the model carries no information any more; the loss itself "
        "often looks well.",
        passes=("the values stay above these levels", "rewards rise while the entropy falls"),
        notes=("the entropy fell so far beside a value function, and no rewards were read",),
        warns=(
            "the KL divergence of the latents fell below 0.001",
            "less than 5 % of the codes are used",
            "the entropy fell below 0.02 while the rewards did not rise",
        ),
        fix=collapse.ANSWERS,
        sources=("trl-3452",),
        limits="that what is generated is good.",
    )
    yield Check(
        code="LOG101",
        slug="memory-keeps-growing",
        owner=Owner.JOB,
        judge=resources.memory_holds,
        title="The memory in use settles",
        why="Memory that grows from step to step ends the run hours later, wherever the limit is.",
        passes=("the last third is less than 1.3 times the first, or the rise ends",),
        warns=("it is 1.3 times the first, and rises as before",),
        fix=resources.MEMORIES["device_memory"][1],
        sources=("pytorch-16417",),
        limits="that the next longer sample fits.",
    )
    yield Check(
        code="LOG102",
        slug="samples-left-out",
        owner=Owner.JOB,
        judge=resources.samples_left,
        title="Most samples are trained on",
        why="A filter that drops nearly all samples, or a set of one or two, was hardly meant so.",
        passes=("less than 90 % of the samples are left out",),
        warns=(
            "90 % of them or more are left out",
            "lines say that samples are skipped, and at most half of the prepared ones are left",
            "the training set has one or two samples",
        ),
        fix=resources.FILTER,
        sources=("transformers-tokenization",),
        limits="that the samples are good.",
    )
    yield Check(
        code="LOG103",
        slug="rank-slower",
        owner=Owner.JOB,
        judge=resources.ranks_keep_pace,
        title="No rank is slower than the others",
        why="Every step waits for the slowest rank, so that one GPU with a lowered clock halves "
        "the "
        "throughput of all.",
        passes=("no rank is 1.3 times slower than the median of the others time after time",),
        warns=(
            "the same rank is, in 80 % of the lines that have a time for each",
            "ranks of a table with a time for each are",
        ),
        fix=resources.STRAGGLER,
        commands=("doctor run --only GPU004,GPU006",),
        sources=("thermal-throttling",),
        limits="that all are as fast as they could be.",
    )
    yield Check(
        code="LOG106",
        slug="ranks-alike",
        owner=Owner.JOB,
        judge=resources.ranks_differ,
        title="The ranks compute different losses",
        why="Data parallelism gives each rank its own samples, so that their losses differ before "
        "they are reduced. Losses that are equal in all digits say that all ranks read the same.",
        passes=("the losses differ", "a model is split over the ranks"),
        warns=(
            "lines that print a loss for each rank print one value for all, five times or more",
            "several processes log equal losses, and the log states that there is one process",
        ),
        fix=resources.SAME_DATA,
        sources=("datasets-6623",),
        limits="that no sample comes twice.",
    )
    yield Check(
        code="LOG107",
        slug="schedule-begins-anew",
        owner=Owner.JOB,
        judge=resumed.continues,
        title="The schedule of the learning rate goes on where it was",
        why="A scheduler that is built anew when a run is resumed, or at each epoch, warms up once "
        "more or returns to the highest rate while the weights are those of a late step: the loss "
        "rises.",
        passes=("the rate neither drops to warm up once more nor returns to its highest value",),
        warns=(
            "it falls at once from half of its highest value or more, and rises again over steps "
            "that go on; from a lower one where a line says that the run was resumed",
            "it returns to its highest value where a line says that the run was resumed",
            "it rises by half there, and the log states another number of epochs or steps",
        ),
        fix=resumed.AGAIN,
        sources=("torch-lr-scheduler",),
        limits="that the optimizer's state was restored.",
    )
    yield Check(
        code="LOG108",
        slug="policy-kl-negative",
        owner=Owner.JOB,
        judge=rewards.divergence_holds,
        title="The estimate of the KL divergence is not negative",
        why="The mean of log-ratios over samples of the policy estimates a divergence that is 0 or "
        "more. Far below 0, the samples are not of the distribution whose probabilities are "
        "computed, and the penalty becomes a reward.",
        passes=("it stays above -0.5",),
        warns=("it is below -0.5 in the last third, and falls",),
        fix=rewards.NOT_SAMPLED,
        sources=("trl-how-to-train",),
        limits="that the divergence is small enough.",
    )
    yield Check(
        code="LOG115",
        slug="loss-lost-at-resume",
        owner=Owner.JOB,
        judge=resumed.goes_on,
        title="The loss goes on where the checkpoint was",
        why="A run that is resumed begins at the loss of its checkpoint. A loss that is back near "
        "the level of the start says that the weights, or some of them, were not loaded.",
        passes=("the first losses after the line are near the last ones before it",),
        warns=("half of what was learned before the line is lost after it",),
        fails=("and a line says that keys were missing and unexpected",),
        fix=resumed.NOT_LOADED,
        sources=("pytorch-3805",),
        limits="that the optimizer's state and the order of the data were restored.",
    )
