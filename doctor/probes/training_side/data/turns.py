"""Whether what belongs to an image, a mask or boxes, is turned when the image is: some samples are
drawn several times, and the draws of each compared."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from . import label_maps, rows, views
from .documents import host
from .facets.learner import correlation
from .inputs import brightness, image_of
from .relations import relation
from .targets import Source, as_batch

SAMPLES, DRAWS = 6, 6
BOXES = ("boxes", "bbox", "bboxes", "keypoints")
ALIKE, CLEARLY = 0.9, 0.1
"""Correlation of a draw with the turned one, and how much more than with the draw as it is. Our own
numbers."""
POINTS = ("keypoints", "kpts", "joints", "landmarks")
COCO = (0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15)
"""The place of the other side of each of COCO's points of a body."""
SIDES = re.compile(
    r"(?<![a-z])(left|right|l|r)[ _-]?(?:front|back|hind|inner|outer)?[ _-]?(?:eye|ear|shoulder|"
    r"elbow|wrist|hand|hip|knee|ankle|foot|heel|toe|mouth|brow|paw|leg|arm)",
    re.IGNORECASE,
)
"""Parts of a body by their side."""
LEAST_POINTS = 5
CLOSE, LEAST_TURNED = 1e-3, 5
LEAST_LOST = 5
"""Draws of one kind that no target follows, beside others that one does. Our own number."""
LEAST_SIDE, LEAST_STEPS = 16, 3
"""Pixels of an image, and by which it is moved. Our own numbers."""
FLIPS: Tuple[Tuple[int, ...], ...] = ((-1,), (-2,), (-2, -1))

Drawn = Tuple[torch.Tensor, torch.Tensor]


def of_samples(source: Source) -> Dict[str, Any]:
    """The fields `turned` and `followed` of the record Agreement."""
    dataset, numbers = rows.spread(source, SAMPLES)
    if not numbers:
        return {}
    counts: Dict[Optional[Tuple[int, ...]], List[int]] = {}
    """Axes of a flip, None for a move -> such draws, and those whose target changed."""
    for index in numbers:
        draws: List[Drawn] = []
        for _ in range(DRAWS):
            drawn = draw(dataset[index])
            if drawn is None:
                return of_worst(counts)
            draws.append(drawn)
        for first, other in ((draws[n], draws[n + 1]) for n in range(DRAWS - 1)):
            axes = flip_between(first[0], other[0])
            drawn_on = len(torch.unique(first[1])) > 1
            moved = axes is None and drawn_on and is_moved(first[0], other[0])
            if moved or (axes is not None and tells(first[1], other[1], axes)):
                count = counts.setdefault(axes, [0, 0])
                count[0] += 1
                count[1] += not torch.equal(first[1], other[1])
    return of_worst(counts)


def of_worst(counts: Dict[Optional[Tuple[int, ...]], List[int]]) -> Dict[str, Any]:
    """Those of all draws, or of one kind of change that no target follows while others do."""
    lost = sum(each[0] for each in counts.values() if not each[1])
    followed = sum(each[1] for each in counts.values())
    alone = followed and lost >= LEAST_LOST
    turned = lost if alone else sum(each[0] for each in counts.values())
    return {"turned": turned, "followed": 0 if alone else followed}


def points(source: Source, code: str = "") -> List[Dict[str, Any]]:
    """Draws whose image is mirrored, and whose points of a body are, too, each in its own place:
    the left hand is then at the right one's. They are COCO's 17, or the source names both sides."""
    dataset, numbers = rows.spread(source, SAMPLES)
    sided = {word.lower()[0] for word in SIDES.findall(code)} == {"l", "r"}
    turned = kept = count = 0
    for index in numbers:
        draws = [drawn_points(dataset[index]) for _ in range(DRAWS)]
        for one, other in ((draws[n], draws[n + 1]) for n in range(DRAWS - 1)):
            if one is None or other is None:
                return []
            if flip_between(one[0], other[0]) == (-1,) and not torch.equal(one[1], other[1]):
                count = len(one[1])
                sums = one[1] + other[1]
                known = count == len(COCO)
                swapped = one[1] + other[1][list(COCO) if known else ...]
                turned += 1
                kept += (known or sided) and is_one(sums) and not (known and is_one(swapped))
    told = turned >= LEAST_TURNED and kept == turned
    return [relation("points not swapped", 1, 1, (), (), (turned, count))] if told else []


def is_one(values: torch.Tensor) -> bool:
    """Whether all are one number: the width of a mirrored image."""
    return float(values.max() - values.min()) < CLOSE


def drawn_points(sample: Foreign) -> Optional[Drawn]:
    """The brightness of an image, and how far right the points are that are seen."""
    named = containers.tensors(views.of(as_batch(sample)))
    image = image_of(views.of(as_batch(sample)))
    value = next((e for n, e in named.items() if n.split(".")[-1] in POINTS), None)
    if image is None or value is None or value.dim() < 2 or value.shape[-2] < LEAST_POINTS:
        return None
    across = host(value).float().reshape(-1, *value.shape[-2:])[0, :, 0]
    return brightness(image[1]), across


def draw(sample: Foreign) -> Optional[Drawn]:
    """The brightness of a sample's image, and its mask or boxes."""
    batch = views.of(as_batch(sample))
    image = image_of(batch)
    target = label_maps.map_of(batch)
    if target is None:
        named = containers.tensors(batch).items()
        parts = [host(each) for name, each in named if name.split(".")[-1] in BOXES]
        target = parts[0].reshape(-1, parts[0].shape[-1]) if parts and parts[0].numel() else None
    if image is None or target is None:
        return None
    return brightness(image[1]), target


def flip_between(one: torch.Tensor, other: torch.Tensor) -> Optional[Tuple[int, ...]]:
    """The axes along which one image is the other one turned; None where it is not."""
    if one.shape != other.shape:
        return None
    same = likeness(one, other)
    found = {axes: likeness(one, other.flip(axes)) for axes in FLIPS}
    best = max(FLIPS, key=lambda axes: found[axes])
    return best if found[best] > max(ALIKE, same + CLEARLY) else None


def is_moved(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether one image is a part of the other one, some pixels further, or a quarter turn of
    it."""
    if min(one.shape) < LEAST_SIDE or one.shape != other.shape:
        return False
    same = likeness(one, other)
    if one.shape[0] == one.shape[1]:
        quarter = max(likeness(one, other.rot90(n)) for n in (1, 3))
        if quarter > max(ALIKE, same + CLEARLY):
            return True
    spectra = [torch.fft.fft2(each - each.mean()) for each in (one, other)]
    cross = spectra[0] * spectra[1].conj()
    peaks = torch.fft.ifft2(cross / cross.abs().clamp(min=1e-9)).real
    at = int(peaks.argmax())
    rows, columns = at // one.shape[1], at % one.shape[1]
    steps = [n if n <= size // 2 else n - size for n, size in zip((rows, columns), one.shape)]
    if max(map(abs, steps)) < LEAST_STEPS:
        return False
    parts = [overlap(each, steps, sign) for each, sign in ((one, 1), (other, -1))]
    apart = 2 * min(parts[0].shape) >= min(one.shape) and likeness(*parts)
    return bool(apart and apart > max(ALIKE, same + CLEARLY))


def overlap(image: torch.Tensor, steps: List[int], sign: int) -> torch.Tensor:
    """The part of an image that the other one has, too, so many rows and columns further."""
    for axis, step in enumerate(steps):
        start = max(0, sign * step)
        image = image.narrow(axis, start, image.shape[axis] - abs(step))
    return image


def tells(one: torch.Tensor, other: torch.Tensor, axes: Tuple[int, ...]) -> bool:
    """Whether a target that was not turned can be told from one that was.

    A map whose turned form has other numbers at the same places cannot: who turns it exchanges
    the classes of the left and the right, and gets the map as it was.
    """
    is_map = one.dim() == 3
    if not is_map or one.shape != other.shape:
        return True
    values, at = torch.unique(one, return_inverse=True)
    return len(torch.unique(at * len(values) + at.flip(axes))) > len(values)


def likeness(one: torch.Tensor, other: torch.Tensor) -> float:
    return correlation(one.reshape(-1, 1), other.reshape(-1, 1))
