"""Every check, by family and code; the engine runs them in the order of `Check.after`.

A family's checks are imported when they are first asked for. Names are looked up among the texts of
the index.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache

from doctor._util.errors import UserError
from doctor.judge import index, names
from doctor.judge.check import Check
from doctor.judge.families import FAMILIES

HOMES = {
    "JOB": "expected", "DRV": "driver", "TOR": "torch_build", "GPU": "gpu", "NUM": "numerics",
    "MEM": "memory", "DSK": "storage", "CKP": "checkpoint", "SMK": "training", "DAT": "data",
    "SCR": "script", "RHS": "rehearsal", "GRD": "guard", "LOG": "log", "FLT": "fleet",
}  # fmt: skip
"""The module of `doctor.checks` that holds a family."""

ELSEWHERE = ("DAT", "SCR", "RHS", "GRD", "LOG", "FLT")
"""Families of other commands: data, a script, a rehearsal, a running training, a log, nodes."""

CHECKS: tuple[Check, ...]
"""Every check, in display order."""

MACHINE_CHECKS: tuple[Check, ...]
"""The checks of a machine, its torch, a checkpoint and a training step."""

RETIRED: frozenset[str] = frozenset()
"""Codes of removed checks; never reused."""


@cache
def of_families(*families: str) -> tuple[Check, ...]:
    """The checks of these families, in display order."""
    return tuple(check for family in FAMILIES if family in families for check in _family(family))


def _family(family: str) -> list[Check]:
    checks = importlib.import_module(f"doctor.checks.{HOMES[family]}").CHECKS
    return sorted(checks, key=lambda check: check.code)


def __getattr__(name: str) -> tuple[Check, ...]:
    if name == "CHECKS":
        return of_families(*FAMILIES)
    if name == "MACHINE_CHECKS":
        return of_families(*(family for family in FAMILIES if family not in ELSEWHERE))
    raise AttributeError(name)


def find(name: str) -> tuple[Check, ...]:
    """The checks named by a code, a slug, an older slug or a document section; () if none."""
    return _checks(names.find(name, index.entries()))


def lookup(name: str) -> tuple[Check, ...]:
    """The checks of a family, or those that `find` returns.

    Raises UserError with the nearest names.
    """
    return _checks(names.lookup(name, index.entries()))


def _checks(entries: Sequence[index.Entry]) -> tuple[Check, ...]:
    codes = {entry.code for entry in entries}
    families = sorted({entry.family for entry in entries})
    return tuple(check for check in of_families(*families) if check.code in codes)


def codes(name: str) -> frozenset[str]:
    """The codes of the checks that `lookup` returns, without importing them. Raises UserError."""
    return frozenset(entry.code for entry in names.lookup(name, index.entries()))


def select(only: Sequence[str], skip: Sequence[str], among: Sequence[Check]) -> tuple[Check, ...]:
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
    return {code for part in parts for code in codes(part)}
