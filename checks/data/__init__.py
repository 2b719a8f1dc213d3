"""DAT: the data that reach the model."""

from __future__ import annotations

from doctor.checks.data import answers, delivered, labels, targets, tokens

CHECKS = (
    *labels.CHECKS,
    *answers.CHECKS,
    *tokens.CHECKS,
    *targets.CHECKS,
    *delivered.CHECKS,
)
