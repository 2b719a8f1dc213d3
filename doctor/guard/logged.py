"""Judges the steps that the hooks logged, or did not read: of most, no rule can say anything."""

from __future__ import annotations

import time
from math import inf, isfinite
from typing import TYPE_CHECKING, List, Tuple

from .records import Step
from .steady import FEW_LOGGED, LOGGED_SECONDS, MOST_LOGGED, Armed, Logged
from .values import Scalar

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch
    from .watch import Watch


def as_step(entry: Logged) -> Step:
    """A logged step as the rules have it."""
    armed, number, losses, norm, rates, backwards, _ = entry
    watch = armed.watch
    step = Step(watch.index, number, list(losses), norm, rates=rates, backwards=backwards)
    step.parameters, step.read = watch.parameters.count, norm is not None
    step.whole = watch.clips or watch.norms.few_are_all
    return step


def end_step(watch: Watch, optimizer: OptimizerWatch) -> None:
    """A step ended for which somebody waits: the log is full, `steady.stepped`, or a GPU's step."""
    steady = watch.steady
    if not optimizer.clearing.set_to_none:
        optimizer.clearing.step_ended()
    if steady.stepped is not None:
        steady.stepped(optimizer)
    log = steady.log
    if log and (len(log) >= MOST_LOGGED or log[-1][-1] - log[0][-1] > LOGGED_SECONDS):
        watch.judge_log()
    else:
        steady.full = steady.stepped is not None
    if watch.values.pending:
        watch.values.poll()


def judge(watch: Watch) -> None:
    """Count what was logged, judge it when it has arrived, and choose how many steps are read."""
    steady = watch.steady
    log, steady.log, steady.full = steady.log, [], steady.stepped is not None
    unread = [_count(watch, entry) for entry in log]
    for one in watch.watches.values():
        count_unread(watch, one.armed, one.armed.steps)
    if not log:
        return
    entries = list(zip(log, unread))
    scalars = {id(v): v for e in log for v in (*e[2], e[3]) if type(v) is Scalar}
    watch.values.fetch(list(scalars.values()))
    watch.values.submit([], lambda values: _judge(watch, entries))
    if len(log) >= FEW_LOGGED and log[-1][0].watch.may_thin:
        steady.choose_every(log)
    watch.write_state_again(log[-1][-1])


def _count(watch: Watch, entry: Logged) -> int:
    """What is known of a step before its numbers are; how many before it were not read."""
    armed, number, _, norm, rates, backwards, _ = entry
    unread = number - 1 - armed.judged
    count_unread(watch, armed, number - 1)
    armed.judged = number
    armed.watch.rates.change(rates, number - armed.unapplied)
    armed.watch.rules.usual_backwards = backwards
    if norm is None:
        watch.steady.count_unread(number, 1)
    return unread


def _judge(watch: Watch, entries: List[Tuple[Logged, int]]) -> None:
    for (armed, number, losses, norm, rates, backwards, now), unread in entries:
        if norm is not None:
            watch.take_arrived(losses)
        entry = (armed, number, losses, watch.values.number(norm), rates, backwards, now)
        if watch.settings.all or not _healthy(entry):  # the rules of all codes see every step
            _judge_whole(watch, entry, unread)
        else:
            _judge_healthy(watch, entry)


def _healthy(entry: Logged) -> bool:
    _, _, losses, norm, *_ = entry
    return norm is None or (0.0 < norm < inf and all([isfinite(loss) for loss in losses]))


def _judge_whole(watch: Watch, entry: Logged, unread: int) -> None:
    armed, now = entry[0], entry[-1]
    step = as_step(entry)
    step.unread = unread
    if not _healthy(entry):  # the next steps take the complete way
        watch.steady.disarm(armed.key)
        armed.watch.whole_norm = True
        step.moment = time.time() - time.monotonic() + now
    watch.judge(armed.watch.rules, step, armed.watch, now)


def _judge_healthy(watch: Watch, entry: Logged) -> None:
    armed, number, _, norm, _, _, now = entry
    one = armed.watch
    watch.steps += 1
    watch.rates_read += 1
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
        watch.rates_read += count
        armed.watch.rules.applied += count
        armed.judged = last
