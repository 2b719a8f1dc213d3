"""A part of a message: cut off, in lower case, without its quotes, with a line number before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from doctor.checks.log.classes import CLASSES, HARMLESS
from doctor.facts.log import Log, LogEvent, LogFile
from doctor.log.patterns import LinePattern, with_words_of

LONGEST = 300
"""Characters of a fragment that are compared with the examples."""
LEAST = 8
"""Letters and digits that a fragment shares with an example at least. Our own numbers, as below."""
SHARE = 0.7
"""Share of the fragment that an example contains in one piece."""
LEAD = 2
"""Letters by which the example of a class is ahead of those of all other classes."""
NOISE = re.compile(
    r"\x1b\[[0-9;]*m|^\s*(?:>\s?)+|^\s*\d{1,6}[:|]\s+|^\s*\[(?:rank)?\d{1,6}\]:?\s+", re.MULTILINE
)
"""Colours, quotation marks of mails, numbers of lines and ranks."""
MANGLED = re.compile(r"\b_Z\w+|\b0x[0-9a-fA-F]+\b")
"""Names and addresses that differ from case to case."""


def log_of_fragment(text: str, patterns: Iterable[LinePattern]) -> Log | None:
    """The class that the text is distinctive for, as the log that it would be; None: there is none.

    First the classes' expressions without regard to case, then the longest part that the text
    has in common with an example line.
    """
    clean = NOISE.sub("", text).strip()
    pattern = _ignoring_case(clean, patterns) or _nearest_example(clean[:LONGEST])
    if pattern is None:
        return None
    event = LogEvent(pattern.name, "text", 1, text=clean.splitlines()[0][:LONGEST])
    file = LogFile("text", "text", lines=1)
    if pattern.harmless:
        return Log(files=(file,), harmless=(event,))
    return Log(files=(file,), events=(event,))


def _ignoring_case(text: str, patterns: Iterable[LinePattern]) -> LinePattern | None:
    folded = [
        LinePattern(each.name, each.expression.casefold(), each.harmless) for each in patterns
    ]
    likely = {each.name for each in with_words_of(text.casefold(), folded)}
    return next(
        (
            each
            for each in patterns
            if each.name in likely and re.search(each.expression, text, re.IGNORECASE)
        ),
        None,
    )


def _nearest_example(text: str) -> LinePattern | None:
    """The class with the example that contains most of the text, if no other comes near."""
    fragment = _squeezed(text)
    if len(fragment) < LEAST:
        return None
    best: dict[LinePattern, int] = {}
    for name, harmless, example in _examples():
        matcher = SequenceMatcher(None, fragment, _squeezed(example), autojunk=False)
        size = matcher.find_longest_match().size
        pattern = LinePattern(name, "", harmless)
        best[pattern] = max(size, best.get(pattern, 0))
    (first, size), (_, other), *_ = sorted(best.items(), key=lambda pair: -pair[1])
    distinctive = size >= max(LEAST, SHARE * len(fragment)) and size >= other + LEAD
    return first if distinctive else None


def _examples() -> Iterator[tuple[str, bool, str]]:
    for row in CLASSES:
        yield from ((row.id, False, example) for example in row.examples)
    yield from ((row.id, True, example) for row in HARMLESS for example in row.examples)


def _squeezed(text: str) -> str:
    """Letters, digits and signs without case: what quotes, line ends and spaces do not change."""
    return re.sub(r"[^a-z0-9-]", "", MANGLED.sub("symbol", text).casefold())
