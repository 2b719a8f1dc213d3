"""The user's own training: every parameter changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from doctor._util.units import listed
from doctor.checks.training import smoke as judged
from doctor.checks.training.own_depth import vanishing
from doctor.checks.training.own_optimizer import unchanged
from doctor.checks.training.own_parameters import of_all, only, partition, with_finite_gradients
from doctor.checks.training.own_rates import NEGATIVE_RATE_FIX, over_schedule
from doctor.checks.training.own_seeds import with_other_seed
from doctor.checks.training.own_steps import over_the_steps
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Parameter, Smoke
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict, fail, ok, unknown, warn


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
    passes=(
        *judged.WEIGHTS_MOVE.passes,
        "parameters that match --expect-no-grad are exempt, and those whose gradients are tiny "
        "because weights nearer to the loss start near 0 and change",
    ),
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


def set_back(steps: Smoke, verdict: Verdict, trend: Trend | None) -> Verdict:
    """The verdict on parameters that all differ at the end; a failure if the forward pass discards
    the updates of matrices."""
    discarded = trend.discarded if trend else ()
    lost = [p for p in steps.parameters if p.undone or p.set_back or p.name in discarded]
    if not any((each.dimensions or 0) > 1 for each in lost):
        return verdict
    writes = trend.writes if trend else ()
    where = f"; the forward pass overwrites them: {', '.join(writes)}" if writes else ""
    return fail(
        f"{len(lost)} of {len(steps.parameters)} parameters {_lost(lost)}: "
        f"{listed([each.name for each in lost], 4)}{where}; required: updates stay",
        fix=_writer_fix(writes) if writes else SET_BACK_FIX,
    )


def _lost(parameters: Sequence[Parameter]) -> str:
    """How the forward pass discards updates."""
    if all(each.set_back for each in parameters):
        return "have their initial values again after the next forward pass"
    if all(each.undone or each.set_back for each in parameters):
        return "have the values from before the update again after the next forward pass"
    return "get values in each forward pass that hardly depend on their updates"


def too_long(steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on weights that change; a warning if the first update is far larger than they.

    A single matrix is a linear probe, whose loss has one minimum: rates of 30 are usual there.
    """
    changes = sorted(
        float(each.change)
        for each in steps.parameters
        if (each.dimensions or 0) > 1 and each.change is not None
    )
    middle = changes[(len(changes) - 1) // 2] if len(changes) > 1 else 0.0
    if middle < FAR or not steps.steps or steps.steps[0].lr <= HIGHEST:
        return verdict
    optimizer = steps.optimizer.name if steps.optimizer else "AdamW"
    return warn(
        f"the first update is {middle:.3g} times as large as the weights (median of "
        f"{len(changes)} matrices), at a learning rate of {steps.steps[0].lr:g} of {optimizer}; "
        f"required: less than {FAR:g} times; {verdict.summary}",
        fix="Lower the learning rate: 1e-5 to 1e-3 is usual for Adam, 1e-3 to 1e-1 for SGD.",
    )


FAR, HIGHEST = 10.0, 0.1
"""Our own numbers: usual first updates are a hundredth of the weights, and usual learning rates are
lower; weights that start near 0 change much at those too."""


def _writer_fix(writes: Sequence[str]) -> str:
    if any("renorm" in each for each in writes):
        return RENORM_FIX
    return (
        "Remove what overwrites weights in the forward pass or the loss, or do it once, before the "
        "first step. To train values between bounds, compute them from an unbounded parameter."
    )


RENORM_FIX = (
    "Omit max_norm of the embedding, or normalize its result (torch.nn.functional.normalize): "
    "max_norm writes the weights in each forward pass."
)
SET_BACK_FIX = (
    "Look for code in the forward pass or the loss that writes weights: load_state_dict, copy_, "
    "reset_parameters or torch.nn.init. Call it once, before the first step."
)
