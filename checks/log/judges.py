"""Each class of the table as a check, and the check that a first cause was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from packaging.version import InvalidVersion, Version

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.checks.log import curves
from doctor.checks.log.classes import CLASSES
from doctor.checks.log.curves import nonfinite
from doctor.checks.log.memory_fit import what_fits
from doctor.checks.log.story import class_of, story_of
from doctor.errors.cause import Cause
from doctor.errors.fitted import MEMORY, fitted
from doctor.errors.match import MOST, with_message
from doctor.errors.memory_numbers import describe_oom
from doctor.facts.log import Log, LogEvent
from doctor.facts.machine import Host, Torch
from doctor.facts.memory.plan import plan
from doctor.facts.own_model import OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.place import Place

SCALER = "scaler-collapse"
"""The class that the curve of the loss scale shows as well."""
MOST_PLACES = 20
"""Places of consequences that a finding lists."""


def first_cause(log: Log) -> Verdict:
    """Whether the log names the first cause of a failure."""
    story = story_of(log)
    read = _extent(log)
    if story.first is not None:
        return ok(f"{class_of(story.first).code} {story.first.name} at {_where(story.first)}")
    if curve := _failing_curve(log):
        return ok(f"no error in {read}; the curves fail: {curve.code} {curve.slug}")
    summaries = [event for event in story.others if class_of(event).role == "summary"]
    if summaries:
        return unknown(
            f"{read} hold a launcher's summary only ({_where(summaries[0])}); give the log of the "
            "rank that it names",
            places=(place_of(summaries[0]),),
        )
    if problems := [file for file in log.files if file.problem]:
        return unknown(
            f"nothing was recognized in {read}; {len(problems)} not read to the end: "
            f"{problems[0].path}: {problems[0].problem}"
        )
    noted = story.overcome or story.warnings
    also = " that ended the training" if noted else ""
    return unknown(f"no known failure{also} in {read}; that is no proof of a healthy training")


def _failing_curve(log: Log) -> Check | None:
    return next((c for c in curves.CHECKS if c.judge(log).status is Status.FAIL), None)


def _extent(log: Log) -> str:
    files = f"{len(log.files):,} files" if len(log.files) > 1 else "the log"
    return f"{files} ({log.lines:,} lines)"


FIRST_CAUSE = Check(
    code="LOG001",
    slug="first-cause",
    title="The first cause of the failure is identified",
    why="The last screen of a failed training shows consequences: timeouts, aborted communicators, "
    "a launcher's summary. The first failure, by time or position and over all ranks, is the "
    "one to "
    "fix.",
    passes=("an event of a known class begins the failure", "no event does, but a curve fails"),
    warns=(),
    fails=("never: the class of the first cause fails instead",),
    fix="Give the logs of all ranks, from their beginning.",
    commands=("doctor triage LOG_DIRECTORY",),
    limits="that the cause is the only one.",
    owner=Owner.JOB,
    judge=first_cause,
    sources=("nvrx-attribution",),
    required="always",
)


def _judge_of(row: Cause) -> Callable[..., Verdict]:
    def judge(log: Log, torch: Torch | Unknown) -> Verdict:
        return _verdict(row, log, torch)

    return _judge_memory if row.id == MEMORY else judge


def _judge_memory(
    log: Log,
    torch: Torch | Unknown,
    job: Job,
    target: Target,
    chosen: Chosen | Unknown,
    job_gpus: JobGpus | Unknown,
    checkpoint: Checkpoint | Unknown | None,
    host: Host | Unknown,
    shape: ModelShape | Unknown | None,
    own: OwnModel | Unknown | None,
) -> Verdict:
    """Out of memory: the remedy says what would fit, where the facts state the model."""
    (row,) = (row for row in CLASSES if row.id == MEMORY)
    verdict = _verdict(row, log, torch)
    events = [event for event in log.events if event.name == MEMORY]
    if verdict.status not in (Status.FAIL, Status.WARN) or not events:
        return verdict
    first = story_of(log).first
    event = first if first is not None and first.name == MEMORY else events[0]
    needs = plan(job, target, chosen, job_gpus, checkpoint, host, shape, own)
    fits = what_fits(event.text, job, needs)
    return replace(verdict, fix=f"{verdict.fix} {fits}") if fits else verdict


def _verdict(row: Cause, log: Log, torch: Torch | Unknown) -> Verdict:
    story = story_of(log)
    if story.first is not None and story.first.name == row.id:
        return _first(row, log, torch)
    if own := [event for event in story.warnings if event.name == row.id]:
        return _warning(row, own, log, torch, "")
    if own := [event for event in story.overcome if event.name == row.id]:
        return _warning(row, own, log, torch, "; training went on after it")
    if own := [event for event in story.others if event.name == row.id]:
        return skip(_consequence(own, story.first))
    if row.id == SCALER and any(curve.name == "loss_scale" for curve in log.curves):
        return nonfinite.scale_holds(log)
    return ok(f"no such line in {_extent(log)}")


def _first(row: Cause, log: Log, torch: Torch | Unknown) -> Verdict:
    story = story_of(log)
    assert story.first is not None
    others = [event for event in story.others if class_of(event).role != "summary"]
    message = f"first cause, {_where(story.first)}: {_detail(row, story.first)}"
    places = (place_of(story.first), *_folded(others, story.first))
    return fail(
        message,
        *_commands(row, story.first),
        fix=_fix(row, story.first, log, torch),
        places=places[: MOST_PLACES + 1],
        causes=tuple(each.id for each in _causes(row, story.first)),
        also=_also(_causes(row, story.first)[1:]),
    )


def _warning(
    row: Cause, events: list[LogEvent], log: Log, torch: Torch | Unknown, suffix: str
) -> Verdict:
    count = sum(event.count for event in events)
    times = f"{count:,} times, first at " if count > 1 else ""
    return warn(
        f"{times}{_where(events[0])}: {_detail(row, events[0])}{suffix}",
        *_commands(row, events[0]),
        fix=_fix(row, events[0], log, torch),
        places=tuple(map(place_of, events[:MOST_PLACES])),
    )


def _commands(row: Cause, event: LogEvent) -> tuple[str, ...]:
    """The row's commands for what the event names, and the check that finds it before a run."""
    check = (f"doctor run --only {row.next_check}",) if row.next_check else ()
    return (*fitted(row, event.text).commands, *check)


def _detail(row: Cause, event: LogEvent) -> str:
    if row.id == MEMORY and (described := describe_oom(event.text)):
        return described.summary
    return event.text[:300]


def _fix(row: Cause, event: LogEvent, log: Log, torch: Torch | Unknown) -> str:
    """The remedy for what the event says and for the versions of the log or of the facts."""
    if (of_event := fitted(row, event.text)).fix != row.fix:
        return of_event.fix
    if not row.messages and (causes := _causes(row, event)):
        return causes[0].fix
    for remedy in row.remedies:
        version = log.versions.get(remedy.package, "")
        if not version and remedy.package == "torch" and isinstance(torch, Torch):
            version = torch.version
        if version and _holds(version, remedy.since, remedy.until):
            return remedy.fix
    return row.fix


def _causes(row: Cause, event: LogEvent) -> tuple[Cause, ...]:
    """The causes that have the line as their message, of the same rows as `doctor explain`; the
    class itself first, unless it is for exceptions of no class."""
    others = [each for each in with_message(event.text) if each.fix and each.id != row.id]
    return (*((row,) if row.messages else ()), *others)[:MOST]


def _also(causes: tuple[Cause, ...]) -> tuple[str, ...]:
    """A line for each cause that is no class: its id, what distinguishes it, its fix."""
    return tuple(
        f"{each.id}{f', if {each.told_by}' if each.told_by else ''}: {each.fix}"
        for each in causes
        if not each.code
    )


def _holds(version: str, since: str, until: str) -> bool:
    try:
        number = Version(version)
        return (not since or number >= Version(since)) and (not until or number < Version(until))
    except InvalidVersion:
        return False


def _where(event: LogEvent) -> str:
    rank = f", rank {event.rank}" if event.rank is not None else ""
    return f"{event.path}:{event.line}{rank}"


def place_of(event: LogEvent, message: str = "") -> Place:
    return Place(
        path=event.path, line=event.line, rank=event.rank, text=event.text, message=message
    )


def _consequence(events: list[LogEvent], first: LogEvent | None) -> str:
    count = sum(event.count for event in events)
    times = f"{count:,} lines" if count > 1 else "1 line"
    after = f", taken as a consequence of {class_of(first).code} {first.name}" if first else ""
    return f"{times}, first at {_where(events[0])}{after}"


def _folded(events: list[LogEvent], first: LogEvent) -> list[Place]:
    """One place for each class of consequences, with the ranks and the delay."""
    by_class = sorted(events, key=lambda event: event.name)
    places = []
    for name, same in groupby(by_class, key=lambda event: event.name):
        members = list(same)
        places.append(place_of(members[0], f"consequence: {name}{_spread(members, first)}"))
    return sorted(places, key=lambda place: (place.path, place.line))


def _spread(events: list[LogEvent], first: LogEvent) -> str:
    ranks = {event.rank for event in events if event.rank is not None}
    text = f", {len(ranks)} ranks" if len(ranks) > 1 else ""
    times = [event.time for event in events if event.time is not None]
    if first.time is not None and times and 0 <= min(times) - first.time < 10 * 86400:
        text += f", {min(times) - first.time:.0f} s later"
    return text


def _check(row: Cause) -> Check:
    """The row as `doctor explain` prints it and the engine judges it."""
    first = ("it is the first cause of a failure",)
    return Check(
        code=row.code,
        slug=row.id,
        title=row.title,
        why=row.why,
        passes=("no line of the class is in the log",),
        warns=("a line of the class is in the log, and the training goes on after it",),
        fails=() if row.role in ("warning", "summary") else first,
        fix=row.fix,
        commands=row.commands,
        owner=row.owner,
        judge=_judge_of(row),
        sources=row.sources,
        limits="that the log is complete.",
    )


CHECKS: tuple[Check, ...] = (FIRST_CAUSE, *map(_check, CLASSES))
