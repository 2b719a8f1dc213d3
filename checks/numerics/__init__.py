"""NUM: precision, numeric switches, attention kernels, the environment."""

from __future__ import annotations

from doctor.checks.numerics import (
    attention,
    environment,
    grad_scaler,
    library_bugs,
    precision,
    tf32,
)

CHECKS = (
    *precision.CHECKS,
    *tf32.CHECKS,
    *attention.CHECKS,
    *environment.CHECKS,
    *grad_scaler.CHECKS,
    *library_bugs.CHECKS,
)
