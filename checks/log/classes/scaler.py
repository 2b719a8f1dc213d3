"""Loss scaling, as DeepSpeed and Apex report it."""

from __future__ import annotations

from doctor.checks.log.classes.log_class import LogClass

CLASSES = (
    LogClass(
        code="LOG070",
        slug="scaler-collapse",
        title="The loss scale does not collapse",
        patterns=(
            r"Current loss scale already at minimum",
            r"Minimum loss scale reached",
            r"OVERFLOW!.{0,80}ttempt(?:ed|ing) loss scale: 1(?:\.0{1,6})?, (?:reducing to"
            r"|but hysteresis) 1\b",
        ),
        examples=(
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. "
            "Exiting run.",
            "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably "
            "exploding.",
            "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1",
        ),
        why="A loss scale is halved at each overflow and doubled after a while without one. Up to "
        "sixteen halvings at the start are its calibration; one at its minimum, or below 1, means "
        "that gradients are NaN or infinite at any scale.",
        fix="Train in bf16 where the GPU supports it. Otherwise lower the learning rate, clip "
        "gradients, and look for the first NaN in the loss or the data.",
        sources=("Chinese-LLaMA-Alpaca-534", "apex-318"),
        next_check="SMK002",
    ),
)
