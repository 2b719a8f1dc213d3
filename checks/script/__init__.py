"""SCR: what a training script or its configuration does wrong."""

from __future__ import annotations

from doctor.judge.check import Check

CHECKS: tuple[Check, ...] = ()
