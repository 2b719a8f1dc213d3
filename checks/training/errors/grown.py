"""[N] with [N, 1], which broadcast to [N, N]: the sizes that later lines refuse."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import (
    Explanation,
    Shape,
    broadcast,
    count,
    shape,
    tensors,
    text,
)
from doctor.facts.raised import Raised

JOINING = ("cat", "concat", "concatenate", "hstack", "vstack", "stack")
MOST_JOINED = 4
"""Grown tensors among those that are joined to one that does not fit."""


def explain(raised: Raised) -> Explanation | None:
    """The line that broadcast by accident, if the sizes that differ fit without it."""
    observed = raised.observed
    if "grown at" not in observed:
        return None
    grown = tuple(int(each) for each in re.findall(r"\d+", observed["grown to"]))
    column = (*grown[:-1], 1)
    if not _fits(raised, grown, column):
        return None
    place = observed["grown at"].partition(" (")[0]
    name = observed.get("grown name", "")
    index = ", ".join([":", *["None"] * (len(grown) - 1)])
    return Explanation(
        f"{observed['grown shapes']} broadcast to {text(grown)} in {observed['grown at']}, instead "
        f"of {text(column)}",
        f"Combine equal shapes in {place}: {name or 'x'}[{index}] is {text(column)}, as the other "
        "tensor. What raises need not change then.",
    )


def _fits(raised: Raised, grown: Shape, column: Shape) -> bool:
    """Whether the call accepts its arguments once what has grown has the shape of the column."""
    sizes = [shape(each) for each in tensors(raised) if each.name != "bias"]
    if len(sizes) == 1:
        size = re.search(r"shape '\[([-\d, ]*)\]' is invalid for input of size", raised.message)
        target = [int(each) for each in re.findall(r"-?\d+", size[1])] if size else []
        return sizes == [grown] and count(tuple(target)) == count(column)
    if len(sizes) < 2 or not sizes[0] or not sizes[1]:
        return False
    first, second = sizes[:2]
    if raised.function in ("linear", "layer_norm"):
        return _is_grown(first[-1], second[-1], grown[-1])
    if re.fullmatch(r"(__)?r?matmul(__)?|mm|bmm", raised.function):
        return len(second) > 1 and _is_grown(first[-1], second[-2], grown[-1])
    if grown not in sizes:
        return False
    others = [each for each in sizes if each != grown]
    if raised.function in JOINING:
        return all(each in (column, grown) for each in sizes)
    return bool(others) and all(broadcast(column, each) is not None for each in others)


def _is_grown(size: int, expected: int, samples: int) -> bool:
    joined, rest = divmod(size - expected, samples - 1)
    return size == expected * samples or (rest == 0 and 1 <= joined <= MOST_JOINED)
