"""Rules on the settings of Trainers, Lightning and accelerate."""

from __future__ import annotations

from doctor.checks.script.rule import Rule
from doctor.checks.script.trainers import accelerating, lightning, settings, trainer_settings

RULES: tuple[Rule, ...] = (
    *accelerating.RULES,
    *lightning.RULES,
    *settings.RULES,
    *trainer_settings.RULES,
)
