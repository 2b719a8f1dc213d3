"""LOG: what the log of a training says."""

from __future__ import annotations

from doctor.judge.check import Check

CHECKS: tuple[Check, ...] = ()
