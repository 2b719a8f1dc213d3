"""The user's training once more with other random numbers, before it is called sound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from doctor.collect.child_messages import Answer
from doctor.collect.children import fit
from doctor.collect.diagnosis import diagnose, fault_of
from doctor.collect.torch_child import ReportProgress, TorchChild, cut_short
from doctor.facts.own_model import OtherSeed
from doctor.facts.training import Smoke

SEEDS = 67280421310721, 2
"""Of the first run, as in the probe `subjects.py`, and of the other one."""
TRAINING = ("allocate", "forward", "loss", "backward", "optimizer", "compare")
"""Stages of the training itself; the others build the model or measure it."""
AT_MOST = 10.0
"""Seconds that building and the first steps may have taken, to be repeated with the other seed."""
SECONDS = 30.0


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
    smoke = _steps(child, request)
    if isinstance(smoke, str):
        return OtherSeed(seed=seed, reason=smoke)
    if fault_of(smoke, expect_no_grad) is None:
        return OtherSeed(seed=seed, smoke=smoke)
    child.end()
    again = _steps(child, request)
    if isinstance(again, str) or fault_of(again, expect_no_grad) is None:
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


def _steps(child: TorchChild, request: dict[str, Any]) -> Smoke | str:
    """The steps of one call of the factory, or why there are none."""
    answer = child.request(SECONDS, **request | {"stage": "attempt", "change": "repeat"})
    content = (answer.answer or {}).get("attempt")
    if isinstance(content, dict) and content.get("stale"):
        return "the factory returns the model of its first call"
    if isinstance(content, dict) and isinstance(smoke := fit(content.get("smoke"), Smoke), Smoke):
        return smoke
    if answer.ended.how in ("error", "signal") and _was_built(answer):
        stages = tuple(stage for stage in answer.stages if stage[0] in TRAINING)
        steps = Answer(answer.ended, None, answer.notes, stages)
        return cut_short(steps, request["device"], request["precision"], request["recipe"])
    return f"the second call of the factory: {answer.ended.detail or answer.ended.how}"


def _was_built(answer: Answer) -> bool:
    """Whether the steps began."""
    return any(name in TRAINING[1:] for name, _ in answer.stages)
