"""One pass over the checks: what blocks, what skips, what a broken check is."""

from __future__ import annotations

from graphlib import CycleError
from typing import Any

import pytest
from recorded import cpu_only
from recorded_parts import H100, TORCH_2_15, interpreter, machine

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Torch
from doctor.facts.load import Attention
from doctor.job.run_options import RunOptions
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown
from doctor.judge.engine import BROKEN, examine

FACTS = machine(H100, torch=TORCH_2_15)


def check(code: str, judge: Any, **fields: Any) -> Check:
    return Check(
        code=code,
        slug=f"made-{code.lower()}",
        title="It is well",
        why="",
        passes=(),
        fix="mend it",
        owner=Owner.JOB,
        judge=judge,
        **fields,
    )


def statuses(checks: list[Check], facts: Facts = FACTS) -> list[Status]:
    return [finding.status for finding in examine(checks, facts)]


def test_a_judge_gets_the_sections_that_its_parameters_name() -> None:
    def judge(torch: Torch) -> Verdict:
        return ok(torch.version)

    (finding,) = examine([check("AAA001", judge)], FACTS)
    assert finding.verdict.summary == TORCH_2_15.version


@pytest.mark.parametrize(("pip", "expected"), [(None, True), (True, True), (False, False)])
def test_a_finding_names_the_interpreter_and_whether_it_has_pip(
    pip: bool | None, expected: bool
) -> None:
    facts = FACTS.with_(interpreter=interpreter(pip=pip))
    (finding,) = examine([check("AAA001", lambda: ok("fine"))], facts)
    assert (finding.python, finding.pip) == ("/opt/train/bin/python", expected)


def test_without_a_known_interpreter_the_commands_are_those_of_any() -> None:
    facts = FACTS.with_(interpreter=Unknown(reason="none"))
    (finding,) = examine([check("AAA001", lambda: ok("fine"))], facts)
    assert (finding.python, finding.pip) == ("python", True)


def test_a_section_that_could_not_be_read_is_unknown_with_the_reason() -> None:
    def judge(torch: Torch) -> Verdict:
        raise AssertionError("not reached")

    facts = FACTS.with_(torch=Unknown(reason="no permission"))
    (finding,) = examine([check("AAA001", judge)], facts)
    assert finding.status is Status.UNKNOWN
    assert "no permission" in finding.verdict.summary


def test_a_judge_that_admits_unknown_is_asked() -> None:
    def judge(torch: Torch | Unknown) -> Verdict:
        return fail("nobody knows") if isinstance(torch, Unknown) else ok("known")

    assert statuses([check("AAA001", judge)], FACTS.with_(torch=Unknown(reason="x"))) == [
        Status.FAIL
    ]


def test_a_section_that_the_job_does_not_ask_for_is_a_skip() -> None:
    def judge(checkpoint: Checkpoint) -> Verdict:
        raise AssertionError("not reached")

    (finding,) = examine([check("AAA001", judge)], FACTS)
    assert finding.status is Status.SKIP
    assert finding.verdict.summary == FACTS.reason_absent("checkpoint")


def test_a_section_that_the_budget_omitted_is_a_skip_even_where_the_check_is_blocked() -> None:
    def judge(attention: Attention | Unknown | None) -> Verdict:
        raise AssertionError("not reached")

    options = RunOptions(budget=8, omitted=("attention",))
    checks = [check("AAA001", lambda: fail("no")), check("AAA002", judge, after=("AAA001",))]
    assert statuses(checks, FACTS.with_(options=options)) == [Status.FAIL, Status.SKIP]


def test_a_target_that_a_check_is_not_for_is_a_skip() -> None:
    only = check("AAA001", lambda: fail("reached"), targets=("nvidia", "rocm"))
    (finding,) = examine([only], cpu_only())
    assert finding.status is Status.SKIP
    assert "this job trains on cpu" in finding.verdict.summary


def test_fail_and_unknown_block_what_comes_after_and_skip_does_not() -> None:
    for first, then in (
        (lambda: fail("no"), Status.UNKNOWN),
        (lambda: unknown("?"), Status.UNKNOWN),
        (lambda: skip("-"), Status.PASS),
        (lambda: ok("yes"), Status.PASS),
    ):
        checks = [check("AAA001", first), check("AAA002", lambda: ok("ok"), after=("AAA001",))]
        assert statuses(checks)[1] is then


def test_what_blocks_is_the_first_that_failed_or_is_unknown() -> None:
    checks = [
        check("AAA001", lambda: unknown("?")),
        check("AAA002", lambda: fail("no")),
        check("AAA003", lambda: ok("ok"), after=("AAA001", "AAA002")),
        check("AAA004", lambda: ok("ok"), after=("AAA002", "AAA001")),
    ]
    reasons = [finding.verdict.summary for finding in examine(checks, FACTS)[2:]]
    assert [reason.split("depends on ")[1] for reason in reasons] == [
        "AAA001 (unknown)",
        "AAA002 (failed)",
    ]


def test_a_check_runs_after_those_that_it_depends_on_wherever_it_stands() -> None:
    checks = [
        check("AAA001", lambda: ok("ok"), after=("BBB001",)),
        check("BBB001", lambda: fail("no")),
    ]
    found = examine(checks, FACTS)
    assert [finding.check.code for finding in found] == ["AAA001", "BBB001"]
    assert [finding.status for finding in found] == [Status.UNKNOWN, Status.FAIL]


def test_checks_that_depend_on_each_other_in_a_circle_are_refused() -> None:
    circle = [
        check("AAA001", lambda: ok("ok"), after=("AAA002",)),
        check("AAA002", lambda: ok("ok"), after=("AAA001",)),
    ]
    with pytest.raises(CycleError):
        examine(circle, FACTS)


def test_what_is_blocked_blocks_in_turn() -> None:
    chain = [
        check("AAA001", lambda: fail("no")),
        check("AAA002", lambda: ok("ok"), after=("AAA001",)),
        check("AAA003", lambda: ok("ok"), after=("AAA002",)),
    ]
    assert statuses(chain) == [Status.FAIL, Status.UNKNOWN, Status.UNKNOWN]


def test_a_broken_check_is_unknown_and_the_next_one_goes_on() -> None:
    def broken() -> Verdict:
        raise ZeroDivisionError("division by zero")

    found = examine([check("AAA001", broken), check("AAA002", lambda: ok("ok"))], FACTS)
    assert [finding.status for finding in found] == [Status.UNKNOWN, Status.PASS]
    assert found[0].verdict.summary.startswith(BROKEN)
    assert "division by zero" in found[0].verdict.summary
