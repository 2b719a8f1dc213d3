"""The NVIDIA driver: whether it responds, and whether it runs the CUDA torch was built for."""

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

REQUIRED = "NVML and cuInit must respond"
MIN_BRANCH = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch that runs every CUDA of a major version (cuda-minor-compatibility)."""
UNKNOWN_ERROR = 999
OLD_BRANCH = (
    "Upgrade the driver on the host to branch 580 or newer: torch wheels for CUDA 12 require 525, "
    "those for CUDA 13 require 580. Rented: take a machine with a newer driver."
)


def responds(host: Host | Unknown, driver: Driver | Unknown) -> Verdict:
    if isinstance(driver, Unknown):
        return _no_hardware(host, driver.reason) or unknown(driver.reason)
    elapsed = max(driver.nvml.seconds, driver.cuda.seconds)
    return replace(_responds(host, driver), seconds=elapsed)


def _responds(host: Host | Unknown, driver: Driver) -> Verdict:
    if driver.nvml.ok and driver.cuda.ok:
        return ok(f"{_version(driver)}: NVML and cuInit respond")
    selection = host.visible_devices if isinstance(host, Host) else None
    if driver.nvml.ok and driver.cuda.code == NO_DEVICE and selection is not None:
        note = f"cuInit finds no device with CUDA_VISIBLE_DEVICES={selection!r}, see GPU001"
        return ok(f"{_version(driver)}: NVML responds; {note}")
    errors = _errors(driver)
    if any(_inside(ended, "timeout") for ended in (driver.nvml, driver.cuda)):
        return _failed(f"{errors}; {REQUIRED} within 8 s", HANGS)
    return _no_hardware(host, errors) or _broken(host, driver, errors)


def _broken(host: Host | Unknown, driver: Driver, errors: str) -> Verdict:
    """There is hardware, and a call returned an error."""
    if driver.nvml.code == NO_LIBRARY and driver.cuda.ok:
        note = "cuInit responds; without NVML the GPUs' health cannot be read, and NCCL needs it"
        return warn(f"{errors}; {note}", *LIBRARY.commands, fix=LIBRARY.fix, owner=LIBRARY.owner)
    if any(_inside(ended, "signal") for ended in (driver.nvml, driver.cuda)):
        return _failed(f"{errors}; {REQUIRED}", CRASHES)
    remedy = _nvml_remedy(host, driver.nvml) or _cuda_remedy(driver.cuda)
    if remedy is None:
        return unknown(f"the driver was not reached: {errors}")
    hardware = _hardware(host) if remedy in (NOT_LOADED, LIBRARY, MISMATCHED) else ""
    return _failed(f"{errors}{hardware}; {REQUIRED}", remedy)


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


def _no_hardware(host: Host | Unknown, errors: str) -> Verdict | None:
    if not isinstance(host, Host) or host.has_nvidia or not host.pci_listed:
        return None
    summary = "no NVIDIA GPU on the PCI bus and no /dev/nvidia*; the job requires one"
    return _failed(f"{summary} ({errors})" if errors else summary, NO_HARDWARE)


def _failed(summary: str, remedy: Remedy) -> Verdict:
    return fail(
        summary,
        *remedy.commands,
        fix=remedy.fix,
        owner=remedy.owner,
        sources=remedy.sources,
    )


def _inside(ended: Ended, how: str) -> bool:
    """Whether it ended this way inside a call of the driver, not before the first call."""
    return ended.how == how and " inside " in ended.detail


def _errors(driver: Driver) -> str:
    pairs = (("NVML", driver.nvml), ("CUDA", driver.cuda))
    return "; ".join(
        f"{name}: {ended.detail or ended.how}" for name, ended in pairs if not ended.ok
    )


def _version(driver: Driver) -> str:
    version = f"driver {driver.version or 'of unknown version'}"
    cuda = driver.cuda_version
    return f"{version}, CUDA {dotted(_cuda(cuda))}" if cuda else version


def _hardware(host: Host | Unknown) -> str:
    if not isinstance(host, Host):
        return ""
    nodes = host.device_nodes[:3]
    listed = f"device nodes {', '.join(nodes)}" if nodes else "no device nodes"
    module = f"kernel module {host.kernel_driver}" if host.kernel_driver else "no kernel module"
    return f" (NVIDIA GPUs on the bus: {host.nvidia_devices}, {listed}, {module})"


def _cuda(number: int) -> tuple[int, int]:
    return number // 1000, number % 1000 // 10


RESPONDS = Check(
    code="DRV001",
    slug="driver-answers",
    title="The NVIDIA driver responds",
    why="NVML reports the GPUs' identity and health; cuInit is the first CUDA call of torch. Each "
    "runs in a process of its own with a deadline of 8 s, because a driver that hangs blocks every "
    "program that queries it, including nvidia-smi and torch.",
    passes=(
        "NVML and cuInit both respond",
        "cuInit finds no device because CUDA_VISIBLE_DEVICES hides all of them: see GPU001",
    ),
    warns=("cuInit responds, and only libnvidia-ml.so.1 is missing",),
    fails=(
        "a call does not return within 8 s, or crashes",
        "NVIDIA hardware or device nodes exist, and a library is missing or the driver is not "
        "loaded",
        "NVML or cuInit returns an error",
        "the job requires a GPU, and there is no NVIDIA hardware",
    ),
    fix=OTHER.fix,
    limits="that a kernel runs: only the driver was called; TOR003 and SMK001 run kernels.",
    owner=Owner.ENVIRONMENT,
    judge=responds,
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
        return _too_old(f"torch reports: {cuda.started.detail}", job_gpus, _branch(driver.version))
    if driver.cuda_version is None:
        return unknown(
            f"the driver's CUDA version could not be read; {torch.cuda} required by torch"
        )
    supported = _cuda(driver.cuda_version)
    summary = f"{_version(driver)}; torch {torch.version} requires CUDA {dotted(needs)}"
    if supported >= needs:
        return ok(summary)
    branch = _branch(driver.version)
    least = MIN_BRANCH.get(needs[0], 0)
    if supported[0] < needs[0] or (branch is not None and branch < least):
        if _context_was_created(cuda):
            return ok(f"{summary}; a CUDA context was created nevertheless")
        least_driver = f"driver {least} or newer" if least else "a newer driver"
        return _too_old(f"{summary}, which requires {least_driver}", job_gpus, branch)
    return _within_major(summary, torch, job_gpus)


def _within_major(summary: str, torch: Torch, job_gpus: JobGpus | Unknown) -> Verdict:
    """The driver's CUDA is older, of the same major version."""
    if isinstance(job_gpus, Unknown):
        return unknown(f"{summary}; which GPU code it uses is unknown: {job_gpus.reason}")
    if not job_gpus.gpus or not torch.archs:
        return unknown(f"{summary}; the GPUs or the build's GPU code could not be read")
    return worst(*(_runs_code(summary, torch, gpu) for gpu in job_gpus.gpus))


def _runs_code(summary: str, torch: Torch, gpu: JobGpu) -> Verdict:
    """Cubins run on every driver of the major version; PTX needs one as new as the toolkit."""
    if gpu.torch and gpu.torch.ran:
        return ok(f"{summary}, of the same major version; a kernel ran on {gpu.label}")
    capability = gpu.capability
    if capability is None:
        return unknown(f"{summary}; the compute capability of {gpu.label} could not be read")
    if native := cubins(torch.archs, capability):
        return ok(f"{summary}, of the same major version; {gpu.label} runs its {native[-1]}")
    if ptx(torch.archs, capability) or may_hide_ptx(torch.cuda, capability):
        note = f"for {gpu.label} the build has only PTX, which requires a driver as new"
        return warn(f"{summary}; {note}")
    return skip(f"the build has no code for {gpu.label}, see TOR003")


def _too_old(summary: str, job_gpus: JobGpus | Unknown, branch: int | None) -> Verdict:
    lowest = job_gpus.lowest_capability if isinstance(job_gpus, JobGpus) else None
    if branch is not None and branch < MIN_BRANCH[12]:
        return fail(summary, fix=OLD_BRANCH)
    return fail(summary, _older_torch(lowest))


def _older_torch(lowest: Capability | None) -> str:
    """torch 2.10 is the last release built for CUDA 12 by default; it has sm_70 to sm_120."""
    pip = "python -m pip install --force-reinstall"
    if lowest is not None and lowest < (7, 0):
        return f"{pip} torch --index-url https://download.pytorch.org/whl/cu126"
    return f'{pip} "torch==2.10.*" --index-url https://download.pytorch.org/whl/cu128'


def _context_was_created(cuda: Cuda | Unknown | None) -> bool:
    return isinstance(cuda, Cuda) and (cuda.started.ok or any(gpu.ran for gpu in cuda.gpus))


def _branch(version: str | None) -> int | None:
    """580 of "580.95.05"."""
    head = (version or "").split(".")[0]
    return int(head) if head.isdecimal() else None


RUNS_TORCH_CUDA = Check(
    code="DRV002",
    slug="driver-runs-torch-cuda",
    title="The driver runs the CUDA that torch was built for",
    why="A driver runs its own CUDA version and older ones. Within a major version it also runs "
    "cubins of newer minor versions, but not PTX of a newer toolkit. A newer major version needs a "
    "newer driver, or the forward-compatibility package for data-center GPUs. Inside a container "
    "the driver is the host's and cannot be changed.",
    passes=(
        "the driver's CUDA is as new as torch's",
        "the driver's CUDA is older, of the same major version; the driver's branch supports that "
        "version (12.x: 525, 13.x: 580), and the build has a cubin for every GPU of the job",
        "a CUDA context was created, whatever the versions",
    ),
    warns=(
        "the driver's CUDA is older, of the same major version, and the build has only PTX for a "
        "GPU of the job on which no kernel ran",
    ),
    fails=(
        "the driver's CUDA is a major version behind or its branch too old, and no CUDA context "
        "was created",
        "torch itself reports that the driver is too old",
    ),
    fix="Install a torch that is built for a CUDA of the driver's major version, or upgrade the "
    "driver on the host. The command installs a build for CUDA 12, which requires driver 525 or "
    "newer.",
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

CHECKS = (RESPONDS, RUNS_TORCH_CUDA)
