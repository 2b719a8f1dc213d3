"""From a text to the causes that have such a message."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

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
    return any(_compiled(each).search(text) for each in cause.messages)


def with_message(text: str, causes: Iterable[Cause] = CAUSES) -> tuple[Cause, ...]:
    """At most four causes that have such a message, the most frequent first."""
    folded = text[:LONGEST].casefold()
    found = [each for each in causes if _admits(each, folded) and is_message_of(each, text)]
    # A stable sort: rows of equal frequency keep the order of the table.
    return tuple(sorted(found, key=lambda cause: -FREQUENCY.get(cause.id, 0))[:MOST])


def _admits(cause: Cause, folded: str) -> bool:
    """Whether a literal that every message of the cause contains one of is in the text."""
    literals = LITERALS.get(cause.id)
    return literals is None or any(each in folded for each in literals)
