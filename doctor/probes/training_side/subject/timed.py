"""Times of the stages of a training."""

from __future__ import annotations

import contextlib
import time
from typing import Dict, Iterator

import torch

from ... import wire


class Timed:
    """Times of the stages, summed over the steps; the device finishes inside its stage."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: Dict[str, float] = {}
        self.inside = "allocate"
        self._device = device

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.inside = name
        started = time.perf_counter()
        with wire.stage(name):
            yield
            synchronize(self._device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def synchronize(device: torch.device) -> None:
    """Wait until the device has ended what was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
