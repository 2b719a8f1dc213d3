"""From a text to the causes that have such a message."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module

from doctor.errors.cause import Cause
from doctor.errors.decided import decided
from doctor.errors.index import ENTRIES
from doctor.errors.nearness import likeliest
from doctor.errors.words import is_long, is_prose, is_said, is_told
from doctor.errors.words import symptoms as symptoms_of

LONGEST = 4_000
"""Characters of a message that are read: it says what it is about at its beginning."""
PART = 4
"""Characters of the shortest literal."""
MOST = 4
"""Causes of one message: more are no help."""

MOST_TOLD = 2
"""Symptoms of one sentence."""
MOST_LIKELY = 3
"""Symptoms of several sentences, which are vaguer."""

SURE = 3
"""Groups of words of a symptom that leads where a message is a small part of the text."""
MOSTLY = 0.4
"""Share of a text that is a message: questions quote less of one. Our own number."""

INSIDE = "raised-inside-a-library"
"""The row of which the frame above a message speaks, not the message."""

REPORTS = ("consequence", "summary")
"""Roles of lines that tell of a failure whose cause another line or another part of it names."""

_compiled = functools.cache(functools.partial(re.compile, flags=re.IGNORECASE | re.MULTILINE))
"""Of candidates only: to compile every row takes longer than to start the command."""


_TRACEBACK = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"
"""Errors while an object or the interpreter ends: they follow from nothing and lead to nothing."""


TRIED_AGAIN = (
    r"\W{0,3}(?:Trying (?:to resume|again)|(?:Will )?[Rr]etry(?:ing)?)\b"
    r"(?![^\n]*\[Retry (?P<tries>\d{1,3})/(?P=tries)\])"
)
"""How a line begins that says of the error above it that the program goes on; not at the last
try."""
_RETRIED = re.compile(rf"^[^\n]*\n{TRIED_AGAIN}[^\n]*$", re.MULTILINE)


def without_retried(text: str) -> str:
    """The text with empty lines in the place of errors after which the program tried again."""
    return _RETRIED.sub("\n", text)


INFORMS = re.compile(r"(?i)[^\n]{0,120}?\b(?:\w*warning|info|debug)\b(?!.*error)")
"""The text is one line of a level below an error."""


def message_of(text: str) -> str:
    """The lines of a pasted text that are messages, without stacks and what Python ignored."""
    text = text.partition(_IGNORED)[0].strip() or text
    text = without_retried(text).strip() or text
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
    if cause.words:
        return is_told(cause, text)
    if cause.unless and _compiled(cause.unless).search(text):
        return False
    return any(_compiled(each).search(text) for each in _admitted(cause, folded))


def with_message(
    text: str,
    causes: Iterable[Cause] | None = None,
    *,
    symptoms: bool = False,
    around: str = "",
) -> tuple[Cause, ...]:
    """At most four of the causes, of all if None, that have such a message: what refines another
    of them first, or in its place, then the most frequent, lines that only report a failure last
    (before all, the one that the sizes in the text, or the code `around` it, decide); one form of
    a sentence where nothing else knows it; symptoms, which no program prints, only if asked
    for."""
    text = text[:LONGEST]
    folded = text.casefold()
    possible = _candidates(folded) if causes is None else causes
    found = [each for each in possible if not each.words and _is_message(each, text, folded)]
    if causes is None and found and _is_raised_inside(around):
        found = list(dict.fromkeys((*found, row(INSIDE))))
    ids = {each.id for each in found}
    # A stable sort: rows of equal frequency keep the order of the table.
    refined = {id for each in found for id in each.refines}

    by_sizes = decided(text, around)
    leads = by_sizes[0] if by_sizes else ""

    def order(each: Cause) -> tuple[bool, bool, bool, bool, int]:
        refines = not ids.isdisjoint(each.refines)
        is_between = refines and each.id in refined
        return each.role in REPORTS, each.id != leads, not refines, is_between, -_frequency(each)

    found.sort(key=order)
    known = _specific(_refined(found, leads), text)
    if symptoms and is_prose(text):  # what people write has forms of sentences, too
        known = [each for each in known if not each.quotes]
    told = _told(known, text) if symptoms and causes is None and is_said(text) else []
    return tuple(dict.fromkeys((*told, *known)))[:MOST]


def _is_raised_inside(around: str) -> bool:
    """Whether the last frame of a pasted traceback is a library's; `message_of` leaves it out."""
    _, head, end = around.rpartition(_TRACEBACK)
    return bool(head) and is_message_of(row(INSIDE), end[-LONGEST:])


def _refined(found: list[Cause], leads: str) -> list[Cause]:
    """Without general causes beside one that says more of the same, unless something has to tell
    the two apart, or the general one leads."""
    general = {
        id
        for each in found
        if each.role == "cause" and not (each.told_by or each.quotes)
        for id in each.refines
    }
    return [each for each in found if each.id not in general or each.id == leads]


def _told(known: list[Cause], text: str) -> list[Cause]:
    """The symptoms that a text in words tells of, after the rows of which most of it is the
    message."""
    said = symptoms_of(text)
    sure = bool(said) and said[0][0] >= SURE
    told = [row for groups, row in said if groups >= said[0][0] - 1][:MOST_TOLD]
    if is_long(text):
        told = [*likeliest(text, MOST_LIKELY)]
    ids = {each.id for each in known
           if each.role != "condition" and (not sure or _share(each, text) >= MOSTLY)}  # fmt: skip
    leading = [each for each in told if not ids or not ids.isdisjoint(each.refines)]
    return [*leading, *(known if ids else ()), *told]


def _share(cause: Cause, text: str) -> float:
    """The share of the text that is the row's message."""
    found = (_compiled(each).search(text) for each in cause.messages)
    return max((len(each[0]) for each in found if each), default=0) / len(text)


def _specific(found: list[Cause], text: str) -> list[Cause]:
    """Without forms of sentences where another row knows the message, or it is a line that only
    informs; else the first of them."""
    forms = [each for each in found if each.quotes and not INFORMS.match(text)]
    known = {each.id for each in found if not each.quotes}
    if known:  # a form counts where it says more than all that know the message
        forms = [each for each in forms if known <= set(each.refines)]
    return [each for each in found if each in forms[:1] or not each.quotes]


def _frequency(cause: Cause) -> int:
    return ENTRIES[cause.id].frequency if cause.id in ENTRIES else 0


def _candidates(folded: str, ids: Collection[str] | None = None) -> Iterator[Cause]:
    """The rows, of these, of which a literal is in the text, in the order of the table. Only their
    tables are imported: all of them take longer than to start the command."""
    parts = None
    if ids is None and len(folded) > LONGEST:
        # To search a long text for each literal takes longer than to cut it up.
        parts = {folded[at : at + PART] for at in range(len(folded) - PART + 1)}
    for id, entry in ENTRIES.items():
        if ids is not None and id not in ids:
            continue
        literals = (each for required in entry.literals for each in required)
        if any((parts is None or each[:PART] in parts) and each in folded for each in literals):
            yield from (row for row in _rows(entry.table) if row.id == id)


def table_of(cause: Cause) -> str:
    """The module of the table that holds the row, "" for one that is newer than the index."""
    return ENTRIES[cause.id].table if cause.id in ENTRIES else ""


def row(id: str) -> Cause:
    """The row of this id; only its table is imported. Raises KeyError."""
    return next(each for each in _rows(ENTRIES[id].table) if each.id == id)


def _rows(table: str) -> tuple[Cause, ...]:
    rows: tuple[Cause, ...] = import_module(f"doctor.errors.tables.{table}").ROWS
    return rows


def holds(expression: str, text: str) -> bool:
    """Whether an expression of a row is in the text."""
    return bool(_compiled(expression).search(text))


def groups_of(cause: Cause, text: str) -> dict[str, str]:
    """The named groups of the first of the cause's expressions that is in the text."""
    matches = (_compiled(each).search(text) for each in _admitted(cause, text.casefold()))
    match = next(filter(None, matches), None)
    return {name: value for name, value in match.groupdict().items() if value} if match else {}


def candidates(lines: Sequence[str], ids: Collection[str] | None = None) -> tuple[Cause, ...]:
    """The rows, of these, that one of the lines may have the message of."""
    return tuple(_candidates("\n".join(line[:LONGEST].casefold() for line in lines), ids))


def lines_of(
    lines: Sequence[str], ids: Collection[str] | None = None
) -> Iterator[tuple[Cause, str]]:
    """The lines that have a message of one of these rows, of all if None, with the first such."""
    folded = [line[:LONGEST].casefold() for line in lines]
    whole = "\n".join(folded)
    causes = tuple(_candidates(whole, ids))
    literals = {each for cause in causes for required in ENTRIES[cause.id].literals
                for each in required if each in whole}  # fmt: skip
    for line, text in zip(lines, folded, strict=True):
        # Most lines of a log have none of them.
        for cause in causes if any(each in text for each in literals) else ():
            if _is_message(cause, line[:LONGEST], text):
                yield cause, line
                break


def _admitted(cause: Cause, folded: str) -> Iterator[str]:
    """The expressions of which a literal that each match contains is in the text."""
    literals = ENTRIES[cause.id].literals if cause.id in ENTRIES else ()
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
