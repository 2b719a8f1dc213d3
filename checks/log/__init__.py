"""LOG: what the log of a training says."""

from __future__ import annotations

from doctor.checks.log import curves, flight_recorder, judges
from doctor.judge.check import Check

CHECKS: tuple[Check, ...] = (*judges.CHECKS, *flight_recorder.CHECKS, *curves.CHECKS)
