"""CKP: a checkpoint's files, values, norms and optimizer state."""

from __future__ import annotations

from doctor.checks.checkpoint import (
    adapter_fit,
    agreement,
    changed,
    continuing,
    continuing_steps,
    dtypes,
    equal,
    files,
    loading,
    merge_rest,
    merged,
    norms,
    optimizer,
    optimizer_fit,
    padding,
    values,
)

CHECKS = (
    *files.CHECKS,
    *dtypes.CHECKS,
    *norms.CHECKS,
    *values.CHECKS,
    *changed.CHECKS,
    *optimizer.CHECKS,
    *loading.CHECKS,
    *padding.CHECKS,
    *agreement.CHECKS,
    *optimizer_fit.CHECKS,
    *merged.CHECKS,
    *merge_rest.CHECKS,
    *adapter_fit.CHECKS,
    *equal.CHECKS,
    *continuing.CHECKS,
    *continuing_steps.CHECKS,
)
