"""Generators of random numbers that a dataset has itself: each worker gets a copy of them, which
torch does not seed."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

import torch

from ..foreign import Foreign, containers, observing

DEPTH, MOST_OBJECTS = 5, 2000
PLAIN = (str, bytes, int, float, bool, type(None), torch.Tensor, type, type(sys))

Restore = Callable[[], Foreign]


@contextlib.contextmanager
def as_before(dataset: Foreign) -> Iterator[int]:
    """How many generators it has; it and they are as they were, when it ends."""
    restores, count = _restores(dataset)
    try:
        yield count
    finally:
        for restore in restores:
            observing.attempt(restore, None)


def _restores(dataset: Foreign) -> Tuple[List[Restore], int]:
    """What brings the generators and the attributes of the objects back."""
    restores: List[Restore] = []
    count = 0
    seen: Set[int] = set()
    left: List[Any] = [(dataset, DEPTH)]
    left += [(each, 0) for each in _of_module(dataset)]
    while left and len(seen) < MOST_OBJECTS:
        value, depth = left.pop(0)
        if id(value) in seen or isinstance(value, PLAIN):
            continue
        seen.add(id(value))
        restore = _of_generator(value)
        if restore is not None:
            restores.append(restore)
            count += 1
        elif depth:
            members = _members(value, restores)
            left += [(each, depth - 1) for each in members]
    return restores, count


def _of_module(dataset: Foreign) -> List[Any]:
    """The variables of the module that defines the dataset, which a worker gets a copy of, too."""
    module = sys.modules.get(type(dataset).__module__)
    package = (type(dataset).__module__ or "").split(".")[0]
    return [] if module is None or package in ("torch", "datasets") else list(vars(module).values())


def _of_generator(value: Foreign) -> Any:
    """A call that gives the generator its present state again; None if it is none."""
    if isinstance(value, torch.Generator):
        state = value.get_state()
        return lambda: value.set_state(state)
    if isinstance(value, random.Random):
        kept = value.getstate()
        return lambda: value.setstate(kept)
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.random.Generator):
        bits, inner = value.bit_generator, value.bit_generator.state
        return lambda: setattr(bits, "state", inner)
    if isinstance(value, numpy.random.RandomState):
        old = value.get_state()
        return lambda: value.set_state(old)
    return None


def _members(value: Foreign, restores: List[Restore]) -> List[Any]:
    """What an object holds; its attributes are restored, as a generator may be made late."""
    if containers.is_mapping(value):
        return [value[name] for name in list(value)[:64]]
    if isinstance(value, (list, tuple)):
        return list(value[:64])
    fields = observing.attribute(value, "__dict__")
    if not isinstance(fields, dict):
        return []
    before: Dict[str, Any] = dict(fields)

    def restore() -> None:
        fields.clear()
        fields.update(before)

    restores.append(restore)
    return list(before.values())
