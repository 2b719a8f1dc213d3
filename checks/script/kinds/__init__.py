"""Rules on values of one kind where another is required: what a reviewer reads in units."""

from __future__ import annotations

from doctor.checks.script.kinds import families
from doctor.checks.script.rule import Rule

RULES: tuple[Rule, ...] = families.RULES
