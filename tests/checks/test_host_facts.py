"""The clock, the speed of the cores and the errors of PCIe links, judged."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Unknown
from doctor.checks.gpu.pcie_errors import NO_ERRORS
from doctor.checks.memory import HOST
from doctor.checks.storage import CLOCK
from doctor.facts.host import Host, PcieDevice
from doctor.facts.machine import Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Job, Target
from doctor.judge.check import Status, Verdict

ADDRESS, OTHER, PORT = "0000:3b:00.0", "0000:5e:00.0", "0000:3a:01.0"
GPUS = JobGpus(
    gpus=(JobGpu(nvml=Gpu(index=0, uuid="GPU-1", name="H200", bus_id="00000000:3B:00.0")),),
    by="environment",
)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"clock_service": "chronyc", "clock_offset": 0.0}, Status.PASS),
        ({"clock_service": "chronyc", "clock_offset": 59.9}, Status.PASS),
        ({"clock_service": "timedatectl", "clock_offset": 60.0}, Status.WARN),
        ({"clock_service": "chronyc"}, Status.UNKNOWN),
        ({"clock_service": ""}, Status.SKIP),
        ({}, Status.UNKNOWN),
    ],
)
def test_a_clock_that_is_a_minute_off_is_a_warning(fields: dict[str, Any], status: Status) -> None:
    assert CLOCK.judge(host=Host(system="Linux", **fields)).status is status


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"core_speed": (190e3, 191e3), "busy": 0.2}, Status.WARN),
        ({"core_speed": (190e3, 800e3), "busy": 0.2}, Status.PASS),
        ({"core_speed": (190e3, 191e3), "busy": 1.4}, Status.PASS),
        ({"core_speed": (190e3, 191e3)}, Status.PASS),
        ({"core_speed": (190e3, 191e3), "busy": 0.2, "steal": 0.3}, Status.PASS),
        ({}, Status.PASS),
    ],
)
def test_cores_are_slow_where_both_measurements_say_so_and_nobody_else_works(
    fields: dict[str, Any], status: Status
) -> None:
    known: dict[str, Any] = {"cpus": 16, "memory_total": 2**38, "memory_available": 2**38}
    verdict: Verdict = HOST.judge(
        host=Host(system="Linux", **known | fields),
        job=Job(),
        target=Target("nvidia", "test"),
        job_gpus=GPUS,
        checkpoint=None,
    )
    assert verdict.status is status
    assert ("190 and 191 thousand" in verdict.summary) is (status is Status.WARN)


def device(address: str = ADDRESS, **fields: int) -> PcieDevice:
    return PcieDevice(**{"address": address, "gpu": ADDRESS, "fatal": 0, "nonfatal": 0} | fields)


@pytest.mark.parametrize(
    ("devices", "status", "words"),
    [
        ((device(), device(PORT)), Status.PASS, PORT),
        ((device(), device(PORT, fatal=2, new_fatal=1)), Status.WARN, "1 fatal errors"),
        ((device(nonfatal=3, new_nonfatal=3),), Status.WARN, "3 nonfatal errors"),
        ((device(nonfatal=3), device(PORT)), Status.NOTE, "since boot 3 nonfatal"),
        ((PcieDevice(address=OTHER, gpu=OTHER, fatal=9, nonfatal=9),), Status.SKIP, "no errors"),
        ((), Status.SKIP, "counts no errors"),
        (None, Status.UNKNOWN, "not recorded"),
    ],
)
def test_only_errors_of_the_run_are_a_warning(
    devices: tuple[PcieDevice, ...] | None, status: Status, words: str
) -> None:
    verdict = NO_ERRORS.judge(host=Host(system="Linux", pcie=devices), job_gpus=GPUS)
    assert verdict.status is status
    assert words in verdict.summary


def test_without_a_list_of_the_jobs_gpus_all_on_the_bus_count() -> None:
    host = Host(
        system="Linux", gpu_drivers={ADDRESS: "nvidia"}, pcie=(device(new_fatal=1, fatal=1),)
    )
    nobody = Unknown(reason="the driver hangs")
    assert NO_ERRORS.judge(host=host, job_gpus=nobody).status is Status.WARN
