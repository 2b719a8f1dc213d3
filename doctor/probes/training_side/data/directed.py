"""Targets with a direction, as steering and optical flow: a mirrored image turns it around."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from . import rows, views
from .documents import host
from .inputs import brightness, image_of
from .relations import relation
from .targets import Source, as_batch
from .turns import DRAWS, LEAST_TURNED, SAMPLES, flip_between

TURNS = re.compile(r"(.*_)?(steer|steering|steering_angle|yaw|yaw_rate|heading|curvature|lateral)"
                   r"(_(angle|cmd|command|target|error|offset))?")  # fmt: skip
FLOWS = re.compile(r"(.*_)?(flow|optical_flow|flow_gt)s?")
CLOSE = 1e-4
Drawn = Tuple[torch.Tensor, str, torch.Tensor]


def of_source(source: Source) -> List[Dict[str, Any]]:
    """A record where each mirrored image keeps the direction of its target."""
    dataset, numbers = rows.spread(source, SAMPLES)
    turned = kept = 0
    name = ""
    for index in numbers:
        draws = [drawn(dataset[index]) for _ in range(DRAWS)]
        for one, other in ((draws[n], draws[n + 1]) for n in range(DRAWS - 1)):
            if one is None or other is None:
                return []
            if flip_between(one[0], other[0]) == (-1,) and bool((one[2].abs() > CLOSE).any()):
                name = one[1]
                turned += 1
                kept += keeps(one[2], other[2])
    if turned < LEAST_TURNED or kept < turned:
        return []
    return [relation("direction kept", 1, 1, (name,), (), (turned,))]


def keeps(one: torch.Tensor, other: torch.Tensor) -> bool:
    """A number that is the same; a flow whose pixels are turned, and whose way to the right is
    not."""
    if one.numel() == 1:
        return bool((one - other).abs().max() < CLOSE)
    return bool((one[0] - other[0].flip(-1)).abs().max() < CLOSE)


def drawn(sample: Foreign) -> Optional[Drawn]:
    """The brightness of an image, and the target by its name: a number, or 2 x height x width."""
    batch = views.of(as_batch(sample))
    image = image_of(batch)
    for name, each in containers.tensors(batch).items():
        plain = name.split(".")[-1].lower()
        number = TURNS.fullmatch(plain) and each.numel() == 1
        flow = FLOWS.fullmatch(plain) and each.dim() == 4 and each.shape[1] == 2
        if image is not None and each.is_floating_point() and (number or flow):
            return brightness(image[1]), name, host(each).float()[0 if flow else ...]
    return None
