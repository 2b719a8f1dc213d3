"""Rules on the settings of Trainers, Lightning and accelerate."""

from __future__ import annotations

from doctor.checks.script.rule import Rule
from doctor.checks.script.trainers import accelerating, contradictions, lightning, settings

RULES: tuple[Rule, ...] = (
    *accelerating.RULES,
    *lightning.RULES,
    *settings.RULES,
    *contradictions.RULES,
)
