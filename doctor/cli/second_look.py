"""A second look at a short log in which no line of a class was found: messages that were broken
over lines, and the rows of the table of errors that `doctor explain` asks as well."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from doctor.checks.log.classes import BY_ID_OF_NO_CLASS, BY_SLUG
from doctor.checks.log.conditions import ABOUT
from doctor.checks.log.patterns import line_patterns
from doctor.errors.match import lines_of, with_message, without_retried
from doctor.errors.tables.conditions import WAITED
from doctor.facts.log import Curve, LogEvent
from doctor.log.collector import UNCAUGHT
from doctor.log.lines import excerpt
from doctor.log.metrics import beside
from doctor.log.metrics.scores import SCORE
from doctor.log.patterns import Gate, with_words_of
from doctor.log.read import FileResult, read_stream
from doctor.log.wrapped import GLUES, unwrapped

FAILS = re.compile(
    r"(?i)\b(?:\w*error|\w*exception|fatal|failed|fails|failure|refused|denied|cannot|could not|"
    r"unable|evicted|\w*backoff|not found|insufficient|untolerated|exceeds|mismatch|\w*invalid)\b"
)
INFORMS = re.compile(r"\b(?:WARN\w*|INFO|DEBUG|\w*Warning):?\s")
LOOPBACK = re.compile(
    r"(?<![\w.=:/-])127\.0\.[01]\.1[ \t]+([A-Za-z][\w.-]{0,80}(?:[ \t]+[A-Za-z][\w.-]{0,80}){0,8})"
    r"[ \t]*(?:$|#)"
)
LOCAL = ("localhost", "localhost.localdomain")
MOST_AGAIN = 8
"""Logs of which a second look is worth its time: it takes longer than to read a short log."""


def look_again(result: FileResult) -> FileResult:
    """What the file gives with what a second look finds; the same where the first one sufficed, and
    for a training's log: metrics show that a line did not end it."""
    result = replace(result, harmless=(*result.harmless, *_loopback(result)))
    trains = result.last_step is not None or any(map(_is_of_training, result.curves))
    if not result.text or trains or _is_told(result.events):
        return result
    text = without_retried(result.text.decode("utf-8", "replace"))
    for glue in GLUES:
        joined = unwrapped(text, glue)
        if joined.splitlines() != text.splitlines() and _is_told(events := _read(joined, result)):
            return replace(result, events=events)
    for form in (text, *(unwrapped(text, glue) for glue in GLUES)):
        if found := next(_named(form, result), None):
            return replace(result, events=_with(result.events, found))
    return result


def _is_of_training(curve: Curve) -> bool:
    return not curve.name.startswith(SCORE) and curve.name not in beside.NAMES


def _loopback(result: FileResult) -> Iterator[LogEvent]:
    """A line of /etc/hosts, or of getent, that gives the loopback's address to the very host that
    ranks did not reach: the usual line of a host's own name says nothing."""
    waiting = " ".join(each.text for each in result.events if each.name in WAITED)
    for number, line in enumerate(result.text.decode("utf-8", "replace").splitlines(), 1):
        match = LOOPBACK.search(line) if waiting else None
        for name in match[1].split() if match else ():
            if name not in LOCAL and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", waiting):
                found = excerpt(line)
                yield LogEvent(
                    "master-address-is-loopback", result.file.path, number, text=found,
                    excerpt=(found,), groups={ABOUT: name},
                )  # fmt: skip
                return


def _is_told(events: tuple[LogEvent, ...]) -> bool:
    """Whether a line is of a class, or an exception of a row of the table."""
    known = [each for each in events if each.name in BY_SLUG and not _is_summary(each)]
    return any(each.name != UNCAUGHT or with_message(each.text) for each in known)


def _is_summary(event: LogEvent) -> bool:
    return BY_SLUG[event.name].role == "summary"


def _read(text: str, result: FileResult) -> tuple[LogEvent, ...]:
    gate = Gate(with_words_of(text, line_patterns()))
    events = read_stream(result.file.path, io.BytesIO(text.encode()), gate).events
    rank = result.file.rank
    return tuple(
        each if each.rank is not None else structs.replace(each, rank=rank) for each in events
    )


def _named(text: str, result: FileResult) -> Iterator[LogEvent]:
    """The lines that have the message of a row that is no class."""
    lines = text.splitlines()
    for row, line in lines_of(lines, BY_ID_OF_NO_CLASS):
        if any(each.role == "harmless" for each in with_message(line)):
            continue
        shown = excerpt(line)
        number = lines.index(line) + 1
        ends = FAILS.search(line) and not INFORMS.search(line)
        name = UNCAUGHT if ends else row.id
        yield LogEvent(
            name, result.file.path, number, rank=result.file.rank, text=shown, excerpt=(shown,)
        )


def _with(events: tuple[LogEvent, ...], found: LogEvent) -> tuple[LogEvent, ...]:
    """An exception of no known cause is told by the line; without one the line stands alone."""
    unknown = next((each for each in events if each.name == UNCAUGHT), None)
    if unknown is None:
        return (*events, found)
    told = structs.replace(
        unknown, line=found.line, text=found.text, excerpt=(*found.excerpt, *unknown.excerpt)
    )
    return tuple(told if each is unknown else each for each in events)
