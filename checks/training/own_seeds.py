"""The user's own training with the other seed: a fault that only one of two seeds shows."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Smoke
from doctor.judge.check import Status, Verdict


def with_other_seed(judge: Callable[..., Verdict]) -> Callable[..., Verdict]:
    """The judge of an OwnModel, applied to both seeds: the worse verdict, with the seed."""

    @functools.wraps(judge)
    def judge_both(own: OwnModel, *facts: object, **named: object) -> Verdict:
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
    smoke = _reached_as_before(own, other.smoke)
    trend = Trend(moved=own.trend.moved) if own.trend else None  # all else is of the first seed
    return msgspec.structs.replace(own, description=description, smoke=smoke, trend=trend)


def _reached_as_before(own: OwnModel, smoke: Smoke) -> Smoke:
    """The steps without the parameters that need no gradient in them; one that had a gradient with
    the first seed only, such as an expert that is chosen in one of both runs, is recorded as
    there."""
    first = {each.name: each for each in own.smoke.parameters} if own.smoke else {}
    parameters = tuple(
        first.get(each.name, each) if each.finite and not each.had_gradient else each
        for each in smoke.parameters
        if each.name not in own.idle
    )
    return msgspec.structs.replace(smoke, parameters=parameters)
