"""What follows from the sections: the job's device and its GPUs."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section, Unknown
from doctor._util.units import GIB, gib
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Torch, TorchGpu
from doctor.facts.load import Attention
from doctor.facts.machine import Gpu, Slice
from doctor.facts.own_model import OwnModel
from doctor.facts.script_machine import ScriptMachine
from doctor.facts.training import Settings
from doctor.job.job import Job, Target

NOT_IN_REPORT = "the report does not show"
"""How the reason of a section or a field begins that no pasted report contains."""
UNLISTED = "no process is listed"
"""Why the processes on a GPU are not known whose memory is used."""
USED_BYTES = 2 * GIB
"""A driver's daemon and most desktops use less; a training uses more."""

UNNAMED = "name not readable"
"""In place of a GPU's name."""


class JobGpu(Section, frozen=True, kw_only=True):
    """One visible GPU: NVML's record and torch's, matched by UUID. At least one is not None."""

    nvml: Gpu | None = None
    slice: Slice | None = None
    torch: TorchGpu | None = None

    @property
    def name(self) -> str:
        record = self.torch or self.nvml
        return (record and record.name) or UNNAMED

    @property
    def index(self) -> int:
        """Torch's index where it has one."""
        return self.torch.index if self.torch else self.nvml.index if self.nvml else 0

    @property
    def place(self) -> str:
        """ "GPU 0"; "GPU at 0000:3b:00.0" where no report states its number."""
        at = self.nvml.address if self.nvml and self.nvml.unnumbered else ""
        return f"GPU at {at}" if at else f"GPU {self.index}"

    @property
    def label(self) -> str:
        """ "GPU 0 (NVIDIA H200)"."""
        return self.place if self.nvml and self.nvml.unnumbered else f"{self.place} ({self.name})"

    @property
    def capability(self) -> tuple[int, int] | None:
        if self.torch and any(self.torch.capability):  # (0, 0): a pasted report does not tell
            return self.torch.capability
        return self.nvml.capability if self.nvml else None

    @property
    def memory_total(self) -> int | None:
        """Bytes, of the MIG slice where it is one."""
        if self.slice and self.slice.memory_total is not None:
            return self.slice.memory_total
        if self.nvml and not self.slice and self.nvml.memory_total is not None:
            return self.nvml.memory_total
        return self.torch.memory_total if self.torch else None

    @property
    def memory_used(self) -> int | None:
        """Bytes in use before torch's first CUDA call, apart from those of the caller."""
        if self.slice:
            return self.slice.memory_used
        if self.nvml is None or self.nvml.memory_used is None:
            return None
        return max(0, self.nvml.memory_used - (self.nvml.held or 0))

    @property
    def other_processes(self) -> int:
        """Compute processes that NVML lists, apart from the caller."""
        if self.nvml is None or not self.nvml.processes:
            return 0
        return self.nvml.processes - (self.nvml.held is not None)

    @property
    def use_by_others(self) -> str:
        """What other processes used before torch's first CUDA call, "" if it is too little."""
        if (self.memory_used or 0) > USED_BYTES:
            return f"{gib(self.memory_used or 0)} used before torch"
        if self.other_processes and not self.slice:
            return f"NVML lists {self.other_processes} compute processes"
        return ""


class JobGpus(Section, frozen=True, kw_only=True):
    """The GPUs of the job: the visible ones, or as many of them as --gpus states."""

    gpus: tuple[JobGpu, ...]
    by: Literal["torch", "environment"]
    """Source of the visible GPUs: torch, or CUDA_VISIBLE_DEVICES applied to NVML's list."""

    @property
    def partly_shown(self) -> bool:
        """A pasted report shows a part of what is to be known of them."""
        records = [gpu.nvml.unread for gpu in self.gpus if gpu.nvml]
        return any(NOT_IN_REPORT in unread.values() for unread in records)

    @property
    def lowest_capability(self) -> tuple[int, int] | None:
        known = [gpu.capability for gpu in self.gpus if gpu.capability is not None]
        return min(known) if known else None


def find_target(
    job: Job, host: Host | Unknown, torch: Torch | Unknown, cuda: Cuda | Unknown | None = None
) -> Target:
    """The device that the job trains on; a GPU unless the job names another."""
    if job.device == "cpu":
        return Target("cpu", "--device cpu")
    mac = isinstance(host, Host) and host.system == "Darwin"
    if job.device == "mps" or (job.device == "auto" and mac):
        return Target("mps", "--device mps" if job.device == "mps" else "this is a Mac")
    is_nvidia = isinstance(host, Host) and host.surely_nvidia
    hip = isinstance(torch, Torch) and torch.hip is not None
    if job.device == "auto" and hip and isinstance(cuda, Cuda) and cuda.started.ok and cuda.gpus:
        is_nvidia = False  # an NVIDIA GPU beside the AMD GPUs that this torch uses
    if not is_nvidia and isinstance(torch, Torch) and torch.hip:
        return Target("rocm", f"torch is built for ROCm {torch.hip}")
    if not is_nvidia and isinstance(host, Host) and host.amd_devices:
        return Target("rocm", "AMD GPUs are on the bus")
    if job.device == "cuda":
        return Target("nvidia", "--device cuda")
    absent = isinstance(host, Host) and host.pci_listed and not host.has_nvidia
    if absent and not (isinstance(cuda, Cuda) and cuda.gpus):
        return Target("nvidia", "assumed without --device cpu; no NVIDIA GPU was found")
    return Target("nvidia", "a job trains on a GPU")


def match_gpus(
    host: Host | Unknown,
    gpus: tuple[Gpu, ...] | Unknown | None,
    cuda: Cuda | Unknown | None,
    count: int | None = None,
) -> JobGpus | Unknown:
    """The first `count` visible GPUs (None: all), NVML's records and torch's matched by UUID."""
    listed = gpus if isinstance(gpus, tuple) else ()
    if isinstance(cuda, Cuda) and cuda.started.ok:
        single = len(listed) == len(cuda.gpus) == 1
        matched = tuple(_match_torch(gpu, listed, single) for gpu in cuda.gpus[:count])
        return JobGpus(gpus=matched, by="torch")
    if isinstance(gpus, tuple):
        variable = host.visible_devices if isinstance(host, Host) else None
        return JobGpus(gpus=visible_gpus(gpus, variable)[:count], by="environment")
    if isinstance(gpus, Unknown):
        return gpus
    return Unknown(reason="no GPU was examined: the job trains without an NVIDIA GPU")


def effective_settings(
    own: OwnModel | Unknown | None, torch: Torch | Unknown
) -> Settings | Unknown:
    """The numeric switches: as the user's code set them, else torch's defaults."""
    if isinstance(own, OwnModel) and own.settings:
        return own.settings
    if isinstance(torch, Unknown):
        return torch
    return Settings(tf32_matmul=torch.tf32_matmul, sdp_enabled=torch.sdp_enabled)


def _match_torch(gpu: TorchGpu, listed: tuple[Gpu, ...], single: bool) -> JobGpu:
    if gpu.uuid is None and single:  # one on each side: no UUID is needed to distinguish them
        return JobGpu(nvml=listed[0], torch=gpu)
    bare = _bare(gpu.uuid or "")
    for nvml in listed:
        if bare and _bare(nvml.uuid) == bare:
            return JobGpu(nvml=nvml, torch=gpu)
        for part in nvml.slices:
            if bare and _bare(part.uuid) == bare:
                return JobGpu(nvml=nvml, slice=part, torch=gpu)
    return JobGpu(torch=gpu)


def visible_gpus(gpus: tuple[Gpu, ...], variable: str | None) -> tuple[JobGpu, ...]:
    """NVML's list as CUDA_VISIBLE_DEVICES filters it; CUDA stops at the first invalid entry.

    GPUs that this process may not open do not count: CUDA does not enumerate them.
    """
    gpus = tuple(gpu for gpu in gpus if not gpu.forbidden)
    if variable is None:
        return tuple(_whole(gpu) for gpu in gpus)
    visible: list[JobGpu] = []
    for entry in (part.strip() for part in variable.split(",")):
        match = _find(entry, gpus)
        if match is None:
            break
        visible.append(match)
    return tuple(visible)


def _whole(gpu: Gpu) -> JobGpu:
    """A GPU by index; in MIG mode a process sees its first slice."""
    return JobGpu(nvml=gpu, slice=gpu.slices[0] if gpu.mig and gpu.slices else None)


def is_undivided(gpu: Gpu) -> bool:
    """Whether MIG mode is on and no instance exists, so that CUDA has no device on it."""
    return bool(gpu.mig) and not gpu.slices and "slices" not in gpu.unread


def _find(entry: str, gpus: tuple[Gpu, ...]) -> JobGpu | None:
    if entry.isdecimal() and len(entry) < 5:
        index = int(entry)
        return _whole(gpus[index]) if index < len(gpus) else None
    for gpu in gpus:
        if entry.startswith("GPU-") and gpu.uuid.startswith(entry):
            return JobGpu(nvml=gpu)
        for part in gpu.slices:
            if entry.startswith("MIG-") and part.uuid.startswith(entry):
                return JobGpu(nvml=gpu, slice=part)
    return None


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _version_of(
    library: str, own: OwnModel | Unknown | None, interpreter: Interpreter | Unknown
) -> str | None:
    """As the model's run recorded it, or the only one that is installed."""
    if isinstance(own, OwnModel) and library in own.versions:
        return own.versions[library]
    installed = interpreter.installed if isinstance(interpreter, Interpreter) else None
    found = {each.partition("==")[2] for each in installed or () if each.startswith(f"{library}==")}
    return found.pop() if len(found) == 1 else None


def script_machine(
    torch: Torch | Unknown,
    gpus: JobGpus | Unknown,
    own: OwnModel | Unknown | None,
    attention: Attention | Unknown | None,
    interpreter: Interpreter | Unknown,
) -> ScriptMachine:
    """What rules on scripts may know of the machine; None where it was not read."""
    flash = [
        each.ended.ok
        for each in (attention.implementations if isinstance(attention, Attention) else ())
        if each.name == "flash_attention_2"
    ]
    return ScriptMachine(
        capability=gpus.lowest_capability if isinstance(gpus, JobGpus) else None,
        torch=torch.version if isinstance(torch, Torch) else None,
        transformers=_version_of("transformers", own, interpreter),
        flash_attention=flash[0] if flash else None,
        gpus=len(gpus.gpus) if isinstance(gpus, JobGpus) else None,
    )
