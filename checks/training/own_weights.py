"""The user's own training: every parameter changes."""

from __future__ import annotations

from dataclasses import replace

from doctor.checks.training import smoke as judged
from doctor.checks.training.own_depth import vanishing
from doctor.checks.training.own_optimizer import unchanged
from doctor.checks.training.own_parameters import of_all, only, partition, with_finite_gradients
from doctor.checks.training.own_rates import NEGATIVE_RATE_FIX, over_schedule
from doctor.checks.training.own_seeds import with_other_seed
from doctor.checks.training.own_steps import over_the_steps
from doctor.checks.training.own_updates import set_back, too_long
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Parameter, Smoke
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict, fail, ok, unknown


@with_other_seed
def weights_move(own: OwnModel, job: Job) -> Verdict:
    if (steps := with_finite_gradients(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    required, _ = partition(steps.parameters, job)
    if not required:
        return ok(f"{own.description}: all parameters match --expect-no-grad")
    of_class = bool(job.hf and not job.lora)
    reached = [each for each in required if each.had_gradient and not (of_class and _faint(each))]
    if not reached:
        verdict = unknown("no parameter got a gradient that is not 0: see SMK007")
        return replace(verdict, fix=AFTER_GRADIENTS)
    if negative := [step.lr for step in steps.steps if step.lr < 0]:
        summary = f"{own.description}: the learning rate is {negative[0]:g} in a step"
        return fail(f"{summary}; required: at least 0", fix=NEGATIVE_RATE_FIX)
    verdict = judged.weights_move(only(reached, steps))
    if verdict.status is Status.FAIL and vanishing(required):
        verdict = unknown("gradients vanish with depth, too small to change a weight: see SMK007")
        return replace(verdict, fix=AFTER_GRADIENTS)
    if verdict.status is Status.FAIL:
        later = own.trend.moved if own.trend else ()
        verdict = unchanged(steps, only(reached, steps), verdict, later)
    else:
        verdict = set_back(only(reached, steps), verdict, own.trend)
    if verdict.status is Status.PASS:
        verdict = _updates(own, steps, verdict)
    missing = len(required) - len(reached)
    note = f"; {missing} got no gradient, or a faint one: see SMK007" if missing else ""
    counted = of_all(verdict.summary, len(reached), len(steps.parameters))
    return replace(verdict, summary=f"{own.description}: {counted}{note}")


FAINT = 1e-8
"""Norm of a gradient beside which the epsilon of Adam leaves no update in fp32."""


def _faint(parameter: Parameter) -> bool:
    """Of a class of transformers whose gradient is too small for a step with random numbers."""
    norm = parameter.grad_norm
    return parameter.dtype == "float32" and not parameter.moved and float(norm or 0.0) < FAINT


def _updates(own: OwnModel, steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on weights that change, by how much and how long they do; a step that is too long
    is a warning unless SMK006 shows it in the loss."""
    verdict = over_schedule(steps, verdict, own.trend)
    if own.trend is None or verdict.status is not Status.PASS:
        return verdict
    shown = over_the_steps(own, steps, ok("")).status is not Status.PASS
    return verdict if shown else too_long(steps, verdict)


AFTER_GRADIENTS = "Fix SMK007 first: without gradients nothing can be said about the updates."

WEIGHTS_MOVE = replace(
    judged.WEIGHTS_MOVE,
    code="SMK008",
    slug="own-weights-move",
    title="Every trainable parameter of your model changes, norms included",
    why="At 1.0, bf16 rounds updates of up to 2^-8 (0.0039) upwards and 2^-9 (0.00195) downwards "
    "away, and AdamW changes a weight by about the learning rate. So norm weights of a model "
    "loaded in bf16 stay at 1.0 for the whole run, while the loss falls. Since version 5, "
    "transformers loads in the directory's dtype by default, usually bf16.",
    passes=(*judged.WEIGHTS_MOVE.passes, "parameters that match --expect-no-grad are exempt"),
    fails=(
        *judged.WEIGHTS_MOVE.fails,
        "the next forward pass undoes the update of a matrix, or overwrites it",
        "the learning rate of a step is below 0",
    ),
    warns=(
        "the learning rate of a group is 0",
        "the learning rate falls to a ten-thousandth within three steps, or stays below 1e-8",
        "clipping below the epsilon of the optimizer, or a learning rate times weight decay of 0.5",
        "the first update is ten times as large as the weights",
    ),
    fix="Load the weights with dtype=torch.float32 and compute in bf16 under autocast (bf16=True), "
    "or use an optimizer that compensates for rounding: Kahan summation or stochastic rounding. A "
    "larger learning rate only hides the problem.",
    judge=weights_move,
    after=("SMK006",),
)
