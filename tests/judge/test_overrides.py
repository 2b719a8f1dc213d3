"""Failures on purpose, other severities, accepted findings, and what they do to the verdict."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from recorded import machines

from doctor import catalog
from doctor._util.errors import UserError
from doctor.catalog.overrides import LOWERED, NOTHING_TO_FIX, RAISED, Policy, apply, notes, resolve
from doctor.facts.facts import Facts
from doctor.job.file.tables import Ignore, Severity
from doctor.judge.check import Finding, Status, fail
from doctor.judge.engine import examine
from doctor.report.formats.plain import render
from doctor.report.report import Outcome, Report

TODAY = datetime.date(2026, 11, 21)
MACHINES = machines()
FAMILIES = dict.fromkeys(check.family for check in catalog.MACHINE_CHECKS)


def judged(name: str, policy: Policy, host: str = "node-7") -> Report:
    facts: Facts = MACHINES[name]
    findings = apply(examine(catalog.MACHINE_CHECKS, facts), policy, host, TODAY)
    shown = findings
    return Report(facts, shown, notes=notes(policy, host, TODAY))


def finding(report: Report, code: str) -> Finding:
    return next(each for each in report.findings if each.check.code == code)


def ignoring(code: str, until: str = "", host: str | None = None) -> Policy:
    day = datetime.date.fromisoformat(until) if until else None
    return resolve([Ignore(code=code, reason="known here", until=day, host=host)], {}, [])


def graded(**severity: Severity) -> Policy:
    return resolve([], severity, [])


@pytest.mark.parametrize("check", catalog.MACHINE_CHECKS, ids=lambda check: check.code)
def test_every_code_can_be_made_to_fail(check: object) -> None:
    code = check.code  # type: ignore[attr-defined]
    report = judged("h100_torch2.15", resolve([], {}, [code]))
    result = finding(report, code)
    assert result.status is Status.FAIL
    assert result.verdict.summary.startswith("injected by --inject; without it: ")
    assert result.fix == NOTHING_TO_FIX
    assert report.exit_code == 1
    assert report.outcome in (Outcome.FIX, Outcome.RETURN)
    assert code in report.next_action
    assert "injected by --inject" in render(report)


def test_only_what_is_named_is_injected() -> None:
    report = judged("h100_torch2.15", resolve([], {}, ["tf32-setting,DSK"]))
    failed = {each.check.code for each in report.with_status(Status.FAIL)}
    assert failed == {"NUM002", "DSK001", "DSK002", "DSK003"}


def test_an_older_slug_is_accepted_wherever_a_code_is() -> None:
    alias, check = next((check.aliases[0], check) for check in catalog.CHECKS if check.aliases)
    policy = resolve([Ignore(code=alias, reason="known here")], {alias: "warn"}, [alias])
    assert policy.inject == {check.code}
    assert policy.severity == {check.code: "warn"}
    assert [codes for _, codes in policy.ignores] == [{check.code}]
    assert catalog.select([alias], [], catalog.CHECKS) == (check,)
    assert check not in catalog.select([], [alias], catalog.CHECKS)


def test_a_gate_that_ignores_a_code_stays_open_when_it_is_injected() -> None:
    rules = replace(ignoring("NUM002"), inject=frozenset({"NUM002"}))
    report = judged("h100_torch2.15", rules)
    assert report.exit_code == 0
    assert finding(report, "NUM002").status is Status.FAIL


@pytest.mark.parametrize("name", ["SMK", "smk001,SMK002,SMK003,SMK004"])
def test_an_ignored_failure_counts_for_nothing_and_is_not_hidden(name: str) -> None:
    plain = judged("smoke_nan", Policy())
    codes = [each.check.code for each in plain.with_status(Status.FAIL)]
    assert plain.exit_code == 1
    rules = resolve([Ignore(code=code, reason="known here") for code in name.split(",")], {}, [])
    report = judged("smoke_nan", rules)
    assert report.exit_code == 0
    assert report.outcome is Outcome.READY
    assert report.counts["ignored"] == len(report.ignored) >= len(codes)
    assert sum(report.counts.values()) == len(report.findings)
    for code in codes:
        assert finding(report, code).status is Status.FAIL
        assert finding(report, code).ignored == "known here"
    *lines, _verdict = render(report).strip().splitlines()
    assert codes[0] not in "\n".join(lines)
    assert f"{len(report.ignored)} ignored" in render(report)
    assert "ignored: known here" in render(report, "verbose")


def test_an_unknown_can_be_accepted_and_a_pass_needs_no_ignoring() -> None:
    unread = judged("nothing_readable", ignoring("DRV"))
    assert finding(unread, "DRV001").ignored == "known here"
    assert unread.outcome is Outcome.UNKNOWN
    assert judged("h100_torch2.15", ignoring("NUM")).counts["ignored"] == 0


def test_a_machine_of_which_everything_is_ignored_is_not_ready() -> None:
    every = [Ignore(code=family, reason="x") for family in FAMILIES]
    report = judged("nothing_readable", resolve(every, {}, []))
    assert report.counts["unknown"] == 0
    assert report.outcome is Outcome.UNKNOWN
    assert report.exit_code == 3


@pytest.mark.parametrize(
    ("until", "ignored"), [("2026-11-22", True), ("2026-11-21", True), ("2026-11-20", False)]
)
def test_an_ignore_holds_until_its_last_day(until: str, ignored: bool) -> None:
    report = judged("full_disk", ignoring("DSK001", until))
    assert bool(finding(report, "DSK001").ignored) is ignored
    assert bool(report.notes) is not ignored
    if ignored:
        assert finding(report, "DSK001").ignored == f"known here (until {until})"
    else:
        assert "2026-11-20" in report.notes[0]
        assert report.notes[0] in render(report)


@pytest.mark.parametrize(
    ("pattern", "host", "ignored"),
    [
        ("node-*", "node-7", True),
        ("NODE-7", "node-7", True),
        ("node-8", "node-7", False),
        ("node-*", "", False),
    ],
)
def test_an_ignore_may_be_for_some_hosts(pattern: str, host: str, ignored: bool) -> None:
    report = judged("full_disk", ignoring("DSK001", host=pattern), host)
    assert bool(finding(report, "DSK001").ignored) is ignored
    assert bool(report.notes) is (host == "")


def test_a_failure_lowered_to_a_warning_says_so() -> None:
    assert judged("full_disk", Policy()).exit_code == 1
    report = judged("full_disk", graded(DSK="warn"))
    result = finding(report, "DSK001")
    assert (result.status, result.judged) == (Status.WARN, Status.FAIL)
    assert LOWERED in result.verdict.summary
    assert result.fix
    every = resolve([], dict.fromkeys(FAMILIES, "warn"), [])
    assert judged("full_disk", every).exit_code == 0


def test_a_warning_raised_to_a_failure_closes_the_gate() -> None:
    report = judged("throttled", graded(GPU004="fail"))
    result = finding(report, "GPU004")
    assert (result.status, result.judged) == (Status.FAIL, Status.WARN)
    assert RAISED in result.verdict.summary
    assert report.exit_code == 1


def test_severity_leaves_passes_and_unknowns_alone() -> None:
    report = judged("h100_torch2.15", resolve([], dict.fromkeys(FAMILIES, "fail"), []))
    assert report.with_status(Status.FAIL) == ()
    assert judged("nothing_readable", graded(DRV="warn")).exit_code == 3


def test_a_code_comes_before_its_family() -> None:
    rules = resolve([], {"DSK001": "fail", "DSK": "warn"}, [])
    assert (rules.severity["DSK001"], rules.severity["DSK002"]) == ("fail", "warn")


def test_a_name_that_no_check_has_is_an_error() -> None:
    with pytest.raises(UserError, match=r"^\[\[ignore\]\] 1: code: no check"):
        ignoring("NUM03")
    with pytest.raises(UserError, match=r"^severity: no check"):
        graded(NUM03="warn")
    with pytest.raises(UserError, match=r"^/x/doctor.toml: severity: no check"):
        resolve((), {"NUM999": "warn"}, (), "/x/doctor.toml")
    with pytest.raises(UserError, match=r"^--inject: no check"):
        resolve([], {}, ["NUM03"])


def of_cause(cause: str, *found: str) -> str:
    """The reason for which a failure with these causes is ignored."""
    policy = resolve([Ignore(cause=cause, reason="known here")], {}, [])
    check = catalog.find("SMK005")[0]
    failed = Finding(check, fail("the step raised", causes=found))
    (result,) = apply([failed], policy, "", TODAY)
    return result.ignored


def test_a_cause_is_ignored_where_it_is_the_headline() -> None:
    assert of_cause("schedule-end", "schedule-end", "call-arguments") == "known here"
    assert of_cause("schedule-end", "call-arguments", "schedule-end") == ""
    assert of_cause("schedule-end") == ""


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "either code or cause is required"),
        ({"code": "NUM002", "cause": "schedule-end"}, "either code or cause is required"),
        ({"cause": "schedule-ends"}, "nearest: schedule-end"),
    ],
)
def test_an_ignore_has_a_code_or_a_cause(names: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve([Ignore(reason="known here", **names)], {}, [])
