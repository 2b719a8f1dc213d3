"""Every check, by family and code; the engine runs them in the order of `Check.after`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from doctor._util.errors import UserError
from doctor.checks import (
    checkpoint,
    driver,
    expected,
    gpu,
    guard,
    log,
    memory,
    numerics,
    script,
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
    "SCR": "training script",
    "GRD": "running training",
    "LOG": "training log",
}
"""Families in display order, with their headings."""

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
    script,
    guard,
    log,
)


def _display_order(check: Check) -> tuple[int, str]:
    return list(FAMILIES).index(check.family), check.code


CHECKS: tuple[Check, ...] = tuple(
    sorted((check for module in _MODULES for check in module.CHECKS), key=_display_order)
)
"""Every check, in display order."""

ELSEWHERE = ("SCR", "GRD", "LOG")
"""Families of commands other than run: a script, a running training, a log."""

MACHINE_CHECKS = tuple(check for check in CHECKS if check.family not in ELSEWHERE)
"""The checks of a machine, its torch, a checkpoint and a training step."""

RETIRED: frozenset[str] = frozenset()
"""Codes of removed checks; never reused."""


def find(name: str) -> tuple[Check, ...]:
    """The checks named by a code, a slug, an older slug or a document section; () if none."""
    key = name.strip().casefold()
    exact = tuple(c for c in CHECKS if key in (n.casefold() for n in names(c)))
    return exact or tuple(c for c in CHECKS if key in document_sections(c))


_NAME_LIKE = re.compile(r"[A-Za-z]{3}\d{1,4}|[A-Za-z0-9]+(-[A-Za-z0-9]+)+")
"""A code or a slug, possibly misspelled."""


def is_name(name: str) -> bool:
    """Whether `lookup` knows the name, or it looks like a misspelled code or slug."""
    if any(check.family == name.upper() for check in CHECKS) or find(name):
        return True
    return bool(_NAME_LIKE.fullmatch(name.strip())) and bool(nearest(name))


def lookup(name: str) -> tuple[Check, ...]:
    """The checks of a family, or those that `find` returns.

    Raises UserError with the nearest names.
    """
    family = tuple(check for check in CHECKS if check.family == name.upper())
    if checks := family or find(name):
        return checks
    raise UserError(f"no check or family is called {name!r}; {_suggestion(name)}")


def beginning_with(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks whose code or slug begins with one of the names; () names all of them.

    Raises UserError for a name that no check begins with.
    """
    parts = [part.strip() for name in names for part in name.split(",") if part.strip()]
    included = {check.code for part in parts for check in _beginning_with(part)}
    return tuple(check for check in CHECKS if not parts or check.code in included)


def _beginning_with(name: str) -> tuple[Check, ...]:
    """By the code, else by a slug, else as `lookup`."""
    key = name.casefold()
    by_code = tuple(check for check in CHECKS if check.code.casefold().startswith(key))
    by_slug = (c for c in CHECKS if any(slug.startswith(key) for slug in (c.slug, *c.aliases)))
    return by_code or tuple(by_slug) or lookup(name)


def _suggestion(name: str) -> str:
    """The names that may have been meant."""
    near, codes = nearest(name), [check.code for check in CHECKS]
    family = [code for code in codes if code[:3] == name.strip().upper()[:3]]
    if any(digit.isdecimal() for digit in name) and family and not set(codes) & set(near):
        return f"the codes of {family[0][:3]} are {', '.join(family)}"
    return f"nearest: {', '.join(near)}" if near else "`doctor list` prints them all"


def select(
    only: Sequence[str], skip: Sequence[str], among: Sequence[Check] = MACHINE_CHECKS
) -> tuple[Check, ...]:
    """Those of `among` that --only and --skip select; () selects all. Raises UserError.

    Each element holds names of codes, slugs or families, separated by commas.
    """
    included, excluded = _codes(only), _codes(skip)
    selected = tuple(
        check
        for check in among
        if (not only or check.code in included) and check.code not in excluded
    )
    if not selected:
        raise UserError("--only and --skip leave no check; name other codes or families")
    return selected


def _codes(names: Sequence[str]) -> set[str]:
    parts = [part.strip() for name in names for part in name.split(",") if part.strip()]
    return {check.code for part in parts for check in lookup(part)}


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
