"""The batch as it was given, for each step anew.

A loader makes a new batch for each step, which a step may change in place: normalize images, mask
tokens. The doctor trains on one batch, so it puts back what a step changed.
"""

from __future__ import annotations

import contextlib
from typing import Dict, List, Tuple

import torch

from ..foreign import Foreign, containers


class KeptBatch:
    """Copies of a batch's tensors on the CPU, and their versions."""

    def __init__(self, batch: Foreign) -> None:
        self.changed: List[str] = []
        """Names of the tensors that a step changed in place."""
        self._kept: Dict[str, Tuple[torch.Tensor, torch.Tensor, int]] = {}
        for name, tensor in containers.tensors(batch).items():
            with contextlib.suppress(Exception):  # inference tensors have no version
                copy = tensor.detach().to("cpu", copy=True)
                self._kept[name] = tensor, copy, tensor._version

    def restore(self) -> None:
        """Put back the values of the tensors that were changed since."""
        for name, (tensor, copy, version) in self._kept.items():
            if tensor._version == version:
                continue
            if name not in self.changed:
                self.changed.append(name)
            if tensor.shape == copy.shape:
                tensor.data.copy_(copy)
            self._kept[name] = tensor, copy, tensor._version
