"""The NVIDIA driver: whether it answers, and whether it runs the CUDA that torch was built for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.model import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.sections import Cuda, Driver, Ended, Host, Torch, Unknown
from doctor.units import show_version
from doctor.views import JobGpus

NO_LIBRARY = 12
NO_DEVICE = 100
MISMATCH = 18
WANTED = "NVML and cuInit must answer"
KERNEL_LOG = "sudo dmesg | grep -iE 'xid|nvrm'"
MIN_BRANCH = {11: 450, 12: 525, 13: 580}
"""Lowest driver branch that runs every CUDA of a major version: source cuda-minor-compatibility."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps against one error."""

    fix: str
    owner: Owner = Owner.ENVIRONMENT
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


RETURN = (
    "Rented: return the machine and name the GPU's UUID. Your own: reboot it, and look for Xid "
    "lines in the kernel log."
)
HANGS = Remedy(
    "Start no training: torch hangs in the same call. " + RETURN, Owner.MACHINE, (KERNEL_LOG,)
)
CRASHES = Remedy(
    "Take foreign folders off LD_LIBRARY_PATH, so that the driver's own libraries are loaded; if "
    "it still crashes, reinstall the driver's user-space libraries in the version of the kernel "
    "module.",
    commands=("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",),
)
NOT_LOADED = Remedy(
    "In a container: start it with the GPUs (docker run --gpus all). On the host: load the kernel "
    "module, and if that fails install the driver for this kernel again.",
    commands=("sudo modprobe nvidia", KERNEL_LOG),
)
LIBRARY = Remedy(
    "In a container: start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility, "
    "which brings libcuda.so.1 and libnvidia-ml.so.1 in. On the host: install the NVIDIA driver.",
    commands=("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",),
)
IN_CONTAINER = Remedy(
    "Start the container again: `systemctl daemon-reload` on the host takes the GPUs away from "
    "running containers. To keep it from coming back, make the /dev/char links "
    "(nvidia-ctk system create-dev-char-symlinks) or use the cgroupfs driver.",
    commands=("ls -l /dev/nvidia* /dev/char | head -40",),
    sources=("toolkit-48",),
)
MISMATCHED = Remedy(
    "The driver's files were upgraded under the running kernel module: reboot the host, or unload "
    "and load the module. It cannot be mended inside a container; rented: return the machine.",
    Owner.MACHINE,
    ("cat /proc/driver/nvidia/version",),
    ("driver-mismatch",),
)
FABRIC = Remedy(
    "The NVSwitch fabric is not ready: the host's fabric manager does not run, or not in the "
    "driver's version. Rented: return the machine. Your own: start it and look at its log.",
    Owner.MACHINE,
    ("sudo systemctl restart nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
    ("pytorch-35710",),
)
COMPAT = Remedy(
    "A libcuda.so.1 was loaded that does not fit this driver or GPU, most often a cuda-compat "
    "package: take its folder off LD_LIBRARY_PATH. Forward compatibility is for data-centre GPUs.",
    commands=("ldconfig -p | grep libcuda.so.1", "echo $LD_LIBRARY_PATH"),
    sources=("cuda-forward-compatibility",),
)
LOST = Remedy("A GPU is lost or has to be reset. " + RETURN, Owner.MACHINE, (KERNEL_LOG,))
FORBIDDEN = Remedy(
    "This user or container may not open the GPUs' device nodes: start the container with the "
    "GPUs, or grant access to /dev/nvidia*.",
    commands=("ls -l /dev/nvidia*",),
)
OTHER = Remedy(
    "Look up the error, compare the driver's libraries with the kernel module, and reboot if they "
    "differ.",
    commands=("nvidia-smi", KERNEL_LOG),
)
NVML_REMEDIES = {
    4: FORBIDDEN,
    9: NOT_LOADED,
    NO_LIBRARY: LIBRARY,
    15: LOST,
    16: LOST,
    17: FORBIDDEN,
    MISMATCH: MISMATCHED,
}
CUDA_REMEDIES = {
    34: Remedy(
        "The stub libcuda.so.1 of the CUDA toolkit was loaded: take its stubs folder off "
        "LD_LIBRARY_PATH.",
        commands=("echo $LD_LIBRARY_PATH",),
    ),
    NO_DEVICE: Remedy(
        "The driver offers CUDA no device. A GPU in MIG mode needs a compute instance; a container "
        "needs /dev/nvidia-uvm beside /dev/nvidia0.",
        commands=("nvidia-smi -L", "ls -l /dev/nvidia*"),
    ),
    802: FABRIC,
    803: COMPAT,
    804: COMPAT,
}
NO_HARDWARE = Remedy(
    "Run on a machine with a GPU; start a container with --gpus all; or say --device cpu if the "
    "CPU is meant.",
    Owner.JOB,
)


def answers(host: Host | Unknown, driver: Driver | Unknown) -> Verdict:
    if isinstance(driver, Unknown):
        return _no_hardware(host, driver.reason) or unknown(driver.reason)
    took = max(driver.nvml.seconds, driver.cuda.seconds)
    if driver.nvml.ok and driver.cuda.ok:
        return ok(f"{_named(driver)}: NVML and cuInit answer", seconds=took)
    wanted = host.env.get("CUDA_VISIBLE_DEVICES") if isinstance(host, Host) else None
    if driver.nvml.ok and driver.cuda.code == NO_DEVICE and wanted is not None:
        said = f"cuInit finds no device under CUDA_VISIBLE_DEVICES={wanted!r}, see GPU001"
        return ok(f"{_named(driver)}: NVML answers; {said}", seconds=took)
    said = _said(driver)
    if any(_inside(ended, "timeout") for ended in (driver.nvml, driver.cuda)):
        return _failed(f"{said}; {WANTED} within 8 s", HANGS)
    if found := _no_hardware(host, said):
        return found
    return _broken(host, driver, said)


def _broken(host: Host | Unknown, driver: Driver, said: str) -> Verdict:
    """Something is there, and it answers with an error."""
    if driver.nvml.code == NO_LIBRARY and driver.cuda.ok:
        less = "cuInit answers; without NVML the GPUs' health cannot be read, and NCCL needs it"
        return warn(f"{said}; {less}", *LIBRARY.commands, fix=LIBRARY.fix, owner=LIBRARY.owner)
    if any(_inside(ended, "signal") for ended in (driver.nvml, driver.cuda)):
        return _failed(f"{said}; {WANTED}", CRASHES)
    remedy = _nvml_remedy(host, driver.nvml) or _cuda_remedy(driver.cuda)
    if remedy is None:
        return unknown(f"the driver was not reached: {said}")
    there = _there(host) if remedy in (NOT_LOADED, LIBRARY, MISMATCHED) else ""
    return _failed(f"{said}{there}; {WANTED}", remedy)


def _nvml_remedy(host: Host | Unknown, ended: Ended) -> Remedy | None:
    if ended.ok or ended.code is None:
        return None
    if ended.code == 999 and isinstance(host, Host) and host.container:
        return IN_CONTAINER
    return NVML_REMEDIES.get(ended.code, OTHER)


def _cuda_remedy(ended: Ended) -> Remedy | None:
    if ended.ok:
        return None
    if ended.code is None:
        return LIBRARY if "libcuda.so.1" in ended.detail and ended.how == "error" else None
    return CUDA_REMEDIES.get(ended.code, OTHER)


def _no_hardware(host: Host | Unknown, said: str) -> Verdict | None:
    if not isinstance(host, Host) or host.has_nvidia:
        return None
    less = "no NVIDIA GPU on the PCI bus and no /dev/nvidia*, the job wants one"
    return _failed(f"{less} ({said})" if said else less, NO_HARDWARE)


def _failed(summary: str, remedy: Remedy) -> Verdict:
    return fail(
        summary,
        *remedy.commands,
        fix=remedy.fix,
        owner=remedy.owner,
        sources=remedy.sources,
    )


def _inside(ended: Ended, how: str) -> bool:
    """Whether it ended so inside a call of the driver, not before one was reached."""
    return ended.how == how and " inside " in ended.detail


def _said(driver: Driver) -> str:
    pairs = (("NVML", driver.nvml), ("CUDA", driver.cuda))
    return "; ".join(f"{name}: {ended.detail or ended.how}" for name, ended in pairs if not ended.ok)


def _named(driver: Driver) -> str:
    version = f"driver {driver.version or 'of unknown version'}"
    supports = driver.cuda_version
    return f"{version}, CUDA {show_version(_cuda(supports))}" if supports else version


def _there(host: Host | Unknown) -> str:
    if not isinstance(host, Host):
        return ""
    nodes = f"device nodes {', '.join(host.device_nodes[:3])}" if host.device_nodes else "no nodes"
    module = f"kernel module {host.kernel_driver}" if host.kernel_driver else "no kernel module"
    return f" ({host.nvidia_devices} NVIDIA GPUs on the bus, {nodes}, {module})"


def _cuda(number: int) -> tuple[int, int]:
    return number // 1000, number % 1000 // 10


def runs_torch_cuda(
    driver: Driver, torch: Torch, cuda: Cuda | Unknown | None, job_gpus: JobGpus | Unknown
) -> Verdict:
    match = re.match(r"(\d+)\.(\d+)", torch.cuda or "")
    if match is None:
        return skip("this torch is not built for CUDA, see TOR002")
    needs = int(match[1]), int(match[2])
    if isinstance(cuda, Cuda) and not cuda.started.ok and "too old" in cuda.started.detail:
        return _behind(f"torch says: {cuda.started.detail}", needs, job_gpus)
    if driver.cuda_version is None:
        return unknown(f"the driver's CUDA version could not be read; torch {_needs(needs)}")
    has = _cuda(driver.cuda_version)
    said = f"{_named(driver)}; torch {torch.version} {_needs(needs)}"
    if has >= needs:
        return ok(said)
    if has[0] == needs[0]:
        return _within_major(said, needs[0], driver.version, torch.archs, job_gpus)
    if _came_up(cuda):
        return ok(f"{said}: a CUDA context came up all the same")
    return _behind(said, needs, job_gpus)


def _within_major(
    said: str, major: int, version: str | None, archs: tuple[str, ...], gpus: JobGpus | Unknown
) -> Verdict:
    """The driver's CUDA is older, of the same major version: minor-version compatibility."""
    if isinstance(gpus, JobGpus) and gpus.gpus and all(_ran(gpu.torch) for gpu in gpus.gpus):
        return ok(f"{said}: kernels ran all the same")
    return warn(said)
