"""What the lines of one file amount to: events, each with its count and its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, pairwise

from doctor._util.median import median
from doctor.errors.match import TRIED_AGAIN
from doctor.facts.log import LogEvent, RankSeen
from doctor.log.launcher import Launcher
from doctor.log.lines import Line, excerpt, local_rank, time_of
from doctor.log.patterns import Gate
from doctor.log.tracebacks import (
    EXCEPTION,
    HEADER,
    Traceback,
    Tracebacks,
    bare_exception,
    split_prefix,
)

MOST_EVENTS = 4096
"""Events that are kept of one file; each stands for any number of lines."""
RECOVERED = 3
"""Lines of training metrics after which an error counts as overcome. Our own number: ranks that
do not wait for each other log a line or two after one of them failed."""
LOOK_BACK = 60
"""Lines before an event in which its time is looked for."""
PACKAGE = "of_package"
"""Group of an event: the package whose code met it."""
QUIET, LAST_LINE = "quiet", "last_line"
"""Groups of an event before which nothing was written for so many seconds, and what was last."""
FEWEST_GAPS, FAR_APART = 5, 20
"""Gaps between lines that say what is usual, and times that more is no accident. Our own "
"numbers."""
HOUR, SHORTEST_QUIET, LONGEST_QUIET, ZONES = 3600, 1200, 30 * 86_400, 26 * 3600
"""Seconds; above the last one no difference of time zones explains it."""
ENDED = "ended"
"""Group of an event below the line that says that the run ended well."""
UNCAUGHT = "uncaught-exception"
"""The class of an exception that ends a traceback and is in no other class."""
END = 40
"""Lines from the end of a file in which an exception without a traceback ends it."""
MOST_RANKS = 65_536
NUMBER_OF_A_LIST = re.compile(r"\s*\[\d+\]:\s*$")
"""A failure in the launcher's account, and no line of that rank."""
MOST_CONTINUED = 8
"""Lines below an exception that may belong to its message."""
OTHER = re.compile(
    r"During handling|The above exception|Exception ignored|slurmstepd|srun: |[\[(=*#-]|"
    r"\d|[IWEF]\d{4} |\w{0,40}:? ?(?:INFO|DEBUG|WARN|ERROR|CRITICAL)|"
    r"(?:\w+\.){0,8}\w+(?:Error|Exception)\b"
)
"""How a line begins that is no part of the message above it."""
_TRIED_AGAIN = re.compile(TRIED_AGAIN)
MOST_LINES = 8
"""Lines that an event keeps: the first one and its frames, and later ones of the same class, which
may say more."""


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

    def quote(self, traceback: Traceback | None, text: str) -> None:
        """A further line of the class; its frames where the first one had none."""
        frames = tuple(map(excerpt, traceback.frames)) if traceback else ()
        if len(self.excerpt) < MOST_LINES:
            self.excerpt += (*(frames if len(self.excerpt) == 1 else ()), text)


@dataclass(slots=True)
class Collector:
    """Events of one file, in the order of their first lines."""

    path: str
    gate: Gate
    rank: int | None = None
    """Of the file; lines may name another."""
    progress: int = 0
    """Lines of training metrics so far."""
    finished: int = 0
    """The line that says that the run ended; 0 where metrics follow."""
    ended_well: int = 0
    """The line with which a library says so."""
    omitted: int = 0
    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    launcher: Launcher = field(init=False)
    ranks: dict[int, RankSeen] = field(default_factory=dict)
    _bare: _Event | None = None
    """The last exception without a traceback; the first of those that say the same."""
    _unfinished: _Event | None = None
    """An exception whose message may go on, or begin, on the next lines."""
    _prefix: str = ""
    """What the launcher wrote before the line of that exception."""
    _events: list[_Event] = field(default_factory=list)
    _current: dict[tuple[str, int | None], _Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.launcher = Launcher(self.path)

    def reads_on(self) -> bool:
        """Whether the next row matters whatever it is."""
        return bool(self.tracebacks.open or self.launcher.open or self._unfinished)

    def seen(self, line: Line, step: int | None = None) -> None:
        """A line of a rank, with its step where it is one of metrics."""
        rank = line.rank if line.rank is not None else self.rank
        if self.launcher.open or NUMBER_OF_A_LIST.match(line.text):
            return
        if rank is None or (rank not in self.ranks and len(self.ranks) >= MOST_RANKS):
            return
        before = self.ranks.get(rank)
        step = step if step is not None or before is None else before.step
        named = (before is not None and before.named) or rank in (line.named_rank, self.rank)
        time = time_of(line.text)
        self.ranks[rank] = RankSeen(rank, self.path, line.number, step, time, named=named)

    def take(self, line: Line, before: Iterable[str]) -> None:
        """One line that may be an event; `before` are the lines before it, the nearest first."""
        self.launcher.take(line.number, line.text)
        self._continue(line)
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
        elif not traceback and (ending := bare_exception(line.text)):
            self._add_bare(line, ending, before)

    def _add_bare(self, line: Line, ending: re.Match[str], before: Iterable[str]) -> None:
        """An exception without a traceback: another one, or the one before once more."""
        groups, bare = _groups(ending), self._bare
        same = bare is not None and _alike(bare.groups) == _alike(groups)
        if bare is None or not same or bare.recovered or self.progress - bare.progress >= RECOVERED:
            bare = self._bare = self._begin(UNCAUGHT, line, ending, None, before, harmless=False)
            bare.rank = self._rank_of(line)
            self._open(bare, line)
        bare.progress, bare.last_line = self.progress, line.number

    def _open(self, event: _Event, line: Line) -> None:
        """The message may go on below this line."""
        self._unfinished, self._prefix = event, split_prefix(line.text)[0]

    def _continue(self, line: Line) -> None:
        """Add a line to the message of the exception above it, unless it is of something else."""
        event = self._unfinished
        if event is None:
            return
        prefix, text = split_prefix(line.text)
        body = text.strip()
        inside = text[:1].isspace()  # a module, a table or a list within the message
        empty = not event.groups.get("message")
        if _TRIED_AGAIN.match(body):
            event.recovered = True
        gone = line.number > event.line + MOST_CONTINUED or self.progress != event.progress
        if gone or prefix != self._prefix or HEADER in body or (OTHER.match(body) and not inside):
            self._unfinished = None
        elif body and empty:
            event.text = excerpt(f"{event.text} {body}")
            event.excerpt = (*event.excerpt[:-1], event.text)
            event.groups["message"] = excerpt(body)
        elif body:
            event.excerpt += (excerpt(body),)

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
        rank = None if harmless else self._rank_of(line)
        event = self._current.get((name, rank))
        if event and not harmless:
            event.recovered |= self.progress - event.progress >= RECOVERED
            event = None if event.recovered else event
        if event is None:
            if len(self._events) >= MOST_EVENTS:
                self.omitted += 1
                return
            event = self._begin(name, line, match, traceback, before, harmless)
            event.rank = rank
            self._events.append(event)
            self._current[name, rank] = event
            if traceback or bare_exception(line.text):
                self._open(event, line)
        if event.count:
            for key, text in {**_of_traceback(traceback), **_groups(match)}.items():
                event.groups.setdefault(key, text)
            event.quote(traceback, excerpt(line.text, match.start()))
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
        groups = {**_of_traceback(traceback), **_groups(match)}
        text = excerpt(line.text, match.start())
        frames = map(excerpt, traceback.frames) if traceback else ()
        lines = (line.text, *islice(before, LOOK_BACK))
        stamps = [time_of(text) for text in lines]
        time = next((stamp for stamp in stamps if stamp is not None), None)
        if stamps[0] is not None and (quiet := quiet_before(stamps[0], stamps[1:])):
            last = next(filter(str.strip, lines[1:]), "")
            groups |= {QUIET: f"{quiet:.0f}", LAST_LINE: excerpt(last)}
        return _Event(
            name, harmless, line.number, None, time, text, (*frames, text), groups, self.progress,
            last_time=time,
        )  # fmt: skip

    def _rank_of(self, line: Line) -> int | None:
        """The rank that the line names, that the launcher's account is about, or of the file."""
        for rank in (line.rank, self.launcher.rank, local_rank(line.text)):
            if rank is not None:
                return rank
        return self.rank

    def events(self, lines: int = 0) -> tuple[tuple[LogEvent, ...], tuple[LogEvent, ...]]:
        """The events, and the harmless ones, when the file ends after so many lines."""
        harmful = [self._complete(event) for event in self._events if not event.harmless]
        harmless = [self._complete(event) for event in self._events if event.harmless]
        if self._bare and 0 <= lines - self._bare.last_line < END:
            last = self._complete(self._bare)
            harmful += [] if last.recovered else [last]
        return tuple(harmful), tuple(harmless)

    def _complete(self, event: _Event) -> LogEvent:
        steps = self.progress - event.progress
        ended = self.ended_well if not steps else self.finished
        overcome = ended > event.last_line or steps >= RECOVERED
        if 0 < self.finished < event.line:
            event.groups[ENDED] = str(self.finished)
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


def _of_traceback(traceback: Traceback | None) -> dict[str, str]:
    """What the frames above an exception say of it, as groups of its event."""
    groups: dict[str, str] = {}
    if traceback and traceback.code:
        groups["code"] = excerpt(traceback.code)
        groups["source"] = excerpt(traceback.source.strip())
    if traceback and traceback.functions:
        groups["functions"] = " ".join(filter(None, traceback.functions))
    if traceback and traceback.package:
        groups[PACKAGE] = traceback.package
    return groups


def quiet_before(time: float, before: list[float | None]) -> float:
    """Seconds without a line before a time, where they are far more than between the lines before
    it (the nearest first); else 0. Clocks may be of two time zones: whole hours say nothing."""
    stamps = [stamp for stamp in before if stamp is not None]
    gaps = [later - earlier for later, earlier in pairwise(stamps)]
    if len(gaps) < FEWEST_GAPS:
        return 0
    usual, quiet = max(1.0, median(gaps)), time - stamps[0]
    beyond_hours = abs((quiet + HOUR / 2) % HOUR - HOUR / 2)
    if not max(SHORTEST_QUIET, FAR_APART * usual) < quiet < LONGEST_QUIET:
        return 0
    return quiet if quiet > ZONES or beyond_hours > 3 * usual + 60 else 0


def _alike(groups: dict[str, str]) -> tuple[str, str]:
    """What equal exceptions have in common: the class, and the message without its numbers."""
    return groups["exception"], re.sub(r"\d+", "0", groups.get("message", ""))


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {key: excerpt(text) for key, text in match.groupdict().items() if text}
