"""Sections of the source documents by name, and what in the doctor rests on each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from doctor import catalog
from doctor._util.errors import UserError
from doctor.checks.training.remedies import OWN, SMALL
from doctor.errors.causes import CAUSES
from doctor.judge.check import Check
from doctor.judge.sources import DOCUMENTS, Source
from doctor.judge.sources.sections import ADVICE

SECTION = re.compile(r"[PU]\d{1,2}", re.IGNORECASE)
"""What numbers of sections look like."""


class Citations(NamedTuple):
    """What cites a section."""

    checks: tuple[Check, ...]
    remedies: tuple[str, ...]
    """Causes of the bisection, and messages of errors, whose remedies cite it."""


def find_sections(name: str) -> tuple[Source, ...]:
    """The sections that a number (P7), a document, a heading or a source's id names; () if none.

    Raises UserError for a number that no document has.
    """
    key = _plain(name).removesuffix(".md")
    numbered = tuple(each for each in DOCUMENTS if each.alias.casefold() == key)
    if not numbered and SECTION.fullmatch(key):
        known = ", ".join(each.alias for each in DOCUMENTS if each.alias)
        raise UserError(f"none of the source documents has a section {name!r}; they have {known}")
    return (
        numbered
        or tuple(each for each in DOCUMENTS if each.document == key)
        or tuple(each for each in DOCUMENTS if key in (each.id.casefold(), _plain(each.section)))
    )


def sections_about(name: str) -> tuple[Source, ...]:
    """The sections that have every word of `name` among their keywords; () if none has."""
    words = set(_plain(name).split())
    scores = {each: len(words & _keywords(each)) for each in DOCUMENTS if each.id in ADVICE}
    return tuple(each for each, score in scores.items() if words and score == len(words))


def citations(source: Source) -> Citations:
    """The checks that cite it, and the remedies."""
    checks = tuple(check for check in catalog.CHECKS if source.id in check.sources)
    return Citations(checks, tuple(dict.fromkeys(_remedies(source.id))))


def _remedies(id: str) -> Iterator[str]:
    for remedy in (*OWN.values(), *SMALL.values()):
        if id in remedy.sources and "{" not in remedy.cause:
            yield f"bisection: {remedy.cause}"
    for row in CAUSES:
        if id in row.sources and not row.code:
            yield f"cause of errors: {row.id}"


def _keywords(source: Source) -> set[str]:
    return set(_plain(f"{ADVICE[source.id].keywords} {source.section}").split())


def _plain(text: str) -> str:
    """Lower case, without markup and with single spaces."""
    return " ".join(re.sub(r"[*`:,()\"]", " ", text.casefold()).split())
