"""Every check, in the order in which they are judged and shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

from doctor.checks import (
    attention,
    checkpoint,
    driver,
    environment,
    expectations,
    expectations_host,
    gpu,
    load,
    loading,
    memory,
    norms,
    optimizer,
    own_model,
    own_recipe,
    peers,
    precision,
    smoke,
    storage,
    torch_build,
    values,
)
from doctor.errors import UserError
from doctor.model import Check, Finding
from doctor.sources import SOURCES

CHECKS: tuple[Check, ...] = (
    *expectations.CHECKS,
    *expectations_host.CHECKS,
    *torch_build.IMPORTS,
    *driver.CHECKS,
    *torch_build.CHECKS,
    *gpu.CHECKS,
    *load.CHECKS,
    *peers.CHECKS,
    *precision.CHECKS,
    *attention.CHECKS,
    *environment.CHECKS,
    *memory.CHECKS,
    *storage.CHECKS,
    *checkpoint.CHECKS,
    *norms.CHECKS,
    *values.VALUES,
    *optimizer.MASTERS,
    *values.MOVES,
    *loading.ADAPTERS,
    *optimizer.STEPPED,
    *loading.CHECKS,
    *smoke.CHECKS,
    *own_model.CHECKS,
    *own_recipe.CHECKS,
    *own_recipe.SCALERS,
)

FAMILIES = {
    "JOB": "what was agreed",
    "DRV": "driver",
    "TOR": "torch build",
    "GPU": "device",
    "NUM": "numeric settings",
    "MEM": "memory",
    "DSK": "storage",
    "CKP": "checkpoint",
    "SMK": "smoke step",
}

RETIRED: frozenset[str] = frozenset()
"""Codes that no check uses any more; never given to another."""


T = TypeVar("T", Check, Finding)


def in_families(items: Iterable[T]) -> list[T]:
    """The order in which people see them: by family, and as written within one."""
    order = list(FAMILIES)
    return sorted(items, key=lambda item: order.index(item.family))


def find(name: str) -> tuple[Check, ...]:
    """The checks that a code, a slug or a document section (P10, U28) names; () if none."""
    wanted = name.strip().casefold()
    exact = tuple(c for c in CHECKS if wanted in (c.code.casefold(), c.slug.casefold()))
    return exact or tuple(c for c in CHECKS if wanted in aliases(c))


def lookup(name: str) -> tuple[Check, ...]:
    """The checks that a name or a family stands for. Raises UserError with the nearest names."""
    family = tuple(check for check in CHECKS if check.family == name.upper())
    if found := family or find(name):
        return found
    near = ", ".join(nearest(name))
    raise UserError(
        f"no check or family is called {name!r}; "
        + (f"nearest: {near}" if near else "`doctor list` prints them all")
    )


def aliases(check: Check) -> set[str]:
    """The document sections that the check stands for, in lower case."""
    return {SOURCES[id].alias.casefold() for id in check.sources if SOURCES[id].alias}


def nearest(name: str) -> list[str]:
    """Up to three codes and slugs that look like `name`."""
    names = [known for c in CHECKS for known in (c.code, c.slug)]
    wanted = name.strip()
    return difflib.get_close_matches(wanted.upper(), names, 2, 0.6) + difflib.get_close_matches(
        wanted.casefold(), names, 2, 0.4
    )
