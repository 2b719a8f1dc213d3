"""What the lines of one file amount to: events, each with its count and its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from doctor.facts.log import LogEvent
from doctor.log.lines import Line, excerpt, time_of
from doctor.log.patterns import Gate
from doctor.log.tracebacks import EXCEPTION, Traceback, Tracebacks

MOST_EVENTS = 4096
"""Events that are kept of one file; each stands for any number of lines."""
RECOVERED = 3
"""Lines of training metrics after which an error counts as overcome. Our own number: ranks that
do not wait for each other log a line or two after one of them failed."""
LOOK_BACK = 60
"""Lines before an event in which its time is looked for."""
UNCAUGHT = "uncaught-exception"
"""The class of an exception that ends a traceback and is in no other class."""


@dataclass(slots=True)
class _Event:
    """An event while lines may still be added to it."""

    name: str
    harmless: bool
    line: int
    rank: int | None
    time: float | None
    text: str
    excerpt: tuple[str, ...]
    groups: dict[str, str]
    progress: int
    """Metric lines of the file before its last occurrence."""
    count: int = 0
    last_line: int = 0
    last_time: float | None = None
    recovered: bool = False


@dataclass(slots=True)
class Collector:
    """Events of one file, in the order of their first lines."""

    path: str
    gate: Gate
    rank: int | None = None
    """Of the file; lines may name another."""
    progress: int = 0
    """Lines of training metrics so far."""
    finished: bool = False
    """The last line about the run as a whole says that it ended well."""
    omitted: int = 0
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    _events: list[_Event] = field(default_factory=list)
    _current: dict[tuple[str, int | None], _Event] = field(default_factory=dict)

    def take(self, line: Line, before: Iterable[str]) -> None:
        """One line that may be an event; `before` are the lines before it, the nearest first."""
        is_code = self.tracebacks.is_code(line.text)
        ended = self.tracebacks.take(line.number, line.text)
        if is_code and not ended:
            return
        traceback, body = ended or (None, "")
        matched = next(self.gate.matches_of(line.patterns, line.text), None)
        if matched:
            pattern, match = matched
            self._add(pattern.name, line, match, traceback, before, harmless=pattern.harmless)
        elif traceback and not traceback.ignored and (ending := EXCEPTION.match(body[:2000])):
            self._add(UNCAUGHT, line, ending, traceback, before)

    def _add(
        self,
        name: str,
        line: Line,
        match: re.Match[str],
        traceback: Traceback | None,
        before: Iterable[str],
        *,
        harmless: bool = False,
    ) -> None:
        """Count the line as part of an open event of its class and rank, or begin one."""
        rank = None if harmless else line.rank if line.rank is not None else self.rank
        event = self._current.get((name, rank))
        if event and not harmless and self.progress - event.progress >= RECOVERED:
            event.recovered = True
            event = None
        if event is None:
            if len(self._events) >= MOST_EVENTS:
                self.omitted += 1
                return
            event = self._begin(name, line, match, traceback, before, harmless)
            event.rank = rank
            self._events.append(event)
            self._current[name, rank] = event
        event.count += 1
        event.progress, event.last_line = self.progress, line.number
        event.last_time = time_of(line.text) or event.last_time

    def _begin(
        self,
        name: str,
        line: Line,
        match: re.Match[str],
        traceback: Traceback | None,
        before: Iterable[str],
        harmless: bool,
    ) -> _Event:
        groups = {key: excerpt(text) for key, text in match.groupdict().items() if text}
        if traceback and traceback.code:
            groups.setdefault("code", excerpt(traceback.code))
        text = excerpt(line.text, match.start())
        frames = map(excerpt, traceback.frames) if traceback else ()
        stamps = map(time_of, (line.text, *islice(before, LOOK_BACK)))
        time = next((stamp for stamp in stamps if stamp is not None), None)
        return _Event(
            name, harmless, line.number, None, time, text, (*frames, text), groups, self.progress,
            last_time=time,
        )  # fmt: skip

    def events(self) -> tuple[tuple[LogEvent, ...], tuple[LogEvent, ...]]:
        """The events, and the harmless ones, when the file ends."""
        complete = [(event.harmless, self._complete(event)) for event in self._events]
        return (
            tuple(event for harmless, event in complete if not harmless),
            tuple(event for harmless, event in complete if harmless),
        )

    def _complete(self, event: _Event) -> LogEvent:
        overcome = self.finished or self.progress - event.progress >= RECOVERED
        return LogEvent(
            name=event.name,
            path=self.path,
            line=event.line,
            rank=event.rank,
            time=event.time,
            text=event.text,
            excerpt=event.excerpt,
            groups=event.groups,
            count=event.count,
            last_line=event.last_line,
            last_time=event.last_time,
            recovered=event.recovered or overcome,
        )
