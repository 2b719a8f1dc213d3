"""A learning rate that is computed for each step, and reaches no optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import words
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment

RATES = {"lr", "rate"}
MAKERS = {"lr", "rate", "schedule", "cosine", "warmup", "decay"}
SETTERS = ("param_groups", "set_lr", "adjust_lr", "adjust_learning", "lr_scale", "functional_call")
HOLDERS = re.compile(r"opt|sched|engine|trainer|model|group")
LOGS = re.compile(
    r"print|log\w*|info|debug|write|add_scalars?|append|set_postfix\w*|set_description|format|"
    r"update|round|str|float|report|track|echo"
)


def rate_unused(reading: Training) -> Iterator[Match]:
    """lr = get_lr(step) in the loop that trains, which is printed at most."""
    if reading.mentions(*SETTERS) or not reading.backwards or not reading.methods("step"):
        return
    for each in reading.assignments:
        if not each.loops or not set(words(each.target)) & RATES or "." in each.target:
            continue
        made = reading.call_of(each.value)
        own = made is not None and reading.target_function(made) is not None
        if made is None or not own or not set(words(made.method)) & MAKERS:
            continue
        asked = [name for value in made.values for name in value.all_names]
        if not asked or any(HOLDERS.search(name) for name in asked):  # it reads the rate in use
            continue
        trains = any(n in reading.backward_numbers for n in reading.by_loop[each.loops[0]])
        if trains and not _is_used(reading, each):
            fix = f'for group in optimizer.param_groups: group["lr"] = {each.target}'
            yield Match(each.span, f"{each.target} is computed, and no optimizer gets it", fix=fix)


def _is_used(reading: Training, each: Assignment) -> bool:
    """Something else than a log reads it."""
    name = each.target
    assigned = any(
        name in other.value.all_names and other.value is not each.value
        for other in reading.stores
        if other.scope == each.scope
    )
    passed = any(
        name in value.all_names and LOGS.fullmatch(call.method) is None
        for call in reading.calls_in(each.scope)
        for value in (*call.values, *call.unpacked)
    )
    returned = any(name in v.all_names for v in reading.returns(each.scope))
    return assigned or passed or returned or _is_global(reading, each)


def _is_global(reading: Training, each: Assignment) -> bool:
    """A function of the file reads the name of the module."""
    return any(
        each.target in value.all_names and scope != each.scope
        for value, _, scope in reading.expressions
        if reading.key(each.target, scope)[0] == each.scope
    )
