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
NAMES = ("boxes", "bbox", "bboxes")
TARGET = {"boxes", "labels", "image_id", "area", "iscrowd"}
"""The fields of a target as torchvision's references make it."""
LEAST_IMAGES, LEAST_BOXES, CORNER = 24, 64, 0.7
"""Images and boxes of which one should reach beyond this share of width and height. Our own
numbers."""
SLACK = 0.02
"""Of the image's size, by which a box may leave it. Our own number."""


def of_samples(source: Source, module: Foreign) -> Optional[Dict[str, Any]]:
    """The record Boxes; None where no sample has an image and boxes."""
    dataset, numbers = rows.spread(source, SAMPLES)
    stated = "the model" if is_detector(module) else ""
    boxes = turned = outside = 0
    target_form = False
    for index in numbers:
        found = sample_of(dataset[index])
        if found is None:
            break
        stated = stated or found[2]
        at, limit = found[0], found[1]
        target_form = target_form or (found[3] and float(limit.max()) > 1)
        boxes += len(at)
        turned += int((at[:, 2:] <= at[:, :2]).any(1).sum())
        outside += int(leaves(at, limit).sum())
    if not boxes:
        return None
    return {
        "type": "Boxes", "boxes": boxes, "corners": stated, "turned": turned, "outside": outside,
        "likely": target_form,
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


def sample_of(sample: Foreign) -> Optional[Tuple[torch.Tensor, torch.Tensor, str, bool]]:
    """N x 4 boxes, width and height that they may have, who states that they are corners, and
    whether they stand beside "labels", as in torchvision's targets."""
    named = containers.tensors(as_batch(sample))
    image = next((e for e in named.values() if e.dim() == 4 and e.shape[1] in (1, 3)), None)
    found = next((e for n, e in named.items() if n.split(".")[-1] in NAMES), None)
    if image is None or found is None or found.shape[-1] != 4:
        return None
    made = host(found).reshape(-1, 4).float()
    limit = torch.tensor([image.shape[3], image.shape[2]]).float()
    if len(made) and float(made.abs().max()) <= 1:
        limit = torch.ones(2)
    form = str(observing.attribute(found, "format", "")).upper()
    last = {name.split(".")[-1] for name in named}
    stated = "their format" if form.endswith("XYXY") else ""
    if last >= TARGET and float(limit.max()) > 1:
        stated = stated or "the form of their target, torchvision's,"
    return made, limit, stated, {"boxes", "labels"} <= last


def leaves(boxes: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """Which boxes leave the image as corners, as corner and size, and as center and size."""
    one, two = boxes[:, :2], boxes[:, 2:]
    readings = ((one, two), (one, one + two), (one - two / 2, one + two / 2))
    slack = limit * SLACK
    each = [((low < -slack) | (high > limit + slack)).any(1) for low, high in readings]
    return torch.stack(each).all(0)
