"""Judges the steps that the hooks logged, or did not read: no rule can say anything of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Step
from .steady import FEW_LOGGED, LOGGED_SECONDS, MOST_LOGGED, Armed, Logged

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch
    from .watch import Watch


def as_step(entry: Logged) -> Step:
    """A logged step as the rules have it."""
    armed, number, losses, norm, rates, backwards, _ = entry
    watch = armed.watch
    step = Step(watch.index, number, list(losses), norm, rates=rates, backwards=backwards)
    step.parameters, step.read = watch.parameters.count, norm is not None
    return step


def end_step(watch: Watch, optimizer: OptimizerWatch) -> None:
    """A step ended for which somebody waits: the log is full, or `steady.stepped`."""
    steady = watch.steady
    if not optimizer.clearing.set_to_none:
        optimizer.clearing.step_ended()
    if steady.stepped is not None:
        steady.stepped(optimizer)
    log = steady.log
    if log and (len(log) >= MOST_LOGGED or log[-1][-1] - log[0][-1] > LOGGED_SECONDS):
        watch.judge_log()


def judge(watch: Watch) -> None:
    """Count, judge and write what was logged, and choose how many of the next steps are read."""
    steady = watch.steady
    log, steady.log, steady.full = steady.log, [], steady.stepped is not None
    for entry in log:
        count_unread(watch, entry[0], entry[1] - 1)
        _judge(watch, entry)
    for one in watch.watches.values():
        count_unread(watch, one.armed, one.armed.steps)
    if not log:
        return
    if len(log) >= FEW_LOGGED and log[-1][0].watch.may_thin:
        steady.choose_every(log)
    watch.write_state_again(log[-1][-1])


def _judge(watch: Watch, entry: Logged) -> None:
    armed, number, _, norm, rates, backwards, now = entry
    one, armed.judged = armed.watch, number
    one.rates.change(rates, number - armed.unapplied)
    one.rules.usual_backwards = backwards
    if norm is None:
        watch.steady.count_unread(number, 1)
    if watch.settings.all:  # the rules of all codes see every step
        watch.judge(one.rules, as_step(entry), one, now)
        return
    watch.steps += 1
    watch.rates_seen += 1
    watch.norms += norm is not None
    watch.history.append(entry)
    one.rules.logged(norm is not None)
    if watch.writer.takes(one.index, number):
        watch.writer.step(as_step(entry), watch.scaling.scale, now - watch.began)


def count_unread(watch: Watch, armed: Armed, last: int) -> None:
    """Count the steps up to number `last` that were neither read nor logged."""
    count = last - armed.judged
    if count > 0:
        watch.steady.count_unread(armed.judged + 1, count)
        watch.steps += count
        watch.rates_seen += count
        armed.watch.rules.applied += count
        armed.judged = last
