"""Verdict, exit code and next action."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judges import check
from recorded import H100, TORCH_2_15, box, job

from doctor.job.run_options import RunOptions
from doctor.judge.check import Finding, Owner, Status, Verdict
from doctor.report.report import Outcome, Report


def finding(code: str, status: Status, owner: Owner = Owner.ENVIRONMENT) -> Finding:
    changed = replace(check(code), fix="mend it\nand more", owner=owner)
    return Finding(changed, Verdict(status, "what was seen"))


WELL = finding("NUM004", Status.PASS)


def report(*findings: Finding, **options: object) -> Report:
    """A report in which something else was judged too, and is well."""
    fail_on = options.pop("fail_on", "fail")
    chosen = options.pop("chosen", False)
    run = RunOptions(smoke=bool(options.pop("smoke", True)))
    facts = box(H100, torch=TORCH_2_15, job=job(**options), options=run)
    return Report(facts, (WELL, *findings), fail_on, chosen=chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("findings", "outcome"),
    [
        ((), Outcome.READY),
        ((finding("GPU002", Status.WARN),), Outcome.READY),
        ((finding("NUM001", Status.FAIL, Owner.JOB),), Outcome.FIX),
        ((finding("GPU003", Status.FAIL, Owner.MACHINE),), Outcome.RETURN),
        ((finding("SMK001", Status.FAIL, Owner.MACHINE),), Outcome.RETURN),
        ((finding("TOR003", Status.FAIL, Owner.MACHINE),), Outcome.RETURN),
        ((finding("DSK001", Status.FAIL, Owner.MACHINE),), Outcome.FIX),
        ((finding("DRV001", Status.UNKNOWN),), Outcome.UNKNOWN),
        ((finding("GPU003", Status.WARN, Owner.MACHINE),), Outcome.READY),
        ((finding("GPU003", Status.UNKNOWN, Owner.MACHINE),), Outcome.READY),
        ((finding("SMK001", Status.UNKNOWN),), Outcome.UNKNOWN),
        ((finding("SMK001", Status.UNKNOWN), finding("TOR001", Status.FAIL)), Outcome.FIX),
    ],
)
def test_the_outcome(findings: tuple[Finding, ...], outcome: Outcome) -> None:
    assert report(*findings).outcome is outcome


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("CKP001", {"checkpoint": "/data/ckpt"}),
        ("DSK002", {"output_dir": "/data/out"}),
        ("GPU001", {"gpus": 2}),
    ],
)
def test_unknown_counts_about_what_the_user_named_only(code: str, named: dict[str, object]) -> None:
    unread = finding(code, Status.UNKNOWN)
    assert report(unread).outcome is Outcome.READY
    assert report(unread, **named).outcome is Outcome.UNKNOWN


def test_where_nothing_was_judged_nothing_is_ready() -> None:
    facts = box(H100, torch=TORCH_2_15)
    for findings in ((), (finding("CKP001", Status.SKIP),)):
        silent = Report(facts, findings)
        assert (silent.outcome, silent.exit_code) == (Outcome.UNKNOWN, 3)
        assert "nothing was judged" in silent.next_action


def test_unknown_counts_about_checks_that_were_chosen() -> None:
    unread = finding("GPU003", Status.UNKNOWN)
    assert report(unread).outcome is Outcome.READY
    assert report(unread, chosen=True).outcome is Outcome.UNKNOWN


def test_the_last_line_names_the_warnings() -> None:
    warned = report(finding("GPU002", Status.WARN))
    assert warned.next_action == "it will train; read GPU002 first"
    stopped = report(finding("GPU002", Status.WARN), fail_on="warn")
    assert "--fail-on warn stops here: GPU002" in stopped.next_action


def test_a_smoke_step_that_was_left_out_does_not_count() -> None:
    assert report(finding("SMK001", Status.UNKNOWN), smoke=False).outcome is Outcome.READY


@pytest.mark.parametrize(
    ("status", "fail_on", "code"),
    [
        (Status.PASS, "fail", 0),
        (Status.WARN, "fail", 0),
        (Status.WARN, "warn", 1),
        (Status.FAIL, "warn", 1),
        (Status.FAIL, "fail", 1),
        (Status.FAIL, "never", 0),
        (Status.UNKNOWN, "fail", 3),
        (Status.UNKNOWN, "warn", 3),
        (Status.SKIP, "warn", 0),
    ],
)
def test_the_exit_code(status: Status, fail_on: str, code: int) -> None:
    assert report(finding("SMK002", status), fail_on=fail_on).exit_code == code


def test_the_next_action_is_the_first_thing_to_mend() -> None:
    broken = report(finding("TOR001", Status.FAIL), finding("SMK001", Status.FAIL))
    assert broken.next_action == "TOR001: mend it"
    worn = finding("GPU003", Status.FAIL, Owner.MACHINE)
    returned = report(finding("TOR001", Status.FAIL), worn)
    assert returned.next_action.startswith("GPU003: mend it")
    assert "nothing that was checked" in report().next_action
    assert "SMK001: what was seen" in report(finding("SMK001", Status.UNKNOWN)).next_action
