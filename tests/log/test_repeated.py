"""What is printed again is no further evaluation; whose number is behind; what says more."""

from __future__ import annotations

import pytest
from logs import findings, read

from doctor.judge.check import Status

BAR = (
    "Epoch {}:  {}%|#   | {}/100 [00:41<01:02, train_loss={:.2f}, val_loss=2.301, val_acc=0.112]\n"
)
WAITS = (
    "[rank{0}]:[E504 11:02:51.1 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank {0}]"
    "  failure detected by watchdog at work sequence id: {1} PG status: last enqueued work: 20411, "
    "last completed work: 20409\n"
)
SIGNAL = (
    "[rank{0}]:[E504 11:02:51.2 ProcessGroupNCCL.cpp:1685] [PG ID 0 PG GUID 0(default_pg) Rank {0}]"
    " Observed flight recorder dump signal from another rank via TCPStore. last enqueued work: "
    "{1}, last completed work: 20409\n"
)


def status_of(text: str) -> Status:
    return findings(read(log=text))["evaluation-stands-still"].status


def test_one_evaluation_in_a_bar_is_one() -> None:
    text = "".join(BAR.format(1, at, at, 2.0 - at / 100) for at in range(10, 100, 10))
    assert status_of(text) is Status.SKIP


def test_a_dict_behind_a_bar_is_of_that_step() -> None:
    bar = "{}%|##   | {}/100 [00:41<01:02, 2.1it/s]{{'eval_loss': 2.3026, 'epoch': {}}}\n"
    text = "".join(bar.format(at, at, at / 10) for at in range(5, 100, 5))
    assert status_of(text) is Status.WARN


def test_equal_evaluations_of_six_epochs_stand_still() -> None:
    text = "".join(
        BAR.format(epoch, at, at, 2.0 - epoch / 10) for epoch in range(6) for at in (10, 50, 90)
    )
    assert status_of(text) is Status.WARN


def test_equal_evaluations_of_epochs_without_a_bar_stand_still() -> None:
    rows = (f"epoch {at} train_loss={2 - at / 9:.3f} val_loss=2.301\n" for at in range(6))
    assert status_of("".join(rows)) is Status.WARN


def timeout(text: str) -> str:
    return findings(read(log=text))["nccl-timeout"].verdict.summary


def test_a_rank_that_never_began_the_collective_is_behind() -> None:
    text = "".join(WAITS.format(rank, 20410) for rank in (0, 2, 3)) + SIGNAL.format(1, 20409)
    assert "rank 1 is behind: at collective 20,409, 3 others at 20,410" in timeout(text)


@pytest.mark.parametrize("number", [20410, 20411])
def test_a_rank_that_began_it_is_not(number: int) -> None:
    text = "".join(WAITS.format(rank, 20410) for rank in (0, 2, 3)) + SIGNAL.format(1, number)
    assert "behind" not in timeout(text)


PTXAS = (
    "torch._inductor.exc.InductorError: PTXASError: PTXAS error: Internal Triton PTX codegen error"
    "\n`ptxas` stderr:\n"
)


def test_what_ptxas_says_below_the_error_of_a_compilation_is_the_cause() -> None:
    known = "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n"
    assert findings(read(log=PTXAS + known))["ptxas-arch"].status is Status.FAIL
    other = "ptxas /tmp/a.ptx, line 9; error   : Unknown symbol 'a'\n"
    assert findings(read(log=PTXAS + other))["compile-failed"].status is Status.FAIL
