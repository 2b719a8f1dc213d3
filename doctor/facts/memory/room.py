"""Memory that is still free for a training, and where."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import gib
from doctor.facts.host import Host
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Target


def training_room(
    target: Target, job_gpus: JobGpus | Unknown, host: Host | Unknown
) -> tuple[float, str] | Unknown:
    """Free bytes on the fullest device of the job, and which device that is."""
    if target.kind in ("cpu", "mps"):
        return host_room(host)
    if isinstance(job_gpus, Unknown):
        return job_gpus
    if not job_gpus.gpus:
        return Unknown(reason="no GPU is visible")
    rooms = [_gpu_room(gpu, host) for gpu in job_gpus.gpus]
    for room in rooms:
        if isinstance(room, Unknown):
            return room
    return min(room for room in rooms if isinstance(room, tuple))


def _gpu_room(gpu: JobGpu, host: Host | Unknown) -> tuple[float, str] | Unknown:
    total, used = gpu.memory_total, gpu.memory_used
    if shares_memory(gpu):
        room = host_room(host)
        if isinstance(room, Unknown):
            return room
        return room[0], f"{room[1]} ({gpu.label} shares it)"
    if total is None:
        return Unknown(reason=f"the memory of {gpu.label} could not be read")
    if used is None:
        return float(total), f"on {gpu.label}, memory used by others not read"
    return float(total - used), f"free on {gpu.label}"


def shares_memory(gpu: JobGpu) -> bool:
    """An integrated GPU: torch reports one, or NVML supports no memory query."""
    if gpu.torch:
        return gpu.torch.integrated
    return gpu.nvml is not None and gpu.nvml.lacks("memory_total")


def host_room(host: Host | Unknown) -> tuple[float, str] | Unknown:
    """Bytes this process may still use, and why: MemAvailable, or less under a cgroup limit."""
    if isinstance(host, Unknown):
        return host
    if host.memory_available is None:
        return Unknown(reason="MemAvailable could not be read")
    limit, used = host.cgroup_memory_limit, host.cgroup_memory_used
    if limit is None or limit - (used or 0) >= host.memory_available:
        return float(host.memory_available), "available on this host"
    usage = "usage not read" if used is None else f"{gib(used)} used"
    return float(limit - (used or 0)), f"available under the cgroup limit of {gib(limit)}, {usage}"
