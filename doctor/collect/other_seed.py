"""The user's training once more, with other random numbers or other weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from doctor._util.median import median
from doctor.collect.child_messages import Answer
from doctor.collect.children import fit
from doctor.collect.diagnosis import diagnose
from doctor.collect.faults import fault_of, fault_of_step
from doctor.collect.torch_child import ReportProgress, TorchChild, cut_short
from doctor.facts.own_model import OtherSeed, OwnModel
from doctor.facts.training import Parameter, Smoke, without_gradient

SEEDS = 67280421310721, 2
"""Of the first run, as in the probe `subjects.py`, and of the other one."""
TRAINING = ("allocate", "forward", "loss", "backward", "optimizer", "scheduler", "compare")
"""Stages of the training itself; the others build the model or measure it."""
AT_MOST = 10.0
"""Seconds that building and the first steps may have taken, to be repeated with the other seed."""
SECONDS, TIMES = 30.0, 8.0
"""Limit of a training: seconds, or as many times what the first one took, 16 batches included."""
BUSY_SECONDS = 120.0
"""More for one that computes then: on a busy machine a model would fail otherwise whose other
experts a batch or a set of weights reaches."""
LONGEST = 30.0
"""Seconds of the first training beyond which none with other weights is tried, as up to 16 are."""


def try_other_seed(
    child: TorchChild,
    request: dict[str, Any],
    first_seconds: float,
    expect_no_grad: Sequence[str],
    report_progress: ReportProgress,
    *,
    attempt_seconds: float,
) -> OtherSeed:
    """The steps with the other seed, in the process of the first ones, whose imports it reuses.

    A fault is repeated in a new process: only there is the first call of the factory excluded as
    its cause. `first_seconds` are those of building and the first steps.
    """
    seed = SEEDS[1]
    if first_seconds > AT_MOST:
        reason = f"building and three steps took {first_seconds:.0f} s"
        return OtherSeed(seed=seed, reason=f"{reason}; at most {AT_MOST:.0f} s to be repeated")
    report_progress(f"training with seed {seed}")
    request = request | {"subject": {**request["subject"], "seed": seed}}
    smoke = _steps(child, request, first_seconds)
    if isinstance(smoke, NoSteps):
        return OtherSeed(seed=seed, reason=smoke.reason)
    if fault_of(smoke, expect_no_grad) is None:
        return OtherSeed(seed=seed, smoke=smoke)
    child.end()
    again = _steps(child, request, first_seconds)
    if isinstance(again, NoSteps) or fault_of(again, expect_no_grad) is None:
        return OtherSeed(seed=seed, reason="a fault in them did not return in a new process")
    diagnosis = diagnose(
        child,
        request["subject"],
        again,
        report_progress,
        attempt_seconds=attempt_seconds,
        expect_no_grad=expect_no_grad,
    )
    return OtherSeed(seed=seed, smoke=msgspec.structs.replace(again, diagnosis=diagnosis))


IN_TURN = 16
"""Batches of the loader that are trained on in turn, to see whether the first one is unusual."""


def in_other_batches(
    child: TorchChild, request: dict[str, Any], own: OwnModel
) -> tuple[tuple[str, ...], int]:
    """Parameters without a gradient in the first batch of the loader that get one in others, and
    the number of the first batch whose loss and gradients are not 0; 0 if that is not known."""
    if not own.has_loader or own.smoke is None:
        return (), 0
    subject = {**request["subject"], "in_turn": IN_TURN}
    first_seconds = own.built.seconds + own.smoke.seconds
    smoke = _steps(child, request | {"subject": subject}, first_seconds)
    if isinstance(smoke, NoSteps) or not smoke.completed:
        return (), 0
    if not all(each.finite for each in smoke.parameters):
        return (), 0
    missing = {each.name for each in without_gradient(own.smoke.parameters)}
    zeros = {each.name for each in without_gradient(own.smoke.parameters) if each.computed}
    reached = {each.name for each in _with_gradient(smoke, zeros)} & missing
    numbers = (n for n, step in enumerate(smoke.steps) if fault_of_step(step) is None)
    return tuple(sorted(reached)), next(numbers, 0)


OTHERS = 16
"""Trainings with other weights, at most."""
FIRST, IN_VAIN = 6, 4
"""Trainings without a new gradient after which no further one is tried: as long as there was none,
and once there was one. A small batch misses an expert of eight with one set of weights in five."""
NOISE = 1e-3
"""Of the median gradient norm: a smaller gradient of a parameter that had zeros only is no sign
that it trains."""


def reached_with_other_weights(
    child: TorchChild, request: dict[str, Any], own: OwnModel
) -> tuple[tuple[str, ...], str]:
    """Parameters without a gradient that get one with other seeds and perturbed weights, as the
    experts of a mixture do that no token of this batch chose; and why the search is incomplete."""
    if own.smoke is None:
        return (), ""
    first_seconds = own.built.seconds + own.smoke.seconds
    if first_seconds > LONGEST:
        reason = f"building and three steps took {first_seconds:.0f} s"
        return (), f"{reason}; at most {LONGEST:.0f} s to be repeated with other weights"
    zeros = {each.name for each in without_gradient(own.smoke.parameters) if each.computed}
    missing = {each.name for each in without_gradient(own.smoke.parameters)} - set(own.idle)
    perturbed = [each.name for each in own.smoke.parameters if each.had_gradient]
    reached: set[str] = set()
    in_vain = 0
    for seed in range(SEEDS[1], SEEDS[1] + OTHERS):
        subject = {**request["subject"], "seed": seed, "perturbed": perturbed}
        smoke = _steps(child, request | {"subject": subject}, first_seconds, "other-weights")
        if isinstance(smoke, NoSteps):
            return tuple(sorted(reached)), smoke.reason if smoke.late else ""
        if fault_of(smoke, ["*"]) is not None:
            break
        new = {each.name for each in _with_gradient(smoke, zeros)} & missing - reached
        reached |= new
        in_vain = 0 if new else in_vain + 1
        if in_vain == (IN_VAIN if reached else FIRST) or reached == missing:
            break
    return tuple(sorted(reached)), ""


def _with_gradient(smoke: Smoke, zeros: set[str]) -> list[Parameter]:
    """The parameters with a gradient, which is not tiny where it was 0 before."""
    reached = [each for each in smoke.parameters if each.had_gradient]
    norms = [float(each.grad_norm) for each in reached if each.grad_norm is not None]
    least = NOISE * median(norms) if norms else 0.0
    return [p for p in reached if p.name not in zeros or float(p.grad_norm or 0.0) >= least]


class NoSteps(NamedTuple):
    """Why a call of the factory gave no steps, and whether its time was over."""

    reason: str
    late: bool = False


def _steps(
    child: TorchChild, request: dict[str, Any], first_seconds: float, change: str = "repeat"
) -> Smoke | NoSteps:
    """The steps of one call of the factory."""
    fields = request | {"stage": "attempt", "change": change}
    limit = max(SECONDS, TIMES * first_seconds)
    answer = child.request(limit, extra_seconds=BUSY_SECONDS, **fields)
    if (answer.answer or {}).get("attempt") == {"stale": True} and change != "repeat":
        child.end()
        answer = child.request(limit, extra_seconds=BUSY_SECONDS, **fields)
    content = (answer.answer or {}).get("attempt")
    if isinstance(content, dict) and content.get("stale"):
        return NoSteps("the factory returns the model of its first call")
    if isinstance(content, dict) and isinstance(smoke := fit(content.get("smoke"), Smoke), Smoke):
        return smoke
    if answer.ended.how in ("error", "signal") and _was_built(answer):
        stages = tuple(stage for stage in answer.stages if stage[0] in TRAINING)
        steps = Answer(answer.ended, None, answer.notes, stages)
        return cut_short(steps, request["device"], request["precision"], request["recipe"])
    late = answer.ended.how in ("timeout", "budget")
    reason = f"the second call of the factory: {answer.ended.detail or answer.ended.how}"
    return NoSteps(reason, late)


def _was_built(answer: Answer) -> bool:
    """Whether the steps began."""
    return any(name in TRAINING[1:] for name, _ in answer.stages)
