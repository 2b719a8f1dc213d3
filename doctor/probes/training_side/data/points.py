"""Points of images whose sides were exchanged: x beyond the width, and y never beyond a part of the
height."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from . import rows
from .boxes import RELATIVE, SAMPLES, SLACK
from .documents import host
from .inputs import image_of
from .relations import relation
from .targets import Source, as_batch
from .turns import POINTS

LEAST_POINTS = 64


def of_source(source: Source) -> List[Dict[str, Any]]:
    """A record where points leave their image, and none does once its sides are exchanged."""
    dataset, numbers = rows.spread(source, SAMPLES)
    outside = whole = 0
    for index in numbers:
        found = points_of(dataset[index])
        if found is None:
            return []
        points, changed, limit = found
        beyond = leaves(points, limit)
        if bool((leaves(changed, limit)).any()):
            return []
        outside, whole = outside + int(beyond.sum()), whole + len(points)
    if whole < LEAST_POINTS or not outside:
        return []
    return [relation("points of other sides", outside, whole)]


def leaves(points: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    slack = SLACK * limit
    return ((points < -slack) | (points > limit + slack)).any(1)


def points_of(sample: Foreign) -> Optional[Tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Points x 2 that are seen, the same with exchanged sides, and width and height."""
    batch = as_batch(sample)
    image = image_of(batch)
    named = containers.tensors(batch)
    value = next((e for n, e in named.items() if n.split(".")[-1].lower() in POINTS), None)
    if image is None or value is None or value.shape[-1] not in (2, 3):
        return None
    height, width = (n for n in image[1].shape[1:] if n not in (1, 3, 4))
    points = host(value).float().reshape(-1, value.shape[-1])
    points = points[(points[:, :2] != 0).any(1), :2]
    if height == width or not len(points):
        return None
    if float(points.abs().max()) <= RELATIVE:
        sides = torch.tensor([height / width, width / height])
        return points, points * sides, torch.ones(2)
    return points, points.flip(1), torch.tensor([float(width), float(height)])
