"""GRD: what a running training does."""

from __future__ import annotations

from doctor.judge.check import Check

CHECKS: tuple[Check, ...] = ()
