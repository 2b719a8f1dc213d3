"""What may be written behind an argument so that it has other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

Sizes = tuple[int, ...]


class Change(NamedTuple):
    """An expression on a tensor, and the sizes of its result."""

    code: str
    sizes: Sizes


Changes = Callable[[Sizes], Iterator[Change]]


def flattened(sizes: Sizes) -> Iterator[Change]:
    if len(sizes) > 2:
        yield Change(".flatten(1)", (sizes[0], math.prod(sizes[1:])))


def flattened_whole(sizes: Sizes) -> Iterator[Change]:
    if len(sizes) > 1:
        yield Change(".flatten()", (math.prod(sizes),))


def squeezed(sizes: Sizes) -> Iterator[Change]:
    for n, size in enumerate(sizes):
        if size == 1 and n:
            yield Change(f".squeeze({n})", sizes[:n] + sizes[n + 1 :])


def unsqueezed(missing: int, *, foremost: bool = False) -> Changes:
    """So many dimensions of size 1 behind others: in front of all they come by themselves. The last
    place first, or the foremost: a mask has its samples first and its keys last."""

    def changes(sizes: Sizes) -> Iterator[Change]:
        places = range(1, len(sizes) + 1) if missing > 0 else range(0)
        for before in places if foremost else reversed(places):
            code = f"[{', '.join([':'] * before + ['None'] * missing)}]"
            code = f".unsqueeze({before})" if missing == 1 else code
            more = sizes[:before] + (1,) * missing + sizes[before:]
            yield Change(code, more)

    return changes


def reordered(sizes: Sizes) -> Iterator[Change]:
    """Two dimensions exchanged, or the last one put second; the samples stay first."""
    for last in range(len(sizes) - 1, 1, -1):
        for first in range(1, last):
            yield _exchanged(sizes, first, last)
    if len(sizes) > 3:
        order = (0, len(sizes) - 1, *range(1, len(sizes) - 1))
        code = f".permute({', '.join(map(str, order))})"
        yield Change(code, tuple(sizes[n] for n in order))


def channels_second(sizes: Sizes) -> Iterator[Change]:
    """None for [N, C, H, H], whose channels are second already, whatever their number is."""
    if len(sizes) > 3 and len(set(sizes[2:])) == 1 and sizes[1] != sizes[2]:
        return iter(())
    return iter([each for each in reordered(sizes) if each.sizes[1] == sizes[-1]][::-1])


def exchanged_samples(sizes: Sizes) -> Iterator[Change]:
    if len(sizes) > 1:
        yield _exchanged(sizes, 0, 1)


def positions_second(sizes: Sizes) -> Iterator[Change]:
    """A table [positions, 1, width] beside samples first."""
    if len(sizes) == 3 and sizes[1] == 1:
        yield _exchanged(sizes, 0, 1)


def exchanged_last(sizes: Sizes) -> Iterator[Change]:
    if len(sizes) > 1:
        code, n = ".transpose(-2, -1)", len(sizes)
        yield _exchanged(sizes, n - 2, n - 1)._replace(code=code)


def _exchanged(sizes: Sizes, first: int, last: int) -> Change:
    result = list(sizes)
    result[first], result[last] = sizes[last], sizes[first]
    return Change(f".transpose({first}, {last})", tuple(result))


def channels_last(sizes: Sizes) -> Iterator[Change]:
    for change in reordered(sizes):
        if len(sizes) > 2 and change.sizes[-1] == sizes[1]:
            yield change
