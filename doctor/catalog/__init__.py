"""Every check, by family and code; the engine runs them in the order of `Check.after`."""

from __future__ import annotations

from collections.abc import Sequence

from doctor._util.errors import UserError
from doctor.checks import (
    checkpoint,
    driver,
    expected,
    fleet,
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
from doctor.judge import names
from doctor.judge.check import Check
from doctor.judge.families import FAMILIES

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
    fleet,
)


def _display_order(check: Check) -> tuple[int, str]:
    return list(FAMILIES).index(check.family), check.code


CHECKS: tuple[Check, ...] = tuple(
    sorted((check for module in _MODULES for check in module.CHECKS), key=_display_order)
)
"""Every check, in display order."""

ELSEWHERE = ("SCR", "GRD", "LOG", "FLT")
"""Families of commands other than run: a script, a running training, a log, several nodes."""

MACHINE_CHECKS = tuple(check for check in CHECKS if check.family not in ELSEWHERE)
"""The checks of a machine, its torch, a checkpoint and a training step."""

RETIRED: frozenset[str] = frozenset()
"""Codes of removed checks; never reused."""


def find(name: str) -> tuple[Check, ...]:
    """The checks named by a code, a slug, an older slug or a document section; () if none."""
    return names.find(name, CHECKS)


def lookup(name: str) -> tuple[Check, ...]:
    """The checks of a family, or those that `find` returns.

    Raises UserError with the nearest names.
    """
    return names.lookup(name, CHECKS)


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


def _codes(selected: Sequence[str]) -> set[str]:
    parts = [part.strip() for name in selected for part in name.split(",") if part.strip()]
    return {check.code for part in parts for check in lookup(part)}
