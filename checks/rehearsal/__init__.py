"""RHS: what happened when the job's own command was run in small."""

from __future__ import annotations

from doctor.checks.rehearsal import (
    accessing,
    agreeing,
    confinement,
    evaluating,
    memory,
    pace,
    resumed_samples,
    resumed_state,
    resuming,
    running,
    saving,
    stopping,
    worst_batch,
)

CHECKS = (
    *confinement.CHECKS,
    *running.CHECKS,
    *memory.CHECKS,
    *evaluating.CHECKS,
    *agreeing.CHECKS,
    *saving.CHECKS,
    *stopping.CHECKS,
    *resuming.CHECKS,
    *resumed_state.CHECKS,
    *resumed_samples.CHECKS,
    *pace.CHECKS,
    *worst_batch.CHECKS,
    *accessing.CHECKS,
)
