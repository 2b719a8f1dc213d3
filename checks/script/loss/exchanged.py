"""view() and reshape() as if they moved axes: the numbers keep their order."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.axis_uses import mixing_views
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value


def exchanged_axes(reading: Training) -> Iterator[Match]:
    found = list(axes(reading))
    yield from found
    places = {match.span for match in found}
    for match in mixing_views(reading):
        if match.span not in places:
            yield match


def axes(reading: Training) -> Iterator[Match]:
    """view() as if it were transpose()."""
    for call in reading.named("view", "reshape"):
        source = _same_order(reading, call)
        if source is None or source.kind != "name" or call.unpacked:
            continue
        given = call.args[1:] if call.name.startswith("torch.") else call.args
        given = given[0].items if len(given) == 1 else given
        order = [
            axis
            for value in given
            for axis in sorted(_axis(reading, part, source.name, call) for part in _factors(value))
        ]
        function = reading.function(call.scope).name
        if re.search(r"shift|skew", function):
            continue  # Transformer-XL: rows of another length move each row by one
        if len(order) > 2 and order != [*range(len(order))] and set(order) == {*range(len(order))}:
            message = f"{call.method}() keeps the order of the numbers: it does not exchange axes"
            yield Match(call.span, message)


def _same_order(reading: Training, call: Call) -> Value | None:
    """The tensor that is reshaped, below what leaves its axes as they are."""
    if call.name.startswith("numpy."):
        return None
    source = objects.operand(call)
    while source is not None and source.kind == "call":
        inner = reading.calls[source.call]
        if inner.method not in ("contiguous", "float", "clone", "detach"):
            return source
        source = objects.operand(inner)
    return source


def _factors(value: Value) -> Iterator[Value]:
    """b and t of b * t."""
    if value.kind == "other" and value.name == "Mult":
        for each in value.items:
            yield from _factors(each)
    else:
        yield value


def _axis(reading: Training, value: Value, name: str, call: Call) -> int:
    """1 of x.size(1), of x.shape[1], and of d after b, d, t = x.shape; -1 if it is none."""
    held = _unpacked_axis(reading, value.name, name, call) if value.kind == "name" else None
    if held is not None:
        return held
    written = expanded(reading, value, call, 1)
    found = re.fullmatch(rf"{re.escape(name)}\.(?:size\((\d)\)|shape\[(\d)\])", written)
    return int(found[1] or found[2]) if found and _unchanged(reading, name, value, call) else -1


def _unpacked_axis(reading: Training, size: str, name: str, call: Call) -> int | None:
    found = evaluate.definitions_at(reading, size, call)
    if len(found) != 1 or found[0].scope != call.scope or not _unchanged(
        reading, name, Value("name", name=size), call
    ):  # fmt: skip
        return None
    made = found[0]
    sizes = render(reading, made.value.items[0]) if made.value.items else ""
    if sizes not in (f"{name}.size()", f"{name}.shape") and made.value.names != (f"{name}.shape",):
        return None
    together = [a for a in reading.assignments if a.span == made.span]
    return together.index(made) if len(together) > 2 else None


def _unchanged(reading: Training, name: str, size: Value, call: Call) -> bool:
    """The tensor is the one whose shape was read: nothing was assigned to its name since."""
    size = size.items[0] if size.kind == "item" and size.items else size
    if size.kind != "name" or size.name.partition(".")[0] == name:
        return True
    number = reading.number(call)
    read = evaluate.definitions_at(reading, size.name, call)
    own = [a for a in reading.assignments if a.target == name and a.scope == call.scope]
    in_place = any(
        each.receiver == name and each.method.endswith("_") and each.scope == call.scope
        for each in reading.calls
    )
    if not read or in_place or any(a.augmented for a in own):
        return False
    return not any(a.span.order > read[0].span.order and a.position <= number for a in own)
