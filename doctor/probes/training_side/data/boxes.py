"""Boxes of images: whether they lie within them, and are corners where the model expects it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import rows
from .documents import host
from .relations import Relations, relation
from .targets import Source, as_batch

SAMPLES = 64
NAMES = ("boxes", "bbox", "bboxes", "box", "bounding_box", "bounding_boxes")
TARGET = {"boxes", "labels", "image_id", "area", "iscrowd"}
"""The fields of a target as torchvision's references make it."""
LEAST_IMAGES, LEAST_BOXES, CORNER = 24, 64, 0.7
"""Images and boxes of which one should reach beyond this share of width and height. Our own
numbers."""
LEAST_SIDE, RELATIVE = 32, 8.0
"""Pixels of an image, of which no box has values below 1 alone, and the largest value of a box that
is a share of it, and wrong."""
INSIDE, BAR = 0.5, 0.08
"""Share of a box that lies in the image, and of the image that a bar of one color takes. Our own
numbers."""
SLACK = 0.02
"""Of the image's size, by which a box may leave it. Our own number."""


def of_samples(source: Source, module: Foreign) -> Optional[Dict[str, Any]]:
    """The record Boxes; None where no sample has an image and boxes."""
    dataset, numbers = rows.spread(source, SAMPLES)
    stated = "the model" if is_detector(module) else ""
    boxes = turned = outside = swapped = flat = filled = 0
    target_form = False
    for index in numbers:
        found = sample_of(dataset[index])
        if found is None:
            break
        stated = stated or found[2]
        at, limit = found[0], found[1]
        target_form = target_form or (found[3] and float(limit.max()) > 1)
        boxes += len(at)
        filling = (at == at[:, :1]).all(1)  # rows of 0 or -1 that fill a batch up
        flat += int(((at[:, 2:] <= 0).any(1) & ~filling).sum())
        filled += int(filling.sum())
        turned += int((at[:, 2:] <= at[:, :2]).any(1).sum())
        out = leaves(at, limit)
        outside += int(out.sum())
        swapped += (
            int((out & ~leaves(at * found[4], limit)).sum()) if float(limit.max()) <= 1 else 0
        )
    if not boxes:
        return None
    flat = boxes if filled == boxes else flat
    return {
        "type": "Boxes", "boxes": boxes, "corners": stated, "turned": turned, "outside": outside,
        "likely": target_form, "swapped": swapped, "flat": flat,
    }  # fmt: skip


def backgrounds(source: Source, module: Foreign) -> List[Dict[str, Any]]:
    """Objects of class 0, which is the background of torchvision's detectors."""
    dataset, numbers = rows.spread(source, SAMPLES)
    if not is_detector(module):
        return []
    relations = Relations()
    for index in numbers:
        named = containers.tensors(as_batch(dataset[index]))
        labels = next((e for n, e in named.items() if n.split(".")[-1] == "labels"), None)
        if labels is None or labels.is_floating_point():
            break
        relations.count("background class", bool((labels == 0).any()), index)
    return relations.records()


def in_a_corner(source: Source) -> List[Dict[str, Any]]:
    """Where no box of many images reaches the right or the lower part: they fit a smaller image."""
    dataset, numbers = rows.spread(source, SAMPLES)
    reach, boxes, images = torch.zeros(2), 0, 0
    for index in numbers:
        found = sample_of(dataset[index])
        if found is None or bool((found[0][:, 2:] <= found[0][:, :2]).any()):
            return []  # no corners
        if len(found[0]):
            reach = torch.maximum(reach, (found[0].view(-1, 2, 2).amax((0, 1)) / found[1]))
            boxes, images = boxes + len(found[0]), images + 1
    if images < LEAST_IMAGES or boxes < LEAST_BOXES or float(reach.max()) > CORNER:
        return []
    return [relation("boxes in a corner", 1, 1, (), (), (boxes, *reach.tolist()))]


def is_detector(module: Foreign) -> bool:
    return type(module).__module__.startswith("torchvision.models.detection")


Sample = Tuple[torch.Tensor, torch.Tensor, str, bool, torch.Tensor]


def sample_of(sample: Foreign) -> Optional[Sample]:
    """N x 4 boxes, width and height that they may have, who states that they are corners, whether
    they stand beside "labels", as in torchvision's targets, and the factors by which boxes are
    multiplied where they were divided by the other side."""
    named = containers.tensors(as_batch(sample))
    image = next((e for e in named.values() if e.dim() == 4 and e.shape[1] in (1, 3)), None)
    found = next((e for n, e in named.items() if n.split(".")[-1] in NAMES), None)
    if found is None or found.shape[-1] != 4:
        found = next((e for e in map(of_rows, named.values()) if e is not None), None)
    if image is None or found is None:
        return None
    made = host(found).reshape(-1, 4).float()
    width, height = (float(each) for each in (image.shape[3], image.shape[2]))
    limit = torch.tensor([width, height])
    if is_relative(made, min(width, height)):
        limit = torch.ones(2)
    form = str(observing.attribute(found, "format", "")).upper()
    last = {name.split(".")[-1] for name in named}
    stated = "their format" if form.endswith("XYXY") else ""
    if last >= TARGET and float(limit.max()) > 1:
        stated = stated or "the form of their target, torchvision's,"
    ratio = height / width
    return made, limit, stated, {"boxes", "labels"} <= last, torch.tensor([ratio, 1 / ratio] * 2)


def is_relative(boxes: torch.Tensor, side: float) -> bool:
    """Whether they are shares of the image, also where some go beyond it."""
    if not len(boxes):
        return False
    highest = float(boxes.abs().max())
    return highest <= 1 or (
        side >= LEAST_SIDE and highest <= RELATIVE and float(boxes.median()) <= 1
    )


def of_rows(value: torch.Tensor) -> Optional[torch.Tensor]:
    """The boxes of rows as YOLO has them: class and box, or image, class and box; or box and
    class."""
    if value.dim() != 3 or value.shape[2] not in (5, 6) or not value.is_floating_point():
        return None
    rows = host(value).float().reshape(-1, value.shape[2])
    rows = rows[(rows != 0).any(1)]  # a batch may be padded with rows of 0
    whole = [bool((rows[:, n] == rows[:, n].round()).all()) for n in range(rows.shape[1])]
    first = 2 if rows.shape[1] == 6 and whole[0] and whole[1] else 1 if whole[0] else 0
    if not len(rows) or (rows.shape[1] == 6) != (first == 2) or all(whole):
        return None
    return rows[:, first : first + 4] if first or whole[4] else None


def leaves(boxes: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Which boxes leave the image as corners, as corner and size, and as center and size."""
    one, two = boxes[:, :2], boxes[:, 2:]
    readings = ((one, two), (one, one + two), (one - two / 2, one + two / 2))
    slack = limit * SLACK
    each = [
        ((low < -slack) | (torch.maximum(low, high) > limit + slack)).any(1)
        for low, high in readings
    ]
    return torch.stack(each).all(0)


def in_padding(source: Source) -> List[Dict[str, Any]]:
    """Boxes that lie in the bars of one color around an image: it was moved, and they were not."""
    dataset, numbers = rows.spread(source, SAMPLES)
    relations = Relations()
    for index in numbers:
        sample = dataset[index]
        found = sample_of(sample)
        if found is None or bool((found[0][:, 2:] <= found[0][:, :2]).any()):
            return []  # no corners
        image = next(e for e in containers.tensors(as_batch(sample)).values() if e.dim() == 4)
        inner = inside_bars(host(image)[0])
        if inner is None:
            continue
        height, width = image.shape[2:]
        boxes = found[0] / found[1].repeat(2) * torch.tensor([width, height] * 2)
        low = torch.maximum(boxes[:, :2], inner[:2])
        shown = (torch.minimum(boxes[:, 2:], inner[2:]) - low).clamp(min=0).prod(1)
        outside = shown < INSIDE * (boxes[:, 2:] - boxes[:, :2]).prod(1)
        for each in outside.tolist():
            relations.count("boxes in padding", each, index)
    return relations.records()


def inside_bars(image: torch.Tensor) -> Optional[torch.Tensor]:
    """x1, y1, x2, y2 of an image of channels x height x width without the bars at its ends, that
    have one color; None where it has none."""
    corner = image[:, :1, :1], image[:, -1:, -1:]
    differs = [(image != each).any(0) for each in corner]
    ends = []
    for axis in (1, 0):
        first, last = (torch.nonzero(each.any(axis))[:, 0] for each in differs)
        ends.append((int(first[0]), int(last[-1]) + 1) if len(first) and len(last) else (0, 0))
    (top, bottom), (left, right) = ends
    height, width = image.shape[1:]
    bars = max(top, height - bottom) / height, max(left, width - right) / width
    if bottom <= top or right <= left or max(bars) < BAR:
        return None
    return torch.tensor([left, top, right, bottom], dtype=torch.float32)
