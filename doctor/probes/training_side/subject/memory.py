"""The memory of a device."""

from __future__ import annotations

import gc
from typing import Optional

import torch


def free_memory(device: torch.device) -> None:
    """Free the memory of earlier steps: two models may not fit at the same time."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def peak_bytes(device: torch.device) -> Optional[int]:
    """Peak of the device's allocator; None if torch does not report it."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.driver_allocated_memory())
    return None
