"""GPU011: what is written to the memory is read back."""

from __future__ import annotations

from typing import Any

import pytest

from doctor._util.records import Ended
from doctor._util.units import GIB
from doctor.checks.gpu.memory_test import KEEPS_VALUES
from doctor.collect.memory_tests import why_not_ours, why_unsuited
from doctor.facts.host import Host
from doctor.facts.interpreter import TorchGpu
from doctor.facts.load import MemoryTest
from doctor.facts.machine import Gpu, Slice
from doctor.facts.views import JobGpu
from doctor.judge.check import Owner, Status, Verdict

HOST = Host(system="Linux")


def judged(**fields: Any) -> Verdict:
    known: dict[str, Any] = {
        "device": "cuda:1",
        "uuid": "GPU-1",
        "name": "NVIDIA H200",
        "ended": Ended(how="ok"),
        "free": 100 * GIB,
        "tried": 90 * GIB,
        "patterns": 4,
        "wrong": 0,
    }
    return KEEPS_VALUES.judge(memory_tests=(MemoryTest(**known | fields),))


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({}, Status.PASS, "90.0 GiB of 100.0 GiB that were free kept 4 patterns"),
        ({"patterns": 1, "cut_short": "90 s had passed"}, Status.PASS, "ended early: 90 s"),
        ({"wrong": 2, "wrong_again": 2, "example": "byte 8"}, Status.FAIL, "2 words of 90.0 GiB"),
        ({"wrong": 2, "wrong_again": 0}, Status.FAIL, "0 of a part when it was read once more"),
        ({"unsuited": "it is a MIG slice"}, Status.SKIP, "MIG"),
        ({"wrong": None, "cut_short": "the power brake was on"}, Status.UNKNOWN, "power brake"),
        ({"tried": 0}, Status.UNKNOWN, "nothing was read back"),
        ({"ended": Ended(how="timeout", detail="no answer")}, Status.UNKNOWN, "hung: no answer"),
        ({"ended": Ended(how="error", detail="CUDA error")}, Status.UNKNOWN, "CUDA error"),
    ],
)
def test_only_a_value_that_differs_fails(
    fields: dict[str, Any], status: Status, words: str
) -> None:
    verdict = judged(**fields)
    assert verdict.status is status
    assert words in verdict.summary
    assert KEEPS_VALUES.owner is Owner.MACHINE


def gpu(name: str = "NVIDIA H200", *, integrated: bool = False, **fields: Any) -> JobGpu:
    known: dict[str, Any] = {"memory_used": 0, "processes": 0, "memory_total": 140 * GIB}
    view = TorchGpu(
        index=0, uuid="GPU-1", name=name, capability=(9, 0), memory_total=1, integrated=integrated
    )
    return JobGpu(nvml=Gpu(index=0, uuid="GPU-1", name=name, **known | fields), torch=view)


@pytest.mark.parametrize(
    ("each", "host", "words"),
    [
        (gpu(), HOST, ""),
        (gpu("NVIDIA GB10", integrated=True), HOST, "shares the host's memory"),
        (gpu("NVIDIA GH200 480GB"), HOST, "operating system's"),
        (gpu("GRID A100D-80C"), HOST, "virtual GPU"),
        (gpu(mig=True), HOST, "MIG"),
        (gpu(), Host(system="Linux", sandbox="WSL2"), "Windows"),
        (gpu(), Host(system="Linux", mps=True), "MPS"),
    ],
)
def test_kinds_of_gpus_that_are_left_alone(each: JobGpu, host: Host, words: str) -> None:
    reason = why_unsuited(each, host)
    assert bool(reason) is bool(words)
    assert words in reason


def test_a_slice_is_left_alone() -> None:
    part = JobGpu(nvml=gpu().nvml, slice=Slice(uuid="MIG-1"))
    assert "MIG" in why_unsuited(part, HOST)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"processes": 1}, "1 compute processes"),
        ({"processes": None}, "NVML does not tell"),
        ({"memory_used": None}, "NVML does not tell"),
        ({"memory_used": 9 * GIB}, "used before torch"),
        ({"display_active": True}, "desktop"),
    ],
)
def test_a_gpu_that_may_be_used_by_others_is_left_alone(fields: dict[str, Any], words: str) -> None:
    reason = why_not_ours(gpu(**fields))
    assert bool(reason) is bool(words)
    assert words in reason


def test_without_a_record_of_nvml_nobody_knows() -> None:
    assert "NVML does not tell" in why_not_ours(JobGpu(torch=gpu().torch))
