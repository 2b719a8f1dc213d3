"""What stands beside the first cause and does not follow from it: runs of one or more files."""

from __future__ import annotations

import pytest
from logs import findings, read

from doctor.judge.check import Finding, Status

RAISED = """Traceback (most recent call last):
  File "/home/a/train.py", line 20, in <module>
    main(options)
  File "/home/a/train.py", line 9, in main
    os.makedirs(options.directory)
AttributeError: directory
"""
LIMIT = (
    "slurmstepd: error: *** JOB 71 ON g3 CANCELLED AT 2025-10-01T04:00:12 DUE TO PREEMPTION ***\n"
)
PORT = """[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
Traceback (most recent call last):
  File "/env/lib/python3.10/site-packages/torch/distributed/run.py", line 785, in run
    elastic_launch(
RuntimeError: The server socket has failed to listen on any local network address.
"""  # noqa: E501
WAITS = "".join(
    f"[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1801501 milliseconds before "
    "timing out.\n"
    for rank in range(2)
)


def found(text: str, slug: str) -> Finding:
    return findings(read(log=text))[slug]


def messages(finding: Finding) -> list[str]:
    return [place.message for place in finding.places]


def test_an_exception_above_the_time_limit_does_not_follow_from_it() -> None:
    ended = found(RAISED + LIMIT, "scheduler-ended")
    assert "no consequence: uncaught-exception" in messages(ended)
    assert "log:6 is no consequence of it: AttributeError: directory" in ended.verdict.summary
    assert ended.verdict.retry == ""
    beside = found(RAISED + LIMIT, "uncaught-exception")
    assert beside.status is Status.NOTE
    assert "checkpoints" not in (beside.fix or "")


def test_an_exception_below_it_does() -> None:
    ended = found(LIMIT + RAISED, "scheduler-ended")
    assert any(each.startswith("consequence: uncaught") for each in messages(ended))
    assert ended.verdict.retry == "again"


def test_an_exception_after_which_it_trained_is_overcome() -> None:
    steps = "".join(f"step {at} loss {2 - at / 9:.2f}\n" for at in range(6))
    ended = found(RAISED + steps + LIMIT, "scheduler-ended")
    assert "no consequence: uncaught-exception" not in messages(ended)
    assert ended.verdict.retry == "again"


def test_ranks_that_wait_do_not_follow_from_a_launcher_without_its_port() -> None:
    finding = found(PORT + WAITS, "port-in-use")
    assert finding.status is Status.FAIL
    assert "no consequence: nccl-timeout, 2 ranks" in messages(finding)
    assert found(PORT + WAITS, "nccl-timeout").status is Status.NOTE
    alone = found(PORT, "port-in-use")
    assert "no consequence" not in " ".join(messages(alone)) + alone.verdict.summary


def raised(error: str, source: str = "main()") -> str:
    return (
        f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    {source}\n{error}\n'
    )


NO_KEY, NO_SPACE = (
    raised("KeyError: 'label'"),
    raised("OSError: [Errno 28] No space left on device"),
)
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4242\n"


def test_each_of_unrelated_logs_has_its_own_first_cause_and_fix() -> None:
    log = read(**{"a/train.log": NO_KEY, "b/train.log": NO_SPACE})
    both = findings(log)
    for slug, own, other in (
        ("uncaught-exception", "a/train.log:4", "b/train.log:4"),
        ("disk-full", "b/train.log:4", "a/train.log:4"),
    ):
        assert both[slug].status is Status.FAIL
        assert f"{both[slug].places[0].path}:{both[slug].places[0].line}" == own
        assert (
            f"not shown to be of one run with the failure at {other}" in both[slug].verdict.summary
        )
        assert not any("consequence" in each for each in messages(both[slug]))
    assert both["first-cause"].verdict.summary.count(" at ") == 2
    one = findings(read(**{"a/train.log": NO_KEY, "b/train.log": raised("ValueError: of another")}))
    places = [place.path for place in one["uncaught-exception"].places]
    assert {"a/train.log", "b/train.log"} <= set(places)


@pytest.mark.parametrize(
    "names",
    [
        ("rank_0.log", "rank_1.log"),
        ("run_x/attempt_0/0/stderr.log", "run_x/attempt_0/1/stderr.log"),
        ("/logs/train.log", "node1:/logs/train.log"),
        ("node01/train.log", "node02/train.log"),
        ("job.out", "job.err"),
    ],
)
def test_files_whose_names_differ_in_the_rank_the_node_or_the_stream_are_one_story(
    names: tuple[str, str],
) -> None:
    one = findings(read(**dict(zip(names, (NO_KEY, NO_SPACE), strict=True))))
    assert one["disk-full"].status is Status.FAIL
    assert one["uncaught-exception"].status is Status.SKIP
    assert any(each.startswith("consequence: uncaught") for each in messages(one["disk-full"]))


def test_what_may_follow_from_a_failure_of_another_file_is_not_called_its_consequence() -> None:
    found = findings(read(**{"gpu-a.log": LOST, "gpu-b.log": NO_SPACE}))
    assert found["peer-lost"].status is Status.SKIP
    assert "not shown to be of the same run: peer-lost" in messages(found["disk-full"])
    nccl = raised("torch.distributed.DistBackendError: NCCL error in: x.cpp:1, peer exited")
    found = findings(read(**{"gpu-a.log": nccl, "gpu-b.log": NO_SPACE}))
    assert [slug for slug, each in found.items() if each.is_problem] == ["disk-full"]
    same = findings(read(**{"a/train.log": NO_SPACE, "b/train.log": NO_SPACE}))["disk-full"]
    assert "not shown" not in same.verdict.summary
    assert any("b/train.log" in place.path for place in same.places)
