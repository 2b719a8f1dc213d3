"""Whether reading a row sets the global seeds to one number: each row then gets the same random
changes, and dropout the same mask."""

from __future__ import annotations

import random
import sys
from typing import Any, Dict, List

import torch

from ..foreign import observing
from . import rows, seeds
from .relations import relation
from .targets import Source, size


def of_source(source: Source) -> List[Dict[str, Any]]:
    dataset = rows.dataset_of(source)
    count = size(dataset) or 0
    if count < 2 or not observing.has(dataset, "__getitem__") or isinstance(dataset, list):
        return []
    with seeds.kept():
        states = []
        for start, number in ((1, 0), (2, count - 1)):
            _seed(start)
            before = _states()
            dataset[number]
            states.append((before, _states()))
    (one, first), (two, second) = states
    fixed = [n for n in first if first[n] == second[n] and one[n] != two[n]]
    return [relation("seed in row", 1, 1, fixed)] if fixed else []


def _seed(number: int) -> None:
    random.seed(number)
    torch.manual_seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number)


def _states() -> Dict[str, bytes]:
    """The state of each generator, by the module that it belongs to."""
    found = {
        "random": repr(random.getstate()).encode(),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }
    if (numpy := sys.modules.get("numpy")) is not None:
        state = numpy.random.get_state()
        found["numpy"] = state[1].tobytes() + b"%d" % state[2]
    return found
