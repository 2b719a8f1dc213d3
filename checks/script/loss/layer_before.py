"""Which layer made a value, and what it was given: what says along which axis its numbers lie."""

from __future__ import annotations

from doctor.checks.script import evaluate, objects
from doctor.checks.script.outcomes import PASSING
from doctor.checks.script.reading import Reading
from doctor.facts.script import Arms, Call, Value

KEEPS = {
    "contiguous", "float", "to", "cuda", "cpu", "clone", "detach", "relu", "gelu", "tanh",
    "dropout", "sigmoid", "log_softmax", "softmax", "double", "half",
}  # fmt: skip
"""Functions and methods that leave each axis in its place."""
SAME_AXES = PASSING | {"ReLU", "GELU", "Tanh", "LayerNorm", "Sigmoid", "SiLU", "LogSoftmax"}
DEPTH = 12

Use = tuple[Call, Call]
"""What made a layer, and the call of it."""


def layer_before(
    reading: Reading,
    value: Value,
    scope: int,
    position: int,
    arms: Arms = (),
    depth: int = DEPTH,
) -> Use | None:
    """The layer of torch.nn that made a value, where nothing moved an axis since, or None."""
    reading.step()
    if not depth:
        return None
    index = None
    if value.kind == "item" and len(value.items) == 2 and value.items[0].kind == "call":
        index, value = value.items[1].literal, value.items[0]
    if value.kind == "name":
        found = evaluate.definitions(reading, value.name, scope, position, arms)
        if len(found) != 1 or found[0].scope != scope or found[0].augmented:
            return None
        each = found[0]
        return layer_before(reading, each.value, scope, each.position - 1, each.arms, depth - 1)
    call = reading.call_of(value)
    return _of_call(reading, call, index, depth) if call is not None else None


def _of_call(reading: Reading, call: Call, index: object, depth: int) -> Use | None:
    number = reading.number(call)
    made = objects.callee(reading, call)
    if len(made) == 1 and made[0] is not None:
        return _of_module(reading, made[0], call, index, depth)
    if call.method not in KEEPS or reading.target_function(call) is not None:
        return None
    inner = objects.operand(call)
    return (
        layer_before(reading, inner, call.scope, number, call.arms, depth - 1)
        if inner is not None
        else None
    )


def _of_module(reading: Reading, made: Call, call: Call, index: object, depth: int) -> Use | None:
    if made.name.startswith("torch.nn."):
        if made.method not in SAME_AXES:
            return (made, call) if index in (None, 0) else None
        number = reading.number(call)
        given = call.first
        return (
            layer_before(reading, given, call.scope, number, call.arms, depth - 1)
            if given is not None
            else None
        )
    forward = objects.method_of(reading, made.name, "forward")
    if made.name not in reading.modules or forward is None:
        return None
    function = reading.function(forward)
    if len(function.returns) != 1:
        return None
    value, (position, arms) = function.returns[0], function.exits[0]
    if value.kind == "list" and isinstance(index, int) and index < len(value.items):
        value = value.items[index]
    elif value.kind == "list" or index is not None:
        return None
    return layer_before(reading, value, forward, position, arms, depth - 1)


def has_batch_first(reading: Reading, value: Value, call: Call) -> bool:
    """A recurrent layer or Transformer with batch_first=True made it, also below a Linear."""
    found = layer_before(reading, value, call.scope, reading.number(call), call.arms)
    if found is not None and found[0].name == "torch.nn.Linear":
        use = found[1]
        below = use.first
        found = (
            layer_before(reading, below, use.scope, reading.number(use), use.arms)
            if below is not None
            else None
        )
    first = found[0].keywords.get("batch_first") if found is not None else None
    return first is not None and first.literal is True
