"""The user's own training with the other seed: a fault that only one of two seeds shows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from doctor.facts.own_model import OwnModel
from doctor.judge.check import Status, Verdict


def with_other_seed(judge: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """The judge of an OwnModel, applied to both seeds: the worse verdict, with the seed."""

    @functools.wraps(judge)
    def judge_both(own: OwnModel, *facts: Any, **named: Any) -> Verdict:
        verdict = judge(own, *facts, **named)
        if verdict.status is not Status.PASS or (other := _with_the_other(own)) is None:
            return verdict
        second = judge(other, *facts, **named)
        return second if second.status in (Status.WARN, Status.FAIL) else verdict

    return judge_both


def _with_the_other(own: OwnModel) -> OwnModel | None:
    """The record as if the other seed had been the only one; None if it was not tried."""
    other = own.other_seed
    if other is None or other.smoke is None:
        return None
    seeds = f"with seed {other.seed} of torch, random and numpy, not with {own.seed}"
    description = f"{own.description} ({seeds})"
    return msgspec.structs.replace(own, description=description, smoke=other.smoke, trend=None)
