"""Codes, slugs and the family of the rules on scripts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from doctor._util.errors import UserError
from doctor.checks.script import CHECKS
from doctor.judge.check import Check

FAMILY = "scr"


def codes_of(names: Iterable[str]) -> frozenset[str]:
    """The codes of names, which may be joined by commas. Raises UserError with the nearest name."""
    parts = [part.strip().casefold() for name in names for part in name.split(",")]
    return frozenset(code for part in parts if part for code in _codes(part))


def _codes(name: str) -> list[str]:
    if name == FAMILY:
        return [check.code for check in CHECKS]
    results = [c.code for c in CHECKS if name in (c.code.casefold(), c.slug, *c.aliases)]
    if results:
        return results
    known = [each for check in CHECKS for each in (check.code.casefold(), check.slug)]
    nearest = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"nearest: {nearest[0]}" if nearest else "`doctor list` prints them all"
    raise UserError(f"no check on scripts is called {name!r}; {hint}")


def select(only: Sequence[str], skip: Sequence[str]) -> tuple[Check, ...]:
    """The checks that --only and --skip select; () selects all. Raises UserError."""
    included, excluded = codes_of(only), codes_of(skip)
    selected = tuple(
        check
        for check in CHECKS
        if (not included or check.code in included) and check.code not in excluded
    )
    if not selected:
        raise UserError("--only and --skip leave no check; name other codes")
    return selected
