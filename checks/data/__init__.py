"""DAT: the data that reach the model."""

from __future__ import annotations

from doctor.checks.data import (
    answers,
    delivered,
    labels,
    prompts,
    samples,
    targets,
    tokens,
    values,
)

CHECKS = (
    *labels.CHECKS,
    *answers.CHECKS,
    *tokens.CHECKS,
    *targets.CHECKS,
    *samples.CHECKS,
    *prompts.CHECKS,
    *values.CHECKS,
    *delivered.CHECKS,
)
