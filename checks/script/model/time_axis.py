"""Layers of attention that take the time first, and what pools their outputs."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LAYERS = {
    "TransformerEncoderLayer": 9, "TransformerDecoderLayer": 9, "MultiheadAttention": 8,
    "Transformer": 10, "TransformerEncoder": 99, "TransformerDecoder": 99,
}  # fmt: skip
"""Layers of torch.nn that take the time first, and where batch_first stands among the arguments."""


def time_first(reading: Training) -> Iterator[Match]:
    """x[:, 0] or mean(dim=1) of layers that take the time first."""
    for call in reading.calls:
        made = objects.callee(reading, call) if call.args else []
        if not made or not all(m is not None and _takes_time_first(reading, m) for m in made):
            continue
        scope = reading.scope_calls(call.scope)
        moved = any(
            reading.calls[n].method in ("permute", "transpose", "swapaxes", "rearrange")
            for n in scope
        )
        if moved or not reading.function(call.scope).owner:
            continue
        yield from _pooled_at_once(reading, call) if not call.targets else _pooled(reading, call)


def _pooled(reading: Training, call: Call) -> Iterator[Match]:
    """What holds the result of the layers is pooled, or one place of it is taken."""
    scope = reading.scope_calls(call.scope)
    name, place = call.targets[0], reading.number(call)
    for n, pool in reading.numbered(scope):
        axis = pool.given("dim", 0)
        last = axis is not None and axis.literal in (1, -2)
        if n > place and pool.method in ("mean", "max", "sum") and pool.receiver == name and last:
            yield Match(pool.span, f"{call.name} has the time first: axis 1 is the batch")
    for value, span, where in reading.expressions:
        parts = flatten([value]) if where == call.scope else ()
        if any(_is_first_place(part, name) for part in parts):
            yield Match(span, f"{call.name} has the time first: [:, 0] is the first sample")


def _is_first_place(part: Value, name: str) -> bool:
    """name[:, 0] or name[:, -1]."""
    index = part.items[1] if part.kind == "item" and len(part.items) == 2 else Value("other")
    return (
        part.kind == "item"
        and part.items[0].name == name
        and index.kind == "list"
        and len(index.items) > 1
        and index.items[0].kind == "slice"
        and index.items[1].literal in (0, -1)
        and isinstance(index.items[1].literal, int)
        and all(v.literal is None for v in index.items[0].items)
    )


def _pooled_at_once(reading: Training, call: Call) -> Iterator[Match]:
    """encoder(x).mean(1)."""
    number = reading.number(call)
    for pool in reading.named("mean", "max", "sum"):
        axis = pool.given("dim", 0)
        if pool.receiver_call == number and axis is not None and axis.literal in (1, -2):
            yield Match(pool.span, f"{call.name} has the time first: axis 1 is the batch")


def _takes_time_first(reading: Training, made: Call) -> bool:
    if made.name.rpartition(".")[0] != "torch.nn" or made.method not in LAYERS or made.unpacked:
        return False
    if made.method in ("TransformerEncoder", "TransformerDecoder"):
        value = made.given("encoder_layer", 0)
        if value is None:
            return False
        inner = list(objects.makers_at(reading, value, made))
        return bool(inner) and all(m is not None and _takes_time_first(reading, m) for m in inner)
    return "batch_first" not in made.keywords and len(made.args) < LAYERS[made.method]
