"""SMK: training steps of the doctor's small model and of the user's own."""

from __future__ import annotations

from doctor.checks.training import compiled, lora, own_model, smoke

CHECKS = (*smoke.CHECKS, *own_model.CHECKS, *lora.CHECKS, *compiled.CHECKS)
