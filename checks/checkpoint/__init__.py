"""CKP: a checkpoint's files, values, norms and optimizer state."""

from __future__ import annotations

from doctor.checks.checkpoint import (
    agreement,
    changed,
    files,
    loading,
    merged,
    norms,
    optimizer,
    values,
)

CHECKS = (
    *files.CHECKS,
    *norms.CHECKS,
    *values.CHECKS,
    *changed.CHECKS,
    *optimizer.CHECKS,
    *loading.CHECKS,
    *agreement.CHECKS,
    *merged.CHECKS,
)
