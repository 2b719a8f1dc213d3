"""cuDNN's bugs of attention: which machine and version has which."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import recorded_attention
import recorded_parts
from attention_judges import (
    A100,
    B200,
    B300,
    CALL,
    CUDNN_FIRST,
    FLASH_FIRST,
    H100,
    T4,
    THOR,
    VARIABLE,
    judge,
)
from packaging.version import Version

from doctor._util.records import Ended, Unknown
from doctor.checks.numerics import attention
from doctor.checks.numerics.attention_bugs import BUGS, Bug
from doctor.checks.numerics.attention_order import CUDNN, EFFICIENT, first_backend
from doctor.facts.cudnn_stacks import not_worth_trying
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.judge.check import Status
from doctor.judge.engine import examine
from doctor.judge.sources import SOURCES, issue


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "cuda", "sources"),
    [
        ("2.5.0", 90100, H100, "12.4", {"pytorch-139298", "pytorch-140930"}),
        ("2.5.1", 90100, H100, "12.4", set()),
        ("2.5.0", 90100, A100, "12.4", set()),
        ("2.6.0", 90100, H100, "12.4", set()),
        ("2.9.1+cu128", 91002, H100, "12.8", set()),
        ("2.10.0", 91002, H100, "12.8", set()),
        ("2.11.0+cu130", 91900, H100, "13.0", {"pytorch-196678"}),
        ("2.12.0", 92000, H100, "13.0", {"pytorch-196678"}),
        ("2.13.0", 92000, H100, "13.0", {"pytorch-196678"}),
        ("2.14.1", 92400, H100, "13.0", {"pytorch-196678"}),
        ("2.14.1", 92600, H100, "13.0", set()),
        ("2.15.0", 92600, H100, "13.2", set()),
        ("2.15.0a0+1234.nv26.10", 92500, H100, "13.2", {"pytorch-196678"}),
        ("2.11.0rc3", 91900, H100, "13.0", {"pytorch-196678"}),
        ("2.11.0", 91900, B200, "13.0", set()),
        ("2.13.0", 92000, B300, "13.0", set()),
        ("2.13.0", 92401, B200, "13.0", set()),
        ("2.14.1", 92400, B200, "13.0", set()),
        ("2.13.0", 92000, THOR, "13.0", set()),
        ("2.13.0", 92000, A100, "13.0", set()),
        ("2.13.0", 92000, (12, 0), "13.0", set()),
        ("2.13.0", 92000, T4, "13.0", set()),
    ],
)
def test_the_table_by_the_rule(
    version: str, cudnn: int, capability: tuple[int, int], cuda: str, sources: set[str]
) -> None:
    verdict = judge(version, cudnn, capability, cuda=cuda)
    assert verdict.status is (Status.WARN if sources else Status.PASS)
    assert set(verdict.sources) == sources


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.source)
def test_every_bug_matches_and_its_remedy_names_the_condition(bug: Bug) -> None:
    off = {"flash": False} if bug.backend == EFFICIENT else {}
    order = CUDNN_FIRST if bug.backend == CUDNN else FLASH_FIRST
    cudnn = bug.cudnn[0] if bug.cudnn else 92000
    verdict = judge(bug.torch[0], cudnn, bug.capability[0], order=order, enabled=off)
    assert (bug.source in verdict.sources) is bug.training
    if bug.training:
        assert verdict.status is Status.WARN
        assert bug.symptom in verdict.summary
        assert issue(bug.source) in verdict.summary
        assert verdict.fix is not None
        assert bug.condition in verdict.fix
        assert bug.fix in verdict.fix
    assert bug.source in SOURCES
    in_fp32 = judge(
        bug.torch[0], cudnn, bug.capability[0], order=order, enabled=off, precision="fp32"
    )
    assert (bug.source in in_fp32.sources) is bug.fp32
    fixed = judge(bug.torch[1], cudnn, bug.capability[0], order=order, enabled=off)
    assert bug.symptom not in fixed.summary


@pytest.mark.parametrize(
    ("case", "wrong", "status"),
    [
        ("causal", False, Status.UNKNOWN),
        ("boolean mask", False, Status.UNKNOWN),
        ("boolean mask", True, Status.WARN),
    ],
)
def test_a_killed_trial_shows_nothing_about_its_kernel(
    case: str, wrong: bool, status: Status
) -> None:
    killed = Ended(how="signal", detail="SIGKILL inside a call", code=9)
    faults: dict[recorded_attention.Key, dict[str, Any]] = {
        (case, "bf16", "flash" if case == "causal" else "mem_efficient"): {
            "ended": killed,
            "errors": {},
        }
    }
    if wrong:
        faults["no mask", "bf16", "math"] = {"errors": {"dq": 0.5}}
    trial = recorded_attention.attention(faults=faults)
    verdict = judge("2.13.0", 92000, A100, order=FLASH_FIRST, trial=trial)
    assert verdict.status is status
    if status is Status.UNKNOWN:
        assert "killed from outside" in verdict.summary


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.source)
def test_cudnn_is_tried_wherever_a_case_can_show_a_known_bug(bug: Bug) -> None:
    triggered = {case.name for case in recorded_attention.cases() if case.trigger == bug.source}
    if bug.backend != CUDNN or bug.cudnn is None:
        return
    for capability in bug.capability:
        for cudnn in bug.cudnn:
            left_out = set(not_worth_trying(bug.torch[0], cudnn, capability))
            assert not left_out & (triggered | set(bug.cases))


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "left_out"),
    [
        ("2.13.0+cu130", 92000, H100, {"one query", "dropout"}),
        ("2.13.0+cu130", 92000, B200, {"dropout"}),
        ("2.15.0", 92501, H100, {"dropout"}),
        ("2.5.0", 90100, H100, {"dropout"}),
        ("2.8.0", 91200, A100, {"one query"}),
        ("2.9.1", 91200, A100, {"one query", "dropout"}),
        ("2.13.0", None, B200, {"dropout"}),
        ("2.13.0", 92000, None, {"dropout"}),
        ("a fork", 91200, None, {"one query"}),
        ("a fork", None, None, set()),
    ],
)
def test_cases_that_cudnn_is_not_tried_with(
    version: str, cudnn: int | None, capability: tuple[int, int] | None, left_out: set[str]
) -> None:
    assert set(not_worth_trying(version, cudnn, capability)) == left_out


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "issue"),
    [
        ("2.11.0", 91900, B200, "pytorch#193893"),
        ("2.15.0", 92600, H100, "cudnn-frontend#1072"),
    ],
)
def test_a_bug_outside_of_training_is_named_on_a_pass(
    version: str, cudnn: int, capability: tuple[int, int], issue: str
) -> None:
    verdict = judge(version, cudnn, capability)
    assert verdict.status is Status.PASS
    assert issue in verdict.summary


def test_the_observed_order_wins_over_the_rule() -> None:
    assert judge("2.11.0", 91900, H100).status is Status.WARN
    seen = judge("2.11.0", 91900, H100, order=FLASH_FIRST)
    assert seen.status is Status.PASS
    assert "flash first (observed)" in seen.summary
    built_anew = judge("2.9.1", 91002, H100, order=CUDNN_FIRST, cuda="12.8")
    assert built_anew.status is Status.WARN
    assert "pytorch-169849" in built_anew.sources


def test_the_remedy_is_true_for_the_version() -> None:
    old = judge("2.5.0", 90100, H100, cuda="12.4")
    assert old.commands == (CALL,)
    assert old.fix is not None
    assert VARIABLE not in old.fix
    assert "2.5.1" in old.fix
    new = judge("2.11.0", 91900, H100)
    assert new.commands == (CALL, f"export {VARIABLE}=1")
    assert new.fix is not None
    assert "torch 2.15" in new.fix
    efficient = judge("2.13.0", 92000, A100, enabled={"flash": False})
    assert efficient.commands == ()
    assert efficient.fix is not None
    assert ".contiguous()" in efficient.fix


def test_cudnn_attention_that_is_switched_off_passes_and_says_so() -> None:
    by_call = judge("2.11.0", 91900, H100, enabled={"cudnn": False, "flash": True})
    assert by_call.status is Status.PASS
    assert "switched off" in by_call.summary
    by_variable = judge("2.11.0", 91900, H100, env={VARIABLE: "1"})
    assert by_variable.status is Status.PASS
    assert VARIABLE in by_variable.summary


def test_the_variable_does_nothing_before_2_10() -> None:
    assert judge("2.5.0", 90100, H100, env={VARIABLE: "1"}, cuda="12.4").status is Status.WARN


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "cuda"),
    [
        ("2.13.0", None, H100, "13.0"),  # cuDNN decides
        ("2.13.0", 92000, None, "13.0"),  # the GPU decides
        ("2.9.1", 91002, H100, "13.0"),  # whether cuDNN comes first there is not known
        ("not a version", 92000, H100, "13.0"),
    ],
)
def test_unknown_where_what_matters_was_not_read(
    version: str, cudnn: int | None, capability: tuple[int, int] | None, cuda: str
) -> None:
    assert judge(version, cudnn, capability, cuda=cuda).status is Status.UNKNOWN


def test_unread_is_no_matter_where_it_does_not_decide() -> None:
    assert judge("2.13.0", None, A100).status is Status.PASS
    assert judge("2.13.0", None, H100, order=FLASH_FIRST).status is Status.PASS
    assert judge("2.15.0", 92600, None).status is Status.PASS
    dark = Unknown(reason="no /proc")
    assert judge("2.13.0", 92000, H100, host=dark).status is Status.UNKNOWN
    assert judge("2.13.0", 92000, H100, host=dark, order=CUDNN_FIRST).status is Status.WARN


def test_no_gpu_and_no_cuda() -> None:
    assert judge("2.13.0", 92000).status is Status.UNKNOWN
    assert judge("2.13.0+cpu", None, H100, cuda=None).status is Status.SKIP


def test_one_gpu_of_several_suffices() -> None:
    assert judge("2.11.0", 91900, A100, H100).status is Status.WARN


@pytest.mark.parametrize(
    ("version", "cuda", "cudnn", "capability", "first"),
    [
        ("2.4.1", "12.1", 90100, H100, 1),
        ("2.5.0", "12.4", 90100, H100, 3),
        ("2.5.0", "12.4", 90100, A100, 1),
        ("2.8.0", "12.8", 91002, B200, 1),
        ("2.9.1", "12.8", 91002, H100, 1),
        ("2.9.1", "13.0", 91300, H100, None),
        ("2.9.1", "12.9", 91002, H100, None),
        ("2.9.1", "12.9", 91002, A100, 1),
        ("2.10.0", "12.8", 91002, H100, 1),
        ("2.10.0", "12.8", 91600, H100, 3),
        ("2.10.0", "13.0", 91500, H100, 1),
        ("2.12.0", "12.8", 92000, (10, 1), 1),
        ("2.12.0", "13.0", 92000, (10, 1), 3),
        ("2.15.0", "13.2", 92600, B300, 3),
        ("2.15.0", "13.2", 92600, THOR, 1),
    ],
)
def test_who_comes_first_by_default(
    version: str, cuda: str, cudnn: int, capability: tuple[int, int], first: int | None
) -> None:
    torch = Torch(version=version, cuda=cuda, cudnn=cudnn)
    host = Host(system="Linux")
    assert first_backend(Version(version), torch, {}, None, host, capability) == first


def test_versions_are_spelled_as_people_know_them() -> None:
    assert "cuDNN 9.19.0" in judge("2.11.0", 91900, H100).summary
    assert "cuDNN 8.9.2" in judge("2.2.2", 8902, H100, cuda="12.1").summary
    assert "cuDNN unread" in judge("2.13.0", None, A100).summary


def test_the_order_seen_on_the_first_gpu_is_not_that_of_another_kind() -> None:
    for pair in (
        (recorded_parts.RTX4090, recorded_parts.H100),
        (recorded_parts.H100, recorded_parts.RTX4090),
    ):
        second = msgspec.structs.replace(pair[1], index=1, uuid="GPU-11111111-0000")
        facts = recorded_parts.machine(pair[0], second, torch=recorded_parts.TORCH_2_11)
        facts = facts.with_(job=msgspec.structs.replace(facts.job, attention_mask="none"))
        (finding,) = examine(attention.CHECKS, facts)
        assert finding.status is Status.WARN
