"""Why norms stand at their initial value, by what the optimizer kept for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from doctor.checkpoint.records import Checkpoint, Evidence, Norm, Optimizer
from doctor.judge.check import Status

FAR = 1e-3
"""sqrt(sum of lr^2): the distance of a random walk with steps of the learning rate."""

EARLY = 10
"""Steps before which nothing is concluded: learning rates warm up, first gradients can be zero."""

MANY = 100
"""Trainer's steps from which an optimizer at less than half of them did not take them all: loss
scaling skips some sixteen at the start."""

HALF_STEP = {"BF16": 2.0**-9, "F16": 2.0**-12, "F32": 2.0**-25, "F64": 2.0**-54}
"""The largest decrease at 1.0 that rounds back to it; an increase may be twice as large."""

WORDS = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64"}

LOW = ("BF16", "F16")

BY = {
    "names": "by the optimizer's names",
    "order": "by the order of the weights",
    "shapes": "matched by shape",
}

MASTER_FIX = (
    "Keep the weights that the optimizer steps in fp32: load with dtype=torch.float32, leave out "
    "model.to(torch.bfloat16) and model.half(), and compute under torch.autocast. Where memory "
    "forbids that, take an optimizer with Kahan summation (torch-optimi) or stochastic rounding, "
    "or keep the norms alone in fp32. Norms that stood still have to be trained again."
)
NO_GRADIENT_FIX = (
    "See first whether requires_grad is False on purpose: then nothing is wrong. If not, print "
    "param.grad after backward(): None or zeros mean that the forward pass does not use the "
    "weight, detaches it, runs it under no_grad, or that a fused norm kernel returns no weight "
    "gradient."
)
LEFT_OUT_FIX = (
    "Look for requires_grad_(False) on the norms and for a filter on names or dimensions where "
    "the optimizer is made: every parameter that is to train belongs to one group."
)
OTHER_COPY_FIX = (
    "See which weights were saved: the optimizer steps other copies than these files hold, or "
    "steps them with a learning rate of 0."
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What explains some of the norms, and how bad that is."""

    status: Status
    words: str
    fix: str | None = None
    sources: tuple[str, ...] = ()


def causes(
    checkpoint: Checkpoint, optimizer: Optimizer, still: list[Norm], legitimate: str | None
) -> list[Cause]:
    """A cause for each kind of norm that the evidence tells of; [] where it does not decide.

    `legitimate` says why norms that were frozen on purpose may stand as they do.
    """
    evidence = optimizer.norms
    if evidence is None or evidence.by is None or evidence.norms != len(still):
        return []
    steps = evidence.step_max if evidence.step_max is not None else optimizer.step_max
    if not optimizer.entries and not evidence.masters_moved:
        if keeps_no_state(optimizer) or steps_told(checkpoint):
            return []
        return [Cause(Status.WARN, "the optimizer has not stepped yet: too early to tell")]
    if steps is not None and steps < EARLY and not made_anew(checkpoint, optimizer):
        said = f"the optimizer has taken {steps:g} steps, {EARLY} required for a verdict"
        return [Cause(Status.WARN, f"{said}: too early to tell")]
    return [
        *_never_stepped(evidence, steps, legitimate),
        *_stepped(checkpoint, optimizer, evidence, still),
    ]


def keeps_no_state(optimizer: Optimizer) -> bool:
    """Whether it is SGD without momentum, whose state says nothing of its steps."""
    return optimizer.kind.split(",")[0] == "SGD"


def steps_told(checkpoint: Checkpoint) -> int:
    """Steps that the run took by what stands beside the optimizer; 0 where nothing tells."""
    return checkpoint.step or (checkpoint.history.steps if checkpoint.history else 0)


def made_anew(checkpoint: Checkpoint, optimizer: Optimizer) -> bool:
    """Whether the trainer counts many more steps than the optimizer has taken."""
    if checkpoint.history is None or optimizer.step_max is None:
        return False
    return checkpoint.history.steps >= max(MANY, 2 * optimizer.step_max + 1)


def _never_stepped(evidence: Evidence, steps: float | None, legitimate: str | None) -> list[Cause]:
    found = []
    after = "" if steps is None else f" after {steps:g} steps"
    if evidence.absent:
        said = f"{_they(evidence.absent, evidence)} in none of the optimizer's groups and never "
        words = f"{said}stepped: frozen (requires_grad) or left out"
        if legitimate:
            found.append(Cause(Status.WARN, f"{words}; {legitimate}"))
        else:
            found.append(Cause(Status.FAIL, words, LEFT_OUT_FIX))
    if evidence.missing:
        said = f"{_they(evidence.missing, evidence)} in the optimizer's groups without any state"
        words = f"{said}{after} and so never received a gradient"
        found.append(Cause(Status.FAIL, words, NO_GRADIENT_FIX, ("unsloth-4533",)))
    if evidence.zero:
        said = f"{_their(evidence.zero, evidence)} are all zero{after}"
        words = f"{said}: every gradient was zero"
        found.append(Cause(Status.FAIL, words, NO_GRADIENT_FIX, ("unsloth-4533",)))
    if evidence.unread and not evidence.masters_moved + evidence.masters_still:
        words = f"{_their(evidence.unread, evidence)} could not be read"
        found.append(Cause(Status.WARN, words))
    return found


def _stepped(
    checkpoint: Checkpoint, optimizer: Optimizer, evidence: Evidence, still: list[Norm]
) -> list[Cause]:
    """Norms that got gradients, by their moments or their fp32 masters."""
    if evidence.masters_moved:
        said = f"the optimizer's fp32 copies of {evidence.masters_moved:,} of them moved"
        return [Cause(Status.PASS, f"{said}: only this saved copy is rounded")]
    if not evidence.moving:
        return []
    their = _their(evidence.moving, evidence)
    dtypes = " and ".join(WORDS.get(dtype, dtype) for dtype in sorted(evidence.dtypes))
    at = "" if evidence.step_max is None else f" at step {evidence.step_max:g}"
    if checkpoint.history is not None and made_anew(checkpoint, optimizer):
        at += f" (the trainer at {checkpoint.history.steps:,})"
    said = f"{their} are {dtypes} and not zero{at}"
    if optimizer.defeats:
        words = f"{said}, and the optimizer keeps {optimizer.defeats}, which saves small updates"
        return [Cause(Status.WARN, f"{words}: rounding is not the cause", OTHER_COPY_FIX)]
    if any(norm.value == "zeros" for norm in still):
        words = f"{said}, and no step is lost to rounding at 0.0"
        return [Cause(Status.WARN, words, OTHER_COPY_FIX)]
    if len(evidence.dtypes) != 1:
        return [Cause(Status.WARN, f"{said}: some norms are stepped in another dtype than others")]
    dtype = next(iter(evidence.dtypes))
    if dtype in LOW and not evidence.masters_still:
        return [_swallowed(said, dtype, optimizer, _rate(checkpoint, optimizer, evidence))]
    return [_stepped_in_fp32(said, checkpoint, optimizer, evidence, still)]


def _swallowed(said: str, dtype: str, optimizer: Optimizer, rate: float | None) -> Cause:
    half = HALF_STEP[dtype]
    name = WORDS[dtype]
    adam = optimizer.kind.startswith(("Adam", "Lion", "8-bit"))
    if rate == 0.0:
        return Cause(Status.WARN, f"{said}; the learning rate is 0", OTHER_COPY_FIX)
    if adam and rate is not None and rate > 8 * half:
        words = (
            f"{said}; {name} rounds back only steps of up to {half:.3g} at 1.0 and the learning "
            f"rate was up to {rate:.2g}, so rounding alone does not explain it"
        )
        return Cause(Status.WARN, words, OTHER_COPY_FIX)
    most = f", the learning rate was up to {rate:.2g}" if rate is not None else ""
    words = (
        f"{said}: {name} swallowed the updates, since at 1.0 it rounds back a decrease of up to "
        f"{half:.3g} and an increase of up to {2 * half:.3g}{most}"
    )
    return Cause(Status.FAIL, words, MASTER_FIX)


def _stepped_in_fp32(
    said: str,
    checkpoint: Checkpoint,
    optimizer: Optimizer,
    evidence: Evidence,
    still: list[Norm],
) -> Cause:
    low = all(norm.dtype in LOW for norm in still)
    distance = _distance(checkpoint, optimizer, evidence)
    went = "" if distance is None else f" (a random walk of its steps goes {distance:.2g})"
    if evidence.masters_still or not low:
        words = f"{said}, and the weights that it steps are exactly at their initial value"
        return Cause(Status.WARN, words, OTHER_COPY_FIX)
    if not optimizer.follows:
        words = f"{said}, which this optimizer ({optimizer.kind}) also keeps for bf16 weights"
        if distance is None or distance < FAR:
            return Cause(Status.WARN, words, MASTER_FIX)
        words = f"{words}, and fp32 weights would differ in bf16 too by now{went}: rounding"
        return Cause(Status.FAIL, f"{words} swallowed the updates", MASTER_FIX)
    if distance is not None and distance >= FAR:
        words = f"{said}: fp32 weights are stepped{went}, and so far they would differ in bf16 too"
        return Cause(Status.WARN, words, OTHER_COPY_FIX)
    words = f"{said}: fp32 weights are stepped{went}, only this saved copy is rounded"
    return Cause(Status.PASS, words)


def _distance(checkpoint: Checkpoint, optimizer: Optimizer, evidence: Evidence) -> float | None:
    history = checkpoint.history
    if history is not None and history.covered:
        return math.sqrt(history.lr_squares)
    rate = _rate(checkpoint, optimizer, evidence)
    if rate is None or evidence.step_max is None:
        return None
    steps = evidence.step_max
    if history is not None and made_anew(checkpoint, optimizer):
        steps = history.steps
    return rate * math.sqrt(max(steps, 0.0))


def _rate(checkpoint: Checkpoint, optimizer: Optimizer, evidence: Evidence) -> float | None:
    """The largest learning rate that is told of."""
    history = checkpoint.history
    if history is not None and history.lr_max:
        return history.lr_max
    return evidence.lr_max if evidence.lr_max is not None else max(optimizer.lr, default=None)


def _they(count: int, evidence: Evidence) -> str:
    return "they are" if count == evidence.norms else f"{count:,} of them are"


def _their(count: int, evidence: Evidence) -> str:
    return "their moments" if count == evidence.norms else f"the moments of {count:,} of them"
