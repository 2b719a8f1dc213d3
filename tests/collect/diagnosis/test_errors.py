"""Errors, crashes and hangs, and faults that come and go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bisections import (
    ATTENTION,
    LINEAR,
    Train,
    attempts_of,
    cause_of,
    diagnosis_of,
    failure_of,
    record,
)

from doctor._util.records import Ended
from doctor.checks.training import smoke as judged
from doctor.collect.changes import CHANGES, RATES
from doctor.facts.diagnosis import LEFT_OUT, Attempt, Diagnosis

pytestmark = pytest.mark.slow

FLASH = "switches.flash_sdp_enabled()"


def test_error_in_an_attention_kernel(train_planted: Train) -> None:
    wrong = f"{FLASH} and torch.zeros(2) @ torch.zeros(3)"
    smoke = train_planted(ATTENTION.format(wrong=wrong), changes=("flash-off",))
    assert "completes without cuDNN and flash attention, raises with flash" in cause_of(smoke)
    lines = (failure_of(smoke).fix or "").splitlines()
    assert any(re.match("  unchanged +same fault  +forward: RuntimeError", line) for line in lines)


def test_crash_in_an_attention_kernel(train: Train) -> None:
    dies = "__import__('os').kill(__import__('os').getpid(), 11)"
    smoke = train(ATTENTION.format(wrong=f"{FLASH} and {dies}"), changes=("flash-off",))
    assert diagnosis_of(smoke).fault == "crashed"
    assert diagnosis_of(smoke).attempts[0].detail == "forward: SIGSEGV inside forward"
    assert "completes without cuDNN and flash attention, crashes with flash" in cause_of(smoke)
    assert "SIGSEGV" in failure_of(smoke).summary


def test_crash_that_no_change_fixes() -> None:
    same = tuple(Attempt(change=name, outcome="same") for name in ("repeat", "math", "fp32"))
    crashed = Ended(how="signal", detail="SIGABRT inside forward")
    verdict = failure_of(record(crashed, diagnosis=Diagnosis(fault="crashed", attempts=same)))
    assert "None of the 2 changes that could be tried fixes it" in verdict.summary
    assert (verdict.fix or "").startswith(judged.CRASHED)


def test_hang_in_an_attention_kernel(train: Train, tmp_path: Path) -> None:
    hangs = str(tmp_path / "hangs")
    wrong = f"{FLASH} and (open({hangs!r}, 'w'), __import__('time').sleep(600))"
    hanging = ("smoke", "look", "repeat")
    smoke = train(ATTENTION.format(wrong=wrong), hanging=hanging, changes=("flash-off",))
    assert diagnosis_of(smoke).fault == "hung"
    assert attempts_of(smoke) == [("repeat", "same"), ("flash-off", "fixed"), ("repeat", "same")]
    assert "completes without cuDNN and flash attention, hangs with flash" in cause_of(smoke)


def test_attempts_after_the_deadline_are_left_out(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong="True"), total_seconds=0.0)
    assert {each.detail for each in diagnosis_of(smoke).attempts} == {LEFT_OUT}
    assert {each.outcome for each in diagnosis_of(smoke).attempts} == {"not possible"}
    assert len(diagnosis_of(smoke).attempts) == 1 + len(CHANGES) - len(RATES)


WHILE = """
    import torch
    changes = probe("stages.changes")
    real, attempt, tried = torch.nn.functional.cross_entropy, changes.attempt, []

    def watch(stage, plan, change):
        tried.append(change)
        return attempt(stage, plan, change)

    def loss(*given, **named):
        return real(*given, **named) * (float("nan") if {faulty} else 1.0)

    changes.attempt, torch.nn.functional.cross_entropy = watch, loss
"""
"""A fault that goes away after some attempts, whose changes have nothing to do with it."""


def test_fault_that_is_gone_when_repeated(train_planted: Train) -> None:
    smoke = train_planted(WHILE.format(faulty="not tried"))
    assert attempts_of(smoke) == [("repeat", "fixed")] * 3
    assert diagnosis_of(smoke).intermittent
    assert "finite in 3 of 3 repetitions with nothing changed" in cause_of(smoke)


def test_a_change_that_fixes_by_chance_is_not_the_cause(train_planted: Train) -> None:
    smoke = train_planted(WHILE.format(faulty='set(tried) <= {"repeat"}'))
    assert attempts_of(smoke)[0] == ("repeat", "same")
    assert attempts_of(smoke)[-1] == ("repeat", "fixed")
    assert diagnosis_of(smoke).fixed_by is None
    assert "not reproduced: finite in 1 of 2 repetitions" in cause_of(smoke)
