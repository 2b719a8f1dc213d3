"""The CPUs next to a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Iterator, Set

import torch

CPU_LIST = "/sys/bus/pci/devices/%s/local_cpulist"


@contextlib.contextmanager
def near(device: torch.device) -> Iterator[None]:
    """Run on the allowed CPUs next to the GPU, whose memory pinned buffers then come from.

    Copies through the memory of another socket reach a third of the rate (gearshifft#82).
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    local = allowed & local_cpus(device)
    if not local:
        yield
        return
    os.sched_setaffinity(0, local)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def local_cpus(device: torch.device) -> Set[int]:
    """CPUs next to an NVIDIA GPU; empty if the system does not name them."""
    if device.type != "cuda" or torch.version.hip:
        return set()
    address = ctypes.create_string_buffer(32)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuDeviceGetPCIBusId(address, len(address), device.index or 0) != 0:
            return set()
        with open(CPU_LIST % address.value.decode().lower()) as file:
            return cpus(file.read())
    except (OSError, AttributeError, ValueError):
        return set()


def cpus(text: str) -> Set[int]:
    """The numbers of "0-3,8". Raises ValueError for anything else."""
    cpus: Set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus
