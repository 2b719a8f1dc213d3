"""The steps that the hooks logged, or did not read: of most, no rule can say anything."""

from __future__ import annotations

from math import inf, isfinite

from .optimizer_watch import OptimizerWatch
from .records import Step
from .steady import FEW_LOGGED, LOGGED_SECONDS, MOST_LOGGED, Armed, Logged, Steady
from .values import Scalar

Entry = Logged[OptimizerWatch]


def as_step(entry: Entry) -> Step:
    """A logged step as the rules have it."""
    armed, number, losses, norm, rates, backwards, _ = entry
    watch = armed.watch
    step = Step(watch.index, number, list(losses), norm, rates=rates, backwards=backwards)
    step.parameters, step.read = watch.parameters.count, norm is not None
    step.whole = watch.clips or watch.norms.few_are_all
    return step


def is_due(log: list[Entry]) -> bool:
    """Whether the steps in the log are judged now."""
    return bool(log) and (len(log) >= MOST_LOGGED or log[-1][-1] - log[0][-1] > LOGGED_SECONDS)


def is_healthy(entry: Entry) -> bool:
    """Whether no rule can say anything: its numbers were not read, or are finite and not 0."""
    _, _, losses, norm, *_ = entry
    return norm is None or (0.0 < norm < inf and all([isfinite(loss) for loss in losses]))


def scalars(log: list[Entry]) -> list[Scalar]:
    """What has not arrived from a GPU."""
    held = {id(v): v for e in log for v in (*e[2], e[3]) if type(v) is Scalar}
    return list(held.values())


def choose_every(steady: Steady[OptimizerWatch], log: list[Entry]) -> None:
    """Of how many steps one is read from now on."""
    watch = log[-1][0].watch
    if len(log) >= FEW_LOGGED and watch.may_thin:
        steady.choose_every(log, watch.clips)


def take_unread(steady: Steady[OptimizerWatch], armed: Armed[OptimizerWatch], last: int) -> int:
    """Count the steps up to number `last` that were neither read nor logged; how many they are."""
    count = last - armed.judged
    if count <= 0:
        return 0
    steady.count_unread(armed.judged + 1, count)
    armed.watch.rules.applied += count
    armed.judged = last
    return count
