"""Each class of the table as a check, and the check that a first cause was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby

from packaging.version import InvalidVersion, Version

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.checks.log import conditions, curves
from doctor.checks.log import flight_recorder as flight_checks
from doctor.checks.log.classes import BY_ID_OF_NO_CLASS, CLASSES
from doctor.checks.log.culprit import TIMEOUT, waited_for
from doctor.checks.log.curves import nonfinite
from doctor.checks.log.memory_fit import fitted_before, stage_of_event, what_fits
from doctor.checks.log.story import class_of, story_of
from doctor.errors.cause import Cause
from doctor.errors.fitted import MEMORY, fitted
from doctor.errors.match import MOST, with_message
from doctor.errors.memory_numbers import describe_oom
from doctor.facts.flight_recorder import FlightRecorder
from doctor.facts.log import Log, LogEvent
from doctor.facts.machine import Host, Torch
from doctor.facts.memory.plan import plan
from doctor.facts.own_model import OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.known_errors import further
from doctor.judge.place import Place

SCALER = "scaler-collapse"
"""The class that the curve of the loss scale shows as well."""
MISSING = "file-missing"
STOPPED = ("interrupted", "killed-sigterm")
"""Classes of lines with which a run ends that somebody gave up."""
OF_NODE = "node"
"""What a restart brings where a node is at fault: it stays so although the training went on."""
LONGEST = 300
"""Characters of a line that a summary repeats."""
MOST_PLACES = 20
"""Places of consequences that a finding lists."""


def first_cause(log: Log, flight_recorder: FlightRecorder | Unknown | None) -> Verdict:
    """Whether the log names the first cause of a failure."""
    story = story_of(log)
    read = _extent(log)
    if story.first is not None:
        if stopped := _stopped_after(story.first, log):
            return ok(f"{stopped.code} {stopped.slug} fails, and {story.first.name} ended the run")
        return ok(f"{class_of(story.first).code} {story.first.name} at {_where(story.first)}")
    if failing := _failing(log, flight_recorder):
        return ok(f"no error in {read}; {failing.code} {failing.slug} fails")
    if named := next((each for each in log.events if each.name in BY_ID_OF_NO_CLASS), None):
        return _named_only(named, read)
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


def _named_only(event: LogEvent, read: str) -> Verdict:
    """A line that is of no class: what it means is known, not that it ended the training."""
    row = fitted(BY_ID_OF_NO_CLASS[event.name], _text(event))
    return replace(
        unknown(
            f"no line of a known class in {read}; {_where(event)} has the message of {row.id}: "
            f"{row.why} {row.fix}",
            places=(place_of(event),),
        ),
        causes=(row.id,),
    )


def _failing(log: Log, recorder: FlightRecorder | Unknown | None) -> Check | None:
    """The check of dumps, of a curve or of the loss scale that fails where no line does."""
    if isinstance(recorder, FlightRecorder):
        for check in flight_checks.CHECKS:
            if check.judge(recorder).status is Status.FAIL:
                return check
    if nonfinite.scale_holds(log).status is Status.FAIL:
        return next(check for check in CHECKS if check.slug == SCALER)
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
    if (stage := stage_of_event(event)) is not None:
        summary, fits = f"{verdict.summary}; {stage.summary}", fits if needs is not None else ""
        return replace(verdict, summary=summary, fix=joined(stage.fix, fits), also=())
    return replace(verdict, fix=joined(verdict.fix, fits, fitted_before(log, event)))


def _verdict(row: Cause, log: Log, torch: Torch | Unknown) -> Verdict:
    story = story_of(log)
    if story.first is not None and story.first.name == row.id:
        return _first(row, log, torch)
    if own := [event for event in story.warnings if event.name == row.id]:
        return _warning(row, own, log, torch, "")
    if own := [event for event in story.overcome if event.name == row.id]:
        warning = _warning(row, own, log, torch, "; training went on after it")
        return warning if row.retry == OF_NODE else replace(warning, status=Status.NOTE)
    if own := [event for event in story.others if event.name == row.id]:
        return skip(_consequence(own, story.first))
    if row.id == SCALER and any(curve.name == "loss_scale" for curve in log.curves):
        return nonfinite.scale_holds(log)
    return ok(f"no such line in {_extent(log)}")


def _first(row: Cause, log: Log, torch: Torch | Unknown) -> Verdict:
    story = story_of(log)
    assert story.first is not None
    if stopped := _stopped_after(story.first, log):
        return note(f"{_where(story.first)}: the run was stopped; {stopped.code} {stopped.slug}")
    others = [event for event in story.others if class_of(event).role != "summary"]
    event, named = story.first, _refined(row, story.first)
    reasons = conditions.reasons_of(log, (row.id, named.id), event.path, event.line)
    named = reasons[0][0] if reasons else named
    culprit = waited_for(log) if row.id == TIMEOUT else None
    about = f"({named.id}) " if named is not row else ""
    about += culprit.summary + "; " if culprit else ""
    message = f"first cause, {_where(event)}: {about}{_detail(row, event)}"
    places = (
        place_of(event),
        *conditions.places_of(reasons),
        *_own_frame(event),
        *_folded(others, event),
    )
    causes = tuple(dict.fromkeys((named, *_causes(row, event))))
    fix = culprit.fix if culprit else "" if reasons else _fix(row, event, log, torch)
    return fail(
        message,
        *_commands(named, event),
        fix=joined(conditions.fix_of(reasons), fix, _of_other_node(row, log)),
        owner=fitted(named, _text(event)).owner,
        retry=_outlook(named, event),
        places=places[: MOST_PLACES + 1],
        causes=tuple(each.id for each in causes if each.messages),
        also=_also(fitted(each, _text(event)) for each in causes[1:]),
    )


def _of_other_node(row: Cause, log: Log) -> str:
    """That rank 0 has the file which others miss."""
    ranks = {event.rank for event in log.events if event.name == row.id and event.rank is not None}
    if row.id != MISSING or len(ranks) < 2 or 0 in ranks:
        return ""
    return (
        f"{len(ranks)} ranks from {min(ranks)} on report it, and rank 0 does not: if those are of "
        "other nodes, the path is on a disk of one node, and belongs on storage that all share."
    )


def joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _stopped_after(first: LogEvent, log: Log) -> Check | None:
    """The check of a curve that fails, where people or a scheduler then stopped the run."""
    return _failing(log, None) if first.name in STOPPED else None


def _refined(row: Cause, event: LogEvent) -> Cause:
    """The row that says more about this line than its class."""
    if not row.messages and (causes := _causes(row, event)):
        return causes[0]
    first = next(iter(with_message(_text(event))), row)
    return row if first.code or first.role == "harmless" else first


def _text(event: LogEvent) -> str:
    """The lines of an event: later ones of the same message may say more than the first."""
    return "\n".join(event.excerpt) or event.text


def _outlook(row: Cause, event: LogEvent) -> str:
    """What a restart brings, in the words of `Cause.retry`; "" where the cause is not known."""
    return row.retry if row.messages else ""


def _own_frame(event: LogEvent) -> tuple[Place, ...]:
    """The last frame of the program in the traceback, which one opens first."""
    path, _, rest = event.groups.get("code", "").rpartition(":")
    line = rest.split(" ", 1)[0]
    if not path or not line.isdigit():
        return ()
    return (
        Place(
            path=path,
            line=int(line),
            text=event.groups.get("source", ""),
            message="the last frame of the program",
        ),
    )


def _warning(
    row: Cause, events: list[LogEvent], log: Log, torch: Torch | Unknown, suffix: str
) -> Verdict:
    count = sum(event.count for event in events)
    times = f"{count:,} times, first at " if count > 1 else ""
    return warn(
        f"{times}{_where(events[0])}: {_detail(row, events[0])}{suffix}",
        *_commands(_refined(row, events[0]), events[0]),
        fix=_fix(row, events[0], log, torch),
        places=tuple(map(place_of, events[:MOST_PLACES])),
    )


def _commands(row: Cause, event: LogEvent) -> tuple[str, ...]:
    """The row's commands for what the event names, and the check that finds it before a run."""
    check = (f"doctor run --only {row.next_check}",) if row.next_check else ()
    return (*fitted(row, _text(event)).commands, *check)


def _detail(row: Cause, event: LogEvent) -> str:
    if row.id == MEMORY and (described := describe_oom(event.text)):
        return described.summary
    text = event.text
    if not row.messages and not _causes(row, event):
        text += "; cause not known"
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST].rsplit(" ", 1)[0] + " ..."


def _fix(row: Cause, event: LogEvent, log: Log, torch: Torch | Unknown) -> str:
    """The remedy for what the event says and for the versions of the log or of the facts."""
    if (named := _refined(row, event)) is not row:
        return fitted(named, _text(event)).fix
    if (of_event := fitted(row, _text(event))).fix != row.fix:
        return of_event.fix
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
    others = [each for each in with_message(_text(event)) if each.fix and each.id != row.id]
    return (*((row,) if row.messages else ()), *others)[:MOST]


def _also(causes: Iterable[Cause]) -> tuple[str, ...]:
    """A line for each cause that is no class: that one has a check of its own."""
    return further(each for each in causes if not each.code)


def _holds(version: str, since: str, until: str) -> bool:
    try:
        number = Version(version)
        return (not since or number >= Version(since)) and (not until or number < Version(until))
    except InvalidVersion:
        return False


def _where(event: LogEvent) -> str:
    """ "train.log:12, rank 3, 03:12:07": a clock time only where the log has one."""
    rank = f", rank {event.rank}" if event.rank is not None else ""
    clock = time.strftime(", %H:%M:%S", time.gmtime(event.time)) if event.time is not None else ""
    return f"{event.path}:{event.line}{rank}{clock}"


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
    overcome = ("a line of the class is in the log, and the training goes on after it",)
    is_warned = row.retry == OF_NODE or row.role == "warning"
    return Check(
        code=row.code,
        slug=row.id,
        title=row.title,
        why=row.why,
        passes=("no line of the class is in the log",),
        notes=() if is_warned else overcome,
        warns=overcome if is_warned else (),
        fails=() if row.role in ("warning", "summary") else first,
        fix=row.fix,
        commands=row.commands,
        owner=row.owner,
        judge=_judge_of(row),
        sources=row.sources,
        limits="that the log is complete.",
    )


CHECKS: tuple[Check, ...] = (FIRST_CAUSE, *map(_check, CLASSES))
