"""Every check, by family and code; checks run in the order of `Check.after`."""

from __future__ import annotations

import difflib

from doctor._util.errors import UserError
from doctor.checks import (
    checkpoint,
    driver,
    expected,
    gpu,
    memory,
    numerics,
    storage,
    torch_build,
    training,
)
from doctor.judge.check import Check
from doctor.judge.sources import SOURCES

FAMILIES = {
    "JOB": "expected hardware",
    "DRV": "driver",
    "TOR": "torch build",
    "GPU": "device",
    "NUM": "numeric settings",
    "MEM": "memory",
    "DSK": "storage",
    "CKP": "checkpoint",
    "SMK": "smoke step",
}
"""Families in the order in which they are shown, with their headings."""

_MODULES = (
    expected,
    driver,
    torch_build,
    gpu,
    numerics,
    memory,
    storage,
    checkpoint,
    training,
)


def _shown(check: Check) -> tuple[int, str]:
    return list(FAMILIES).index(check.family), check.code


CHECKS: tuple[Check, ...] = tuple(
    sorted((check for module in _MODULES for check in module.CHECKS), key=_shown)
)
"""Every check, in the order in which reports and tables show them."""

RETIRED: frozenset[str] = frozenset()
"""Codes that no check uses any more; never given to another."""


def find(name: str) -> tuple[Check, ...]:
    """The checks named by a code, a slug, an older slug or a document section; () if none."""
    key = name.strip().casefold()
    exact = tuple(c for c in CHECKS if key in (n.casefold() for n in names(c)))
    return exact or tuple(c for c in CHECKS if key in document_sections(c))


def lookup(name: str) -> tuple[Check, ...]:
    """The checks of a family, or those that `find` returns.

    Raises UserError with the nearest names.
    """
    family = tuple(check for check in CHECKS if check.family == name.upper())
    if checks := family or find(name):
        return checks
    near = ", ".join(nearest(name))
    raise UserError(
        f"no check or family is called {name!r}; "
        + (f"nearest: {near}" if near else "`doctor list` prints them all")
    )


def names(check: Check) -> tuple[str, ...]:
    """The code, the slug and the older slugs."""
    return check.code, check.slug, *check.aliases


def document_sections(check: Check) -> set[str]:
    """The document sections that the check stands for (P10, U28), in lower case."""
    return {SOURCES[id].alias.casefold() for id in check.sources if SOURCES[id].alias}


def nearest(name: str) -> list[str]:
    """Up to four codes and slugs that look like `name`."""
    candidates = [candidate for check in CHECKS for candidate in names(check)]
    name = name.strip()
    return difflib.get_close_matches(name.upper(), candidates, 2, 0.6) + difflib.get_close_matches(
        name.casefold(), candidates, 2, 0.4
    )
