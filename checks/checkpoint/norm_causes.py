"""Why norms are at their initial value, by the optimizer's state for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from doctor._util.units import counted
from doctor.checkpoint.dtypes import HALVES
from doctor.checkpoint.records import Checkpoint, Norm, NormEvidence, Optimizer
from doctor.judge.check import Status

MIN_DISTANCE = 1e-3
"""sqrt(sum of lr^2), the distance of a random walk with steps of the learning rate, from which
weights differ from their initial value even in a bf16 copy of fp32 weights: about one element in
forty has then crossed the rounding."""

MIN_STEPS = 10
"""Steps required for a verdict: learning rates warm up, first gradients can be zero."""

MANY_STEPS = 100
"""Trainer's steps from which an optimizer at less than half of them did not take them all: loss
scaling skips some sixteen at the start."""

HALF_STEP = {"BF16": 2.0**-9, "F16": 2.0**-12, "F32": 2.0**-25, "F64": 2.0**-54}
"""The largest decrease at 1.0 that rounds back to it; an increase may be twice as large."""

FAR_ABOVE = 8
"""Times that half step: a learning rate above it moves weights at 1.0 whatever the rounding, since
Adam's steps are as large as the rate where gradients agree. Our own number."""

DTYPE_NAMES = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64"}


MATCHED_BY = {
    "names": "matched by the optimizer's names",
    "order": "matched by the order of the weights",
    "shapes": "matched by shape",
}

MASTER_FIX = (
    "Keep the weights that the optimizer updates in fp32: load with dtype=torch.float32, remove "
    "model.to(torch.bfloat16) and model.half(), and compute under torch.autocast. If memory does "
    "not allow it, use an optimizer with Kahan summation (torch-optimi) or stochastic rounding, or "
    "keep only the norms in fp32. Train unchanged norms again."
)
NO_GRADIENT_FIX = (
    "Check whether requires_grad is False on purpose: then nothing is wrong. Otherwise print "
    "param.grad after backward(): None or zeros mean that the forward pass does not use the "
    "weight, detaches it, runs it under no_grad, or that a fused norm kernel returns no weight "
    "gradient."
)
LEFT_OUT_FIX = (
    "Look for requires_grad_(False) on the norms and for a filter on names or dimensions where "
    "the optimizer is created: every parameter to train must be in one group."
)
FROZEN_FIX = (
    "Check that the frozen part holds the pretrained weights: load them before the head is trained "
    "and read which keys load_state_dict() or from_pretrained() calls missing. If the part is "
    "random on purpose, nothing is wrong."
)
OTHER_COPY_FIX = (
    "Check which weights were saved: the optimizer updates other copies than these files hold, or "
    "updates them with a learning rate of 0."
)
LEAST_RATE = 1e-6
"""A rate below it is the cause to name first: no weight of a usual size moves. Our own number."""

LOW_RATE_FIX = (
    "Raise the learning rate, or let the warm-up end: with such a rate weights in any dtype hardly "
    "move. Then look at the norms again."
)

NO_GRADIENT_SOURCES = ("unsloth-4533",)


@dataclass(frozen=True, slots=True)
class Cause:
    """The explanation for some of the norms, and its status."""

    status: Status
    summary: str
    fix: str | None = None
    sources: tuple[str, ...] = ()


def causes(
    checkpoint: Checkpoint, optimizer: Optimizer, norms: list[Norm], legitimate: str | None
) -> list[Cause]:
    """A cause for each kind of norm in the evidence; [] where the evidence does not decide.

    `norms` are those at their initial value. `legitimate`: why that may be right for frozen norms.
    """
    evidence = optimizer.norms
    if evidence is None or evidence.matched_by is None or evidence.norms != len(norms):
        return []
    steps = evidence.step_max if evidence.step_max is not None else optimizer.step_max
    if not optimizer.entries and not evidence.masters_changed:
        if keeps_no_state(optimizer) or recorded_steps(checkpoint):
            return []
        return [Cause(Status.NOTE, "the optimizer has not stepped yet: too early for a verdict")]
    if steps is not None and steps < MIN_STEPS and not created_anew(checkpoint, optimizer):
        taken = f"the optimizer has taken {counted(round(steps), 'step')}"
        summary = f"{taken}; {MIN_STEPS} required for a verdict"
        return [Cause(Status.WARN, summary)]
    return [
        *_without_steps(evidence, steps, legitimate),
        *_with_gradients(checkpoint, optimizer, evidence, norms),
    ]


def keeps_no_state(optimizer: Optimizer) -> bool:
    """Whether it is SGD without momentum, whose state does not show its steps."""
    return optimizer.kind.split(",")[0] == "SGD"


def distance_of_steps(checkpoint: Checkpoint) -> float:
    """How far a random walk with the logged learning rates goes; 0 where that is not known.

    The steps of some optimizers are not as long as the learning rate, whatever the gradients are:
    SGD steps by rate times gradient, Rprop by its own step sizes, Adagrad by less and less.
    """
    history, optimizer = checkpoint.training.history, checkpoint.training.optimizer
    if history is None or (isinstance(optimizer, Optimizer) and not steps_by_rate(optimizer)):
        return 0.0
    return math.sqrt(history.lr_squares)


def steps_by_rate(optimizer: Optimizer) -> bool:
    """Whether its steps are about as long as the learning rate."""
    return not optimizer.kind.startswith(("SGD", "Rprop", "ASGD", "Adadelta", "Adagrad"))


def recorded_steps(checkpoint: Checkpoint) -> int:
    """Steps of the run by the files beside the optimizer's state; 0 where unknown."""
    history = checkpoint.training.history
    return checkpoint.training.steps or (history.steps if history else 0)


def length_of_run(checkpoint: Checkpoint) -> int:
    """Steps of the run by any state that counts them, the optimizer's too; 0 where none does."""
    optimizer = checkpoint.training.optimizer
    counted = optimizer.step_max if isinstance(optimizer, Optimizer) else None
    return recorded_steps(checkpoint) or int(counted or 0)


def created_anew(checkpoint: Checkpoint, optimizer: Optimizer) -> bool:
    """Whether the trainer counts many more steps than the optimizer."""
    history = checkpoint.training.history
    if history is None or optimizer.step_max is None:
        return False
    return history.steps >= max(MANY_STEPS, 2 * optimizer.step_max + 1)


def _without_steps(
    evidence: NormEvidence, steps: float | None, legitimate: str | None
) -> list[Cause]:
    """Norms that the optimizer never updated."""
    causes: list[Cause] = []
    after = "" if steps is None else f" after {steps:g} steps"
    if evidence.absent:
        summary = (
            f"{_subject(evidence.absent, evidence)} in none of the optimizer's groups and never "
            "updated: frozen (requires_grad) or left out"
        )
        if legitimate:
            causes.append(Cause(Status.WARN, f"{summary}; {legitimate}"))
        elif evidence.matrices_absent:
            frozen = "matrices are in no group either: that part is frozen, as it was initialized"
            causes.append(Cause(Status.WARN, f"{summary}; {frozen}", FROZEN_FIX))
        else:
            causes.append(Cause(Status.FAIL, summary, LEFT_OUT_FIX))
    if evidence.missing:
        summary = (
            f"{_subject(evidence.missing, evidence)} in the optimizer's groups without any state"
            f"{after}: no gradient"
        )
        causes.append(Cause(Status.FAIL, summary, NO_GRADIENT_FIX, NO_GRADIENT_SOURCES))
    if evidence.zero_moments:
        summary = f"{_moments(evidence.zero_moments, evidence)} are all zero{after}: zero gradients"
        causes.append(Cause(Status.FAIL, summary, NO_GRADIENT_FIX, NO_GRADIENT_SOURCES))
    if evidence.unread_moments and not evidence.masters_changed + evidence.masters_unchanged:
        summary = f"{_moments(evidence.unread_moments, evidence)} could not be read"
        causes.append(Cause(Status.WARN, summary))
    return causes


def _with_gradients(
    checkpoint: Checkpoint, optimizer: Optimizer, evidence: NormEvidence, norms: list[Norm]
) -> list[Cause]:
    """Norms that received gradients, by their moments or their fp32 masters."""
    if evidence.masters_changed:
        summary = f"the optimizer's fp32 copies of {evidence.masters_changed:,} of them changed"
        return [Cause(Status.PASS, f"{summary}: only this saved copy is rounded")]
    if not evidence.nonzero_moments:
        return []
    dtypes = " and ".join(DTYPE_NAMES.get(dtype, dtype) for dtype in sorted(evidence.dtypes))
    at = "" if evidence.step_max is None else f" at step {evidence.step_max:g}"
    history = checkpoint.training.history
    if history is not None and created_anew(checkpoint, optimizer):
        at += f" (the trainer at {history.steps:,})"
    observed = f"{_moments(evidence.nonzero_moments, evidence)} are {dtypes} and not zero{at}"
    if optimizer.compensation:
        summary = (
            f"{observed}, and the optimizer's {optimizer.compensation} preserves small updates: "
            "rounding is not the cause"
        )
        return [Cause(Status.WARN, summary, OTHER_COPY_FIX)]
    if any(norm.value == "zeros" for norm in norms):
        return [Cause(Status.WARN, f"{observed}; at 0.0 no update is lost", OTHER_COPY_FIX)]
    if len(evidence.dtypes) != 1:
        return [Cause(Status.WARN, f"{observed}: norms are updated in different dtypes")]
    dtype = next(iter(evidence.dtypes))
    if dtype in HALVES and not evidence.masters_unchanged:
        return [_lost_to_rounding(observed, dtype, optimizer, _rate(checkpoint, evidence))]
    return [_updated_in_fp32(observed, checkpoint, optimizer, evidence, norms)]


def _lost_to_rounding(observed: str, dtype: str, optimizer: Optimizer, rate: float | None) -> Cause:
    half = HALF_STEP[dtype]
    name = DTYPE_NAMES[dtype]
    adam = optimizer.kind.startswith(("Adam", "Lion", "8-bit"))
    if adam and rate is not None and 0 < rate < LEAST_RATE:
        summary = f"{observed}; the largest learning rate was {rate:.2g}, which trains nothing"
        return Cause(Status.WARN, summary, LOW_RATE_FIX)
    if rate == 0.0:
        return Cause(Status.WARN, f"{observed}; the learning rate is 0", OTHER_COPY_FIX)
    if adam and rate is not None and rate > FAR_ABOVE * half:
        summary = (
            f"{observed}; {name} rounds back only steps of up to {half:.3g} at 1.0 and the "
            f"learning rate was up to {rate:.2g}: rounding alone is not the cause"
        )
        return Cause(Status.WARN, summary, OTHER_COPY_FIX)
    largest = f", the learning rate was up to {rate:.2g}" if rate is not None else ""
    summary = (
        f"{observed}: updates lost to {name} rounding, which at 1.0 undoes a decrease of up to "
        f"{half:.3g} and an increase of up to {2 * half:.3g}{largest}"
    )
    return Cause(Status.FAIL, summary, MASTER_FIX)


def _updated_in_fp32(
    observed: str,
    checkpoint: Checkpoint,
    optimizer: Optimizer,
    evidence: NormEvidence,
    norms: list[Norm],
) -> Cause:
    rounded = all(norm.dtype in HALVES for norm in norms)
    distance = _distance(checkpoint, optimizer, evidence)
    far = distance is not None and distance >= MIN_DISTANCE
    walk = "" if distance is None else f" (a random walk of its steps covers {distance:.2g})"
    if evidence.masters_unchanged or not rounded:
        summary = f"{observed}, and the weights that it updates are at their initial value"
        return Cause(Status.WARN, summary, OTHER_COPY_FIX)
    if not optimizer.moments_follow_weights:
        summary = f"{observed}, which {optimizer.kind} also keeps for bf16 weights"
        if not far:
            return Cause(Status.WARN, summary, MASTER_FIX)
        summary = f"{summary}; fp32 weights would differ in bf16 by now{walk}"
        return Cause(Status.FAIL, f"{summary}: updates lost to bf16 rounding", MASTER_FIX)
    if far:
        summary = f"{observed}: fp32 weights are updated{walk} and would differ in bf16 by now"
        return Cause(Status.WARN, summary, OTHER_COPY_FIX)
    summary = f"{observed}: fp32 weights are updated{walk}, only this saved copy is rounded"
    return Cause(Status.PASS, summary)


def _distance(checkpoint: Checkpoint, optimizer: Optimizer, evidence: NormEvidence) -> float | None:
    history = checkpoint.training.history
    if not steps_by_rate(optimizer):
        return None
    if history is not None and history.covered:
        return distance_of_steps(checkpoint)
    rate = _rate(checkpoint, evidence)
    if rate is None or evidence.step_max is None:
        return None
    steps = evidence.step_max
    if history is not None and created_anew(checkpoint, optimizer):
        steps = history.steps
    return rate * math.sqrt(max(steps, 0.0))


def _rate(checkpoint: Checkpoint, evidence: NormEvidence) -> float | None:
    """The largest recorded learning rate."""
    history, optimizer = checkpoint.training.history, checkpoint.training.optimizer
    if history is not None and history.lr_max:
        return history.lr_max
    if evidence.lr_max is not None or not isinstance(optimizer, Optimizer):
        return evidence.lr_max
    return max(optimizer.lr, default=None)


def _subject(count: int, evidence: NormEvidence) -> str:
    return "they are" if count == evidence.norms else f"{count:,} of them are"


def _moments(count: int, evidence: NormEvidence) -> str:
    return "their moments" if count == evidence.norms else f"the moments of {count:,} of them"
