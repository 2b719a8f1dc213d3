"""Verdict, exit code and next action."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_parts import H100, TORCH_2_15, job, machine

from doctor.catalog import find
from doctor.job.run_options import RunOptions
from doctor.judge.check import Finding, Owner, Status, Verdict, note
from doctor.judge.known_errors import SEVERAL
from doctor.report.formats.table import FORMATS
from doctor.report.lines import report_lines
from doctor.report.report import Outcome, Report


def finding(code: str, status: Status, owner: Owner = Owner.ENVIRONMENT) -> Finding:
    """A check of the catalogue with that result; its verdict policy is the real one."""
    (check,) = find(code)
    check = replace(check, fix="first sentence. Second\nand more", owner=owner)
    return Finding(check, Verdict(status, "observed value"))


PASSED = finding("NUM004", Status.PASS)


def report(*findings: Finding, **options: object) -> Report:
    """A report with these findings, after one that passed."""
    fail_on = options.pop("fail_on", "fail")
    selected = options.pop("selected", False)
    run = RunOptions(smoke=bool(options.pop("smoke", True)))
    facts = machine(H100, torch=TORCH_2_15, job=job(**options), options=run)
    return Report(facts, (PASSED, *findings), fail_on, selected=selected)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("findings", [(), (finding("CKP001", Status.SKIP),)])
def test_a_run_without_an_evaluated_check_is_unknown(findings: tuple[Finding, ...]) -> None:
    empty = Report(machine(H100, torch=TORCH_2_15), findings)
    assert (empty.outcome, empty.exit_code) == (Outcome.UNKNOWN, 3)
    assert empty.verdict_line.startswith("UNKNOWN: no check was evaluated")


def test_unknown_counts_about_checks_that_were_chosen() -> None:
    unread = finding("GPU003", Status.UNKNOWN)
    assert report(unread).outcome is Outcome.READY
    assert report(unread, selected=True).outcome is Outcome.UNKNOWN


def test_the_verdict_line_of_a_ready_machine_names_warnings_unknowns_and_ignored_checks() -> None:
    unread, warning = finding("GPU003", Status.UNKNOWN), finding("GPU002", Status.WARN)
    ignored = replace(finding("MEM003", Status.FAIL), ignored="no workers")
    assert report().verdict_line == "READY: all checks passed"
    warned = "READY with warnings: GPU002 gpu-free: observed value"
    assert report(warning).verdict_line == warned
    assert report(warning, unread).verdict_line == f"{warned}; unknown: GPU003"
    gated = report(warning, fail_on="warn")
    assert gated.verdict_line == f"{warned} (exit code 1: --fail-on warn)"
    partial = report(unread, ignored)
    assert partial.verdict_line == "READY: no problems found (unknown: GPU003; ignored: MEM003)"


def test_the_verdict_line_describes_the_only_warning_and_names_several() -> None:
    long = replace(finding("GPU004", Status.WARN), verdict=Verdict(Status.WARN, "slow " * 100))
    assert len(report(long).verdict_line) < 320
    several = report(finding("GPU002", Status.WARN), long)
    assert several.verdict_line == "READY with warnings: GPU002 gpu-free, GPU004 gpu-not-slowed"


@pytest.mark.parametrize(
    ("fix", "line"),
    [
        ("Reset it. Then wait.", "FIX: NUM001: Reset it"),
        ("Look at a.py, line 2. Clamp x. Or y.", "FIX: NUM001: Look at a.py, line 2. Clamp x"),
        (f"{SEVERAL}\nIf so: this.\nElse: that.", "FIX: NUM001: observed value"),
    ],
)
def test_the_verdict_line_says_what_to_do_or_which_error_has_several_causes(
    fix: str, line: str
) -> None:
    found = finding("NUM001", Status.FAIL)
    found = replace(found, verdict=replace(found.verdict, fix=fix))
    assert report(found).verdict_line == line


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


def test_the_verdict_line_starts_with_the_first_fix() -> None:
    broken = report(finding("TOR001", Status.FAIL), finding("SMK001", Status.FAIL))
    assert broken.verdict_line == "FIX: TOR001: first sentence"
    defective = finding("GPU003", Status.FAIL, Owner.MACHINE)
    returned = report(finding("TOR001", Status.FAIL), defective)
    assert returned.verdict_line == (
        "RETURN: GPU003: observed value; rented: give the machine back now "
        "(text for the provider: --format letter)"
    )
    unread = report(finding("SMK001", Status.UNKNOWN))
    assert unread.verdict_line == "UNKNOWN: SMK001 step-completes: observed value"


def noted(fix: str | None = None) -> Finding:
    (check,) = find("GPU002")
    return Finding(check, note("a bug that this job does not trigger", fix=fix))


@pytest.mark.parametrize("fail_on", ["fail", "warn"])
def test_a_note_passes_and_is_named(fail_on: str) -> None:
    result = report(noted(), fail_on=fail_on)
    assert (result.outcome, result.exit_code, result.counts["note"]) == (Outcome.READY, 0, 1)
    assert result.verdict_line == "READY: all checks passed; worth reading: GPU002"


def test_a_note_alone_is_an_evaluated_check() -> None:
    result = replace(report(), findings=(noted(),))
    assert result.outcome is Outcome.READY


def test_a_note_has_no_remedy_but_its_own() -> None:
    assert not noted().is_problem
    assert noted().fix == ""
    assert noted("Read about it.").fix == "Read about it."


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_has_notes(format: str) -> None:
    text = FORMATS[format](report(noted("Read about it.")))
    assert "GPU002" in text or format == "gitlab"  # of files alone


@pytest.mark.parametrize(("count", "lines"), [(6, 6), (7, 1)])
def test_many_skips_of_a_family_are_one_line_unless_verbose(count: int, lines: int) -> None:
    skipped = [finding(f"DAT00{n}", Status.SKIP) for n in range(1, count + 1)]
    skipped = [
        replace(f, verdict=Verdict(Status.SKIP, f"reason {n}")) for n, f in enumerate(skipped)
    ]
    texts = [line.prefix for line in report_lines(report(*skipped, finding("DAT008", Status.WARN)))]
    assert sum("skip DAT" in text for text in texts) == lines
    assert any("WARN DAT008" in text for text in texts)
    verbose = [line.prefix for line in report_lines(report(*skipped), "verbose")]
    assert sum("skip DAT" in text for text in verbose) == count
