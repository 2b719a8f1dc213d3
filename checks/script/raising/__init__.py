"""Rules on expressions that raise whenever they are evaluated."""

from __future__ import annotations

from doctor.checks.script.raising import interfaces, names
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = (*names.RULES, *interfaces.RULES)
