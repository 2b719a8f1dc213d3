"""Which argument of a scheduler is its length."""

from __future__ import annotations

LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1), "LinearLR": ("total_iters", 3), "StepLR": ("step_size", 1),
    "PolynomialLR": ("total_iters", 1), "OneCycleLR": ("total_steps", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps", 2),
    "get_scheduler": ("num_training_steps", 3),
}  # fmt: skip
"""The argument that says after how many steps a schedule ends, and its position."""
