"""NUMA nodes of the job's GPUs: those of different nodes share no PCIe link."""

from __future__ import annotations

import contextlib
from pathlib import Path

from doctor._util.records import Unknown
from doctor.facts.views import JobGpus

PCI_DEVICES = Path("/sys/bus/pci/devices")


def numa_nodes(job_gpus: JobGpus | Unknown) -> dict[str, int]:
    """Device -> NUMA node of its PCI device, for those that the system names."""
    nodes = {}
    for gpu in job_gpus.gpus if isinstance(job_gpus, JobGpus) else ():
        bus_id = gpu.nvml.bus_id if gpu.nvml and not gpu.slice else ""
        with contextlib.suppress(OSError, ValueError):
            node = int((PCI_DEVICES / pci_address(bus_id) / "numa_node").read_text("ascii"))
            if gpu.torch and node >= 0:
                nodes[f"cuda:{gpu.torch.index}"] = node
    return nodes


def pci_address(bus_id: str) -> str:
    """NVML's "00000000:1B:00.0" as the system spells it: "0000:1b:00.0"."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
