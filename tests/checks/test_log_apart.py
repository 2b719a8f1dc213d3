"""What stands beside the first cause and does not follow from it: runs of one file."""

from __future__ import annotations

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
    "slurmstepd: error: *** JOB 71 ON g3 CANCELLED AT 2025-10-01T04:00:12 DUE TO TIME LIMIT ***\n"
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
