"""The fake NVIDIA driver in C, and probes that ask it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.records import Unknown
from doctor.checks.driver import CHECKS as DRIVER
from doctor.checks.gpu.device import CHECKS as GPU
from doctor.collect.child import Child, probe_command
from doctor.collect.child_messages import Answer
from doctor.collect.driver import FROM_NVML
from doctor.facts.host import Host
from doctor.facts.machine import Driver, Gpu
from doctor.facts.views import JobGpus, match_gpus
from doctor.judge.check import Verdict

UUIDS = tuple(f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in (0, 1))

HOST = Host(system="Linux", nvidia_devices=2, device_nodes=("/dev/nvidia0", "/dev/nvidiactl"))

CHECKS = {check.code: check for check in (*DRIVER, *GPU)}

Ask = Callable[..., Answer]

HANG_SECONDS = 0.5
"""The deadline of a probe that already hangs."""


def sizes_of_the_binding() -> list[str]:
    """Options of the compiler: the fake does not compile where its structs differ in size."""
    import pynvml

    structs = {
        "MEMORY_V2": pynvml.c_nvmlMemory_v2_t,
        "PCI_INFO": pynvml.nvmlPciInfo_t,
        "PROCESS_INFO": pynvml.c_nvmlProcessInfo_t,
        "FIELD_VALUE": pynvml.c_nvmlFieldValue_t,
        "EVENT_DATA": pynvml.c_nvmlEventData_t,
        "CONF_COMPUTE": pynvml.c_nvmlConfComputeSystemState_t,
    }
    return [f"-D{name}={ctypes.sizeof(struct)}" for name, struct in structs.items()]


def begin(folder: Path, probe: str, *arguments: str, **fake: str) -> Child:
    env = {**os.environ, **{f"FAKE_{name}": value for name, value in fake.items()}}
    env["LD_LIBRARY_PATH"] = str(folder)
    return Child(probe_command(sys.executable, f"doctor_side.{probe}", *arguments), env)


def gpus_of(answer: Answer) -> tuple[Gpu, ...]:
    """The whole answer, or the notes that were sent before the end."""
    fields = answer.answer or {}
    gpus = fields.get("gpus", [note["gpu"] for note in answer.notes if "gpu" in note])
    return msgspec.convert(gpus, tuple[Gpu, ...])


def driver_of(nvml: Answer, cuda: Answer) -> Driver:
    fields: dict[str, Any] = {}
    for part in (*nvml.notes, nvml.answer or {}):
        fields |= part
    return Driver(
        nvml=nvml.ended,
        cuda=cuda.ended,
        version=fields.get("version"),
        cuda_version=(cuda.answer or {}).get("driver_version"),
        **{name: fields.get(name) for name in FROM_NVML},
    )


def judged(code: str, **facts: Any) -> Verdict:
    """The verdict of a check; the host is `HOST`, driver and torch are not known, where it needs
    them and a test does not name them."""
    if code == "GPU003":
        facts = {"host": HOST, **facts}
    if code == "GPU001":
        facts = {"driver": None, "torch": Unknown(reason="not examined"), **facts}
    verdict = CHECKS[code].judge(**facts)
    assert isinstance(verdict, Verdict)
    return verdict


def driver_verdict(driver: Driver, gpus: tuple[Gpu, ...] | None = None) -> Verdict:
    return judged("DRV001", host=HOST, driver=driver, gpus=gpus)


def job_gpus(answer: Answer) -> JobGpus:
    gpus = match_gpus(HOST, gpus_of(answer), None)
    assert isinstance(gpus, JobGpus)
    return gpus
