"""Patterns in the memory of the job's GPUs, all at the same time; only where the user asks for it.

A GPU is left out unless it is the job's alone.
"""

from __future__ import annotations

import time
from functools import partial

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.background import background
from doctor.collect.children import fit, unless_cut_off
from doctor.collect.left_out import after_smoke
from doctor.collect.torch_child import ReportProgress
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.load import LEFT_OUT, MemoryTest
from doctor.facts.memory.room import shares_memory
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.find import is_vgpu

COHERENT = ("GH200", "GB200", "GB300")
"""In the names of GPUs whose memory is memory of the operating system, too: what is written there
may have been moved."""

WITHIN = 90.0
"""Seconds after which a test ends by itself: 192 GiB at 300 GB/s."""
ANSWER_SECONDS = WITHIN + 60.0
"""Until a test counts as hung: the memory is allocated before, and the last part is waited for."""
STAGGER = 0.2
"""Seconds between the starts of two GPUs, which all draw more power then."""


def run_memory_tests(
    workers: tuple[Worker, ...], facts: Facts, report_progress: ReportProgress
) -> Facts:
    """The facts with a record for each GPU of the job, if the user asks for the test."""
    if not facts.options.memory_test:
        return facts
    if not workers or facts.target.kind != "nvidia":
        return facts.with_(memory_tests=Unknown(reason="no NVIDIA GPU can be tested"))
    report_progress("writing and reading back the GPUs' memory")
    running = [
        background(partial(_test, worker, _start(worker, facts), number * STAGGER))
        for number, worker in enumerate(workers)
    ]
    tests = tuple(each.result() for each in running)
    return facts.with_(memory_tests=unless_cut_off(tests, *(test.ended for test in tests)))


def _start(worker: Worker, facts: Facts) -> MemoryTest:
    """The record of a test that has not begun, or does not begin."""
    test = MemoryTest(
        device=worker.device, uuid=worker.uuid, name=worker.name, ended=Ended(how="ok")
    )
    gpu = _gpu(worker, facts)
    if reason := why_unsuited(gpu, facts.host):
        return msgspec.structs.replace(test, unsuited=reason)
    if reason := why_not_ours(gpu):
        return _left_out(test, f"{LEFT_OUT}: {reason}")
    if before := after_smoke(facts, worker.device):
        return _left_out(test, before.reason)
    return test


def _gpu(worker: Worker, facts: Facts) -> JobGpu:
    gpus = facts.job_gpus.gpus if isinstance(facts.job_gpus, JobGpus) else ()
    found = (gpu for gpu in gpus if gpu.torch and f"cuda:{gpu.torch.index}" == worker.device)
    return next(found, JobGpu())


def _left_out(test: MemoryTest, reason: str) -> MemoryTest:
    return msgspec.structs.replace(test, ended=Ended(how="error", detail=reason))


def _test(worker: Worker, test: MemoryTest, delay: float) -> MemoryTest:
    if test.unsuited or not test.ended.ok:
        return test
    time.sleep(delay)
    answer = worker.child.request(
        ANSWER_SECONDS, stage="memory test", device=worker.device, uuid=worker.uuid, within=WITHIN
    )
    measured = (answer.answer or {}).get("memory_test")
    if not isinstance(measured, dict):
        return msgspec.structs.replace(test, ended=answer.ended_with_stage)
    section = fit(msgspec.to_builtins(test) | measured, MemoryTest)
    return section if isinstance(section, MemoryTest) else _left_out(test, section.reason)


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
