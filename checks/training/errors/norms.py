"""A norm whose input has its dimensions in another order: they are exchanged before it and back
behind it, because what follows expects the order that its result has."""

from __future__ import annotations

import re

from doctor.checks.training.errors.changes import Change, Sizes
from doctor.checks.training.errors.explanation import module
from doctor.checks.training.errors.sizes import sizes_of, text
from doctor.facts.raised import Operand, Raised

NORMS = ("batch_norm", "layer_norm")
EXCHANGE = re.compile(r"\.(transpose|permute)\(([\d, ]+)\)")
CHANNELS = "For channels, which come second, nn.GroupNorm(1, channels) needs no exchange."


def fix_of_norm(raised: Raised, operand: Operand, change: Change) -> str:
    """The remedy; "" for another layer, and for a change that exchanges nothing."""
    order = _order(change)
    if raised.function not in NORMS or not order:
        return ""
    back = _written(tuple(order.index(n) for n in range(len(order))))
    layer, sizes = module(raised), text(sizes_of(operand))
    name = layer.rpartition(".")[2] if " " not in layer else "norm"
    exchange = (
        f"Exchange the dimensions before {layer} and back behind it, x = "
        f"{name}(x{change.code}){back}: {sizes} becomes {text(change.sizes)} for it, and {sizes} "
        "again."
    )
    if raised.function == "batch_norm":
        return exchange
    if len(order) == 3:
        exchange = (
            f"Set normalized_shape={sizes_of(operand)[-1]} in {layer} if the features come last "
            "in its input, as behind a linear or a recurrent layer. If the channels come second, "
            f"as behind a convolution, {exchange[0].lower()}{exchange[1:]}"
        )
    return f"{exchange} {CHANNELS}"


def _order(change: Change) -> Sizes:
    """The order into which an exchange puts the dimensions; () of another change."""
    found = EXCHANGE.fullmatch(change.code)
    numbers = tuple(map(int, found[2].split(", "))) if found else ()
    if not found or found[1] == "permute":
        return numbers
    order = list(range(len(change.sizes)))
    order[numbers[0]], order[numbers[1]] = numbers[1], numbers[0]
    return tuple(order)


def _written(order: Sizes) -> str:
    """As torch writes this order."""
    moved = [n for n, place in enumerate(order) if n != place]
    if len(moved) == 2:
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(map(str, order))})"
