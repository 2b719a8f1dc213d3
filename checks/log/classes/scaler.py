"""Loss scaling, as DeepSpeed and Apex report it."""

from __future__ import annotations

from doctor.checks.log.classes.log_class import LogClass

CLASSES = (
    LogClass(
        code="LOG070",
        slug="scaler-at-minimum",
        title="The loss scale is above its minimum",
        patterns=(
            r"Current loss scale already at minimum",
            r"Minimum loss scale reached",
        ),
        examples=(
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. "
            "Exiting run.",
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably "
            "exploding.",
        ),
        why="Every step overflowed until the loss scale could not be halved any more: gradients "
        "are "
        "NaN or infinite at any scale.",
        fix="Train in bf16 where the GPU supports it. Otherwise lower the learning rate, clip "
        "gradients, and look for the first NaN in the loss or the data.",
        sources=("Chinese-LLaMA-Alpaca-534", "apex-318"),
        next_check="SMK002",
    ),
)
