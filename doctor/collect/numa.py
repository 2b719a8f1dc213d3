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
        address = gpu.nvml.address if gpu.nvml and not gpu.slice else ""
        with contextlib.suppress(OSError, ValueError):
            node = int((PCI_DEVICES / address / "numa_node").read_text("ascii"))
            if gpu.torch and node >= 0:
                nodes[f"cuda:{gpu.torch.index}"] = node
    return nodes
