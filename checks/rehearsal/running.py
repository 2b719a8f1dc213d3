"""Stage 1: it runs."""

from __future__ import annotations

import re

from doctor._util.median import median
from doctor._util.records import Unknown
from doctor._util.units import gib, shown
from doctor.checks.guard.ending import with_causes
from doctor.checks.guard.resources import UNUSED
from doctor.checks.rehearsal.confinement import refused
from doctor.checks.rehearsal.failing import (
    at,
    dead_thread,
    ended_by,
    failed_save,
    of_save,
    of_thread,
    own_remedy,
)
from doctor.checks.rehearsal.memory import FITS, exhausted
from doctor.checks.rehearsal.parting import (
    AS_MANY,
    ON_ALL,
    SAME_CALLS,
    in_evaluations,
    lost_each_other,
    under,
)
from doctor.checks.rehearsal.parts import error_in, last_line, place, raised, some
from doctor.checks.rehearsal.saving import RANK_0
from doctor.facts.guard import Guarded, GuardError
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import RehearsedRank, RehearsedRun, Waiting
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, unknown, warn

STILL, STILL_STEPS = 10.0, 20
"""Seconds, and steps' times, without a step from which on ranks at different collectives hang. Our
own numbers."""
SIGKILLED = re.compile(r"SIGKILL|[Ss]ignal:? 9\b|exitcode *:? *-9\b")
"""In what launchers print of a process that was killed."""
FOR_A_THREAD = re.compile(
    r"(?:get|put|wait|join|acquire|result|_wait_for_tstate_lock) of (?:queue|threading|_base)\.py$"
)
"""Functions in which a thread waits for another."""
MOST_RANKS = 4
"""That are named."""


def cut_short(run: RehearsedRun) -> str:
    return {"deadline": "ended at --budget", "interrupted": "interrupted"}.get(run.cut, "")


def runs(rehearsal: Rehearsal, guard: Guarded | Unknown | None) -> Verdict:
    run = rehearsal.run("run")
    if run is None:
        return unknown("there is no record of the run")
    if run.cut:
        return _cut_off(rehearsal, run)
    if run.code:
        return _failed(rehearsal, run, guard.error if isinstance(guard, Guarded) else None)
    if not run.ranks and run.checkpoints:
        return unknown(
            f"{shown(run.checkpoints[-1].path, 200)} was saved, and no training was observed: a "
            "Python that ignores PYTHONPATH (python -I, -E or -S), or another library than torch"
        )
    if not run.ranks:
        return fail(
            f"no training step in {run.seconds:.0f} s, exit code 0{last_line(run)}",
            fix="Check that the command trains with torch. A Python that ignores PYTHONPATH "
            "(python -I, -E or -S) is not observed.",
        )
    world = max(rank.world for rank in run.ranks)
    ranks = f" on {len(run.ranks)} ranks" if world > 1 else ""
    if len(run.ranks) < world:
        return fail(f"{len(run.ranks)} of {world} ranks took steps; all required")
    how = f"; trained {shown(rehearsal.trained, 200)}" if rehearsal.trained else ""
    if run.left:
        return note(
            f"{run.steps} steps{ranks}; processes were left 5 s after the command had ended: "
            f"{some(run.left, len(run.left))}",
            fix="Join or end them before the end, or start them as daemons: one that is left holds "
            "the GPU's memory, and the job's allocation.",
        )
    return ok(f"{run.steps} steps{ranks}, {_pace(run.ranks)}{how}")


def _failed(rehearsal: Rehearsal, run: RehearsedRun, observed: GuardError | None) -> Verdict:
    """The exit code is not 0."""
    steps = f"after {run.steps} steps" if run.steps else "before its first step"
    ended = f"exit code {run.code} {steps}"
    if killed(run) and (held := exhausted(run)):
        return fail(f"{ended}, killed{held}", fix=FITS.fix)
    if refused(rehearsal, raised(run)):
        return unknown(
            f"{ended}{place(run)}{raised(run)}; the rehearsal refused this write: see RHS001"
        )
    if apart := lost_each_other(rehearsal, run, ended):
        return apart
    if (gone := raised(run)) and any(f"{path}'" in gone for path in run.shared):
        return fail(f"{ended}{place(run)}{gone}; more than one rank writes that file", fix=RANK_0)
    failed = failed_save(rehearsal, run)
    if failed is not None and ended_by(run, failed):
        return of_save(failed, f"{ended}{place(run)}, in {failed.what}")
    if fix := next((own for rank in run.ranks if rank.error and (own := own_remedy(rank))), ""):
        return fail(f"{ended}{place(run)}{raised(run)}", fix=fix)
    error = observed or printed_error(run)
    detail = _unused(rehearsal, error) if error else last_line(run)
    return with_causes(f"{ended}{place(run)}{detail}", error)


def killed(run: RehearsedRun) -> bool:
    """Whether the command or a process of it was ended by SIGKILL."""
    return run.code in (-9, 137) or any(SIGKILLED.search(line) for line in run.tail)


def _unused(rehearsal: Rehearsal, error: GuardError) -> str:
    """The weights that DistributedDataParallel waits for, which it names by numbers."""
    lacking = rehearsal.agreement.lacking if rehearsal.agreement is not None else ()
    if not lacking or UNUSED not in error.message:
        return ""
    return f", without a gradient: {some(lacking, len(lacking))}"


def _cut_off(rehearsal: Rehearsal, run: RehearsedRun) -> Verdict:
    """It did not end."""
    how = f"{cut_short(run)} after {run.seconds:.0f} s"
    where = f"; it waits at {_place(run)}" if run.frames or run.waiting else ""
    if _stands_still(run) and (apart := in_evaluations(rehearsal, run, how, where)):
        return apart
    if evaluating := evaluating_rank(run):
        where += _turning(run)
        return unknown(
            f"{how}, in an evaluation that had begun after step {evaluating.evaluating}: a larger "
            f"--budget, or an evaluation of fewer samples, shows whether it goes on{where}"
        )
    if run.stuck:
        where += f"; SIGKILL did not end {some(run.stuck, len(run.stuck))}"
    if not run.ranks:
        return fail(f"no training step, {how}{where}")
    if not run.steps:
        return unknown(f"no training step, {how}: a larger --budget shows whether one comes{where}")
    if stalled := _stalled(rehearsal, run, how, where):
        return stalled
    world = max(rank.world for rank in run.ranks)
    silent = sorted(set(range(world)) - {rank.rank for rank in run.ranks})
    if silent:
        return fail(f"rank {silent[0]} of {world} took no step, {how}{where}")
    return _after_last_step(run, how) or warn(
        f"{min(rank.steps for rank in run.ranks)} steps, {how}: not rehearsed to its end{where}",
        fix="Give the command fewer steps, such as --max_steps 20, or a larger --budget; if it "
        "waits at the same place each time, that call hangs.",
    )


def _after_last_step(run: RehearsedRun, how: str) -> Verdict | None:
    """Of a run whose ranks took all their steps, as those show that ended by themselves."""
    here = {each.rank for each in run.waiting if not each.ended}
    ended = [rank.rank for rank in run.ranks if rank.ended and rank.rank not in here]
    if not ended or run.stuck or any(rank.error or rank.steps != run.steps for rank in run.ranks):
        return None
    if (run.still or 0) >= _long(run):
        return None
    others = [_waits(each) for each in run.waiting if each.rank not in ended and not each.ended]
    still = "; ".join(others[:MOST_RANKS]) or "the processes had not exited"
    return note(
        f"the last of {run.steps} steps was done, and {len(ended)} of {len(run.ranks)} ranks had "
        f"ended; the command was {how}: {still}",
        fix="Give a larger --budget, or the command fewer steps, to see how it ends.",
    )


def _stalled(rehearsal: Rehearsal, run: RehearsedRun, how: str, where: str) -> Verdict | None:
    """Of a run without a step for long: ranks in different collectives, or a thread that ended."""
    since = f"then none for {run.still or 0:.0f} s, {how}"
    if hang := _hang(run):
        agreed = rehearsal.agreement
        uneven = agreed is not None and agreed.uneven_end
        ended = "; the data of one rank had ended before those of another" if uneven else ""
        return fail(
            f"{min(rank.steps for rank in run.ranks)} steps, {since}: {hang}{ended}",
            fix=AS_MANY if uneven else ON_ALL if any(map(under, run.waiting)) else SAME_CALLS,
        )
    waits = any(FOR_A_THREAD.match(each.called) for each in run.waiting)
    if waits and (dead := dead_thread(run)) and (run.still or 0) >= _long(run):
        return fail(
            f"{run.steps} steps, {since}{where}: a thread had ended{at(dead.place)}: "
            f"{shown(dead.error, 300)}",
            fix=of_thread(rehearsal, run, dead),
        )
    return None


def _turning(run: RehearsedRun) -> str:
    """The while loop that a rank is in; "" for none."""
    loop = next((each.loop for each in run.waiting if each.loop), "")
    if not loop:
        return ""
    return (
        f", in {shown(loop, 300)}: where only what the model gives ends this loop (an end token, "
        "an accepted sample), give it a largest number of turns"
    )


def _stands_still(run: RehearsedRun) -> bool:
    """Whether no step came for long, and a rank waits in a collective."""
    return (run.still or 0) >= _long(run) and any(w.inside for w in run.waiting)


def _long(run: RehearsedRun) -> float:
    """Seconds without a step that are long."""
    seconds = [each for rank in run.ranks for each in rank.seconds]
    return max(STILL, STILL_STEPS * median(seconds)) if seconds else STILL


def evaluating_rank(run: RehearsedRun) -> RehearsedRank | None:
    """A rank in an evaluation, unless all wait in collectives."""
    if run.waiting and all(each.inside for each in run.waiting):
        return None
    return next((rank for rank in run.ranks if rank.evaluating is not None), None)


def printed_error(run: RehearsedRun) -> GuardError | None:
    """The last line of a traceback; None where that is no error."""
    for line in reversed(run.tail):
        if error := error_in(line):
            return error
    return None


def _hang(run: RehearsedRun) -> str:
    """Where each rank waits, if no step came for long and they are at different collectives."""
    if not _stands_still(run) or len(run.waiting) < 2:
        return ""
    inside = [each for each in run.waiting if each.inside]
    calls = {(each.collective, each.number, each.inside) for each in run.waiting}
    if not inside or (len(calls) == 1 and not any(each.ended for each in run.waiting)):
        return ""
    return "; ".join(map(_waits, run.waiting[:MOST_RANKS]))


def _waits(waiting: Waiting) -> str:
    rank, place = f"rank {waiting.rank}", shown(waiting.place, 200) + under(waiting)
    if waiting.ended:
        return f"{rank} had ended"
    if waiting.inside:
        return f"{rank} waits in {waiting.collective} (its collective {waiting.number}) at {place}"
    last = f", last in {waiting.collective} ({waiting.number})" if waiting.collective else ""
    return f"{rank} is at {place}{last}"


def _place(run: RehearsedRun) -> str:
    placed = next((each.place for each in run.waiting if each.place), "")
    return shown(placed, 200) if placed else _frame(run)


def _frame(run: RehearsedRun) -> str:
    return next((shown(line.strip(), 200) for line in run.frames if "File " in line), "?")


def _pace(ranks: tuple[RehearsedRank, ...]) -> str:
    seconds = [each for rank in ranks for each in rank.seconds[1:]] or [
        each for rank in ranks for each in rank.seconds
    ]
    resident = sum(rank.resident for rank in ranks)
    parts = [f"{median(seconds):.3g} s per step"] if seconds else []
    peaks = [rank.allocated for rank in ranks if rank.allocated is not None]
    if peaks:
        parts.append(f"at most {gib(max(peaks))} of GPU memory per rank")
    return ", ".join([*parts, f"{gib(resident)} of host memory in all"])


RUNS = Check(
    code="RHS003",
    slug="job-runs",
    title="The command takes its steps on all ranks and ends",
    why="Most jobs that fail do so in their first minutes: an import, an argument, a batch, a rank "
    "that never meets the others.",
    passes=("every rank took steps, and the exit code is 0",),
    notes=(
        "processes outlive the command",
        "--budget ended it after a rank had ended by itself, and all had taken as many steps",
    ),
    warns=("it took steps, and --budget ended it before any rank had ended",),
    fails=(
        "the exit code is not 0; named are ranks that took unequal numbers of steps",
        "a rank took no step",
        "no step came for long, and the ranks wait in different collectives; a long evaluation is "
        "unknown",
    ),
    fix="Read the summary's error; doctor explain proposes the causes of its message.",
    owner=Owner.JOB,
    judge=runs,
    required="always",
    limits="that longer or other batches fit, or that the loss falls.",
)


CHECKS = (RUNS,)
