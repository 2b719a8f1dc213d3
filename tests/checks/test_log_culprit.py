"""Which process began a failure: by the launcher's account, by sequence numbers, by silence."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from logs import findings, problems, read

from doctor.checks.log.culprit import waited_for
from doctor.judge.check import Finding, Status

ROOT = """\
E1120 12:00:31.000 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) \
local_rank: {rank} (pid: 122) of binary: /usr/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2024-11-20_12:00:02
  host      : node1
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 123)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2024-11-20_12:00:00
  host      : node1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 122)
  error_file: <N/A>
  traceback : {why}
============================================================
"""
SEGV, KILL = "Signal 11 (SIGSEGV) received by PID 122", "Signal 9 (SIGKILL) received by PID 122"
ABORT = "Signal 6 (SIGABRT) received by PID 122"


def raised(rank: int, error: str) -> str:
    lines = (
        "Traceback (most recent call last):",
        f'  File "/home/u/train.py", line {30 + rank}, in main',
        "    dist.all_reduce(x)",
        '  File "/opt/site-packages/torch/distributed.py", line 3, in all_reduce',
        "    work.wait()",
        error,
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1"


def timeout(rank: int, number: int) -> str:
    return (
        f"[rank{rank}]:[E1120 12:00:30.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
    )


def failure(text: str) -> Finding:
    (found,) = (each for each in findings(read(log=text)).values() if each.status is Status.FAIL)
    return found


@pytest.mark.parametrize(
    ("code", "why", "slug"),
    [(-11, SEGV, "segmentation-fault"), (-9, KILL, "killed-sigkill")],
)
def test_a_rank_that_died_goes_before_the_peers_that_lost_it(
    code: int, why: str, slug: str
) -> None:
    text = raised(0, PEER) + raised(2, PEER) + ROOT.format(rank=1, code=code, why=why)
    found = failure(text)
    assert (found.check.slug, found.places[0].rank) == (slug, 1)


def test_the_launchers_root_cause_is_no_cause_where_it_died_of_a_timeout() -> None:
    text = timeout(0, 5) + ROOT.format(rank=0, code=-6, why=ABORT)
    assert failure(text).check.slug == "nccl-timeout"


def test_of_two_ranks_that_raise_the_launchers_first_one_counts() -> None:
    text = raised(2, "KeyError: 'later'") + raised(1, "KeyError: 'first'")
    found = failure(text + ROOT.format(rank=1, code=1, why="<N/A>"))
    assert found.places[0].rank == 1
    assert "first" in found.verdict.summary


def test_a_crash_after_an_exception_or_sigterm_is_its_consequence() -> None:
    crash = "Segmentation fault (core dumped)\n"
    assert failure(raised(0, "KeyError: 'label'") + crash).check.slug == "uncaught-exception"
    assert failure("Received 15 death signal\n" + crash).check.slug == "killed-sigterm"
    assert failure(crash + raised(0, "KeyError: 'label'")).check.slug == "segmentation-fault"


def test_an_assertion_of_native_code_goes_before_the_abort() -> None:
    text = "python: aio/x.cpp:42: int wait(): Assertion `n >= m' failed.\nreturn code = -6\n"
    assert failure(text).check.slug == "native-assertion"


CANCELLED = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-20T12:00:00{} ***\n"
KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=55.0.\n"


def test_a_kill_for_memory_goes_before_what_it_led_to_wherever_it_stands() -> None:
    assert failure(CANCELLED.format("") + KILLED).check.slug == "killed-sigkill"
    limit = CANCELLED.format(" DUE TO TIME LIMIT")
    assert failure(limit + KILLED).check.slug == "scheduler-ended"
    assert failure(CANCELLED.format("") + "Killed\n").check.slug == "scheduler-ended"
    worker = "RuntimeError: DataLoader worker (pid 629) is killed by signal: Killed.\n"
    kernel = "[5.1] Memory cgroup out of memory: Killed process 629 (python)\n"
    assert failure(worker + kernel).check.slug == "killed-sigkill"
    assert failure(worker).check.slug == "dataloader-worker-killed"


STEPS = "".join(f"[rank{rank}]: step 5 loss: 2.1\n" for rank in range(64))


def test_the_rank_that_is_behind_by_its_number_is_named() -> None:
    text = STEPS + "".join(timeout(rank, 1286 if rank == 17 else 1287) for rank in range(64))
    found = failure(text)
    assert "rank 17 is behind: at collective 1,286 ALLREDUCE, 63 others at 1,287" in (
        found.verdict.summary
    )
    assert "rank 17" in found.fix


def test_the_rank_that_fell_silent_is_named_with_its_last_line_and_step() -> None:
    text = STEPS + "".join(timeout(rank, 1287) for rank in range(64) if rank != 17)
    assert "rank 17 is silent" in failure(text).verdict.summary
    assert "last seen at log:18, step 5" in failure(text).verdict.summary


def test_a_rank_that_never_printed_is_not_accused() -> None:
    """Most jobs log on rank 0 alone."""
    assert "silent" not in failure("step 5 loss: 2.1\n" + timeout(0, 7)).verdict.summary
    two = "[rank0]: step 5 loss: 2.1\n" + timeout(0, 7) + timeout(1, 7)
    assert "silent" not in failure(two).verdict.summary
    assert "behind" not in failure(two).verdict.summary


def test_the_number_of_a_step_is_not_accused() -> None:
    for number, ranks in ((100, (0, 1)), (200, range(8)), (0, (1,)), (10, (0, 15))):
        steps = f"[{number}] loss: 2.31 lr: 0.001\n"
        text = steps + "".join(timeout(rank, 42) for rank in ranks)
        assert "silent" not in failure(text).verdict.summary
    labelled = "".join(f"{rank}: step 5 loss: 2.1\n" for rank in range(4))
    text = labelled + "".join(timeout(rank, 42) for rank in (0, 1, 3))
    assert "rank 2 is silent" in failure(text).verdict.summary


def test_a_named_rank_stays_one_after_lines_with_a_bare_number() -> None:
    text = "[rank3]: step 1 loss: 2.2\n3: step 2 loss: 2.1\n"
    text += "".join(timeout(rank, 42) for rank in range(3))
    assert "rank 3 is silent" in failure(text).verdict.summary


@pytest.mark.parametrize(
    ("group", "odd", "number", "behind"),
    [
        ("", "", 498, True),
        ("", "", 10, False),
        ("[PG 0 Rank 1] ", "[PG 0 Rank 3] ", 10, True),
        ("[PG ID 1 PG GUID 3(tp) Rank 1] ", "[PG ID 1 PG GUID 4(tp) Rank 1] ", 498, False),
    ],
)
def test_sequence_numbers_of_different_groups_are_not_compared(
    group: str, odd: str, number: int, behind: bool
) -> None:
    lines = [timeout(rank, 500).replace("Watchdog", group + "Watchdog") for rank in range(8)]
    lines[3] = timeout(3, number).replace("Watchdog", odd + "Watchdog")
    assert ("rank 3 is behind" in failure("".join(lines)).verdict.summary) is behind


def test_the_missing_number_is_sought_only_where_most_ranks_reported() -> None:
    dense = "".join(timeout(rank, 42) for rank in range(12) if rank != 5)
    assert "rank 5 is silent" in failure(dense).verdict.summary
    log = read(log="".join(timeout(rank, 42) for rank in range(10)))
    far = msgspec.structs.replace(log.events[-1], rank=10**9)
    tracemalloc.start()
    events = (*log.events[:-1], far)
    assert waited_for(msgspec.structs.replace(log, events=events, ranks=())) is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_an_error_that_ends_a_log_is_named_even_without_a_traceback() -> None:
    mixed = "RuntimeError: aten.mm: got mixed Something and Other things\n"
    assert failure("step 1 loss: 2\n[rank0]: " + mixed).check.slug == "uncaught-exception"
    assert "cause not known" in failure(mixed).verdict.summary
    assert failure(mixed + "closing\n" * 10).check.slug == "uncaught-exception"
    assert problems(read(log=mixed + "downloading\n" * 100)) == {}  # the program went on
    assert problems(read(log=mixed + "step 2 loss: 2.1\nstep 3 loss: 2\nstep 4 loss: 1.9\n")) == {}


def test_the_frame_of_the_program_and_the_time_are_shown() -> None:
    found = failure("2026-11-20 03:12:07 start\n" + raised(0, "ValueError: no label"))
    assert ", 03:12:07" in found.verdict.summary
    place = found.places[1]
    assert (place.path, place.line, place.text) == ("/home/u/train.py", 30, "dist.all_reduce(x)")


def test_the_rank_that_a_line_names_wins_over_the_number_of_a_viewer() -> None:
    found = failure("[80746] " + timeout(3, 7))
    assert found.places[0].rank == 3
    assert failure("[80746] RuntimeError: No space left on device\n").places[0].rank is None


@pytest.mark.parametrize(
    ("text", "retry"),
    [
        (CANCELLED.format(" DUE TO PREEMPTION"), "again"),
        (CANCELLED.format(" DUE TO TIME LIMIT"), ""),
        (
            "Saving model checkpoint to /ckpt/step_600\n" + CANCELLED.format(" DUE TO TIME LIMIT"),
            "again",
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", "node"),
        ("ModuleNotFoundError: No module named 'peft'\n", "fix"),
        (raised(0, "ValueError: something that nobody knows"), ""),
    ],
)
def test_a_failure_says_what_a_restart_brings(text: str, retry: str) -> None:
    assert failure(text).verdict.retry == retry


def test_a_rank_that_waits_in_another_collective_left_the_common_path() -> None:
    def waits(rank: int, numel: int) -> str:
        return timeout(rank, 7).replace("NumelIn=1,", f"NumelIn={numel},")

    found = failure("".join(waits(rank, 25_559_081) for rank in range(3)) + waits(3, 3))
    assert "rank 3 is elsewhere" in found.verdict.summary
    assert "same number of batches" in found.fix
    alike = failure("".join(waits(rank, 9) for rank in range(4)))
    assert "elsewhere" not in alike.verdict.summary
    halves = failure("".join(waits(rank, 9 + rank % 2) for rank in range(4)))
    assert "elsewhere" not in halves.verdict.summary


def test_two_groups_that_parted_are_named() -> None:
    def waits(rank: int, numel: int) -> str:
        return timeout(rank, 88).replace("NumelIn=1", f"NumelIn={numel}")

    finding = failure("".join(waits(rank, 500 + rank % 2 * 7) for rank in range(4)))
    assert "ranks 0, 2 and ranks 1, 3 parted" in finding.verdict.summary
    assert "all_reduce" in (finding.fix or "")
