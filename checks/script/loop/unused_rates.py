"""A learning rate that is computed for each step, and reaches no optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

MAKERS = {"lr", "rate", "schedule", "cosine", "warmup", "decay"}
SETTERS = (
    "param_groups", "set_lr", "adjust_lr", "adjust_learning", "lr_scale", "functional_call",
    "lambda", "scheduler",
)  # fmt: skip
"""Names of what sets a rate, also beside one that is computed for the log alone."""
HOLDERS = re.compile(r"opt|sched|engine|trainer|model|group")
LOGS = re.compile(
    r"print|log\w*|info|debug|write|add_scalars?|append|set_(?:description|postfix)\w*|format|update|round"
)


def rate_unused(reading: Training) -> Iterator[Match]:
    """lr = get_lr(step) in the loop that trains, which is printed at most."""
    if reading.mentions(*SETTERS) or not reading.backwards or not reading.methods("step"):
        return
    for number, call in enumerate(reading.calls):
        own = call.loops and reading.target_function(call) is not None
        if not own or not set(words(call.method)) & MAKERS:
            continue
        asked = [name for value in call.values for name in value.all_names]
        if not asked or any(HOLDERS.search(name) for name in asked):  # it reads the rate in use
            continue
        trains = any(n in reading.backward_numbers for n in reading.by_loop[call.loops[0]])
        rate = set(words(call.target)) & {"lr", "rate"} and "." not in call.target
        if trains and rate and not _is_used(reading, call.target, number):
            fix = f'for group in optimizer.param_groups: group["lr"] = {call.target}'
            yield Match(call.span, f"{call.target} is computed, and no optimizer gets it", fix=fix)


def _is_used(reading: Training, name: str, made: int) -> bool:
    """Something else than a log reads it, also in another function of the file."""
    logged = {
        id(value)
        for call in reading.calls
        if LOGS.fullmatch(call.method)
        for value in (*call.values, *call.unpacked)
    }
    return any(
        name in value.all_names and id(value) not in logged and value.call != made
        for value, _, _ in reading.expressions
    )
