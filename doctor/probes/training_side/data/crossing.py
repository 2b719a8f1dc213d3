"""Windows of a table with several series, that begin in one of them and end in the next."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Tuple

import torch

from ..foreign import Foreign, observing
from . import rows
from .documents import host
from .relations import relation
from .targets import Source, size
from .two_splits import RUN, unwrapped, window_of

MOST_ROWS, MOST_STEPS, LEAST_SERIES = 512, 1_000_000, 3
SERIES = re.compile(
    r"_*(store|shop|item|sku|product|series|entity|patient|subject|person|session|video|clip|user|"
    r"episode|machine|engine|unit|device|sensor|station|site|group|symbol|ticker|stock|customer|trip|"
    r"recording|file|meter|house|building|region|track|trial)s?(_?(id|ids|idx|index|no|name|code|of))?s?"
)


def of_source(source: Source) -> List[Dict[str, Any]]:
    dataset, _ = unwrapped(rows.dataset_of(source))
    count = size(dataset) or 0
    found = [pair for pair in tables_of(dataset) if count]
    if not found:
        return []
    name, series, values = found[0]
    places: Dict[bytes, int] = {}
    for at in range(len(values) - RUN + 1):
        places.setdefault(values[at : at + RUN].numpy().tobytes(), at)
    crossing, read = [], 0
    for number in rows.numbers_in(dataset, MOST_ROWS):
        window = window_of(dataset[number])
        if window is None:
            return []
        window = window.reshape(len(window), -1)
        begins = places.get(window[:RUN].contiguous().numpy().tobytes(), len(values))
        if begins + len(window) > len(values):
            continue
        if not torch.equal(values[begins : begins + len(window)], window):
            continue
        read += 1
        crossing += [number] if series[begins] != series[begins + len(window) - 1] else []
    record = relation("window of two series", len(crossing), read, (name,), crossing)
    return [record] if crossing else []


def tables_of(dataset: Foreign) -> Iterator[Tuple[str, List[Any], torch.Tensor]]:
    """The name and the numbers of series, one for each step, and the values of the steps."""
    held = dict(observing.attribute(dataset, "__dict__", {}))
    for name, value in held.items():
        if not SERIES.fullmatch(str(name).lower()):
            continue
        series = value.tolist() if observing.has(value, "tolist") else value
        if not isinstance(series, list) or not 0 < len(series) <= MOST_STEPS:
            continue
        if isinstance(series[0], (float, list)):  # measured values, which are all different
            continue
        runs = 1 + sum(series[n] != series[n - 1] for n in range(1, len(series)))
        if not LEAST_SERIES <= runs == len(set(series)) <= len(series) // 2:
            continue
        yield from ((str(name), series, steps) for steps in values_of(held, len(series)))


def values_of(held: Dict[str, Any], count: int) -> Iterator[torch.Tensor]:
    """Measured values of so many steps: steps x values."""
    for each in held.values():
        if size(each) != count or isinstance(each[0], str):
            continue
        made = torch.as_tensor(each)
        if made.is_floating_point() and made.dim() in (1, 2):
            yield host(made).reshape(count, -1).contiguous()
