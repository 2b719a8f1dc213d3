"""Facts of data, a rehearsal, a fleet, a checkpoint and a guard in which every text is given.

The values fit the types and need not fit each other: what is made of them is the judges' matter.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from node_summaries import summaries

from doctor._util.records import Ended, Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.facts.data import Data, Mark, Shown
from doctor.facts.facts import Facts, without_machine
from doctor.facts.fleet import Fleet
from doctor.facts.guard import Guarded
from doctor.facts.log import Log
from doctor.facts.rehearsal import Rehearsal
from doctor.fleet.compare import compare
from doctor.job.job import Job

FAMILIES = ("DAT", "RHS", "FLT", "CKP", "GRD", "LOG")
"""Families that judge them."""
ROLES: tuple[Any, ...] = ("trained", "context", "padding", "cut")
SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "data": Data,
    "rehearsal": Rehearsal,
    "fleet": Fleet,
    "checkpoint": Checkpoint,
    "guard": Guarded,
    "log": Log,
}


@cache
def filled_facts() -> dict[str, Facts]:
    """Name -> facts with one such section; "compare": of nodes that are equal."""
    found = {
        name: facts_with(name, _value(kind, Random(0), itertools.count()))
        for name, kind in SECTIONS.items()
    }
    rows = tuple(Shown(split="s", row=0, marks=(Mark(text="row", role=role),)) for role in ROLES)
    found["rows"] = facts_with("data", Data(target="t", opened=Ended(how="ok"), shown=rows))
    return found | {"compare": facts_with("fleet", compare(summaries(3)))}


def facts_with(name: str, section: Any) -> Facts:
    return without_machine("a test", job=Job(device="cpu"), **{name: section})


def _value(kind: Any, random: Random, number: Iterator[int]) -> Any:
    """A value of a type; every text is another word."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _value(parts[0], random, number)
    if origin is Literal:
        return random.choice(parts)
    if origin in (Union, types.UnionType):
        some = [part for part in parts if part not in (type(None), Unknown)]
        if float in some:  # beside "nan", which no decoder lets anybody change
            some = [float]
        return _value(random.choice(some), random, number)
    if origin is tuple:
        repeated = len(parts) == 2 and parts[1] is Ellipsis
        return tuple(
            _value(part, random, number) for part in (parts[:1] * 2 if repeated else parts)
        )
    if origin is dict:
        return {_value(parts[0], random, number): _value(parts[1], random, number)}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        names = kind.__struct_fields__
        return kind(**{name: _value(hints[name], random, number) for name in names})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return random.choice(list(kind))
    return _simple(kind, random, number)


def _simple(kind: Any, random: Random, number: Iterator[int]) -> Any:
    if kind is str:
        return f"word{next(number)}"
    values = {bool: random.random() < 0.5, int: random.randrange(9), float: random.random()}
    return values[kind]
