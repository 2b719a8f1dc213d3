"""Rules on the settings of Trainers, Lightning and accelerate."""

from __future__ import annotations

from doctor.checks.script.rule import Rule
from doctor.checks.script.trainers import (
    accelerating,
    contradictions,
    engines,
    lightning,
    lightning_runs,
    settings,
)

RULES: tuple[Rule, ...] = (
    *accelerating.RULES,
    *lightning.RULES,
    *lightning_runs.RULES,
    *settings.RULES,
    *contradictions.RULES,
    *engines.RULES,
)
