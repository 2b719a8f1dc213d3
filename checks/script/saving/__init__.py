"""Rules on what is saved and loaded again."""

from __future__ import annotations

from doctor.checks.script.rule import Rule
from doctor.checks.script.saving import contents, restored, resuming

RULES: tuple[Rule, ...] = (*contents.RULES, *restored.RULES, *resuming.RULES)
