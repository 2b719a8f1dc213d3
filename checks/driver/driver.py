"""The NVIDIA driver: whether it answers, and whether it runs the CUDA that torch was built for."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor._util.records import Ended, Unknown
from doctor._util.units import dotted
from doctor.checks.driver.errors import (
    CRASHES,
    CUDA_REMEDIES,
    HANGS,
    IN_CONTAINER,
    LIBRARY,
    MISMATCHED,
    NO_DEVICE,
    NO_HARDWARE,
    NO_LIBRARY,
    NOT_LOADED,
    NVML_REMEDIES,
    OTHER,
    Remedy,
)
from doctor.checks.torch_build.gpu_code import Capability, cubins, may_hide_ptx, ptx
from doctor.facts.machine import Cuda, Driver, Host, Torch
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

WANTED = "NVML and cuInit must answer"
MIN_BRANCH = {11: 450, 12: 525, 13: 580}
"""Lowest driver branch that runs every CUDA of a major version: source cuda-minor-compatibility."""
UNKNOWN_ERROR = 999
OLD_BRANCH = (
    "Upgrade the driver on the host to branch 580 or newer: torch's wheels for CUDA 12 need 525, "
    "those for CUDA 13 need 580. Rented: take a machine with a newer driver."
)


def answers(host: Host | Unknown, driver: Driver | Unknown) -> Verdict:
    if isinstance(driver, Unknown):
        return _no_hardware(host, driver.reason) or unknown(driver.reason)
    took = max(driver.nvml.seconds, driver.cuda.seconds)
    return replace(_answers(host, driver), seconds=took)


def _answers(host: Host | Unknown, driver: Driver) -> Verdict:
    if driver.nvml.ok and driver.cuda.ok:
        return ok(f"{_named(driver)}: NVML and cuInit answer")
    wanted = host.visible_devices if isinstance(host, Host) else None
    if driver.nvml.ok and driver.cuda.code == NO_DEVICE and wanted is not None:
        said = f"cuInit finds no device under CUDA_VISIBLE_DEVICES={wanted!r}, see GPU001"
        return ok(f"{_named(driver)}: NVML answers; {said}")
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
    if ended.code == UNKNOWN_ERROR and isinstance(host, Host) and host.container:
        return IN_CONTAINER
    return NVML_REMEDIES.get(ended.code, OTHER)


def _cuda_remedy(ended: Ended) -> Remedy | None:
    if ended.ok:
        return None
    if ended.code is None:
        return LIBRARY if "libcuda.so.1" in ended.detail and ended.how == "error" else None
    return CUDA_REMEDIES.get(ended.code, OTHER)


def _no_hardware(host: Host | Unknown, said: str) -> Verdict | None:
    if not isinstance(host, Host) or host.has_nvidia or not host.pci_listed:
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
    return "; ".join(
        f"{name}: {ended.detail or ended.how}" for name, ended in pairs if not ended.ok
    )


def _named(driver: Driver) -> str:
    version = f"driver {driver.version or 'of unknown version'}"
    supports = driver.cuda_version
    return f"{version}, CUDA {dotted(_cuda(supports))}" if supports else version


def _there(host: Host | Unknown) -> str:
    if not isinstance(host, Host):
        return ""
    nodes = f"device nodes {', '.join(host.device_nodes[:3])}" if host.device_nodes else "no nodes"
    module = f"kernel module {host.kernel_driver}" if host.kernel_driver else "no kernel module"
    return f" (NVIDIA GPUs on the bus: {host.nvidia_devices}, {nodes}, {module})"


def _cuda(number: int) -> tuple[int, int]:
    return number // 1000, number % 1000 // 10


ANSWERS = Check(
    code="DRV001",
    slug="driver-answers",
    title="The NVIDIA driver answers",
    why="NVML tells what the GPUs are and how they are; cuInit is the first thing that CUDA does "
    "in torch. Each is called in a process of its own with 8 s to answer, because a driver that "
    "hangs takes every program with it that asks, nvidia-smi and torch among them.",
    passes=(
        "NVML and cuInit both answer. That cuInit finds no device because "
        "CUDA_VISIBLE_DEVICES hides them all is a matter of GPU001",
    ),
    warns=("cuInit answers, and only libnvidia-ml.so.1 is missing",),
    fails=(
        "a call gives no answer in 8 s or crashes",
        "a library is missing or the driver is not loaded although NVIDIA hardware or "
        "device nodes are there",
        "NVML or cuInit answers with an error",
        "the job wants a GPU and there is no NVIDIA hardware at all",
    ),
    fix=OTHER.fix,
    limits="that a kernel runs: the driver only answered; TOR003 and SMK001 run some.",
    owner=Owner.ENVIRONMENT,
    judge=answers,
    returns=True,
    required="always",
    commands=OTHER.commands,
    sources=("ps-U28", "toolkit-48", "pytorch-35710", "driver-mismatch"),
    targets=("nvidia",),
)


def runs_torch_cuda(
    driver: Driver, torch: Torch, cuda: Cuda | Unknown | None, job_gpus: JobGpus | Unknown
) -> Verdict:
    match = re.match(r"(\d+)\.(\d+)", torch.cuda or "")
    if match is None:
        return skip("this torch is not built for CUDA, see TOR002")
    needs = int(match[1]), int(match[2])
    if isinstance(cuda, Cuda) and not cuda.started.ok and "too old" in cuda.started.detail:
        return _too_old(f"torch says: {cuda.started.detail}", job_gpus, _branch(driver.version))
    if driver.cuda_version is None:
        return unknown(f"the driver's CUDA version could not be read; torch needs {torch.cuda}")
    has = _cuda(driver.cuda_version)
    said = f"{_named(driver)}; torch {torch.version} needs CUDA {dotted(needs)}"
    if has >= needs:
        return ok(said)
    branch = _branch(driver.version)
    least = MIN_BRANCH.get(needs[0], 0)
    if has[0] < needs[0] or (branch is not None and branch < least):
        if _came_up(cuda):
            return ok(f"{said}; a CUDA context came up all the same")
        least_driver = f"driver {least} or newer" if least else "a newer driver"
        return _too_old(f"{said}, which needs {least_driver}", job_gpus, branch)
    return _within_major(said, torch, job_gpus)


def _within_major(said: str, torch: Torch, job_gpus: JobGpus | Unknown) -> Verdict:
    """The driver's CUDA is an older one of the same major version."""
    if isinstance(job_gpus, Unknown):
        return unknown(f"{said}; which GPU code it takes is unknown: {job_gpus.reason}")
    if not job_gpus.gpus or not torch.archs:
        return unknown(f"{said}; the GPUs or the build's GPU code could not be read")
    return worst(*(_takes_code(said, torch, gpu) for gpu in job_gpus.gpus))


def _takes_code(said: str, torch: Torch, gpu: JobGpu) -> Verdict:
    """Cubins run on every driver of the major version; PTX wants one as new as the toolkit."""
    if gpu.torch and gpu.torch.ran:
        return ok(f"{said}, of the same major version; a kernel ran on {gpu.label}")
    on = gpu.capability
    if on is None:
        return unknown(f"{said}; the compute capability of {gpu.label} could not be read")
    if found := cubins(torch.archs, on):
        return ok(f"{said}, of the same major version; {gpu.label} runs its {found[-1]}")
    if ptx(torch.archs, on) or may_hide_ptx(torch.cuda, on):
        return warn(f"{said}, and for {gpu.label} it has PTX only, which wants a driver as new")
    return skip(f"the build has no code at all for {gpu.label}, see TOR003")


def _too_old(said: str, job_gpus: JobGpus | Unknown, branch: int | None) -> Verdict:
    lowest = job_gpus.lowest_capability if isinstance(job_gpus, JobGpus) else None
    if branch is not None and branch < MIN_BRANCH[12]:
        return fail(said, fix=OLD_BRANCH)
    return fail(said, _older_torch(lowest))


def _older_torch(lowest: Capability | None) -> str:
    """torch 2.10 is the last whose default build is for CUDA 12; it has sm_70 to sm_120."""
    pip = "python -m pip install --force-reinstall"
    if lowest is not None and lowest < (7, 0):
        return f"{pip} torch --index-url https://download.pytorch.org/whl/cu126"
    return f'{pip} "torch==2.10.*" --index-url https://download.pytorch.org/whl/cu128'


def _came_up(cuda: Cuda | Unknown | None) -> bool:
    return isinstance(cuda, Cuda) and (cuda.started.ok or any(gpu.ran for gpu in cuda.gpus))


def _branch(version: str | None) -> int | None:
    """580 of "580.95.05"."""
    head = (version or "").split(".")[0]
    return int(head) if head.isdecimal() else None


RUNS_TORCH_CUDA = Check(
    code="DRV002",
    slug="driver-runs-torch-cuda",
    title="The driver runs the CUDA that torch was built for",
    why="A driver runs the CUDA version that it came with and all older ones. It also runs cubins "
    "of a newer minor version of the same major one, with some features missing, but not PTX that "
    "a newer toolkit wrote. A major version ahead needs a newer driver, or the forward-"
    "compatibility package that exists for data-centre GPUs. Inside a container or a rented pod "
    "the driver is the host's and cannot be changed.",
    passes=(
        "the driver's CUDA is as new as torch's",
        "it is older and of the same major version, the driver is of a branch that "
        "this major version runs on (12.x: 525, 13.x: 580) and every GPU of the job "
        "has a cubin in the build",
        "a CUDA context came up, whatever the versions",
    ),
    warns=(
        "it is older, of the same major version, and the build has PTX only for a GPU "
        "of the job on which no kernel was seen to run",
    ),
    fails=(
        "it is a major version behind, or of an older branch, and no CUDA context came up",
        "torch itself says that the driver is too old",
    ),
    fix="Install a torch that is built for a CUDA of the driver's major version, or upgrade the "
    "driver on the host. The command is for CUDA 12, which needs driver 525 or newer.",
    limits="that every feature of torch's CUDA works with an older driver.",
    owner=Owner.ENVIRONMENT,
    judge=runs_torch_cuda,
    returns=True,
    sources=(
        "ps-U28",
        "cuda-minor-compatibility",
        "cuda-forward-compatibility",
        "pytorch-install",
    ),
    after=("TOR001",),
    targets=("nvidia",),
)

CHECKS = (ANSWERS, RUNS_TORCH_CUDA)
