"""Held-out names that hold training data until they are cut, or that nothing trains on."""

from __future__ import annotations

import re

from doctor.checks.script import evaluate
from doctor.checks.script.kinds.calls import BUILDERS
from doctor.checks.script.kinds.dimensions import Kind
from doctor.checks.script.kinds.flow import Flow
from doctor.checks.script.kinds.known import before
from doctor.checks.script.naming import is_training
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rendering import render
from doctor.facts.script import Assignment, Call, Value

CUTS = {"filter", "select", "train_test_split", "take", "skip", "shard"}
"""Methods that choose rows."""
CHOOSERS = {"Subset", "random_split"}
CHOICE = re.compile(r"sampler|idx|idxs|indices|index|inds?|ids", re.IGNORECASE)


def suspect(flow: Flow, kinds: dict[str, Kind], each: Assignment) -> bool:
    """Not a held-out name that is cut later, or whose rows no other name of the file trains on."""
    role = kinds.get("role")
    if role is None or role.name != "held-out data":
        return True
    return not _is_cut(flow, each) and _is_trained_on(flow, each)


def _is_cut(flow: Flow, each: Assignment) -> bool:
    """Bound again, or filtered, indexed or sampled."""
    reading = flow.reading
    key = reading.key(each.target, each.scope)
    parts = (f"{each.target}.", f"{each.target}[")
    for other in reading.stores:
        again = reading.key(other.target, other.scope) == key and other is not each
        if again and not exclusive(other.arms, each.arms):
            return True
        if other.target.startswith(parts):
            return True
    if any(value.kind == "item" and value.items[0].name == each.target
           for value, _, _ in reading.expressions if value.items):  # fmt: skip
        return True
    return any(_cuts(call, each.target) for call in reading.calls)


def _cuts(call: Call, name: str) -> bool:
    if call.receiver == name:
        return call.method in CUTS
    if not any(name in value.all_names for value in (*call.args, *call.keywords.values())):
        return False
    others = (each for value in call.args for each in value.all_names if each != name)
    return call.method in CHOOSERS or any(CHOICE.search(each) for each in (*call.keywords, *others))


def _is_trained_on(flow: Flow, each: Assignment) -> bool:
    rows = _rows(flow, each.value, each)
    return any(
        is_training(other.target) and _rows(flow, other.value, other) == rows
        for other in flow.reading.assignments
        if other is not each
    )


def _rows(flow: Flow, value: Value, where: Assignment) -> tuple[str, ...]:
    """What is read: the function with its first argument and all that are written out."""
    place = before(where)
    options = evaluate.options_at(flow.reading, value, place.scope, place.position, place.arms)
    value = options[0] if len(options) == 1 else value
    if value.kind != "call":
        return (render(flow.reading, value),)
    call = flow.reading.calls[value.call]
    if call.method == "DataLoader" or BUILDERS.fullmatch(call.method):
        return _rows(flow, call.args[0], where) if call.args else ()
    first = evaluate.argument(flow.reading, call, "root", 0)
    written = (first, *(each for each in call.args[1:] if each.kind == "literal"))
    return (call.name, *(render(flow.reading, each) for each in written if each is not None))
