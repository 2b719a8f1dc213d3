"""Weights that do not change, or change once: what the optimizer, its schedule and the forward pass
do with the updates."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training import own_gradients, own_model, own_weights
from doctor.facts.diagnosis import Cut, Diagnosis
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Forecast, Optimizer, Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict

OK = Ended(how="ok")
ADAM = Optimizer(name="Adam", epsilon=1e-8)
SGD = Optimizer(name="SGD")
FALLING = (1e-3, 1e-9, *[1e-15] * 18)


def parameter(**fields: object) -> Parameter:
    known = {"name": "head.weight", "dtype": "float32", "size": 16, "computed": True, "moved": True,
             "had_gradient": True, "finite": True, "dimensions": 2, "grad_norm": 0.5}  # fmt: skip
    return msgspec.convert({"type": "Parameter", **known, **fields}, Parameter)


def own(
    optimizer: Optimizer | None,
    trend: Trend | None = None,
    cuts: tuple[Cut, ...] = (),
    lr: float = 1e-3,
    **fields: Any,
) -> OwnModel:
    smoke = Smoke(
        device="cpu",
        precision="fp32",
        recipe="amp",
        lr=lr,
        stages=(Stage(name="optimizer", ended=OK),),
        steps=(Step(loss=1.0, grad_norm=1.0, lr=lr),) * 3,
        parameters=(parameter(**fields),),
        optimizer=optimizer,
        diagnosis=Diagnosis(fault="no gradient", cuts=cuts) if cuts else None,
    )
    return OwnModel(description="train.py:make", built=OK, smoke=smoke, trend=trend)


def judged(*record: Any, **fields: Any) -> Verdict:
    return own_weights.weights_move(own(*record, **fields), Job())


AT = {"place": "train.py, line 9"}


@pytest.mark.parametrize(
    ("forecast", "text", "fix"),
    [
        (Forecast(zeros=496, rate=5e-4, code="return (step + 1) // 500", **AT),
         "until it is 0.0005 in step 500; train.py, line 9 (`return (step + 1) // 500`) gives 0",
         "Look at train.py, line 9: a division that rounds down"),
        (Forecast(zeros=10_000, code="return 0.0", **AT),
         "and stays 0 in the 10,000 further steps", "Look at train.py, line 9: it makes"),
        (Forecast(zeros=0, rate=1e-5), "until it is 1e-05 in step 4", "Let the schedule start"),
        (None, "in every step with LambdaLR; required", "Let the schedule start above 0"),
    ],
)  # fmt: skip
def test_what_a_schedule_gives_after_steps_of_0(
    forecast: Forecast | None, text: str, fix: str
) -> None:
    optimizer = msgspec.structs.replace(SGD, schedule="LambdaLR", forecast=forecast)
    verdict = judged(optimizer, lr=0.0, moved=False)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert (verdict.fix or "").startswith(fix)


def test_gradients_below_the_epsilon_name_what_shrinks_them() -> None:
    cut = Cut(kind="small", name="DivBackward0", place="train.py, line 8", remark="from 1 to 1e-12",
              parameters=("head.weight",))  # fmt: skip
    verdict = judged(ADAM, None, (cut,), moved=False, grad_norm=1e-12)
    assert verdict.status is Status.FAIL
    assert "the epsilon of Adam is 1e-08; the gradient shrinks in DivBackward0" in verdict.summary
    assert "Look at train.py, line 8: remove the tiny factor" in (verdict.fix or "")


@pytest.mark.parametrize(
    ("optimizer", "norm", "text", "fix"),
    [
        (SGD, 1e-12, "their gradients are at most 1.0e-12; required", "Scale the loss"),
        (Optimizer(name="Adam", epsilon=1e8), 0.5, "the epsilon of Adam is 1e+08", "Lower eps"),
        (None, 1e-12, "the epsilon of AdamW is 1e-08", "Scale the loss"),
    ],
)
def test_gradients_that_are_too_small_for_the_optimizer(
    optimizer: Optimizer | None, norm: float, text: str, fix: str
) -> None:
    verdict = judged(optimizer, moved=False, grad_norm=norm)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert fix in (verdict.fix or "")


def test_clipping_that_leaves_no_update_fails() -> None:
    clipped = Optimizer(name="SGD", max_norm=1e-12)
    verdict = judged(clipped, moved=False, clipped=True)
    assert verdict.status is Status.FAIL
    assert "not once it is clipped to a norm of 1e-12" in verdict.summary


@pytest.mark.parametrize(
    ("optimizer", "trend", "text"),
    [
        (msgspec.structs.replace(ADAM, schedule="ExponentialLR"), Trend(rates=FALLING),
         "falls from 0.001 to 1e-09 in step 2 with ExponentialLR"),
        (SGD, Trend(rates=(1e-12,) * 20), "at most 1e-12 in 20 steps"),
        (SGD, Trend(rates=tuple(n * 1e-12 for n in range(20))), "at most 1.9e-11 in 20 steps"),
        (msgspec.structs.replace(ADAM, max_norm=1e-12), None, "clipped to a norm of 1e-12"),
    ],
)  # fmt: skip
def test_updates_that_end_at_once_are_a_warning(
    optimizer: Optimizer, trend: Trend | None, text: str
) -> None:
    verdict = judged(optimizer, trend)
    assert verdict.status is Status.WARN
    assert text in verdict.summary


@pytest.mark.parametrize(
    "rates",
    [
        (1e-3, 1e-9, *[1e-3, 1e-9] * 9),  # it returns
        (1e-3, 9e-4, 8e-4, *[0.0] * 17),  # it ends after the judged steps
        tuple(step * 1e-10 for step in range(20)),  # a warm-up
        (1e-3, 1e-9),  # too few steps to tell
    ],
)
def test_schedules_that_go_on_pass(rates: tuple[float, ...]) -> None:
    assert judged(ADAM, Trend(rates=rates)).status is Status.PASS


@pytest.mark.parametrize(
    ("fields", "trend", "text", "fix"),
    [
        ({"undone": True, "set_back": True}, Trend(writes=("copy_ in train.py, line 3",)),
         "initial values again after the next forward pass: head.weight; the forward pass "
         "overwrites them: copy_ in train.py, line 3", "load_state_dict|overwrites weights"),
        ({"undone": True}, None, "the values from before the update again", "load_state_dict"),
        ({"rewritten": True}, Trend(discarded=("head.weight",)), "hardly depend on their updates",
         "load_state_dict"),
        ({"undone": True}, Trend(writes=("embedding_renorm_ in train.py, line 3",)),
         "embedding_renorm_", "Omit max_norm"),
    ],
)  # fmt: skip
def test_updates_that_the_forward_pass_discards_fail(
    fields: dict[str, bool], trend: Trend | None, text: str, fix: str
) -> None:
    verdict = judged(SGD, trend, **fields)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert any(part in (verdict.fix or "") for part in fix.split("|"))


def test_a_weight_that_is_clipped_in_the_forward_pass_passes() -> None:
    assert judged(SGD, Trend(), rewritten=True).status is Status.PASS


@pytest.mark.parametrize(
    ("change", "lr", "status"),
    [(40.0, 30.0, Status.WARN), (0.1, 30.0, Status.PASS), (40.0, 1e-3, Status.PASS)],
)
def test_a_first_update_far_larger_than_the_weights_is_a_warning(
    change: float, lr: float, status: Status
) -> None:
    record = own(ADAM, Trend(), change=change, lr=lr)
    assert own_weights.weights_move(record, Job()).status is Status.PASS  # one matrix: a probe
    assert record.smoke is not None
    smoke = msgspec.structs.replace(record.smoke, parameters=record.smoke.parameters * 2)
    verdict = own_weights.weights_move(msgspec.structs.replace(record, smoke=smoke), Job())
    assert verdict.status is status
    assert ("40 times as large as the weights" in verdict.summary) is (status is Status.WARN)


def test_a_learning_rate_that_is_not_finite_comes_first() -> None:
    record = own(msgspec.structs.replace(ADAM, schedule="LambdaLR"), lr=1e-3)
    assert record.smoke is not None
    steps = (Step(loss=1.0, grad_norm=1.0, lr=math.nan), Step(loss="nan", grad_norm="nan", lr=1e-3))
    smoke = msgspec.structs.replace(record.smoke, steps=steps)
    verdict = own_model.loss_finite(msgspec.structs.replace(record, smoke=smoke), None)
    assert verdict.status is Status.FAIL
    assert "the learning rate is nan in step 1 with LambdaLR" in verdict.summary
    assert "max(1, warm_up_steps)" in (verdict.fix or "")


@pytest.mark.parametrize(("epsilon", "named"), [(0.0, True), (1e-8, False)])
def test_an_epsilon_of_0_is_named_where_an_update_makes_weights_nan(
    epsilon: float, named: bool
) -> None:
    record = own(msgspec.structs.replace(ADAM, epsilon=epsilon))
    assert record.smoke is not None
    steps = (*record.smoke.steps[:1], Step(loss="nan", grad_norm="nan", lr=1e-3))
    diagnosis = Diagnosis(fault="non-finite loss", origin="update", step=1)
    smoke = msgspec.structs.replace(record.smoke, steps=steps, diagnosis=diagnosis)
    verdict = own_model.loss_finite(msgspec.structs.replace(record, smoke=smoke), None)
    assert verdict.status is Status.FAIL
    assert ("eps of Adam is 0" in verdict.summary) is named
    assert ("eps=1e-8" in (verdict.fix or "")) is named


def test_a_loss_that_explodes_and_falls_again_is_a_warning() -> None:
    record = own(SGD, Trend(losses=(2.3, 2.4, 8e15, 2.3), rates=(38.4,)), lr=38.4)
    verdict = own_model.loss_finite(record, None)
    assert verdict.status is Status.WARN
    assert "grows from 2.3 to 8e+15 in 3 steps" in verdict.summary


def test_a_divergence_is_reported_once() -> None:
    record = own(ADAM, Trend(losses=(1.0, "nan")), change=40.0, lr=30.0)
    assert own_model.loss_finite(record, None).status is Status.WARN
    assert own_weights.weights_move(record, Job()).status is Status.PASS


@pytest.mark.parametrize(
    ("optimizer", "rates", "text", "fix"),
    [
        (Optimizer(name="SGD", momentum=9.0), (0.1,), "momentum=9", "momentum below 1"),
        (Optimizer(name="AdamW", decay=100.0), (0.01,), "the weights by -99", "weight_decay"),
        (Optimizer(name="AdamW", decay=10.0), (1e3,), "learning rate of AdamW is 1000", "Lower"),
        (Optimizer(name="AdamW", schedule="ExponentialLR"), (1e-3, 0.1, 10.0),
         "rises from 0.001 to 10 with ExponentialLR", "factor"),
        (None, (3e-4,), "the loss is nan in step 2", "Lower the learning rate"),
    ],
)  # fmt: skip
def test_a_divergence_names_what_was_observed(
    optimizer: Optimizer | None, rates: tuple[float, ...], text: str, fix: str
) -> None:
    record = own(optimizer, Trend(losses=(1.0, "nan"), rates=rates))
    verdict = own_model.loss_finite(record, None)
    assert verdict.status is Status.WARN
    assert text in verdict.summary
    assert fix in (verdict.fix or "")


@pytest.mark.parametrize(
    ("norm", "status"), [(5e-9, Status.WARN), (0.0, Status.PASS), (0.1, Status.PASS),
                         (None, Status.PASS)]
)  # fmt: skip
def test_a_loss_that_depends_on_no_weight_is_a_warning(norm: float | None, status: Status) -> None:
    record = own(None, Trend(losses=(1.0,) * 20, norm_in_fp32=norm))
    verdict = own_model.loss_finite(record, None)
    assert verdict.status is status
    assert ("does not depend on the weights" in verdict.summary) is (status is Status.WARN)


def test_logits_that_are_too_large_for_any_step_are_named() -> None:
    trend = Trend(losses=(25688.0,) * 20, supervised=("cross_entropy",), classes=4)
    verdict = own_model.loss_finite(own(None, trend), None)
    assert verdict.status is Status.WARN
    assert "uniform predictions of 4 classes give 1.386" in verdict.summary
    assert "Initialize the weights smaller" in (verdict.fix or "")


def test_a_norm_over_one_value_is_a_warning() -> None:
    trend = Trend(constant_norms=("layer_norm in train.py, line 4, of what 0.weight compute",))
    verdict = own_gradients.gradients_reach_all(own(None, trend), None, Job())
    assert verdict.status is Status.WARN
    assert "layer_norm in train.py, line 4, of what 0.weight compute" in verdict.summary


def test_without_gradients_the_remedy_is_that_of_the_gradients() -> None:
    verdict = judged(None, had_gradient=False)
    assert verdict.status is Status.UNKNOWN
    assert "Fix SMK007 first" in (verdict.fix or "")


def behind_a_gate(*, moved: bool = True, near_zero: bool = True, norm: float = 0.5) -> Verdict:
    """A layer with tiny gradients, and one nearer to the loss."""
    record = own(ADAM, name="body.weight", grad_norm=1e-11, moved=False, order=1)
    assert record.smoke is not None
    gate = parameter(name="out.weight", order=0, moved=moved, near_zero=near_zero, grad_norm=norm)
    smoke = msgspec.structs.replace(record.smoke, parameters=(*record.smoke.parameters, gate))
    return own_weights.weights_move(msgspec.structs.replace(record, smoke=smoke), Job())


def test_tiny_gradients_behind_a_layer_that_starts_near_zero_and_changes_pass() -> None:
    verdict = behind_a_gate()
    assert verdict.status is Status.PASS
    assert "nearer to the loss start near 0, and these change: out.weight" in verdict.summary


@pytest.mark.parametrize("fields", [{"near_zero": False}, {"norm": 1e-7}])
def test_tiny_gradients_of_another_reason_fail(fields: dict[str, Any]) -> None:
    assert behind_a_gate(**fields).status is Status.FAIL


@pytest.mark.parametrize(
    ("lr", "moved", "status"),
    [(0.0, False, Status.UNKNOWN), (1e-3, True, Status.FAIL), (0.0, True, Status.FAIL)],
)
def test_a_head_of_zeros_stays_so_at_a_learning_rate_of_0(
    lr: float, moved: bool, status: Status
) -> None:
    cut = Cut(kind="zero", name="MmBackward0", origin="the parameter head.weight",
              remark="the other factor, the parameter head.weight, is 0 throughout",
              parameters=("body.weight",))  # fmt: skip
    record = own(ADAM, None, (cut,), lr=lr)
    assert record.smoke is not None
    head = parameter(name="head.weight", moved=moved)
    body = parameter(name="body.weight", moved=False, had_gradient=False, grad_norm=0.0)
    smoke = msgspec.structs.replace(record.smoke, parameters=(head, body))
    record = msgspec.structs.replace(record, smoke=smoke)
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is status
    assert ("the learning rate is 0: see SMK008" in verdict.summary) is (not lr and not moved)
