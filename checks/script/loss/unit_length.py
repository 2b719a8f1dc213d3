"""Similarities that a small temperature divides, of embeddings of any length."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.outcomes import outcomes
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LENGTHS = {
    "normalize", "norm", "cosine_similarity", "vector_norm", "renorm", "CosineSimilarity", "rsqrt",
    "pairwise_cosine_similarity", "normalise", "l2_normalize", "l2norm", "cdist",
}  # fmt: skip
MANY = 20
"""Losses of a file that are followed. Our own number."""
SMALL = 0.3
"""A temperature up to this is one of cosines. Our own number."""


def any_length(reading: Training) -> Iterator[Match]:
    """cross_entropy(z @ z.t() / 0.1, ...) of what a Linear returned."""
    if not LENGTHS.isdisjoint(reading.by_method) or reading.mentions(
        "normed", "normalized", "unit"
    ):
        return
    for number, kind in loss_calls(reading)[:MANY]:
        call = reading.calls[number]
        if kind != "cross_entropy" or call.first is None:
            continue
        for quotient, temperature in _quotients(reading, call.first, call):
            factors = [
                v for part in flatten([quotient]) if part.name == "MatMult" for v in part.items
            ]
            if len({_root(reading, each, call) for each in factors}) != 1:
                continue
            if factors and all(_is_raw(reading, each, call) for each in factors):
                message = f"embeddings of any length are compared at temperature {temperature:g}"
                yield Match(
                    call.span, message, "warn", fix="z = F.normalize(z, dim=-1) before the product."
                )
                return


def _root(reading: Training, value: Value, call: Call) -> str:
    """z of z.T, z.t() and z.transpose(0, 1), or the class of this file whose output it is."""
    name = re.sub(r"\.(?:T|mT|t\(\)|transpose\([^()]*\))$", "", render(reading, value))
    held = evaluate.definitions_at(reading, name, call)
    run = reading.call_of(held[0].value) if len(held) == 1 else None
    made = objects.known_callees(reading, run) if run is not None else []
    return made[0].name if len(made) == 1 and made[0].name in reading.modules else name


def _quotients(
    reading: Training, value: Value, call: Call, depth: int = 5
) -> Iterator[tuple[Value, float]]:
    """What a value was divided by a small number, below masks and names."""
    made = reading.call_of(value)
    if not depth:
        return
    if value.kind == "name":
        held = evaluate.definitions_at(reading, value.name, call)
        for each in (each for each in held if each.scope == call.scope):
            yield from _quotients(reading, each.value, call, depth - 1)
    elif made is not None and made.method in ("masked_fill", "masked_fill_"):
        inner = made.base or Value("name", name=made.receiver)
        yield from _quotients(reading, inner, made, depth - 1)
    elif value.name == "Div" and len(value.items) == 2:
        product, temperature = value.items[0], _small(reading, value.items[1], call)
        named = product.kind == "name"
        for factor in evaluate.options(reading, product, call) if named else [product]:
            if temperature:
                yield factor, temperature


def _small(reading: Training, value: Value, call: Call) -> float:
    """The temperature, 0 where it is none or not known."""
    number = evaluate.number(reading, value, call)
    return number if number is not None and 0 < number <= SMALL else 0.0


def _is_raw(reading: Training, value: Value, call: Call, depth: int = 5) -> bool:
    """The output of a layer, also transposed or joined."""
    if not depth:
        return False
    made = reading.call_of(value)
    if made is not None and made.method in ("t", "transpose", "permute", "detach", "contiguous"):
        inner = made.base or Value("name", name=made.receiver)
        return _is_raw(reading, inner, made, depth - 1)
    if made is not None and made.name in ("torch.cat", "torch.concat") and made.args:
        parts = made.args[0].items
        return bool(parts) and all(_is_raw(reading, each, made, depth - 1) for each in parts)
    name = value.name.removesuffix(".T").removesuffix(".mT")
    if value.kind == "name":
        held = evaluate.definitions_at(reading, name, call)
        if len(held) == 1 and held[0].scope == call.scope:
            return _is_raw(reading, held[0].value, call, depth - 1)
        value = Value("name", name=name)
    return outcomes(reading, value, call.scope, reading.number(call), call.arms) == {"logits"}
