"""The smoke step of several GPUs: the worst one decides, and is named by its device."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from recorded_parts import H100, NAMES, TORCH_2_15, machine, parameter, smoke, stopped

from doctor._util.records import Ended
from doctor.catalog import CHECKS
from doctor.facts.training import Smoke, Step
from doctor.judge.check import Check, Finding, Status
from doctor.judge.engine import examine

JUDGED = [check for check in CHECKS if check.code in ("SMK001", "SMK002", "SMK003", "SMK004")]
NAN = smoke(steps=(Step(loss="nan", grad_norm="nan", lr=3e-4),))
UNCHANGED = smoke(parameters=tuple(parameter(name, moved=False) for name in NAMES))
CUT_OFF = smoke(
    parameters=tuple(msgspec.structs.replace(parameter(name), had_gradient=False) for name in NAMES)
)
CRASHED = stopped("backward", Ended(how="signal", detail="SIGSEGV inside backward"))


def examined(check: Check, *siblings: Smoke, first: Smoke | None = None) -> Finding:
    facts = machine(H100, torch=TORCH_2_15, smoke=first or smoke(), siblings=siblings)
    return next(each for each in examine([check], facts) if each.check is check)


def on(device: str, step: Smoke) -> Smoke:
    return msgspec.structs.replace(step, device=device)


def only(code: str) -> Check:
    """The check without its dependencies."""
    return replace(next(check for check in JUDGED if check.code == code), after=())


@pytest.mark.parametrize("check", JUDGED, ids=lambda check: check.code)
def test_equal_gpus_are_summarized_once(check: Check) -> None:
    check = only(check.code)
    several = examined(check, on("cuda:1", smoke()), on("cuda:2", smoke()))
    assert several.status is Status.PASS
    assert several.verdict.summary.endswith("; the same on cuda:1, cuda:2")
    assert several.verdict.summary.startswith(examined(check).verdict.summary)


@pytest.mark.parametrize(
    ("code", "broken"),
    [("SMK001", CRASHED), ("SMK002", NAN), ("SMK003", CUT_OFF), ("SMK004", UNCHANGED)],
)
def test_the_one_gpu_that_fails_is_named(code: str, broken: Smoke) -> None:
    check = only(code)
    failed = examined(check, on("cuda:1", broken), on("cuda:2", smoke()))
    assert failed.status is Status.FAIL
    assert failed.verdict.summary.startswith("cuda:1: ")
    assert "cuda:2" not in failed.verdict.summary
    first = examined(check, on("cuda:1", smoke()), first=broken)
    assert first.status is Status.FAIL
    assert first.verdict.summary.startswith("cuda:0: ")


def test_a_gpu_without_a_record_is_unknown() -> None:
    empty = Smoke(device="cuda:1", precision="bf16", recipe="amp", lr=0.0, stages=())
    verdict = examined(only("SMK001"), empty).verdict
    assert verdict.status is Status.UNKNOWN
    assert verdict.summary.startswith("cuda:1: ")
