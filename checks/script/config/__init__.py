"""Rules on configuration files, and on names that versions changed."""

from __future__ import annotations

from doctor.checks.script.config import (
    config_distributed,
    config_training,
    configuration,
    removed,
    versions,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *config_distributed.RULES,
    *config_training.RULES,
    *configuration.RULES,
    *removed.RULES,
    *versions.RULES,
)
