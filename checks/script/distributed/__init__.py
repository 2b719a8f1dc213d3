"""Rules on jobs of several processes, and on the scripts that start them."""

from __future__ import annotations

from doctor.checks.script.distributed import (
    collectives,
    cpu_tensors,
    gathers,
    job_settings,
    launching,
    ranks_apart,
    sharding,
    wrapped,
)
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (
    *collectives.RULES,
    *cpu_tensors.RULES,
    *gathers.RULES,
    *job_settings.RULES,
    *launching.RULES,
    *ranks_apart.RULES,
    *sharding.RULES,
    *wrapped.RULES,
)
