"""A rule on numbers of an optimizer that nobody means."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax")
LARGEST_DECAY = 1.0
"""Of AdamW, times the rate. Published trainings use 0.3 and less, and 1 to see a network grok."""


def settings(reading: Training) -> Iterator[Match]:
    for number in reading.optimizers:
        call = reading.calls[number]
        if call.method not in ADAPTIVE or not call.name.startswith("torch."):
            continue
        betas = call.keywords.get("betas")
        numbers = [v.literal for v in betas.items] if betas is not None else []
        known = [n for n in numbers if isinstance(n, float)]
        if len(known) == 2 and known[0] > known[1]:
            text = f"betas=({known[0]:g}, {known[1]:g}) are exchanged"
            yield Match(call.span, f"{text}: the second is that of the squares")
        decay = evaluate.number(reading, call.keywords.get("weight_decay"), call)
        if decay is not None and decay > LARGEST_DECAY and call.method == "AdamW":
            yield Match(call.span, f"weight_decay={decay:g} is beyond what trainings use")


RULES = (
    Rule(
        code="SCR437",
        slug="optimizer-numbers",
        title="An optimizer has numbers that a training can use",
        severity="warn",
        find=settings,
        why="The first beta of Adam averages gradients, the second, the larger one, their squares. "
        "AdamW multiplies weights by 1 - lr * weight_decay in every step.",
        fires=(
            "betas=(0.999, 0.9)",
            "AdamW with weight_decay above 1",
        ),
        fix="betas=(0.9, 0.999); weight_decay of 0 to 0.1.",
        sources=("torch-adamw",),
        needs=ADAPTIVE,
    ),
)
