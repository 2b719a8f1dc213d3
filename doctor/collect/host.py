"""The operating system and its limits: procfs, sysfs, cgroupfs and /dev, no driver is called."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from doctor._util.units import printable
from doctor.collect.cgroups import read_limits, read_names, read_text
from doctor.collect.kernel import read_kernel
from doctor.collect.kernel_log import read_kernel_log
from doctor.collect.network import read_hcas, read_limits_of_process, read_mac_addresses
from doctor.collect.pcie import read_pcie
from doctor.facts.host import Host
from doctor.hardware import vendors

RECORDED = vendors.variables() | frozenset(
    {
        "CUDA_AUTO_BOOST",
        "CUDA_COREDUMP_FILE",
        "CUDA_DEVICE_WAITS_ON_EXCEPTION",
        "CUDA_DISABLE_JIT",
        "CUDA_DISABLE_PTX_JIT",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
        "CUDA_FORCE_JIT",
        "CUDA_FORCE_PTX_JIT",
        "CUDA_INJECTION32_PATH",
        "CUDA_INJECTION64_PATH",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_PROFILE",
        "COMPUTE_PROFILE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NCCL_DEBUG",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NSIGHT_CUDA_DEBUGGER",
        "OPENCL_PROFILE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK",
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
"""The only variables that are recorded: none of them is meant to hold a secret."""
PREFIXES = ("NCCL_", "TORCH_NCCL_", "UCX_", "OMP_", "MKL_", "GLOO_", "OMPI_MCA_btl", "FI_", "RCCL_")
"""Families of variables that are recorded too: those that ranks of a job must agree on."""

NAMES_IN_CGROUPS = {"kubepods": "kubernetes", "libpod": "podman"}


def read_host(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Host:
    """The host as described by the files under `root`. A missing file gives None, never 0."""
    system = platform.system()
    return Host(
        system=system,
        **identity(),
        release=platform.release(),
        arch=platform.machine(),
        macos=_macos() if system == "Darwin" else None,
        device_nodes=_device_nodes(root / "dev"),
        kernel_driver=_kernel_driver(root),
        container=_container(root, environ),
        env={name: printable(environ[name]) for name in sorted(filter(_is_recorded, environ))},
        cpus=_cpus(),
        shm_total=_shm(root / "dev/shm"),
        mps=_mps(root, environ),
        hcas=read_hcas(root),
        mac_addresses=read_mac_addresses(root),
        limits=read_limits_of_process(),
        unusable_amd_nodes=_unusable_amd_nodes(root / "dev"),
        **read_kernel(root, platform.release()),
        **_pci(root),
        **read_memory(root / "proc/meminfo"),
        **read_limits(root),
        **read_kernel_log(root),
    )


def _is_recorded(name: str) -> bool:
    return name in RECORDED or name.startswith(PREFIXES)


def identity() -> dict[str, Any]:
    """The names of this machine and of its user, and the home directory."""
    return {
        "name": printable(platform.node()),
        "user": printable(_user()),
        "home": printable(os.path.expanduser("~")),  # noqa: PTH111 - Path.home() may raise
    }


def _user() -> str:
    """The name of the user, "" where the system does not know it."""
    with contextlib.suppress(ImportError, KeyError, OSError):
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    return os.environ.get("USER", "")


def _macos() -> tuple[int, int] | None:
    version = re.match(r"(\d+)(?:\.(\d+))?", platform.mac_ver()[0])
    return (int(version[1]), int(version[2] or 0)) if version else None


def _device_nodes(dev: Path) -> tuple[str, ...]:
    names = read_names(dev) or []
    return tuple(f"/dev/{name}" for name in names if vendors.is_gpu_node(name))


def _unusable_amd_nodes(dev: Path) -> dict[str, str] | None:
    """Of /dev/kfd and /dev/dri/renderD*, those that this user may not read and write.

    None without /dev/kfd. A container's list of devices is not known to access().
    """
    if "kfd" not in (read_names(dev) or ()):
        return None
    nodes = ["kfd", *(f"dri/{n}" for n in read_names(dev / "dri") or () if n.startswith("renderD"))]
    denied = [node for node in nodes if not os.access(dev / node, os.R_OK | os.W_OK)]
    all_denied = "kfd" in denied or len(denied) == len(nodes) - 1 > 0
    return {f"/dev/{node}": "Permission denied" for node in denied} if all_denied else {}


def _pci(root: Path) -> dict[str, Any]:
    """GPUs on the bus, and whether it could be listed at all."""
    devices = root / "sys/bus/pci/devices"
    counts: Counter[str] = Counter()
    drivers: dict[str, str] = {}
    ids: dict[str, int] = {}
    names = read_names(devices)
    for name in names or ():
        vendor = vendors.vendor_of(*(_hex(devices / name / part) for part in ("vendor", "class")))
        counts.update([vendor.name] if vendor else [])
        if vendor is vendors.NVIDIA:
            drivers[name] = _bound_to(devices / name)
            ids[name] = _hex(devices / name / "device") or 0
    return {
        "pci_listed": names is not None,
        "gpu_drivers": drivers,
        "gpu_ids": ids,
        "pcie": read_pcie(root, drivers),
        "nvidia_devices": counts[vendors.NVIDIA.name],
        "amd_devices": counts[vendors.AMD.name],
    }


def _bound_to(device: Path) -> str:
    """The name of the kernel driver of a device, "" if it has none."""
    try:
        return (device / "driver").readlink().name
    except OSError:
        return ""


def _hex(path: Path) -> int | None:
    text = read_text(path)
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _kernel_driver(root: Path) -> str | None:
    """ "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build ..."."""
    text = read_text(root / "proc/driver/nvidia/version") or ""
    version = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\b", text, re.MULTILINE)
    return version[1] if version else None


def _container(root: Path, environ: Mapping[str, str]) -> str | None:
    """The first sign of a container: a marker file, or the names of the first process's cgroups."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    for marker, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if marker.rpartition("/")[2] in (read_names((root / marker).parent) or ()):
            return name
    if runtime := (read_text(root / "run/systemd/container") or "").strip():
        return runtime
    groups = read_text(root / "proc/1/cgroup") or ""
    match = re.search(r"kubepods|docker|libpod|containerd|lxc", groups)
    return NAMES_IN_CGROUPS.get(match[0], match[0]) if match else None


def read_memory(meminfo: Path) -> dict[str, Any]:
    """Fields of Host, of /proc/meminfo; {} where it cannot be read."""
    lines = dict(re.findall(r"^(\w+):\s+(\d+) kB$", read_text(meminfo) or "", re.MULTILINE))
    names = (("memory_total", "MemTotal"), ("memory_available", "MemAvailable"))
    return {field: int(lines[name]) * 1024 for field, name in names if name in lines}


def _mps(root: Path, environ: Mapping[str, str]) -> bool:
    """Whether the pipe of an MPS daemon is where CUDA looks for it."""
    directory = environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - CUDA's own
    return "control" in (read_names(root / directory.lstrip("/")) or ())


def _cpus() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _shm(directory: Path) -> int | None:
    try:
        stats = os.statvfs(directory)
    except OSError:
        return None
    return stats.f_blocks * stats.f_frsize
