"""How every check of a running training judges: the alarms of its code, then what was observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.errors.cause import Cause
from doctor.facts.data import Data
from doctor.facts.guard import Guarded, GuardedProcess
from doctor.judge.check import Status, Verdict, fail, note, ok, skip, unknown, warn

Coverage = Callable[[Guarded], Verdict]
"""The verdict where no alarm was raised: pass, skip or unknown."""
GuardJudge = Callable[[Guarded, Data | Unknown | None], Verdict]


VERDICTS = {"fail": fail, "warn": warn, "note": note}
"""Of an alarm, the worst first."""


def observed(
    code: str,
    coverage: Coverage,
    fixes: Mapping[str, str | Cause] | None = None,
    *,
    origin: bool = False,
    with_all: bool = False,
) -> Callable[[Guarded], Verdict]:
    """A judge for the alarms with this code.

    `fixes` are remedies, or rows that have one, by the alarm's cause. `origin` adds where the first
    non-finite value came from. `with_all`: only --all evaluates what no alarm says.
    """

    def judge(guard: Guarded) -> Verdict:
        if verdict := alarmed(guard, code, fixes or {}, origin=origin):
            return verdict
        if with_all and not any_process(guard, lambda process: process.all):
            return skip(f"{code} is off by default; doctor guard --all evaluates it")
        if reason := cut_off(guard):
            return unknown(reason)
        return coverage(guard)

    return judge


def alarmed(
    guard: Guarded, code: str, fixes: Mapping[str, str | Cause], *, origin: bool = False
) -> Verdict | None:
    """The verdict of the worst, earliest alarm; None without any."""
    alarms = [
        (alarm, process)
        for process in guard.processes
        for alarm in process.alarms
        if alarm.code == code
    ]
    if not alarms:
        return None
    alarm, process = min(
        alarms, key=lambda pair: (list(VERDICTS).index(pair[0].status), pair[0].step)
    )
    ranks = {process.rank for each, process in alarms if each.status == alarm.status}
    where = f"step {alarm.step:,}"
    if len(guard.processes) > 1:
        where += f", rank {process.rank}"
        where += f" and {len(ranks) - 1} more" if len(ranks) > 1 else ""
    again = f"; at least {alarm.count:,} times" if alarm.count > 1 else ""
    source = f"; {shown(process.origin, 300)}" if origin and process.origin else ""
    summary = f"{where}: {shown(alarm.text, 500)}{source}{again}"
    match fixes.get(alarm.cause):
        case Cause() as row:
            verdict = VERDICTS[alarm.status](summary, fix=row.fix)
            return replace(verdict, sources=row.sources, causes=(row.id,))
        case fix:
            return VERDICTS[alarm.status](summary, fix=fix)


def unless_unlabelled(judge: Callable[[Guarded], Verdict]) -> GuardJudge:
    """The same judge, which leaves what a lack of labels explains to the check of the data."""

    def judged(guard: Guarded, data: Data | Unknown | None) -> Verdict:
        verdict = judge(guard)
        is_problem = verdict.status in (Status.WARN, Status.FAIL)
        if is_problem and isinstance(data, Data) and data.unlabelled:
            return skip("no document has a trained label, see DAT001")
        return verdict

    return judged


Count = Literal[
    "steps", "losses", "bad_losses", "norms", "rates", "effective", "skipped", "tracked",
    "gradients", "moved", "zeros", "zeros_moved", "vectors", "vectors_moved", "half", "buffers",
    "clips", "evaluations", "fetched", "followers", "graphs", "schedules", "model_looks",
    "mode_looks", "states", "updates", "updates_lost", "vocabulary", "flat_steps", "timed",
    "batches", "memory_windows",
]  # fmt: skip


def total(guard: Guarded, count: Count) -> int:
    """The largest number of a process."""
    return max((getattr(process.counts, count) for process in guard.processes), default=0)


def enough(count: Count, least: int, passed: str, missing: str = "", none: str = "") -> Coverage:
    """Pass with at least that many, else unknown; skip with `none`, if that is given, and 0.

    `passed` may contain {n}.
    """

    def coverage(guard: Guarded) -> Verdict:
        number = total(guard, count)
        if number >= least:
            return ok(passed.format(n=f"{number:,}"))
        if none and not number:
            return skip(none)
        return unknown(f"{missing}: {number:,}, at least {least:,} required")

    return coverage


def cut_off(guard: Guarded) -> str:
    """Why the records do not cover the training, "" if they do."""
    off = next((p for p in guard.processes if p.ended.startswith("error")), None)
    if off is not None:
        return f"the guard switched itself off at step {off.counts.steps:,}: {shown(off.ended)}"
    return ""


def spoiled(guard: Guarded) -> str:
    """Why a comparison of weights shows nothing: NaN differs from everything."""
    steps = [
        alarm.step
        for process in guard.processes
        for alarm in process.alarms
        if alarm.code == "GRD002" and alarm.status == "fail"
    ]
    return f"the weights are not finite since step {min(steps):,}: see GRD002" if steps else ""


def any_process(guard: Guarded, holds: Callable[[GuardedProcess], bool]) -> bool:
    """Whether it holds for one process."""
    return any(map(holds, guard.processes))
