"""Whether nearly all of a GPU's memory may be taken for a test."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.facts.machine import Host
from doctor.facts.memory.room import shares_memory
from doctor.facts.views import JobGpu
from doctor.hardware.find import is_vgpu

COHERENT = ("GH200", "GB200", "GB300")
"""In the names of GPUs whose memory is memory of the operating system, too: what is written there
may have been moved."""


def why_unsuited(gpu: JobGpu, host: Host | Unknown) -> str:
    """Why this kind of GPU is not tested, "" if it is."""
    reasons = {
        "it shares the host's memory": shares_memory(gpu),
        "its memory is also the operating system's": any(name in gpu.name for name in COHERENT),
        "it is a MIG slice": gpu.slice is not None or bool(gpu.nvml and gpu.nvml.mig),
        "it is a virtual GPU": is_vgpu(gpu.name),
        "under WSL Windows moves its memory": isinstance(host, Host) and host.wsl,
        "MPS shares it among processes": isinstance(host, Host) and bool(host.mps),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def why_not_ours(gpu: JobGpu) -> str:
    """Why it is not certain that no other process uses this GPU, "" if it is."""
    if gpu.nvml is None or gpu.memory_used is None or gpu.nvml.processes is None:
        return "NVML does not tell whether another process uses it"
    if gpu.nvml.display_active:
        return "a desktop runs on it"
    return gpu.use_by_others
