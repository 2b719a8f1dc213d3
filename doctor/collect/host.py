"""The operating system and its limits: procfs, sysfs, cgroupfs and /dev, no driver is called."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doctor._util.units import printable
from doctor.collect.cgroups import read_limits
from doctor.facts.machine import Host

RECORDED = frozenset(
    {
        "CUDA_AUTO_BOOST",
        "CUDA_COREDUMP_FILE",
        "CUDA_DEVICE_ORDER",
        "CUDA_DEVICE_WAITS_ON_EXCEPTION",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
        "CUDA_INJECTION32_PATH",
        "CUDA_INJECTION64_PATH",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_PROFILE",
        "CUDA_VISIBLE_DEVICES",
        "COMPUTE_PROFILE",
        "GPU_DEVICE_ORDINAL",
        "HIP_VISIBLE_DEVICES",
        "HSA_OVERRIDE_GFX_VERSION",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NCCL_DEBUG",
        "NCCL_P2P_DISABLE",
        "NSIGHT_CUDA_DEBUGGER",
        "NVIDIA_TF32_OVERRIDE",
        "NVIDIA_VISIBLE_DEVICES",
        "OPENCL_PROFILE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_HIP_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK",
        "ROCR_VISIBLE_DEVICES",
        "TORCHDYNAMO_DISABLE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TORCH_COMPILE_DEBUG",
        "TORCH_CPP_LOG_LEVEL",
        "TORCH_CUDNN_SDPA_AVOID_RECOMPILE",
        "TORCH_CUDNN_SDPA_CACHE_DEBUG",
        "TORCH_CUDNN_SDPA_DEPRIORITIZED",
        "TORCH_CUDNN_SDPA_ENABLED",
        "TORCH_CUDNN_SDPA_NESTED_TENSOR_ENABLED",
        "TORCH_CUDNN_SDPA_PREFERRED",
        "TORCH_DISTRIBUTED_DEBUG",
        "TORCH_LOGS",
        "TORCH_NCCL_BLOCKING_WAIT",
        "TORCH_NCCL_DESYNC_DEBUG",
        "TORCH_SHOW_CPP_STACKTRACES",
        "TORCH_TRACE",
    }
)
"""Names of the variables that are ever recorded: none of them is made to hold a secret."""

NVIDIA, AMD = 0x10DE, 0x1002
DISPLAY, ACCELERATOR = 0x03, 0x12
"""PCI base classes: display controllers, and processing accelerators (AMD's Instinct)."""


def look(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Host:
    """What the files under `root` tell. A file that is not there is None, never 0."""
    system = platform.system()
    return Host(
        system=system,
        name=printable(platform.node()),
        home=printable(os.path.expanduser("~")),  # noqa: PTH111 - Path.home() may raise
        release=platform.release(),
        arch=platform.machine(),
        macos=_macos() if system == "Darwin" else None,
        device_nodes=_device_nodes(root / "dev"),
        kernel_driver=_kernel_driver(root),
        container=_container(root, environ),
        env={name: printable(environ[name]) for name in sorted(RECORDED & environ.keys())},
        cpus=_cpus(),
        shm_total=_shm(root / "dev/shm"),
        **_pci(root / "sys/bus/pci/devices"),
        **_memory(root / "proc/meminfo"),
        **read_limits(root),
    )


def read_text(path: Path) -> str | None:
    """A small file's text; None if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None


def _macos() -> tuple[int, int] | None:
    found = re.match(r"(\d+)(?:\.(\d+))?", platform.mac_ver()[0])
    return (int(found[1]), int(found[2] or 0)) if found else None


def _names(folder: Path) -> list[str] | None:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return None


def _device_nodes(dev: Path) -> tuple[str, ...]:
    names = _names(dev) or []
    return tuple(
        f"/dev/{name}" for name in names if name.startswith("nvidia") or name in ("dxg", "kfd")
    )


def _pci(devices: Path) -> dict[str, Any]:
    """GPUs on the bus, and whether it could be listed at all."""
    found = {NVIDIA: 0, AMD: 0}
    names = _names(devices)
    for name in names or ():
        vendor, kind = (_hex(devices / name / part) for part in ("vendor", "class"))
        base = None if kind is None else kind >> 16
        if vendor in found and base in ((DISPLAY,) if vendor == NVIDIA else (DISPLAY, ACCELERATOR)):
            found[vendor] += 1
    return {
        "pci_listed": names is not None,
        "nvidia_devices": found[NVIDIA],
        "amd_devices": found[AMD],
    }


def _hex(path: Path) -> int | None:
    text = read_text(path)
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _kernel_driver(root: Path) -> str | None:
    """ "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build ..."."""
    text = read_text(root / "proc/driver/nvidia/version") or ""
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\b", text, re.MULTILINE)
    return found[1] if found else None


def _container(root: Path, environ: Mapping[str, str]) -> str | None:
    """The first hint of a container: its marks, or the names of the first process's cgroups."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    for mark, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if mark.rpartition("/")[2] in (_names((root / mark).parent) or ()):
            return name
    if said := (read_text(root / "run/systemd/container") or "").strip():
        return said
    groups = read_text(root / "proc/1/cgroup") or ""
    found = re.search(r"kubepods|docker|libpod|containerd|lxc", groups)
    return {"kubepods": "kubernetes", "libpod": "podman"}.get(found[0], found[0]) if found else None


def _memory(meminfo: Path) -> dict[str, Any]:
    lines = dict(re.findall(r"^(\w+):\s+(\d+) kB$", read_text(meminfo) or "", re.MULTILINE))
    names = (("memory_total", "MemTotal"), ("memory_available", "MemAvailable"))
    return {field: int(lines[name]) * 1024 for field, name in names if name in lines}


def _cpus() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _shm(folder: Path) -> int | None:
    try:
        told = os.statvfs(folder)
    except OSError:
        return None
    return told.f_blocks * told.f_frsize
