"""What runs while torch is imported: NVML's counters, and the copies between the GPUs.

The copies need no torch, and in exclusive compute mode they need the GPUs for themselves: torch's
processes hold them later.
"""

from __future__ import annotations

from typing import NamedTuple

from doctor._util.records import Unknown
from doctor.collect.children import Children
from doctor.collect.driver import responds
from doctor.collect.gpus import Watch
from doctor.collect.left_out import reason_in_use
from doctor.collect.peers import Copies, copy_around
from doctor.collect.workers import Gpus
from doctor.facts.host import Host
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpu, visible_gpus
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

BY_BUS = "PCI_BUS_ID"
"""CUDA_DEVICE_ORDER for NVML's order; by default CUDA lists the fastest GPU first."""


class BeforeTorch(NamedTuple):
    """The watch, which goes on, and the copies, which are over."""

    watch: Watch
    copies: Copies


def run_before_torch(
    children: Children,
    job: Job,
    options: RunOptions,
    host: Host,
    driver: Driver | Unknown | None,
    gpus: Gpus,
) -> BeforeTorch:
    """Watch every visible GPU, and copy between those of the job unless somebody uses one."""
    visible = visible_gpus(gpus, host.visible_devices) if isinstance(gpus, tuple) else ()
    busy = options.smoke or not options.quick
    uuids = [gpu.nvml.uuid for gpu in visible if gpu.nvml] if responds(driver) and busy else []
    watch = Watch(children, list(dict.fromkeys(uuids)))
    count = len(visible[: job.gpus])
    if not responds(driver) or options.quick or count < 2 or any(gpu.slice for gpu in visible):
        return BeforeTorch(watch, None)
    if reason := _in_use(visible, job, host):
        return BeforeTorch(watch, reason)
    watch.wait_until_ready()
    return BeforeTorch(watch, copy_around(children, count))


def _in_use(visible: tuple[JobGpu, ...], job: Job, host: Host) -> Unknown | None:
    """The reason if other processes use a GPU of the job, or may: CUDA's order is not NVML's."""
    names = {gpu.name for gpu in visible}
    same_order = len(names) == 1 or host.env.get("CUDA_DEVICE_ORDER") == BY_BUS
    for index, gpu in enumerate(visible[: job.gpus] if same_order else visible):
        if gpu.use_by_others:
            return reason_in_use(f"cuda:{index}", gpu)
    return None
