"""From a text to the causes that have such a message."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from doctor.errors.cause import Cause
from doctor.errors.index import FREQUENCY, LITERALS
from doctor.errors.tables import CAUSES

LONGEST = 4_000
"""Characters of a message that are read: it says what it is about at its beginning."""
MOST = 4
"""Causes of one message: more are no help."""

_compiled = functools.cache(functools.partial(re.compile, flags=re.IGNORECASE | re.MULTILINE))
"""Of candidates only: to compile every row takes longer than to start the command."""


_TRACEBACK = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"
"""Errors while an object or the interpreter ends: they follow from nothing and lead to nothing."""


def message_of(text: str) -> str:
    """The lines of a pasted text that are messages, without stacks and what Python ignored."""
    text = text.partition(_IGNORED)[0].strip() or text
    if _TRACEBACK not in text:
        return text
    stack, _, end = text.rpartition(_TRACEBACK)
    lines = [*stack.splitlines(), *end.splitlines()]
    return "\n".join(line for line in lines if line.strip() and not line.startswith("  "))


def is_message_of(cause: Cause, text: str) -> bool:
    """Whether one of the cause's expressions is in the text; case does not matter."""
    text = text[:LONGEST]
    return _is_message(cause, text, text.casefold())


def _is_message(cause: Cause, text: str, folded: str) -> bool:
    return any(_compiled(each).search(text) for each in _admitted(cause, folded))


def with_message(text: str, causes: Iterable[Cause] = CAUSES) -> tuple[Cause, ...]:
    """At most four causes that have such a message, the most frequent first."""
    text = text[:LONGEST]
    folded = text.casefold()
    found = [each for each in causes if _is_message(each, text, folded)]
    # A stable sort: rows of equal frequency keep the order of the table.
    return tuple(sorted(found, key=lambda cause: -FREQUENCY.get(cause.id, 0))[:MOST])


def lines_of(lines: Sequence[str], causes: Iterable[Cause]) -> Iterator[tuple[Cause, str]]:
    """The lines that have a message of one of the causes, with the first such cause."""
    folded = [line[:LONGEST].casefold() for line in lines]
    whole = "\n".join(folded)
    candidates = [cause for cause in causes if any(_admitted(cause, whole))]
    for line, text in zip(lines, folded, strict=True):
        for cause in candidates:
            if _is_message(cause, line[:LONGEST], text):
                yield cause, line
                break


def _admitted(cause: Cause, folded: str) -> Iterator[str]:
    """The expressions of which a literal that each match contains is in the text."""
    literals = LITERALS.get(cause.id, ())
    if len(literals) != len(cause.messages):  # a row that is newer than the index
        yield from cause.messages
        return
    for expression, required in zip(cause.messages, literals, strict=True):
        if any(each in folded for each in required):
            yield expression


def first(text: str, causes: Iterable[Cause]) -> Cause | None:
    """The first of the causes, in their order, that has such a message."""
    text = text[:LONGEST]
    folded = text.casefold()
    return next((row for row in causes if _is_message(row, text, folded)), None)
