"""Checks by their names: codes, slugs, families, sections of the source documents.

Every function takes the checks to look in, whole ones or entries of the index.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TypeVar

from doctor._util.errors import UserError
from doctor.judge.described import Described

Named = TypeVar("Named", bound=Described)


def find(name: str, among: Sequence[Named]) -> tuple[Named, ...]:
    """The checks named by a code, a slug, an older slug or a document section; () if none."""
    key = name.strip().casefold()
    exact = tuple(c for c in among if key in (n.casefold() for n in names_of(c)))
    return exact or tuple(c for c in among if key in document_sections(c))


_NAME_LIKE = re.compile(r"[A-Za-z]{3}\d{1,4}|[A-Za-z0-9]+(-[A-Za-z0-9]+)+")
"""A code or a slug, possibly misspelled."""


def is_name(name: str, among: Sequence[Described]) -> bool:
    """Whether `lookup` knows the name, or it looks like a misspelled code or slug."""
    if any(check.family == name.upper() for check in among) or find(name, among):
        return True
    return bool(_NAME_LIKE.fullmatch(name.strip())) and bool(nearest(name, among))


def lookup(name: str, among: Sequence[Named]) -> tuple[Named, ...]:
    """The checks of a family, or those that `find` returns.

    Raises UserError with the nearest names.
    """
    family = tuple(check for check in among if check.family == name.upper())
    if checks := family or find(name, among):
        return checks
    raise UserError(f"no check or family is called {name!r}; {_suggestion(name, among)}")


def beginning_with(names: Sequence[str], among: Sequence[Named]) -> tuple[Named, ...]:
    """The checks whose code or slug begins with one of the names; () names all of them.

    Raises UserError for a name that no check begins with.
    """
    parts = [part.strip() for name in names for part in name.split(",") if part.strip()]
    included = {check.code for part in parts for check in _beginning_with(part, among)}
    return tuple(check for check in among if not parts or check.code in included)


def _beginning_with(name: str, among: Sequence[Named]) -> tuple[Named, ...]:
    """By the code, else by a slug, else as `lookup`."""
    key = name.casefold()
    by_code = tuple(check for check in among if check.code.casefold().startswith(key))
    by_slug = (c for c in among if any(slug.startswith(key) for slug in (c.slug, *c.aliases)))
    return by_code or tuple(by_slug) or lookup(name, among)


def _suggestion(name: str, among: Sequence[Described]) -> str:
    """The names that may have been meant."""
    near, codes = nearest(name, among), [check.code for check in among]
    family = [code for code in codes if code[:3] == name.strip().upper()[:3]]
    if any(digit.isdecimal() for digit in name) and family and not set(codes) & set(near):
        return f"the codes of {family[0][:3]} are {', '.join(family)}"
    if near:
        return f"nearest: {', '.join(near)}"
    families = ", ".join(dict.fromkeys(code[:3] for code in codes))
    return f"families: {families}; `doctor list` prints all checks"


def names_of(check: Described) -> tuple[str, ...]:
    """The code, the slug and the older slugs."""
    return check.code, check.slug, *check.aliases


def document_sections(check: Described) -> set[str]:
    """The document sections that the check stands for (P10, U28), in lower case."""
    from doctor.judge.sources import SOURCES  # only for what is no code and no slug

    return {SOURCES[id].alias.casefold() for id in check.sources if SOURCES[id].alias}


def nearest(name: str, among: Sequence[Described]) -> list[str]:
    """Up to four codes and slugs that look like `name`."""
    candidates = [candidate for check in among for candidate in names_of(check)]
    name = name.strip()
    return difflib.get_close_matches(name.upper(), candidates, 2, 0.6) + difflib.get_close_matches(
        name.casefold(), candidates, 2, 0.5
    )
