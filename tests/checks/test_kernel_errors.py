"""SMK005 after an error of a GPU's kernel: its assertion, and the same forward pass on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import recorded_own

from doctor._util.records import Ended
from doctor.checks.training.own_errors import INDEX_ERROR
from doctor.checks.training.own_model import STEP_COMPLETES
from doctor.collect.changes import PRECISIONS, possible_changes
from doctor.collect.child_output import kernel_assertion
from doctor.errors.causes import BY_ID
from doctor.errors.match import with_message
from doctor.facts.diagnosis import Diagnosis
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Stage
from doctor.judge.check import Owner, Status, Verdict

ASSERT = "forward: AcceleratorError: CUDA error: device-side assert triggered"
ILLEGAL = "forward: AcceleratorError: CUDA error: an illegal memory access was encountered"
NOT_ON_GPU = """forward: NotImplementedError: "cholesky_cusolver" not implemented for 'BFloat16'"""
OUTSIDE = "IndexError: Target 99 is out of bounds. in train.py, line 7"
PRINTED = (
    "/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d: "
    "block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
)


def judged(detail: str, assertion: str = "", **diagnosis: Any) -> Verdict:
    """SMK005 of a training whose forward pass raises this."""
    ended = Ended(how="error", detail=detail)
    stages = (*recorded_own.smoke().stages[:1], Stage(name="forward", ended=ended))
    found = Diagnosis(fault="raised", **diagnosis)
    smoke = recorded_own.smoke(stages=stages, steps=(), parameters=(), diagnosis=found)
    own = OwnModel(
        description="train.py:make", built=Ended(how="ok"), smoke=smoke, assertion=assertion
    )
    return STEP_COMPLETES.judge(own=own, smoke=None)


@pytest.mark.parametrize(
    ("printed", "word"),
    [
        (PRINTED, "labels"),
        (PRINTED.replace("t >= 0 && t < n_classes", "cur_target >= 0 && cur_target < n"), "labels"),
        (PRINTED.replace("t >= 0 && t < n_classes", "input_val >= zero"), "with_logits"),
        (
            PRINTED.replace("t >= 0 && t < n_classes", "idx_dim >= 0 && idx_dim < index_size"),
            "scatter",
        ),
        (PRINTED.replace("t >= 0 && t < n_classes", "srcIndex < srcSelectDimSize"), "embedding"),
        (PRINTED.replace("t >= 0 && t < n_classes", "-sizes[i] <= index"), "x[index]"),
    ],
)
def test_the_assertion_that_a_kernel_printed_is_named_and_selects_the_fix(
    printed: str, word: str
) -> None:
    assertion = kernel_assertion(f"starting\n{printed * 3}done\n")
    assert assertion.startswith("Loss.cu:245, nll_loss_forward_reduce_cuda_kernel_2d: `")
    verdict = judged(ASSERT, assertion)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.JOB)
    assert assertion in verdict.summary
    assert word in (verdict.fix or "")


def test_every_assertion_has_another_fix() -> None:
    wordings = BY_ID["device-side-assert"].wordings
    assert len({each.fix for each in wordings}) == len(wordings) == 4


def test_without_an_assertion_the_error_on_the_cpu_is_named() -> None:
    assert kernel_assertion("Traceback (most recent call last):\n") == ""
    verdict = judged(ASSERT, on_cpu=f"raises {OUTSIDE}", index_on_cpu=True)
    assert f"on the CPU raises {OUTSIDE}" in verdict.summary
    assert "no change was tried" not in verdict.summary
    assert (verdict.fix or "").startswith(INDEX_ERROR.fix)


ASSERT_FIX = BY_ID["device-side-assert"].fix


def test_what_is_not_known_stays_so() -> None:
    assert (judged(ASSERT, assertion="Own.cu:1, own: `ok` failed").fix or "").startswith(ASSERT_FIX)
    verdict = judged(ILLEGAL, on_cpu="completes")
    assert "on the CPU completes" in verdict.summary
    assert "NUM003" in (verdict.fix or "")
    assert judged(ILLEGAL).status is Status.FAIL


def test_an_operation_without_a_kernel_in_half_precision_is_computed_in_fp32() -> None:
    verdict = judged(NOT_ON_GPU)
    assert verdict.owner is Owner.JOB
    assert "enabled=False" in (verdict.fix or "")
    stages = (Stage(name="forward", ended=Ended(how="error", detail=NOT_ON_GPU)),)
    smoke = recorded_own.smoke(stages=stages, steps=(), parameters=())
    diagnosis = Diagnosis(fault="raised")
    changes = possible_changes(diagnosis, smoke, "raised", small=False, of_kernel=False)
    assert changes == PRECISIONS


def test_the_layout_of_classes_is_recognized_by_the_texts_of_both_devices() -> None:
    for text in (
        "input and target batch or spatial sizes don't match: target [2, 6, 7], input [2, 6, 7, 5]",
        "Expected target size [2, 7], got [2, 6]",
    ):
        ids = [row.id for row in with_message(f"forward: RuntimeError: {text}")]
        assert "order-of-dimensions" in ids
