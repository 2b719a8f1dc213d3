"""The verdict on the first cause of a failure: what it was, why, and what followed."""

from __future__ import annotations

from itertools import groupby

from doctor._util.records import Unknown
from doctor._util.units import counted
from doctor.checks.log import apart, conditions, restarts
from doctor.checks.log.culprit import TIMEOUT, waited_for
from doctor.checks.log.curves import resources
from doctor.checks.log.differential.decide import decided
from doctor.checks.log.earlier import SYMPTOM, rose_before
from doctor.checks.log.event_texts import (
    also_of,
    causes_of,
    commands_of,
    detail_of,
    fix_of,
    joined,
    place_of,
    refined,
    text_of,
    where,
)
from doctor.checks.log.runs import of_one_run
from doctor.checks.log.standstill import standstill
from doctor.checks.log.story import CANCELLED, class_of, story_of
from doctor.errors.cause import Cause
from doctor.errors.fitted import fitted
from doctor.facts.interpreter import Torch
from doctor.facts.log import Log, LogEvent
from doctor.judge.check import Verdict, fail
from doctor.judge.place import Place
from doctor.log.collector import ENDED

MOST_PLACES = 20
"""Places of consequences that a finding lists."""
STOPPED = ("interrupted", "killed-sigterm")
"""Classes of lines with which a run ends that somebody gave up."""
ENDED_FROM_OUTSIDE = (*STOPPED, "scheduler-ended")
AT_THE_END = (
    "The training had ended: the rank waits in what comes after it, which all ranks must enter: "
    "the last save (a full state dict of FSDP or ZeRO-3 gathers from every rank) or evaluation."
)
NOT_SHOWN = "not shown to be of the same run"
MISSING = "file-missing"
OF_HOST_MEMORY = ("killed-sigkill", "dataloader-worker-killed", "host-out-of-memory")


def verdict_on_first(row: Cause, log: Log, torch: Torch | Unknown) -> Verdict:
    """The class of the first cause fails, with the reason that the log gives for it."""
    story = story_of(log)
    assert story.first is not None
    others = [event for event in story.others if class_of(event).role != "summary"]
    event, named = story.first, refined(row, story.first)
    others, separate = apart.split(others, event)
    reasons = conditions.reasons_of(log, (row.id, named.id), event.path, event.line)
    named = reasons[0][0] if reasons else named
    culprit = waited_for(log) if row.id == TIMEOUT else None
    about = f"({named.id}) " if named is not row else ""
    about += culprit.summary + "; " if culprit else ""
    lost = restarts.lost(log, event)
    about += lost.summary + "; " if lost else ""
    hung = standstill(event, log) if event.name in ENDED_FROM_OUTSIDE else None
    stood = f"; {hung.summary}" if hung else ""
    message = f"first cause, {where(event)}: {about}{detail_of(row, event)}{stood}"
    message += beside(separate)
    unclear = bool(hung and hung.known) or (event.name == CANCELLED and bool(separate))
    places = (
        place_of(event),
        *conditions.places_of(reasons),
        *_own_frame(event),
        *_folded([each for each in others if of_one_run(log, each, event)], event, "consequence"),
        *_folded([each for each in others if not of_one_run(log, each, event)], event, NOT_SHOWN),
        *_folded(separate, event, "no consequence"),
    )
    causes = tuple(dict.fromkeys((named, *causes_of(row, event))))
    ids = tuple(each.id for each in causes if each.messages)
    if hung:
        fix = hung.fix
    elif lost:
        fix = lost.fix
    elif culprit or reasons:
        fix = joined(conditions.fix_of(reasons), culprit.fix if culprit else "")
    else:
        fix = fix_of(row, event, log, torch)
    rise = rose_before(log, event)
    symptoms = {row.id, named.id, *((SYMPTOM,) if rise else ())}
    decision = None if hung or lost else decided(log, symptoms, event.path)
    if rise:
        message, fix = f"{message}; {rise.summary}", joined(rise.fix, fix)
        places += (rise.place,)
    if decision:
        message = f"{message}; {decision.evidence.sentence} ({decision.row.id})"
        fix = joined(decision.fix, fix)
        places += decision.places
        ids = (decision.row.id, *ids)
    if row.id in OF_HOST_MEMORY:
        fix = joined(resources.grown(log, "host_memory"), fix)
    return fail(
        message,
        *commands_of(named, event),
        fix=joined(AT_THE_END * _after_the_end(row, event), fix, _of_other_node(row, log)),
        owner=fitted(named, text_of(event)).owner,
        retry="fix" if lost else "" if unclear else restarts.outlook(named, event, log),
        places=places[: MOST_PLACES + 1],
        causes=ids,
        sources=decision.cause.sources if decision else named.sources if named is not row else (),
        also=also_of(fitted(each, text_of(event)) for each in causes[1:]),
    )


def _after_the_end(row: Cause, event: LogEvent) -> bool:
    return row.id == TIMEOUT and ENDED in event.groups


def _of_other_node(row: Cause, log: Log) -> str:
    """That rank 0 has the file which others miss."""
    ranks = {event.rank for event in log.events if event.name == row.id and event.rank is not None}
    if row.id != MISSING or len(ranks) < 2 or 0 in ranks:
        return ""
    return (
        f"{len(ranks)} ranks from {min(ranks)} on report it, and rank 0 does not: if those are of "
        "other nodes, the path is on a disk of one node, and belongs on storage that all share."
    )


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


def beside(separate: list[LogEvent]) -> str:
    """That there is a failure which does not follow from the first cause."""
    if not separate:
        return ""
    event = separate[0]
    return f"; {where(event)} is no consequence of it: {detail_of(class_of(event), event)}"


def consequence(events: list[LogEvent], first: LogEvent | None, log: Log) -> str:
    said = f"{counted(sum(event.count for event in events), 'line')}, first at {where(events[0])}"
    if first is None:
        return said
    name = f"{class_of(first).code} {first.name}"
    if of_one_run(log, events[0], first):
        return f"{said}, taken as a consequence of {name}"
    return f"{said}; {NOT_SHOWN} as {name}"


def _folded(events: list[LogEvent], first: LogEvent, kind: str) -> list[Place]:
    """One place for each class of consequences, with the ranks and the delay."""
    by_class = sorted(events, key=lambda event: event.name)
    places = []
    for name, same in groupby(by_class, key=lambda event: event.name):
        members = list(same)
        places.append(place_of(members[0], f"{kind}: {name}{_spread(members, first)}"))
    return sorted(places, key=lambda place: (place.path, place.line))


def _spread(events: list[LogEvent], first: LogEvent) -> str:
    ranks = {event.rank for event in events if event.rank is not None}
    text = f", {len(ranks)} ranks" if len(ranks) > 1 else ""
    times = [event.time for event in events if event.time is not None]
    if first.time is not None and times and 0 <= min(times) - first.time < 10 * 86400:
        text += f", {min(times) - first.time:.0f} s later"
    return text
