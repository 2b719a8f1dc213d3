"""What an out-of-memory finding says would fit, and where it says that it does not know."""

from __future__ import annotations

import pytest
from logs import LOG_CHECKS, findings, read

from doctor._util.records import Unknown
from doctor._util.units import GIB
from doctor.checks.log.memory_fit import what_fits
from doctor.facts.host import Host
from doctor.facts.machine import Gpu
from doctor.facts.memory.plan import Plan, plan
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Target

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total "
    "capacity of 79.15 GiB of which 513.19 MiB is free. Including non-PyTorch memory, this process "
    "has 78.60 GiB memory in use. Of the allocated memory 77.50 GiB is allocated by PyTorch, and "
    "120.00 MiB is reserved by PyTorch but unallocated."
)
OLD = "CUDA out of memory. Tried to allocate 1.95 GiB (GPU 0; 79.15 GiB total capacity)"
CARD = JobGpu(nvml=Gpu(index=0, uuid="GPU-0", name="card", memory_total=80 * GIB, memory_used=0))


def planned(job: Job) -> Plan | Unknown | None:
    gpus = JobGpus(gpus=(CARD,), by="torch")
    host = Host(system="Linux")
    return plan(job, Target("nvidia", ""), Chosen("bf16", ""), gpus, None, host)


def said(job: Job, text: str = MESSAGE) -> str:
    return what_fits(text, job, planned(job))


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(params=8 * 10**9), "no batch size fits. Split the state over at least 2 such GPUs"),
        (Job(params=2 * 10**9, recipe="amp"), "recipe amp take"),
        (Job(params=2 * 10**9), "99 % fit: at most that share of the micro-batch"),
        (Job(params=2 * 10**9, batch_size=8), "a micro-batch of at most 7 instead of 8"),
        (Job(params=2 * 10**9, batch_size=1), "not even one sample of this length fits"),
    ],
)
def test_the_share_of_the_batch_that_fits_at_most_is_computed(job: Job, words: str) -> None:
    assert words in said(job)
    assert "lacks 1.3 GiB" in said(job)


@pytest.mark.parametrize(
    ("job", "text", "words"),
    [
        (Job(), MESSAGE, "no size of the model is stated"),
        (Job(params=2 * 10**9), OLD, "is not in the message"),
        (
            Job(params=2 * 10**9),
            MESSAGE.replace("77.50", "20.00"),
            "before the state was complete, or the stated model is another one",
        ),
        (
            Job(params=2 * 10**9),
            MESSAGE.replace("77.50", "70.00"),
            "would fit an empty GPU: look for other processes",
        ),
    ],
)
def test_what_cannot_be_computed_is_said(job: Job, text: str, words: str) -> None:
    assert words in said(job, text)
    assert "micro-batch" not in said(job, text)


def test_an_unread_gpu_is_the_reason_and_a_message_without_numbers_says_nothing() -> None:
    reason = "the memory of GPU 0 is unread"
    assert reason in what_fits(MESSAGE, Job(), Unknown(reason=reason))
    assert not what_fits("CUDA error: out of memory", Job(), None)


def test_one_request_beyond_the_gpu_and_memory_in_pieces_need_no_model() -> None:
    assert not said(Job(params=2 * 10**9), MESSAGE.replace("allocate 1.95", "allocate 280.00"))
    pieces = MESSAGE.replace("77.50 GiB", "60.00 GiB").replace("120.00 MiB is", "3.00 GiB is")
    assert not said(Job(), pieces)


def test_the_finding_carries_it() -> None:
    found = findings(read(log=f"{MESSAGE}\n"))["cuda-oom"]
    assert "This request alone lacks 1.3 GiB" in found.fix
    assert "no size of the model is stated" in found.fix
    (check,) = (check for check in LOG_CHECKS if check.slug == "cuda-oom")
    assert "lacks" not in check.fix
