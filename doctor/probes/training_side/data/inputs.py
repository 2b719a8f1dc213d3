"""The scale and the layout of images and signals, at the model's first input where there is one."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import image_steps
from .documents import host
from .views import LABELS, MASKS

MEASURED = 64
"""Images."""
NORMALIZATIONS = {
    "ImageNet's mean and standard deviation": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CLIP's mean and standard deviation": (
        (0.48145466, 0.4578275, 0.40821073),
        (0.26862954, 0.26130258, 0.27577711),
    ),
    "CIFAR's mean and standard deviation": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "a mean and a standard deviation of 0.5": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""For values of 0 to 1."""
TWICE = 255.0**2
MOST_TWICE, ROUNDING = 1.01 / 255, 1e-4
"""The largest value of bytes that were divided by 255 twice, and what rounding adds to them."""
SLACK, EXACTLY = 0.02, 0.005
"""By which rounding and resizing leave 0 to 1, and how far black and white are from it. Our own
numbers."""
SOME, CENTER = 4096, 96
"""Values that are looked at before all, and pixels along a side of the part of an image in which
neighbours are compared. Our own numbers."""
BYTES = (150.0, 255.5)
"""The largest value of the images before, if they were of 0 to 255."""


class Inputs:
    """The range of the values of images; `record` has it."""

    def __init__(self, module: Foreign, directory: str) -> None:
        self.expected = expected_of(module, directory)
        self.low, self.high = float("inf"), float("-inf")
        self.whole = True
        self._steps = True
        self.samples = 0
        self.shape: List[int] = []
        self.first = self.name = ""
        self._lows = [float("inf")] * 3
        self._some: Optional[torch.Tensor] = None
        """Values of a few images: images x channels x pixels."""
        self._highs = [float("-inf")] * 3
        self._apart = False

    def add(self, batch: Foreign) -> None:
        image = image_of(batch)
        if image is None:
            return
        self.name, value = image
        self._add(value)

    def _add(self, value: torch.Tensor) -> None:
        plain = host(value).float()
        self.samples += len(plain)
        self.shape = list(plain.shape)
        self.low, self.high = min(self.low, float(plain.min())), max(self.high, float(plain.max()))
        for part in (plain.reshape(-1)[:SOME], plain):  # most are told by a few values
            self.whole = self.whole and bool((part == part.round()).all())
            self._steps = self._steps and in_steps(part * TWICE)
        if plain.shape[1] == 3:
            if self._some is None:
                self._some = plain[:4].flatten(2)[:, :, :SOME]
                self._apart = image_steps.are_taken_apart(centers(plain[:4]))
            lows, highs = plain.amin((0, 2, 3)).tolist(), plain.amax((0, 2, 3)).tolist()
            self._lows = list(map(min, self._lows, lows))
            self._highs = list(map(max, self._highs, highs))

    def _unscaled(self) -> str:
        """The normalization for 0 to 1 that fits values of 0 to 255, "" for none; without a value
        below 0 their steps alone show that they were normalized."""
        for name, (mean, std) in NORMALIZATIONS.items() if min(self._lows) < 0 else ():
            lows = [low * s + m for low, m, s in zip(self._lows, mean, std)]
            highs = [high * s + m for high, m, s in zip(self._highs, mean, std)]
            if min(lows) > -0.5 and all(BYTES[0] < high <= BYTES[1] for high in highs):
                return name
        if self._some is not None and image_steps.are_divided_bytes(self._some):
            return "a mean and a deviation of 0 to 1"
        return ""

    def _twice(self) -> str:
        """How images look that were divided by 255 twice: "plain", the normalization that followed,
        or "". Their values are steps of 1 / 255**2, none above 1 / 255."""
        if self._steps and self.low >= 0 and 0 < self.high <= MOST_TWICE:
            return "plain"
        for name, (mean, std) in NORMALIZATIONS.items():
            ends = list(zip(self._lows, self._highs, mean, std))
            lows = [low * s + m for low, _, m, s in ends]
            highs = [high * s + m for _, high, m, s in ends]
            if min(lows) > -ROUNDING and ROUNDING < max(highs) <= MOST_TWICE:
                return name
        return ""

    def _again(self) -> str:
        """The normalization that was applied twice, or the one in steps of 0 to 255 that was
        applied to 0 to 1; "" for neither."""
        if self.low >= 0 or self.samples < 2:
            return ""
        for name, (mean, std) in NORMALIZATIONS.items():
            ends = list(zip(self._lows, self._highs, mean, std))
            once = [(low * s + m, high * s + m) for low, high, m, s in ends]
            twice = [(low * s + m, high * s + m) for (low, high), (_, _, m, s) in zip(once, ends)]
            full = all(abs(low) < EXACTLY and abs(high - 1) < EXACTLY for low, high in twice)
            if min(low for low, _ in once) < -0.5 and (full or self._in_steps(mean, std)):
                return "twice: " + name
            bytes_ = [
                (low * 255 * s + 255 * m, high * 255 * s + 255 * m) for low, high, m, s in ends
            ]
            small = all(low > -SLACK and high < 1 + SLACK for low, high in bytes_)
            if small and all(high - low > 0.2 for low, high in bytes_):
                return "bytes: " + name
        return ""

    def _in_steps(self, mean: Sequence[float], std: Sequence[float]) -> bool:
        """Whether images are bytes that were divided by 255 once two normalizations are undone."""
        if self._some is None:
            return False
        factors = [torch.tensor(each)[None, :, None] for each in (mean, std)]
        plain = self._some
        for _ in range(2):
            plain = plain * factors[1] + factors[0]
        steps = plain * 255
        inside = float(plain.min()) > -EXACTLY and float(plain.max()) < 1 + EXACTLY
        return inside and bool((steps - steps.round()).abs().max() < 0.02)

    def measure(
        self, module: torch.nn.Module, loss: Callable[[Any, Any], Any], batches: List[Foreign]
    ) -> None:
        """Read the values again at the model's first layer: it may normalize them itself."""
        for batch in batches:
            found = first_input(module, loss, batch)
            if found is None:
                return
            if not self.first:
                self.first = type(found[0]).__name__
                self.low, self.high, self.whole = float("inf"), float("-inf"), True
                self.samples = 0
            self._add(found[1])
            if self.samples >= MEASURED:
                return

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.samples:
            return None
        return {
            "type": "Inputs",
            "name": self.name,
            "samples": self.samples,
            "shape": self.shape,
            "low": self.low,
            "high": self.high,
            "whole": self.whole,
            "first": self.first,
            "unscaled": "" if self.whole and self.low >= 0 else self._unscaled(),
            "twice": self._twice(),
            "again": self._again() if self.shape[1] == 3 else "",
            "apart": self._apart,
            **self.expected,
        }


def image_of(batch: Foreign) -> Optional[Tuple[str, torch.Tensor]]:
    """Name and tensor of the images of a batch: four dimensions, of which one counts channels."""
    for name, each in containers.tensors(batch).items():
        if name in (*LABELS, *MASKS) or each.dim() != 4 or each.dtype == torch.bool:
            continue
        if {each.shape[1], each.shape[3]} & {1, 3, 4}:
            return name, each
    return None


def in_steps(values: torch.Tensor) -> bool:
    return bool((values - values.round()).abs().max() < 0.01)


def centers(images: torch.Tensor) -> torch.Tensor:
    """The middle of images x channels x height x width, as much as tells their structure."""
    for axis in (2, 3):
        size = min(images.shape[axis], CENTER)
        images = images.narrow(axis, (images.shape[axis] - size) // 2, size)
    return images


def brightness(images: torch.Tensor) -> torch.Tensor:
    """Height x width of the first of some images, over its channels, which are first or last."""
    first = host(images).float()[0]
    return first.mean(0 if first.shape[0] in (1, 3, 4) else -1)


def first_input(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> Optional[Any]:
    """The first layer with weights that gets an image, and what it gets."""
    found: List[Any] = []

    def look(layer: Foreign, arguments: Foreign) -> None:
        value = arguments[0] if arguments else None
        if not found and isinstance(value, torch.Tensor) and value.dim() == 4:
            found.append((layer, value))
        elif found and value is found[0][1] and len(list(found[0][0].children())):
            found[0] = (layer, value)  # a part of the layer gets the same

    layers = [each for each in module.modules() if each._parameters]
    handles = [each.register_forward_pre_hook(look) for each in layers]
    try:
        with torch.no_grad():
            observing.attempt(lambda: loss(module, batch), None)  # it may refuse the image
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


def expected_of(module: Foreign, directory: str) -> Dict[str, Any]:
    """Mean and standard deviation that the weights expect, and where that is stated."""
    config = observing.attribute(module, "pretrained_cfg")
    source = "the model's pretrained_cfg"
    mean: Foreign = None
    std: Foreign = None
    if containers.is_mapping(config):
        mean, std = config.get("mean"), config.get("std")
    path = os.path.join(directory, "preprocessor_config.json") if directory else ""
    if path and os.path.isfile(path):
        content = observing.attempt(lambda: _load(path), {})
        mean, std = content.get("image_mean"), content.get("image_std")
        source = "preprocessor_config.json"
    if not _numbers(mean) or not _numbers(std) or len(mean) != len(std) or not all(std):
        return {}
    ranges = [((0 - m) / s, (1 - m) / s) for m, s in zip(mean, std)]
    return {
        "stated": source,
        "expected_low": min(low for low, _ in ranges),
        "expected_high": max(high for _, high in ranges),
    }


def _load(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    return content if isinstance(content, dict) else {}


def _numbers(value: Foreign) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(
        isinstance(each, (int, float)) for each in value)  # fmt: skip
