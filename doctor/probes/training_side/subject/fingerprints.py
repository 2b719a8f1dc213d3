"""What the values of parameters show: a change, a copy of others, rows that are all the same."""

from __future__ import annotations

from typing import Dict, List, Set, Tuple

import torch

from ..foreign.observing import plain

COPIED = 1 << 16
"""Parameters of up to this many elements are compared with a copy; larger ones by sums of their
bits."""
AT_ONCE = 1 << 22
"""Elements summed at once: sums are wider, and the device may be nearly full."""


def fingerprint(value: torch.Tensor) -> torch.Tensor:
    """A copy of a parameter, or sums of its bits if it is large, to detect a change."""
    value = plain(value)
    if value.numel() <= COPIED:
        return value.clone()
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32}
    bits = value.contiguous().view(whole.get(value.element_size(), torch.int64)).flatten()
    sums = []
    for part in torch.split(bits, AT_ONCE):
        rows, rest = divmod(part.numel(), COPIED)
        sums.append(part[: rows * COPIED].view(rows, COPIED).sum(1, dtype=torch.int64))
        if rest:
            sums.append(part[rows * COPIED :].sum(dtype=torch.int64).reshape(1))
    return torch.cat(sums)


def equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and bool((first == second).all())


def rows_alike(value: torch.Tensor) -> bool:
    """Whether all rows of a matrix are the same, and not 0: units that compute the same."""
    if value.dim() < 2 or len(value) < 2 or not 0 < value.numel() <= COPIED:
        return False
    rows = plain(value).reshape(len(value), -1)
    return bool((rows == rows[:1]).all()) and bool(rows.any())


def copies(before: Dict[str, torch.Tensor], reached: Dict[str, bool]) -> List[str]:
    """Parameters without gradient that start with the values of one that has a gradient, as those
    of a target or teacher network do.

    Parts of one list, whose names differ in a number, are no such copies: repeated layers are
    often cloned.
    """
    twins = [
        (name, other, _prefixes(name, other))
        for name, value in before.items()
        if not reached[name]
        for other, started in before.items()
        if reached[other] and name.rpartition(".")[2] == other.rpartition(".")[2]
        if equal(value, started)
    ]
    varied = {name for name, value in before.items() if not _is_constant(value)}
    pairs: Set[Tuple[str, str]] = {pair for name, _, pair in twins if name in varied}
    return sorted({name for name, _, pair in twins if pair in pairs and _are_networks(pair)})


def _prefixes(first: str, second: str) -> Tuple[str, str]:
    """Two names without the parts at their ends that are the same."""
    one, other = first.split("."), second.split(".")
    while one and other and one[-1] == other[-1]:
        one.pop()
        other.pop()
    return ".".join(one), ".".join(other)


def _are_networks(prefixes: Tuple[str, str]) -> bool:
    return not any(prefix.rpartition(".")[2].isdigit() for prefix in prefixes)


def _is_constant(value: torch.Tensor) -> bool:
    return not value.numel() or bool((value == value.flatten()[0]).all())
