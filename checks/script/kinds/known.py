"""What is known of one value, and where a value is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from doctor.checks.script.kinds.dimensions import Kind
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Assignment, Value

NAME, DERIVED, CALL = 0, 1, 2
"""The evidence: a name says it, an operation made it of what a name says, a call makes it."""


@dataclass(frozen=True, slots=True)
class Known:
    kind: Kind
    origin: str
    evidence: int


Kinds = dict[str, Known]
"""By dimension."""


@dataclass(frozen=True, slots=True)
class Place:
    scope: int
    position: int
    arms: Arms
    order: tuple[int, int, int] | None = None
    """Of an assignment: those behind it at the same position are not met yet."""


def before(each: Assignment) -> Place:
    """Where the value of an assignment is computed."""
    return Place(each.scope, each.position, each.arms, each.span.order)


def agreed(options: Sequence[Kinds]) -> Kinds:
    """What all of the values that may hold have in common."""
    if not options:
        return {}
    first, *others = options
    return {
        dimension: min((known, *(each[dimension] for each in others)), key=lambda k: k.evidence)
        for dimension, known in first.items()
        if all(dimension in each and each[dimension].kind is known.kind for each in others)
    }


class Follower(Protocol):
    """What operations need of the flow: the kinds of their operands."""

    @property
    def reading(self) -> Training: ...

    def of(self, value: Value, place: Place, depth: int = ...) -> Kinds: ...

    def returned(self, function: int, values: Iterable[Value], depth: int) -> Kinds: ...
