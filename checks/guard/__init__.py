"""GRD: what a running training does."""

from __future__ import annotations

from doctor.checks.guard import ending, gpus, gradients, loss, model, parameters, resources, steps

CHECKS = (
    *loss.CHECKS,
    *gradients.CHECKS,
    *parameters.CHECKS,
    *model.CHECKS,
    *steps.CHECKS,
    *resources.CHECKS,
    *gpus.CHECKS,
    *ending.CHECKS,
)
