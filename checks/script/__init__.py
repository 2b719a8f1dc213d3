"""SCR: what a training script or its configuration does wrong."""

from __future__ import annotations

from doctor.checks.script import files
from doctor.checks.script.rule import check_of
from doctor.checks.script.table import RULES
from doctor.judge.check import Check

CHECKS: tuple[Check, ...] = (*files.CHECKS, *map(check_of, RULES))
