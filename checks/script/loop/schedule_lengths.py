"""Which argument of a scheduler is its length."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LENGTHS = {
    "CosineAnnealingLR": ("T_max", 1), "LinearLR": ("total_iters", 3), "StepLR": ("step_size", 1),
    "PolynomialLR": ("total_iters", 1), "OneCycleLR": ("total_steps", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps", 2),
    "get_scheduler": ("num_training_steps", 3),
}  # fmt: skip
"""The argument that says after how many steps a schedule ends, and its position."""
CONVERTED = ("FloorDiv", "Div", "Mult")
"""In what turns a step into epochs before it is divided by these."""


def of_lambda(reading: Training, made: Call) -> list[Value]:
    """epochs of LambdaLR(optimizer, lambda epoch: 1 - epoch / epochs), or of a function so."""
    value = made.given("lr_lambda", 1)
    if value is None:
        return []
    own = [n for n in reading.functions_by_name.get(value.name, ()) if value.kind == "name"]
    values = [v for n in own for v in reading.values_in(n)] or [value]
    given = {p.name for n in own for p in reading.function(n).parameters}
    return list(_divisors(reading, values, given, made.scope))


def _divisors(
    reading: Training, values: list[Value], given: set[str], scope: int
) -> Iterator[Value]:
    """What the parameter is divided by; that of a lambda is a name that nothing assigns."""
    passed = {p.name for each in reading.script.functions for p in each.parameters}
    inside = [v for each in values for call in reading.inside(each) for v in call.values]
    for part in flatten([*values, *inside]):
        first = part.items[0] if part.name == "Div" and len(part.items) == 2 else None
        if first is not None and any(p.name in CONVERTED for p in flatten([first])):
            continue
        counted = {n for n in first.all_names if "." not in n} if first is not None else set()
        known = counted & given or (
            not given
            and any(
                "epoch" in n or not (n in passed or reading.assigned_to(n, scope)) for n in counted
            )
        )
        if known and part.items[1].kind == "name":
            yield part.items[1]
