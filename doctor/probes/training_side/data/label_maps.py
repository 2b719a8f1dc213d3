"""Label maps of images: one class for each pixel, or values that interpolation has invented."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

import torch

from ..foreign import Foreign, containers
from .documents import host
from .views import LABELS

NAMES = (*LABELS, "mask", "masks", "segmentation_map", "semantic_map")
LEAST_SIDE = 8
MOST_MAPS = 64
BYTE, FEW_CLASSES = 255.0, 64
"""By which images are divided, and the classes of a map at most: more may be brightness."""
AREAS = 0.95
"""Share of the pixels within areas that are whole numbers. Our own number."""
MOST_LEVELS = 16
"""Of brightness that stand for classes; more may be an image. Our own number."""
OFTEN, MOSTLY, HARDLY = 20, 0.5, 0.02
"""Pixels of a value, and shares of them, that tell a value which interpolation invented. Our own
numbers."""
STEP = 2
"""Between classes 0 and 1 there is no other one."""


class LabelMaps:
    """Counts over label maps; `record` has them."""

    def __init__(self) -> None:
        self._kept: List[torch.Tensor] = []
        self._fractions: List[torch.Tensor] = []
        self._as_stored = False
        """Maps are bytes, as in their files, which the loop may still turn into classes."""

    def add(self, batch: Foreign) -> None:
        value = map_of(batch)
        planes = _planes(batch)
        self._as_stored = self._as_stored or (planes is not None and planes.dtype == torch.uint8)
        floats = float_map_of(batch)
        if floats is not None and len(self._fractions) < MOST_MAPS:
            self._fractions += list(floats[: MOST_MAPS - len(self._fractions)])
        if value is not None and len(self._kept) < MOST_MAPS:
            self._kept += list(value[: MOST_MAPS - len(self._kept)])

    def record(self) -> Optional[Dict[str, Any]]:
        if not self._kept:
            return self._record_of_fractions()
        borders = between = flat = pixels = unit_steps = 0
        kinds: Set[Tuple[int, int, int]] = set()
        for each in self._kept:
            for axis in (0, 1):
                one, equal, found = _borders(each, axis)
                borders, between, flat = borders + one, between + len(found), flat + equal
                kinds |= set(map(tuple, torch.unique(found, dim=0).tolist()))
                pixels += each.numel()
                unit_steps += _unit_steps(each, axis)
        return {
            "type": "LabelMaps",
            "maps": len(self._kept),
            "values": len(torch.unique(torch.cat([each.reshape(-1) for each in self._kept]))),
            "flat": flat / pixels,
            "borders": borders,
            "between": between,
            "kinds": len(kinds),
            "unit_steps": unit_steps,
            "invented": invented(self._kept),
            "levels": levels(self._kept),
            "as_stored": self._as_stored,
        }

    def _record_of_fractions(self) -> Optional[Dict[str, Any]]:
        """None where the numbers are no classes, as depths and soft masks."""
        if not self._fractions:
            return None
        values = torch.unique(torch.cat([each.reshape(-1) for each in self._fractions]))
        maps = {"type": "LabelMaps", "maps": len(self._fractions), "values": len(values)}
        inside = [_inside(each) for each in self._fractions]
        areas = torch.cat(inside) if inside else values[:0]
        steps = values * BYTE
        if bool((steps - steps.round()).abs().max() < 0.01) and bool((values >= 0).all()):
            classes = steps.round()[values < 1]
            divided = len(classes) > 1 and len(classes) < FEW_CLASSES > int(classes.max())
            return {**maps, "broken": "divided"} if divided else None
        whole = areas == areas.round()
        enough = len(areas) and bool(whole.float().mean() > AREAS)
        several = enough and len(torch.unique(areas[whole])) > 2
        return {**maps, "broken": "interpolated"} if several else None


def levels(maps: List[torch.Tensor]) -> int:
    """The different values, where they are 0, 255 and what divides the range between them evenly:
    the
    brightness by which classes are drawn; else 0."""
    values = torch.unique(torch.cat([torch.unique(each) for each in maps]))
    count = len(values)
    if not 1 < count <= MOST_LEVELS or int(values[0]) != 0 or int(values[-1]) != BYTE:
        return 0
    even = torch.arange(count) * BYTE / (count - 1)
    return count if bool(((values - even).abs() <= 1).all()) else 0


def invented(maps: List[torch.Tensor]) -> int:
    """Values that lie nowhere within an area, and nearly always between the two at their sides."""
    if any(int(each.min()) < 0 or int(each.max()) > BYTE for each in maps):
        return 0
    counts = torch.zeros(3, int(BYTE) + 1)
    for each in maps:
        here = each[1:-1, 1:-1]
        sides = ((each[:-2, 1:-1], each[2:, 1:-1]), (each[1:-1, :-2], each[1:-1, 2:]))
        lies = [((a < here) & (here < b)) | ((b < here) & (here < a)) for a, b in sides]
        marks = (torch.ones_like(here).bool(), lies[0] | lies[1])
        for number, values in enumerate((*(here[mark] for mark in marks), _inside(each))):
            counts[number] += torch.bincount(values, minlength=counts.shape[1])
    there, between, inside = counts
    return int(((there >= OFTEN) & (between >= MOSTLY * there) & (inside <= HARDLY * there)).sum())


def _inside(each: torch.Tensor) -> torch.Tensor:
    """Pixels that are equal to the ones on all four sides."""
    here = each[1:-1, 1:-1]
    sides = (each[:-2, 1:-1], each[2:, 1:-1], each[1:-1, :-2], each[1:-1, 2:])
    equal = torch.stack([here == side for side in sides]).all(0)
    return here[equal]


def map_of(batch: Foreign) -> Optional[torch.Tensor]:
    """Whole numbers of rows x height x width; None where a batch has none."""
    value = _planes(batch)
    return None if value is None or value.is_floating_point() else host(value).long()


def float_map_of(batch: Foreign) -> Optional[torch.Tensor]:
    """The same of fractions."""
    value = _planes(batch)
    if value is None or not value.is_floating_point():
        return None
    made = host(value).float()
    return None if bool((made == made.round()).all()) else made


def _planes(batch: Foreign) -> Optional[torch.Tensor]:
    """The labels of rows x height x width."""
    value: Foreign = None
    if containers.is_mapping(batch):
        value = next((batch[name] for name in NAMES if name in batch), None)
    elif isinstance(batch, (list, tuple)) and len(batch) > 1:
        value = batch[-1]
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return None
    if value.dim() == 4 and value.shape[1] == 1:
        value = value[:, 0]
    return value if value.dim() == 3 and min(value.shape[1:]) >= LEAST_SIDE else None


def _unit_steps(each: torch.Tensor, axis: int) -> int:
    """Places where two areas of values that differ by 1 meet, as in a map of heights or ages."""
    length = each.shape[axis] - 3
    a, b, c, d = (each.narrow(axis, start, length) for start in range(4))
    return int(((a == b) & (c == d) & ((b - c).abs() == 1)).sum())


def _borders(each: torch.Tensor, axis: int) -> Tuple[int, int, torch.Tensor]:
    """Pixels whose neighbours before and behind differ by 2 or more; pixels that are equal to both;
    and, N x 3, the smaller neighbour, the value and the larger one, where it lies between."""
    length = each.shape[axis] - 2
    before, here, behind = (each.narrow(axis, start, length) for start in (0, 1, 2))
    border = (before - behind).abs() >= STEP
    low, high = torch.minimum(before, behind), torch.maximum(before, behind)
    between = border & (low < here) & (here < high)
    found = torch.stack([low[between], here[between], high[between]], 1)
    flat = (before == here) & (here == behind)
    return int(border.sum()), int(flat.sum()), found
