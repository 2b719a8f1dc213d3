"""What the user asked of the guard: arguments of `watch`, or one variable of the environment."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "DOCTOR_GUARD"
"""Holds the settings as JSON in every process that `doctor guard` started."""


@dataclass(frozen=True)
class Settings:
    """How to watch.

    `out` is the directory of the records, `stop` ends the training at a failure, `ignore` are codes
    that raise no alarm, `all` also evaluates the codes that are off by default, `expect_no_grad`
    are patterns of parameters that need no gradient, `protect` lets fused optimizers omit steps
    with non-finite gradients, `parent` is true under `doctor guard`, `shared` lets others read the
    records, as the umask allows.
    """

    out: str = "doctor-guard"
    stop: bool = False
    ignore: tuple[str, ...] = ()
    all: bool = False
    expect_no_grad: tuple[str, ...] = ()
    protect: bool = False
    parent: bool = False
    shared: bool = False


def from_environment() -> Settings:
    """The settings in the variable; the defaults where it is absent. Raises ValueError."""
    values = json.loads(os.environ.get(VARIABLE) or "{}")
    known = {name: values[name] for name in Settings.__dataclass_fields__ if name in values}
    for name in ("ignore", "expect_no_grad"):
        known[name] = tuple(known.get(name, ()))
    return Settings(**known)
