"""Rules on configuration files, and on names that versions changed."""

from __future__ import annotations

from doctor.checks.script.config import (
    configuration,
    numbers,
    processes,
    removed,
    trainings,
    versions,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *processes.RULES,
    *trainings.RULES,
    *configuration.RULES,
    *numbers.RULES,
    *removed.RULES,
    *versions.RULES,
)
