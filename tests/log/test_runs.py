"""Logs with several runs: their curves are not one, and a run that is begun again is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import doctor
from logs import findings, read

from doctor.checks.log.curves.reading import partner
from doctor.checks.log.curves.reading import runs_of as parts_of
from doctor.judge.check import Finding, Status
from doctor.log.metrics.runs import runs_of

HEAD = "[INFO|trainer.py:2409] >> ***** Running training *****\n"
LIMIT = (
    "slurmstepd: error: *** JOB 71 ON g3 CANCELLED AT 2025-10-01T04:00:12 DUE TO TIME LIMIT ***\n"
)
SCRATCH = "no checkpoint found in /scratch/run7, starting from scratch\n"


def losses(first: float, count: int = 12, start: int = 0, fall: float = 0.02) -> str:
    return "".join(
        f"{{'loss': {first * (1 - fall * at):.4f}, 'grad_norm': {first:.2f}, "
        f"'learning_rate': {2e-5 - at * 1e-7:.3e}, 'step': {start + 10 * at}}}\n"
        for at in range(count)
    )


def found(slug: str, text: str) -> Finding:
    return findings(read(log=text))[slug]


def test_runs_with_a_head_each_are_no_divergence() -> None:
    text = "".join(HEAD + losses(loss) for loss in (1.3, 10.4, 41.6))
    assert found("loss-divergence", text).status is Status.SKIP
    joined = text.replace(HEAD, "")
    assert found("loss-divergence", joined).status in (Status.FAIL, Status.NOTE)


def test_each_run_is_judged() -> None:
    """The second one diverges by itself."""
    rising = "".join(f"{{'loss': {1.0 + 0.1 * max(0, at - 60)}}}\n" for at in range(120))
    text = HEAD + losses(1.3, 120, fall=0.001) + HEAD + rising
    assert found("loss-divergence", text).status is Status.FAIL


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        (HEAD + losses(1.0), (1,)),
        (HEAD + "Continuing training from checkpoint, will skip to step 200\n", ()),
        ("Resuming training from out/checkpoint-200\n" + HEAD, ()),
        ("resume_from_checkpoint: null\n" + HEAD, (2,)),
        (SCRATCH + losses(1.0) + SCRATCH, (1, 14)),
        ("Training new model from scratch - Total size=124M params\n", (1,)),
        ("step 1 loss 2.0\nsaving checkpoint found in /x\n", ()),
    ],
)
def test_a_head_begins_a_run_unless_it_is_resumed(text: str, starts: tuple[int, ...]) -> None:
    rows = list(enumerate(text.splitlines(), 1))
    assert runs_of(rows)[0] == starts


def test_a_run_that_is_begun_from_scratch_each_time_loses_all() -> None:
    text = (SCRATCH + losses(8.4, fall=0.05) + LIMIT) * 3
    finding = found("scheduler-ended", text)
    assert finding.status is Status.FAIL
    assert finding.verdict.retry == "fix"
    assert "from scratch 3 times" in finding.verdict.summary
    assert found("loss-plateau", text).status is Status.SKIP
    other = text.replace(SCRATCH, "[ckpt] no checkpoint in /tmp/77/ckpt, starting at step 0\n")
    assert "from scratch 3 times" in found("scheduler-ended", other).verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        SCRATCH + losses(8.4) + LIMIT,
        SCRATCH + losses(8.4) + LIMIT + "Resuming from checkpoint-100\n" + losses(4.0) + LIMIT,
        SCRATCH * 8 + losses(8.4) + LIMIT,  # once on each rank
    ],
)
def test_a_run_that_goes_on_is_ended_by_its_limit_alone(text: str) -> None:
    verdict = found("scheduler-ended", text).verdict
    assert verdict.retry == ("again" if "Resuming" in text else "")  # else no checkpoint is known
    assert "from scratch" not in verdict.summary.replace(SCRATCH, "")


END = "`Trainer.fit` stopped: `max_epochs=40` reached.\n"


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (END, 13),
        ("Loading best model from out/checkpoint-314 (score: 1.008).\n", 13),
        ("Training completed. Do not forget to share your model\n", 13),
        (END + losses(1.0, 1), 0),
        ("", 0),
    ],
)
def test_a_training_that_completed_is_called_so(end: str, line: int) -> None:
    finding = found("first-cause", losses(1.0) + end)
    assert finding.status is Status.UNKNOWN
    assert (f"the training completed (log:{line})" in finding.verdict.summary) == bool(line)


def waits(ranks: range, number: int) -> str:
    return "".join(
        f"[rank{rank}]:[E0203 13:32:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLGATHER, NumelIn=1, "
        "NumelOut=4, Timeout(ms)=600000) ran for 600023 milliseconds before timing out.\n"
        for rank in ranks
    )


def test_all_ranks_in_the_first_collective_accuse_the_path() -> None:
    verdict = found("nccl-timeout", waits(range(4), 1)).verdict
    assert "all 4 ranks of the log wait in the first collective" in verdict.summary
    assert "NCCL_P2P_DISABLE=1" in verdict.fix
    assert verdict.retry == ""


@pytest.mark.parametrize(
    "text",
    [losses(2.0) + waits(range(4), 1), waits(range(4), 7), waits(range(1, 4), 1)],
    ids=["trained-before", "later-collective", "rank-0-missing"],
)
def test_other_timeouts_do_not_accuse_it(text: str) -> None:
    assert "first collective" not in found("nccl-timeout", text).verdict.summary


def test_the_curves_of_a_thousand_runs_are_those_of_each() -> None:
    """A log of many restarts: the partner of each part is that of the same run."""
    log = read(log="".join(HEAD + losses(1.0 + at, 3) for at in range(1000)))
    loss = next(curve for curve in log.curves if curve.name == "loss")
    parts = parts_of(log, loss)
    assert len(parts) == 1000
    for at in (0, 1, 500, 999):
        norm = partner(log, parts[at], "grad_norm")
        assert norm is not None
        assert norm.lines == parts[at].lines
        assert {*norm.values} == {round(1.0 + at, 2)}
    assert partner(log, loss, "grad_norm") is not parts[0]


@pytest.mark.parametrize("head", ["FOLD {} - val: 9 samples\n", ""])
def test_a_fold_and_a_count_of_epochs_begin_runs(head: str) -> None:
    one = "".join(f"epoch {n} loss {10 * 0.9**n:.3f}\n" for n in range(60))
    text = "".join(head.format(fold) + one for fold in range(2))
    assert found("loss-spike", text).status is Status.PASS
    assert read(log=text).files[0].starts[0] in (61, 62)
    on = "Resuming from checkpoint epoch_60.pt\n"  # and begins over: no run of its own
    assert not read(log=one + on + one).files[0].starts
    ranks = "epoch 3 loss 1.0\nepoch 2 loss 1.1\nepoch 1 loss 2.0\n"  # one is behind
    assert not read(log="epoch 1 loss 2.0\nepoch 2 loss 1.1\n" + ranks).files[0].starts


@pytest.mark.parametrize(("runs", "told"), [(1, False), (3, True)])
def test_the_header_names_the_lines_at_which_trainings_begin(
    tmp_path: Path, runs: int, told: bool
) -> None:
    path = tmp_path / "train.log"
    path.write_text(runs * (HEAD + losses(2.0, 3)))
    text = doctor("triage", str(path)).stdout
    assert ("trainings begin at lines 1, 5, 9 of" in text) is told
