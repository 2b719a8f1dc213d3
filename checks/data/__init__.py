"""DAT: the data that reach the model."""

from __future__ import annotations

from doctor.checks.data import (
    agreement,
    answers,
    belonging,
    delivered,
    epochs,
    given,
    label_maps,
    labels,
    pace,
    prompts,
    rereading,
    sample_order,
    samples,
    source,
    targets,
    tokens,
    two_splits,
    values,
    written,
)

CHECKS = (
    *labels.CHECKS,
    *answers.CHECKS,
    *tokens.CHECKS,
    *targets.CHECKS,
    *samples.CHECKS,
    *sample_order.CHECKS,
    *epochs.CHECKS,
    *pace.CHECKS,
    *prompts.CHECKS,
    *values.CHECKS,
    *label_maps.CHECKS,
    *written.CHECKS,
    *delivered.CHECKS,
    *agreement.CHECKS,
    *belonging.CHECKS,
    *rereading.CHECKS,
    *given.CHECKS,
    *two_splits.CHECKS,
    *source.CHECKS,
)
