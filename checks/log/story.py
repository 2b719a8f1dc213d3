"""Which event of a log came first, and which ones follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from doctor.checks.log.classes import BY_SLUG
from doctor.errors.cause import Cause
from doctor.facts.log import Log, LogEvent

BEGINNINGS = {"cause": 0, "exception": 1, "consequence": 1}
"""Roles of events that can begin a failure: a specific cause goes before what may follow from it,
wherever it stands, since a watchdog or a kernel often reports it late."""


@dataclass(frozen=True, slots=True)
class Story:
    """The events of a log, sorted into what they mean."""

    first: LogEvent | None = None
    """The first cause of a failure that the training did not overcome."""
    others: tuple[LogEvent, ...] = ()
    """Everything else that was not overcome: taken as its consequences."""
    overcome: tuple[LogEvent, ...] = ()
    """Events after which the training went on."""
    warnings: tuple[LogEvent, ...] = ()
    by_time: bool = False
    """Whether files were put in order by their times."""


def story_of(log: Log) -> Story:
    """The story of a log. Pure; computed once per log."""
    return _story_of(_Same(log))


class _Same:
    """A log as a key: facts hold dictionaries and have no hash."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def __hash__(self) -> int:
        return id(self.log)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.log is self.log


@lru_cache(maxsize=1)
def _story_of(same: _Same) -> Story:
    log = same.log
    known = [event for event in log.events if event.name in BY_SLUG]
    warnings = [event for event in known if _role(event) == "warning"]
    serious = [event for event in known if _role(event) != "warning"]
    open_ = [event for event in serious if not event.recovered]
    candidates = [event for event in open_ if _role(event) in BEGINNINGS]
    by_time = _comparable(candidates)
    files = {file.path: number for number, file in enumerate(log.files)}

    def order(event: LogEvent) -> tuple[float, float, int, int]:
        time = event.time if by_time and event.time is not None else 0.0
        late = BEGINNINGS[_role(event)]
        exception = _role(event) == "consequence"
        if len(log.files) > 1 and not by_time:  # lines of two files have no order
            return late, exception, files.get(event.path, 0), event.line
        return late, time, files.get(event.path, 0), event.line

    first = min(candidates, key=order, default=None)
    if first is not None:
        preferred = [each for each in candidates if each.name in class_of(first).yields_to]
        first = min(preferred, key=order, default=first)
    return Story(
        first=first,
        others=tuple(event for event in open_ if event is not first),
        overcome=tuple(event for event in serious if event.recovered),
        warnings=tuple(warnings),
        by_time=by_time,
    )


def _comparable(events: list[LogEvent]) -> bool:
    """Whether all of these have times, and of one kind: with a year or without."""
    times = [event.time for event in events]
    if any(time is None for time in times):
        return False
    years = {math.floor((time or 0.0) / 31_557_600) == 30 for time in times}
    return len(years) <= 1


def _role(event: LogEvent) -> str:
    return class_of(event).role


def class_of(event: LogEvent) -> Cause:
    return BY_SLUG[event.name]
