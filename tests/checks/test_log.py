"""The first cause of a failure, its consequences, and remedies that fit."""

from __future__ import annotations

import pytest
from logs import findings, problems, read

from doctor._util.records import Unknown
from doctor.checks.log.classes import CLASSES
from doctor.checks.log.judges import OF_NODE, WITHOUT_GPU
from doctor.errors.cause import Cause
from doctor.errors.causes import CAUSES
from doctor.errors.memory_numbers import describe_oom, read_numbers
from doctor.judge.check import Status

STEPS = "".join(f"step {step} loss: {3 - step / 100:.2f}\n" for step in range(1, 6))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)\n"
SUMMARY = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
BEGINNING = [row for row in CLASSES if row.examples and row.role not in ("warning", "summary")]


@pytest.mark.parametrize("row", BEGINNING, ids=lambda row: row.id)
def test_a_class_fails_as_the_first_cause_passes_without_a_line_and_may_be_unknown(
    row: Cause,
) -> None:
    failed = findings(read(log=f"{STEPS}{row.examples[0]}\n"))
    assert failed[row.id].status is Status.FAIL
    assert failed[row.id].places[0].line == 6
    assert failed["first-cause"].status is Status.PASS
    assert findings(read(log=STEPS))[row.id].status is Status.PASS
    assert findings(Unknown(reason="gone"))[row.id].status is Status.UNKNOWN


@pytest.mark.parametrize("row", BEGINNING, ids=lambda row: row.id)
def test_what_a_training_overcame_is_a_note_unless_the_node_or_its_gpu_is_at_fault(
    row: Cause,
) -> None:
    overcome = findings(read(log=f"{row.examples[0]}\n{STEPS}"))
    stays = row.retry == OF_NODE or row.id in WITHOUT_GPU
    assert overcome[row.id].status is (Status.WARN if stays else Status.NOTE)
    assert overcome["first-cause"].status is Status.UNKNOWN


def test_a_warning_stays_one_however_the_training_ends() -> None:
    for row in (row for row in CLASSES if row.role == "warning"):
        for text in (f"{row.examples[0]}\n{STEPS}", f"{row.examples[0]}\n"):
            assert findings(read(log=text))[row.id].status is Status.WARN


def test_a_summary_alone_is_unknown_and_asks_for_the_logs_of_the_rank() -> None:
    found = findings(read(log=STEPS + SUMMARY))
    assert found["first-cause"].status is Status.UNKNOWN
    assert "summary" in found["first-cause"].verdict.summary
    assert not problems(read(log=STEPS + SUMMARY))


@pytest.mark.parametrize("text", [OOM + TIMEOUT + SUMMARY, TIMEOUT + OOM + SUMMARY])
def test_a_specific_cause_goes_before_what_may_follow_from_it(text: str) -> None:
    found = findings(read(log=STEPS + text))
    assert problems(read(log=STEPS + text)) == {"cuda-oom": Status.FAIL}
    assert found["nccl-timeout"].status is Status.SKIP
    assert "consequence of LOG002" in found["nccl-timeout"].verdict.summary


@pytest.mark.parametrize("peer_first", [True, False])
def test_a_lost_peer_follows_from_a_collective_that_timed_out(peer_first: bool) -> None:
    peer = "RuntimeError: Connection closed by peer [127.0.0.1]:1\n"
    assert set(problems(read(log=STEPS + peer))) == {"peer-lost"}
    lines = peer + TIMEOUT if peer_first else TIMEOUT + peer
    assert set(problems(read(log=STEPS + lines))) == {"nccl-timeout"}


def test_of_two_exceptions_the_earlier_one_counts() -> None:
    def raised(error: str) -> str:
        return f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\n{error}\n'

    log = read(log=raised("KeyError: 'label'") + TIMEOUT + raised("RuntimeError: later"))
    finding = findings(log)["uncaught-exception"]
    assert "KeyError" in finding.verdict.summary
    log = read(log=TIMEOUT + raised("RuntimeError: later"))
    assert problems(log) == {"nccl-timeout": Status.FAIL}


def test_times_order_the_files_of_ranks_and_without_times_the_cause_goes_first() -> None:
    def at(second: int, text: str) -> str:
        return f"2026-11-20 12:00:{second:02d} {text}"

    error = "RuntimeError: No space left on device\n"
    log = read(**{"rank0.log": at(9, OOM), "rank1.log": at(3, error)})
    assert problems(log) == {"disk-full": Status.FAIL}
    log = read(**{"rank0.log": at(3, OOM), "rank1.log": at(9, error)})
    assert problems(log) == {"cuda-oom": Status.FAIL}
    log = read(**{"rank0.log": TIMEOUT, "rank1.log": OOM})
    assert problems(log) == {"cuda-oom": Status.FAIL}


def test_consequences_are_folded_with_their_ranks_and_their_delay() -> None:
    lines = [f"[rank{rank}]:[E1120 12:00:07.000] {TIMEOUT}" for rank in (0, 1, 3)]
    log = read(log=f"[rank2]:[E1120 12:00:03.000] {OOM}" + "".join(lines))
    places = findings(log)["cuda-oom"].places
    assert [place.rank for place in places] == [2, 0]
    assert places[1].message == "consequence: nccl-timeout, 3 ranks, 4 s later"


def test_nothing_found_is_unknown_and_says_what_could_not_be_read() -> None:
    assert findings(read(log=STEPS))["first-cause"].status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("version", "word"), [("transformers==5.1.0\n", "transformers 5"), ("", "Load the weights")]
)
def test_a_fix_is_true_for_the_version_in_the_log(version: str, word: str) -> None:
    (row,) = (row for row in CLASSES if row.id == "amp-bf16-grads-with-scaler")
    assert word in findings(read(log=version + row.examples[0]))[row.id].fix


FORMS = {
    "full": "Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 23.64 GiB of which 513.19 "
    "MiB is free. Including non-PyTorch memory, this process has 23.13 GiB memory in use. Of the "
    "allocated memory 22.50 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but "
    "unallocated.",
    "fragmentation": "Tried to allocate 1.95 GiB. GPU 0 has a total capacty of 23.64 GiB of which "
    "513.19 MiB is free. Process 77 has 23.13 GiB memory in use. Of the allocated memory 19.50 GiB "
    "is allocated by PyTorch, and 3.20 GiB is reserved by PyTorch but unallocated.",
    "one-request": "Tried to allocate 280.00 GiB (GPU 0; 10.76 GiB total capacity; 1.70 GiB "
    "already allocated; 8.38 GiB free; 1.75 GiB reserved in total by PyTorch)",
    "other-process": "Tried to allocate 200.00 MiB (GPU 0; 23.65 GiB total capacity; 3.00 GiB "
    "already allocated; 10.38 MiB free; 3.10 GiB reserved in total by PyTorch)",
    "other-library": "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 47.50 GiB of which "
    "1.11 GiB is free. Including non-PyTorch memory, this process has 46.36 GiB memory in use. Of "
    "the allocated memory 6.93 GiB is allocated by PyTorch, and 512.40 MiB is reserved by PyTorch "
    "but unallocated.",
    "beyond-the-card": "Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 8.00 GiB of "
    "which 0 bytes is free. Of the allocated memory 22.44 GiB is allocated by PyTorch, and 10.00 "
    "MiB is reserved by PyTorch but unallocated.",
    "not-on-the-card": "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 1.21 GiB is free. Including non-PyTorch memory, this process has 77.90 GiB memory in "
    "use. Of the allocated memory 120.00 GiB is allocated by PyTorch, and 512.40 MiB is reserved "
    "by PyTorch but unallocated.",
}


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        (
            "Tried to allocate 11.47 GiB (GPU 0; 11.99 GiB total capacity; 11.80 GiB already "
            "allocated; 0 bytes free; 23.34 GiB reserved in total by PyTorch)",
            "beyond-the-card",
            "one sample",
        ),
        (
            "Tried to allocate 22.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 3.00 "
            "GiB is free. Of the allocated memory 1.50 GiB is allocated by PyTorch, and 19.00 GiB "
            "is reserved by PyTorch but unallocated.",
            "one-request",
            "one sample",
        ),
    ],
)
def test_a_request_as_large_as_the_gpu_is_no_fragmentation(text: str, kind: str, word: str) -> None:
    described = describe_oom(f"CUDA out of memory. {text}")
    assert described is not None
    assert described.kind == kind
    assert word in described.fix
    assert "expandable_segments" not in described.fix


@pytest.mark.parametrize(
    ("text", "slug", "word"),
    [
        (
            "n1:7:9 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.1<49> with status=12 "
            "opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3",
            "nccl-error",
            "all_reduce_perf",
        ),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 6638",
            "compile-failed",
            "num_stages=1",
        ),
        ("ImportError: cannot import name 'A' from 'trl' (x.py)", "import-failed", "has no such"),
        (
            "RuntimeError: size mismatch for a.weight: copying a param with shape torch.Size([3]) "
            "from checkpoint, the shape in current model is torch.Size([2]).",
            "shape-mismatch",
            "resize_token_embeddings",
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU", "xid-hardware", "error of the program"),
    ],
)
def test_a_line_gets_the_remedy_of_what_it_says(text: str, slug: str, word: str) -> None:
    found = findings(read(log=f"{STEPS}{text}\n"))[slug]
    assert found.status is Status.FAIL
    row = next(row for row in CAUSES if row.id == found.verdict.causes[0])
    assert slug in row.refines
    assert word in f"{row.why} {found.fix}"


@pytest.mark.parametrize("kind", FORMS)
def test_the_numbers_of_an_out_of_memory_message_give_its_kind(kind: str) -> None:
    described = describe_oom(f"CUDA out of memory. {FORMS[kind]}")
    assert described is not None
    assert described.kind == kind


@pytest.mark.parametrize(
    ("free", "allowed", "end"),
    [
        ("1.20 GiB", "60.25 GiB allowed; ", "the process may use 60.2 GiB of it"),
        ("1.20 GiB", "", "the request failed with 1.2 GiB free"),
        ("0.20 GiB", "", "the step needs more than the GPU has"),
    ],
)
def test_a_limit_and_free_memory_are_no_lack_of_the_gpu(free: str, allowed: str, end: str) -> None:
    described = describe_oom(
        "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 63.42 GiB "
        f"of which {free} is free. Including non-PyTorch memory, this process has 62.22 GiB memory "
        f"in use. {allowed}Of the allocated memory 59.76 GiB is allocated by PyTorch, and 78.23 "
        "MiB is reserved by PyTorch but unallocated."
    )
    assert described is not None
    assert described.summary.endswith(end)
    assert described.fix.startswith("Raise the limit of the process") is bool(allowed)


def test_a_general_class_cites_the_sources_of_the_cause_that_is_named() -> None:
    flat = "ValueError: Must flatten tensors with uniform dtype but got torch.half and torch.float"
    found = findings(read(log=f"{STEPS}Traceback (most recent call last):\n{flat}\n"))[
        "uncaught-exception"
    ]
    assert found.sources == ("torch-ddp", "accelerate-plugins", "torch-flat-param")
    found = findings(read(log=f"{STEPS}Traceback (most recent call last):\nValueError: purple\n"))[
        "uncaught-exception"
    ]
    assert found.sources == found.check.sources


def test_sizes_are_bytes_and_a_message_without_numbers_has_no_kind() -> None:
    numbers = read_numbers(FORMS["full"])
    assert numbers.request == 1.95 * 2**30
    assert numbers.free == 513.19 * 2**20
    assert describe_oom("CUDA error: out of memory") is None
    assert describe_oom("Tried to allocate 1.2.3 GiB, total capacity of 2 GiB") is None


def test_metrics_of_a_worker_of_ray_are_steps_after_which_a_failure_is_overcome() -> None:
    """ "Worker pid=9" and a class's "pid=" have letters in common, not more."""
    died = (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    )
    steps = "".join(
        f"(RayTrainWorker pid=911, ip=10.4.0.12) epoch {n} loss {1 / n:.4f}\n" for n in range(1, 8)
    )
    assert problems(read(log=steps + died + steps)) == {}
    assert set(problems(read(log=steps + died))) == {"actor-died"}
