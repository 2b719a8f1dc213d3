"""What an error means, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from doctor.facts.raised import Operand, Raised
from doctor.judge.check import Owner


class Explanation(NamedTuple):
    """`cause` is a clause of the summary, "" if the error says it; `fix` are sentences."""

    cause: str
    fix: str
    owner: Owner = Owner.JOB


Shape = tuple[int, ...]


def tensors(raised: Raised) -> list[Operand]:
    return [each for each in raised.operands if each.shape is not None]


def shape(operand: Operand) -> Shape:
    return operand.shape or ()


def text(sizes: Shape) -> str:
    return str(list(sizes))


def dimensions(numbers: Sequence[int]) -> str:
    return f"dimension{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def named(operand: Operand, other: str) -> str:
    """The parameter or the argument, else `other`."""
    return operand.parameter or operand.name.strip() or other


def module(raised: Raised, other: str = "the layer") -> str:
    """The module that was running, by its path; "module 0" if that is a number."""
    path = raised.module or raised.module_type.partition("(")[0] or other
    return f"module {path}" if path.rpartition(".")[2].isdigit() else path


def broadcast(first: Shape, second: Shape) -> Shape | None:
    """The shape of both together; None if they do not fit."""
    length = max(len(first), len(second))
    pairs = zip(
        (1,) * (length - len(first)) + first, (1,) * (length - len(second)) + second, strict=True
    )
    sizes = [b if a == 1 else a if b in (1, a) else -1 for a, b in pairs]
    return None if -1 in sizes else tuple(sizes)


def count(sizes: Shape) -> int:
    return math.prod(sizes)
