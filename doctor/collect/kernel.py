"""What kind of kernel this is: a sandbox, a small virtual machine, its IOMMU, its neighbours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from doctor.collect.cgroups import read_text
from doctor.facts.host import wsl_of

GVISOR = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"
"""What gVisor's own kernel always says of itself."""
SMALL_MACHINE = ("pci=off", "virtio_mmio.device=")
"""Firecracker's parameters of the kernel; other small virtual machines have them, too."""
STEAL = 8
"""Position in the first line of /proc/stat, behind "cpu"."""


def read_kernel(root: Path, release: str) -> dict[str, Any]:
    """Fields of Host."""
    groups = root / "sys/kernel/iommu_groups"
    try:
        count = sum(1 for _ in groups.iterdir())
    except OSError:
        count = None
    return {"sandbox": _sandbox(root, release), "iommu_groups": count, "steal": _steal(root)}


def _sandbox(root: Path, release: str) -> str | None:
    if wsl := wsl_of(release):
        return wsl
    if (read_text(root / "proc/version") or "").startswith(GVISOR):
        return "gVisor"
    parameters = read_text(root / "proc/cmdline") or ""
    return "a microVM such as Firecracker" if all(p in parameters for p in SMALL_MACHINE) else None


def _steal(root: Path) -> float | None:
    """Share of the processors' time since boot that the host gave to others; None: not reported."""
    line = re.match(r"cpu((?: +\d+){8,})", read_text(root / "proc/stat") or "")
    times = [int(part) for part in line[1].split()[:STEAL]] if line else []
    return round(times[-1] / sum(times), 4) if sum(times) else None
