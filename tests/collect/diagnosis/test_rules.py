"""The rules of the diagnosis, without processes."""

from __future__ import annotations

import subprocess
from typing import get_args

import preloaded
import pytest
from bisections import OK, SMALL, WELL, parameter, record
from probe_code import REGISTERED

from doctor._util.records import Ended
from doctor.checks.training import smoke as judged
from doctor.checks.training.diagnosis import (
    CHANGE_NAMES,
    add_diagnosis,
    attempts_table,
    remedy_for,
    summarize,
)
from doctor.collect.changes import CHANGES, REPAIRS
from doctor.collect.child import CUT_OFF
from doctor.collect.children import Children
from doctor.collect.diagnosis import diagnose
from doctor.collect.faults import MOST_SKIPPED, fault_of
from doctor.collect.torch_child import TorchChild
from doctor.facts.diagnosis import LEFT_OUT, Attempt, Diagnosis, Fault
from doctor.facts.training import Smoke, Stage, Step
from doctor.judge.check import Owner, Status, fail, ok

pytestmark = pytest.mark.slow

SKIPPED = Step(loss=5.0, grad_norm="inf", lr=3e-4, skipped=True)


@pytest.mark.parametrize(
    ("smoke", "fault"),
    [
        (record(), None),
        (record(Ended(how="error")), "raised"),
        (record(Ended(how="signal")), "crashed"),
        (record(Ended(how="timeout")), "hung"),
        (record(OK, WELL, Step(loss="nan", grad_norm="nan", lr=1.0)), "non-finite loss"),
        (record(OK, Step(loss=0.0, grad_norm=0.0, lr=1.0)), "zero loss"),
        (record(OK, Step(loss=0.0, grad_norm=1.0, lr=1.0)), None),
        (record(OK, Step(loss=1.0, grad_norm="inf", lr=1.0)), "non-finite gradient"),
        (record(OK, *[SKIPPED] * MOST_SKIPPED, WELL), None),
        (record(OK, *[SKIPPED] * (MOST_SKIPPED + 1), WELL), "non-finite gradient"),
        (record(OK, SKIPPED), "non-finite gradient"),
        (record(parameters=(parameter(finite=False),)), "non-finite gradient"),
        (record(parameters=(parameter(had_gradient=False),)), "no gradient"),
    ],
)
def test_a_fault_is_what_the_checks_complain_about(smoke: Smoke, fault: Fault | None) -> None:
    assert fault_of(smoke) == fault
    statuses = {check.judge(smoke=smoke).status for check in judged.CHECKS[:3]}
    assert (Status.FAIL in statuses) == (fault is not None)


def test_the_end_of_the_budget_is_no_fault() -> None:
    assert fault_of(record(CUT_OFF)) is None


def test_every_change_has_words_and_the_limit_is_that_of_the_check() -> None:
    assert list(CHANGE_NAMES) == ["repeat", *CHANGES, *REPAIRS.values()]
    assert judged.MOST_SKIPPED == MOST_SKIPPED


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fault", get_args(Fault))
def test_every_cause_can_be_told(fault: Fault, change: str, own: bool) -> None:
    attempts = (
        Attempt(change="repeat", outcome="same"),
        Attempt(change=change, outcome="fixed", loss=5.0, grad_norm=1.0),
    )
    smoke = record(diagnosis=Diagnosis(fault=fault, attempts=attempts))
    verdict = add_diagnosis(fail("x"), smoke, own=own)
    assert "{" not in f"{verdict.summary}{verdict.fix}"
    assert " the cause" in verdict.summary or "too high" in verdict.summary
    assert verdict.sources
    assert (verdict.fix or "").endswith("no fault    loss 5, grad_norm 1")


def test_a_known_remedy_is_kept_if_no_change_fixes_it() -> None:
    same = tuple(Attempt(change=name, outcome="same") for name in ("repeat", "math"))
    smoke = record(diagnosis=Diagnosis(fault="raised", attempts=same))
    known = fail("x", fix="Free the GPU.", owner=Owner.MACHINE, sources=("ps-U10",))
    verdict = add_diagnosis(known, smoke)
    assert (verdict.fix or "").startswith("Free the GPU.\nAttempts")
    assert verdict.owner is Owner.MACHINE
    assert "ps-U10" in verdict.sources
    fixed = Diagnosis(fault="raised", attempts=(same[0], Attempt(change="math", outcome="fixed")))
    verdict = add_diagnosis(known, record(diagnosis=fixed))
    assert "enable_mem_efficient_sdp(False)" in (verdict.fix or "")


NO_SCALER = "allocate: RuntimeError: torch 2.1.2+cu121 has no GradScaler for cpu"


def test_a_precision_that_torch_lacks_is_not_blamed_on_its_arithmetic() -> None:
    """fp32 completes there, which shows nothing."""
    stopped = Stage(name="allocate", ended=Ended(how="error", detail=NO_SCALER))
    fixed = (Attempt(change="repeat", outcome="same"), Attempt(change="fp32", outcome="fixed"))
    smoke = record(stages=(stopped,), diagnosis=Diagnosis(fault="raised", attempts=fixed))
    verdict = judged.STEP_COMPLETES.judge(smoke=smoke, siblings=())
    assert "install a newer torch" in verdict.fix
    assert "cause" not in f"{verdict.summary}{verdict.fix}"


def test_nothing_is_searched_where_torch_lacks_the_precision() -> None:
    stopped = Stage(name="allocate", ended=Ended(how="error", detail=NO_SCALER))
    child = TorchChild(Children(), "/bin/false")
    assert diagnose(child, SMALL, record(stages=(stopped,))) is None
    child.end()


def test_a_bisection_that_ran_out_of_time_names_no_cause() -> None:
    tried = [Attempt(change=name, outcome="same") for name in ("repeat", "math")]
    cut = Attempt(change="eager", outcome="not possible", detail=LEFT_OUT)
    text = summarize(Diagnosis(fault="hung", attempts=(*tried, cut)), record(), own=True)
    assert "cause unknown: none of 1 changes" in text
    assert "look at the model" not in text


def test_only_what_was_tried_is_excluded() -> None:
    attempts = (
        Attempt(change="repeat", outcome="same"),
        Attempt(change="math", outcome="same"),
        Attempt(change="other-batch", outcome="not possible", detail="the factory makes one"),
        Attempt(change="fp32", outcome="not possible", detail=LEFT_OUT),
    )
    diagnosis = Diagnosis(fault="zero loss", attempts=attempts)
    fix = remedy_for(diagnosis, record(diagnosis=diagnosis), own=True).fix
    assert "Tried without effect: attention's math backend only. Could not be tried: another" in fix
    assert "Not reached in time: everything in fp32." in fix
    nothing = remedy_for(Diagnosis(fault="zero loss"), record(), own=True).fix
    assert "ried" not in nothing


def test_positions_are_told_from_tokens() -> None:
    code = (
        REGISTERED + "import torch\nstep = probe('values.inspect_step')\n"
        "for indices in ([[0, 1, 2, 3, 4]], [[0, 7, 2, 1, 2]]):\n"
        "  try: step._check_tokens(torch.tensor(indices), torch.zeros(3, 2), {})\n"
        "  except step.InvalidInput as error: print(error)\n"
    )
    done = subprocess.run(
        [preloaded.python(), "-c", code, "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "positions: 2 of 5 beyond the model's length, it has 3",
        "tokens: 1 of 5 values outside the vocabulary [0, 3): 7",
    ]


def test_a_verdict_without_a_diagnosis_is_unchanged() -> None:
    assert add_diagnosis(fail("x"), record()) == fail("x")
    diagnosis = Diagnosis(fault="hung")
    assert add_diagnosis(ok("x"), record(diagnosis=diagnosis)) == ok("x")
    assert summarize(diagnosis, record()) == "no change was tried to find the cause"
    assert attempts_table(diagnosis) == []
