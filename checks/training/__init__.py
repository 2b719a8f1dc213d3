"""SMK: training steps of the doctor's small model and of the user's own."""

from __future__ import annotations

from doctor.checks.training import own_model, own_recipe, smoke

CHECKS = (
    *smoke.CHECKS,
    *own_model.CHECKS,
    *own_recipe.CHECKS,
)
