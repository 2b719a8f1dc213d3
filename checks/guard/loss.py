"""The loss, as backward() received it."""

from __future__ import annotations

from doctor.checks.guard.observed import (
    enough,
    observed,
    total,
    unless_unlabelled,
)
from doctor.errors.tables import symptoms_inputs
from doctor.facts.guard import Guarded
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown

UNLABELLED = (
    "Print the labels of a batch: all are -100, so that the loss is a mean over nothing. Look for "
    "a truncation that cuts off the answers, a response template that is not in the text, and "
    "padding that is masked as the end-of-text token."
)
DIVERGED = (
    "Lower the learning rate, to a tenth first, or warm it up, and clip gradients at 1.0: each "
    "step goes further astray. Start anew: the weights are not usable."
)
EMPTY = (
    "Leave out samples that have no label, or none after truncation, and divide by "
    "count.clamp(min=1). Start anew, or from a checkpoint before this step."
)
UNDEFINED = (
    "Keep the argument in range: log_softmax() for the log() of a softmax(), logsigmoid(), "
    "clamp(min=1e-8) before log() and sqrt(), clamp(max=30) before exp(). Start anew, or from a "
    "checkpoint before this step."
)
SUMMED = (
    "Use the mean over the batch, reduction='mean', or divide the sum by the number of samples: "
    "the gradients of a sum grow with the batch, and with them each step. Else lower the learning "
    "rate by that factor. Start anew: the weights are not usable."
)
CONSTANT = (
    "Check the targets, weights and masks of the batch before the loss: "
    "torch.isfinite(target).all(), and divide by sums with clamp(min=1). A check of the loss must "
    "come before backward() and step(); after the step the weights are spoiled. Start anew, or "
    "from a checkpoint before it."
)
UNDIVIDED = (
    "Call scaler.step(optimizer), then scaler.update(), in place of optimizer.step(): it divides "
    "the gradients by the loss scale, and leaves out steps whose gradients overflowed."
)
DATA = (
    "Look at that row of the batch, and repair or drop its sample in the dataset: a missing value, "
    "a division by a standard deviation or a sum of 0, a log() of 0. Let the dataset check "
    "torch.isfinite() of each sample; mask in the loss what is missing on purpose. Where a frozen "
    "part computes the input, it may overflow: run it in fp32 or bf16. Start anew, or from a "
    "checkpoint before this step: the weights since then are not usable."
)
DERIVATIVE = (
    "Look before the loss for what has no derivative: sqrt(), norm(), std() or a power below 1 at "
    "exactly 0 (add eps inside), torch.where() that discards a branch with Inf or NaN (make its "
    "argument harmless first), and attention with a row whose mask leaves no key, as an empty "
    "sequence does (leave it out, or keep one key). Start anew, or from a checkpoint before this "
    "step; the records name the batch."
)
HALF = (
    "Keep the weights that the optimizer updates in fp32, and compute under torch.autocast with a "
    "GradScaler, or in bf16: in float16 Adam's eps of 1e-8 is 0, so that an update divides by 0, "
    "and a square of a gradient beyond 256 overflows. Start anew: the weights are not usable."
)
UNCLEARED = (
    "Call optimizer.zero_grad() after each optimizer.step(), of every optimizer: the gradients of "
    "all steps before were added up (GRD012). Start anew: the weights are not usable."
)
UNBOUNDED = (
    "Check the sign of each term: minus a cross entropy, a distance or a divergence has no "
    "minimum, nor has a critic without a penalty. What shall grow is subtracted only where "
    "something bounds it."
)
NON_FINITE_FIXES = {
    "constant": CONSTANT,
    "data": DATA,
    "derivative": DERIVATIVE,
    "diverged": DIVERGED,
    "empty": EMPTY,
    "half": HALF,
    "summed": SUMMED,
    "unbounded": UNBOUNDED,
    "uncleared": UNCLEARED,
    "undefined": UNDEFINED,
    "undivided": UNDIVIDED,
}
"""By what made the first value that is not finite; GRD002 has the same."""
FLAT_STEPS = 300
"""As the guard's own rule has it."""
NO_LOSS = "losses that were read as scalar tensors in backward()"


def _finite(guard: Guarded) -> Verdict:
    """Losses without an alarm that are not finite: no labels, or steps that a scaler skipped."""
    losses, bad = total(guard, "losses"), total(guard, "bad_losses")
    if not losses:
        return unknown(f"no {NO_LOSS}")
    if bad and not any(process.counts.scaled for process in guard.processes):
        return unknown(f"{bad:,} of {losses:,} losses are not finite: see GRD009")
    skipped = f", {bad:,} not, before the loss scaler adapted" if bad else ""
    return ok(f"{losses - bad:,} losses are finite{skipped}")


FINITE = Check(
    code="GRD001",
    slug="training-loss-finite",
    title="Every loss is finite",
    why="transformers replaces a loss that is NaN or Inf by the mean of the losses before it, 0.0 "
    "at the start (logging_nan_inf_filter), so that the log looks healthy while every weight "
    "becomes NaN. The guard reads the loss in backward(), before any filter.",
    passes=("every loss that backward() received is finite",),
    warns=("a loss is not finite, and the gradients of the step are finite and not 0",),
    fails=(
        "a loss is not finite and so are its gradients, or they could not be read",
        "under a loss scaler: ten steps in a row",
    ),
    fix="Restart from the last checkpoint before this step, or from the start without one: where "
    "GRD002 fails too, the weights since then are not usable. The records hold the batch's indices "
    "and the random state: `doctor run --model` with doctor.guard.replay names the operation that "
    "is not finite. In a transformers Trainer also set logging_nan_inf_filter=False.",
    owner=Owner.JOB,
    judge=observed(
        "GRD001",
        _finite,
        {
            "masked": "Look at the batch in the records: a micro-batch without labels, or a loss "
            "such as CTC that is infinite for impossible targets. Skip those samples, or pass "
            "zero_infinity=True to the CTC loss.",
            **NON_FINITE_FIXES,
            "scaled": "The loss itself overflows in fp16, which no loss scale prevents: train in "
            "bf16, or compute the loss and the attention scores in fp32.",
        },
        origin=True,
    ),
    limits="that the loss means what it should, nor the losses of steps that were not read (see "
    "the report's notes).",
    sources=("ps-P8", "ps-P9", "ps-P11", "cbl-verification", "trl-6702"),
)

LABELS = Check(
    code="GRD009",
    slug="labels-present",
    title="Every batch has labels",
    why="Cross entropy over a batch whose labels are all -100 is a mean over nothing: the loss is "
    "NaN and all gradients are 0. transformers prints loss 0.0 for it.",
    passes=("no step has a loss of NaN and gradients that are all 0",),
    warns=("a step has",),
    fails=("3 steps in a row have, or more than 10 of the last 100",),
    fix=UNLABELLED,
    owner=Owner.JOB,
    judge=unless_unlabelled(
        observed(
            "GRD009",
            enough("norms", 1, "{n} steps learned from labels", "steps whose gradients were read"),
        )
    ),
    limits="that the labels are the right ones.",
    sources=("ps-P11", "trl-6702"),
)

EXPLODED = (
    "Lower the learning rate to a tenth, and look for what makes the steps too long: gradients "
    "that nothing clears, weights that something else than the optimizer moves, such as a "
    "perturbation that is not undone, a sum in place of a mean."
)
STABLE = Check(
    code="GRD014",
    slug="loss-stable",
    title="The loss has no spikes",
    why="A loss that jumps and stays up has usually diverged: a learning rate that is too high, a "
    "warm-up that is too short, or bad data. The gradient norm often rises first.",
    passes=("no jump of loss or gradient norm in the sense below",),
    warns=(
        "3 losses in a row exceed the median of 100 before by 8 scaled median deviations, also in "
        "logarithms, and by 30 %, at a learning rate that has not just risen; with --all also 3 "
        "gradient norms",
        "the median of 20 losses exceeds the medians of at least 15 such blocks before in the same "
        "sense",
        "at the end of at least 100 losses of one optimizer, it is below 0 by 30 times the size of "
        "the first losses, or 30, and still falls",
        "at the end of at least 20 losses of one optimizer, it is a million times the size of the "
        "first losses, or of 1, and does not fall between rounds in which a factor is raised",
    ),
    fix="Lower the learning rate or lengthen the warm-up, clip gradients at 1.0, and look at the "
    "batches of the steps before the spike, which the records name.",
    owner=Owner.JOB,
    judge=observed(
        "GRD014",
        enough("losses", 200, "{n} losses without a spike", "losses that were read"),
        {
            "exploded": EXPLODED,
            "unbounded": UNBOUNDED,
        },
    ),
    limits="that the loss falls.",
    sources=("ps-P12", "ps-P13"),
)


def _falls(guard: Guarded) -> Verdict:
    steps, vocabulary = total(guard, "flat_steps"), total(guard, "vocabulary")
    if not steps:
        return skip("no language model with a vocabulary of at least 1,000 was observed")
    if not vocabulary and steps >= 5:
        return skip("the first losses are not those of an untrained language model")
    if steps < FLAT_STEPS:
        return unknown(f"{steps:,} losses of a language model; at least {FLAT_STEPS} required")
    return ok(f"the loss leaves ln({vocabulary:,}) within {steps:,} steps")


FALLS = Check(
    code="GRD015",
    slug="loss-falls",
    title="The loss of a new model leaves that of a guess",
    why="An untrained model guesses uniformly: its cross entropy is the logarithm of the number of "
    "classes. One that is still there after 300 steps learns nothing, although weights move: "
    "labels that do not belong to the inputs, shifted twice, or random.",
    passes=("the mean loss of some 50 steps is more than 0.05 below ln(vocabulary)",),
    warns=(
        "the loss starts within 0.25 of ln(vocabulary) and no mean of 50 steps is 0.05 lower after "
        "300 steps of an adaptive optimizer whose learning rates add up to at least 0.01 (--all)",
        "a classifier ends after 300 steps or more where it began, at ln(classes), and its rates "
        "let the weights move by less than 0.003, or ends 1.2 times above that",
        "the loss of a classifier is 100 times its first one, and that of a guess, within 6 steps",
        "a classifier ends after 50 steps or more above 5 times ln(classes), and 5 times its start",
    ),
    fix="Decode a batch, inputs beside labels: transformers' models shift the labels themselves. "
    "Then train on one batch until its loss is 0.",
    owner=Owner.JOB,
    judge=observed(
        "GRD015",
        _falls,
        {
            "rate-low": "Raise the learning rate, by a factor of 10 until the loss moves: 1e-3 for "
            "Adam and 0.1 for SGD are places to begin.",
            "exploded": EXPLODED,
            "leap": "Give the model inputs of mean 0 and standard deviation 1 (images / 255), and "
            "start with a lower learning rate or a warm-up: large inputs make long first steps, "
            "after which a lower rate alone does not help.",
            "rate-high": "Lower the learning rate to a tenth, or warm it up: a model that is worse "
            "than a guess has weights that are too large, or is pushed away from every minimum.",
        },
        with_all=True,
    ),
    limits="that the model learns what it should.",
    sources=("ps-P17", "ps-P12"),
)

FITS = Check(
    code="GRD029",
    slug="loss-fits-output",
    title="The loss gets what it expects",
    why="cross_entropy() applies log_softmax() itself. After a softmax() in the model its loss "
    "cannot fall below ln(1 + (C - 1) / e) for C classes, gradients are small, and training looks "
    "like a hard problem. [N, 1] against [N] compares every prediction with every target.",
    passes=("the graphs of the first losses show the input that each function expects",),
    warns=(
        "at 3 of the first 16 backward passes, cross_entropy() gets the result of softmax(), "
        "sigmoid(), relu() or tanh(), or binary_cross_entropy_with_logits() does",
        "nll_loss() or ctc_loss() gets scores or probabilities, not their logarithms",
        "log_softmax() normalizes over the batch, or there is one class",
        "a distance of [N, 1] and [N] is a mean over [N, N]",
        "at 3 passes more than 10 % of the targets are outside 0 to 1 in "
        "binary_cross_entropy_with_logits(), or outside what the activation that computed the "
        "output can return",
        "30 ratios of new and old probabilities, which are clipped, are exactly 1 on data that "
        "were used before",
    ),
    fix=symptoms_inputs.SOFTMAX_TWICE.fix,
    owner=Owner.JOB,
    judge=observed(
        "GRD029",
        enough(
            "graphs",
            1,
            "{n} graphs of losses, each with the input that its function expects",
            none="no loss of torch.nn.functional was found in the graphs of the first losses",
        ),
        {
            "logarithms": symptoms_inputs.NO_LOGARITHMS,
            "axis": symptoms_inputs.OVER_SAMPLES,
            "one-class": "Use one output with binary_cross_entropy_with_logits(), or two outputs.",
            "range": symptoms_inputs.BOUNDED,
            "targets": symptoms_inputs.TARGETS,
            "ratio": "Compute the old log-probabilities once, when the data are collected, and "
            "keep them with the data for all epochs of updates. An old policy must be a copy.",
            "broadcast": symptoms_inputs.AGAINST_ALL,
        },
    ),
    limits="that the targets are right, nor anything of a model that torch.compile runs.",
    sources=("torch-cross-entropy",),
)

CHECKS = (FINITE, LABELS, STABLE, FALLS, FITS)
