"""What a restart brings: the same failure, a chance, or the loss of everything since the start."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.checks.log.culprit import LOSSES, TIMEOUT, trained_before
from doctor.checks.log.differential.run import Run
from doctor.checks.log.story import CONFIRMED, KILLED
from doctor.errors.cause import Cause
from doctor.facts.log import Log, LogEvent

OF_THE_MEETING = (TIMEOUT, "rendezvous-timeout", "peer-lost")
"""Failures of communication: before the first step most are of the settings, and come again."""
OF_THE_SCHEDULER = ("scheduler-ended", "killed-sigterm", "pod-evicted")
KEEPS = ("training-resumed", "saved-at-that-time")
"""Lines that show that there is a checkpoint."""
LIMIT = "TIME LIMIT"
"""The same one ends the next run as well, unless that goes on from a checkpoint."""
OFTEN = 5
"""Checkpoints of a run as long as one that lost all. Our own number."""
FEWEST = 2
"""Trainings from scratch that one log has of a run that is begun again each time."""


@dataclass(frozen=True, slots=True)
class Lost:
    """That runs were ended from outside and none left a checkpoint."""

    summary: str
    fix: str


def outlook(row: Cause, event: LogEvent, log: Log) -> str:
    """In the words of `Cause.retry`; "" where it is not known."""
    if not row.messages or (row.id in OF_THE_MEETING and not trained_before(log, event)):
        return "fix" if row.messages and row.retry == "fix" else ""
    if event.name == KILLED and not CONFIRMED & event.groups.keys():  # by whom is not known
        return ""
    if LIMIT in event.groups.get("reason", "") and not _keeps(log):
        return ""
    return row.retry


def _keeps(log: Log) -> bool:
    return any(each.name in KEEPS for each in log.harmless)


def lost(log: Log, event: LogEvent) -> Lost | None:
    """Where a run that the scheduler ends begins from scratch each time."""
    if event.name not in OF_THE_SCHEDULER:
        return None
    if never := _before_the_first(log, event):
        return never
    lines = next((file.scratch for file in log.files if file.path == event.path), ())
    losses = [line for curve in log.curves if curve.name in LOSSES for line in curve.lines]
    ends = (*lines[1:], event.line)
    begun = [
        line
        for line, end in zip(lines, ends, strict=False)
        if any(line < own < min(end, event.line) for own in losses)
    ]
    if len(begun) < FEWEST:
        return None
    reached = f" (step {log.last_step:,} at most)" if log.last_step else ""
    return Lost(
        f"the run began from scratch {len(begun)} times, at lines {', '.join(map(str, begun[:5]))}",
        "No checkpoint is found at the start, so each restart loses all that was trained. Write it "
        "to storage that outlives the job and that every node sees, not to /tmp or another disk of "
        "one node, and look for it there at the start (resume_from_checkpoint). Save more often "
        f"than the time of one job allows steps{reached}: lower save_steps, or save by time and at "
        "the scheduler's signal (--signal=B:USR1@120).",
    )


def _before_the_first(log: Log, event: LogEvent) -> Lost | None:
    """Where the run was ended before it had reached the step of its first checkpoint."""
    run = Run(log, event.path, event.line)
    every, loss = run.positive("save_steps"), run.curve("loss")
    kept = _keeps(log)
    if every is None or loss is None or kept or not loss.steps:
        return None
    reached = max(log.last_step or 0, loss.points * (run.value("log_steps") or 1), *loss.steps)
    if reached >= (every.number or 0):
        return None
    return Lost(
        f"the first checkpoint was due at step {every.text} (line {every.line}), and the run had "
        f"come to about {reached:,.0f}; no line says that one was saved",
        f"Save at least every {max(1, reached / OFTEN):,.0f} steps or by time, and at the "
        "scheduler's signal (--signal=B:USR1@120); resume from that (resume_from_checkpoint). A "
        "restart as it is begins at step 0 and ends at the same step: ask for more time as well.",
    )
