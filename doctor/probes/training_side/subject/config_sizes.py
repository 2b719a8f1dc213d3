"""The size in a configuration that, changed, gives the shapes of the files of its weights."""

from __future__ import annotations

import re
import time
from fractions import Fraction
from typing import Any, Callable, Dict, List, Sequence, Tuple

from ..foreign import Foreign

Mismatched = Sequence[Tuple[str, Sequence[int], Sequence[int]]]
"""Name, shape in the files, shape by the configuration."""
MOST = 40
"""Sizes that are tried; each builds the model once, without memory."""
LARGEST_RATIO = 8
SECONDS = 3.0
"""After which no other size is tried."""
NUMBERS = re.compile(r"layer|depth", re.IGNORECASE)
"""Names of numbers of layers, which change no shape and cost time."""


def fitting(config: Foreign, mismatched: Mismatched, build: Callable[[Foreign], Foreign]) -> str:
    """'"head_dim": 32 instead of 128', "" unless exactly one size fits all of these parameters.

    `build` makes a model of a configuration, on the meta device.
    """
    pairs = [pair for _, have, want in mismatched for pair in zip(have, want) if pair[0] != pair[1]]
    ratios = {Fraction(have, want) for have, want in pairs if want}
    if len(ratios) != 1 or any(len(have) != len(want) for _, have, want in mismatched):
        return ""
    ratio = ratios.pop()
    if not Fraction(1, LARGEST_RATIO) <= ratio <= LARGEST_RATIO:
        return ""
    data: Dict[str, Any] = config.to_dict()
    sizes = {
        name: value * ratio
        for name, value in data.items()
        if type(value) is int and value > 1 and (value * ratio).denominator == 1
        and not NUMBERS.search(name)
    }  # fmt: skip
    found: List[str] = []
    until = time.monotonic() + SECONDS
    for name, size in list(sizes.items())[:MOST]:
        if time.monotonic() > until:
            return ""
        changed = _shapes(config, {**data, name: int(size)}, build)
        if all(changed.get(each) == tuple(have) for each, have, _ in mismatched):
            found.append('"%s": %d instead of %d' % (name, size, data[name]))
    return found[0] if len(found) == 1 else ""


def _shapes(
    config: Foreign, data: Dict[str, Any], build: Callable[[Foreign], Foreign]
) -> Dict[str, Tuple[int, ...]]:
    """Of the parameters; {} where the library builds no model of such sizes."""
    try:
        model = build(type(config).from_dict(data))
    except Exception:
        return {}
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
