"""Logs of real trainings that failed, made by benchmarks/real_failures.py: each is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.cli.options import ConfigFlags
from doctor.cli.triage import triage
from doctor.judge.check import Status
from doctor.report.report import Report

LOGS = Path(__file__).parent / "real"
EXPECTED = {
    "cuda_only": "cuda-unavailable",
    "disk_full": "disk-full",
    "dtype_mismatch": "dtype-mismatch",
    "hangup": "killed-sighup",
    "interrupt": "interrupted",
    "lora_reentrant": "element0-no-grad",
    "memory_cgroup": "killed-sigkill",
    "memory_ulimit": "host-out-of-memory",
    "missing_rank": "rendezvous-timeout",
    "nan_loss": "loss-nonfinite",
    "nan_loss_with_scaler": "loss-zero-gradnorm-nan",
    "no_grad": "element0-no-grad",
    "one_rank_hangs": "nccl-timeout",
    "one_rank_raises": "uncaught-exception",
    "out_of_vocabulary": "index-out-of-range",
    "port_in_use": "port-in-use",
    "shm_full": "shm-bus-error",
    "trainer_nan": "loss-zero-gradnorm-nan",
    "undefined_symbol": "extension-abi-mismatch",
    "weights_only": "weights-only-load",
    "worker_killed": "dataloader-worker-killed",
    "worker_raises": "uncaught-exception",
}


def report(name: str) -> Report:
    return triage([str(LOGS / f"{name}.log")], {}, ConfigFlags(no_config=True))


def test_every_log_is_expected_to_fail_or_is_the_healthy_one() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == {*EXPECTED, "healthy"}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_first_cause_is_named_and_nothing_else_fails(name: str) -> None:
    failed = report(name).with_status(Status.FAIL)
    assert [finding.check.slug for finding in failed] == [EXPECTED[name]]
    assert failed[0].fix


def test_a_healthy_training_gets_no_warning_and_is_not_called_healthy() -> None:
    healthy = report("healthy")
    assert not [finding for finding in healthy.findings if finding.is_problem]
    assert healthy.outcome == "unknown"
    assert healthy.exit_code == 3


def test_the_rank_that_raised_is_named_and_the_others_are_its_consequences() -> None:
    (first,) = report("one_rank_raises").with_status(Status.FAIL)
    assert first.places[0].rank == 1
    assert "tokenizer returned an empty batch" in first.places[0].text
    assert any("peer-lost, 2 ranks" in place.message for place in first.places[1:])


def test_the_scaler_that_skips_is_distinguished_from_lost_weights() -> None:
    (skipped,) = report("nan_loss_with_scaler").with_status(Status.FAIL)
    (lost,) = report("trainer_nan").with_status(Status.FAIL)
    assert "weights are intact" in skipped.fix
    assert "weights are lost" in lost.fix
