"""Parameters without a gradient in the first steps, units that are alike, losses that rise."""

from __future__ import annotations

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training import own_gradients, own_model, own_weights
from doctor.facts.diagnosis import Cut, Diagnosis
from doctor.facts.own_model import Misuse, OtherSeed, OwnModel, Trend
from doctor.facts.training import Optimizer, Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.judge.check import Status

OK = Ended(how="ok")


def parameter(name: str, reached: bool = True, **fields: object) -> Parameter:
    known = {"dtype": "float32", "size": 16, "computed": reached, "had_gradient": reached,
             "finite": True, "moved": reached, "dimensions": 2, "grad_norm": 0.5}  # fmt: skip
    return msgspec.convert({"type": "Parameter", "name": name, **known, **fields}, Parameter)


def steps(*parameters: Parameter, optimizer: Optimizer | None = None, lr: float = 1e-3) -> Smoke:
    return Smoke(
        device="cpu",
        precision="fp32",
        recipe="amp",
        lr=lr,
        stages=(Stage(name="optimizer", ended=OK),),
        steps=(Step(loss=1.0, grad_norm=1.0, lr=lr),) * 3,
        parameters=parameters,
        optimizer=optimizer,
    )


def own(smoke: Smoke, **fields: object) -> OwnModel:
    return OwnModel(description="train.py:make", built=OK, smoke=smoke, **fields)  # type: ignore[arg-type]


HEAD, EXPERT = parameter("head.weight"), parameter("experts.1.weight", reached=False)
TARGET = parameter("target.weight", reached=False, copied=True)
ADAM = Optimizer(name="Adam", omitted=("experts.1.weight",))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (own(steps(HEAD, EXPERT), routed=("experts.1.weight",)), "with other weights only"),
        (
            own(steps(HEAD, EXPERT), trend=Trend(reached=("experts.1.weight",))),
            "in some steps only",
        ),
        (
            own(steps(HEAD, EXPERT), trend=Trend(single_steps=("experts.1.weight",))),
            "runs for one step from an initial state of 0",
        ),
        (own(steps(HEAD, TARGET)), "start as copies"),
        (own(steps(HEAD, EXPERT, optimizer=ADAM)), "in no group of the optimizer"),
    ],
    ids=["routed", "later", "one step", "a copy", "not optimized"],
)
def test_parameters_that_need_no_gradient_here_are_a_note(record: OwnModel, reason: str) -> None:
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is Status.PASS
    assert "; 1 more " in verdict.summary
    assert reason in verdict.summary
    assert own_weights.weights_move(record, Job()).status is Status.PASS


def cancelled(name: str, dimensions: int) -> OwnModel:
    """Gradients of a parameter that add up to exactly 0 over the batch."""
    each = parameter(name, reached=False, dimensions=dimensions)
    cut = Cut(kind="cancelled", name="AddmmBackward0", place="train.py, line 9", parameters=(name,))
    record = own(steps(HEAD, each))
    diagnosis = Diagnosis(fault="no gradient", cuts=(cut,))
    assert record.smoke is not None
    smoke = msgspec.structs.replace(record.smoke, diagnosis=diagnosis)
    return msgspec.structs.replace(record, smoke=smoke)


def test_the_gradient_of_a_bias_may_cancel_and_that_of_a_matrix_may_not() -> None:
    verdict = own_gradients.gradients_reach_all(cancelled("critic.bias", 1), None, Job())
    assert verdict.status is Status.PASS
    assert "1 more get gradients that add up to exactly 0 over the batch" in verdict.summary
    verdict = own_gradients.gradients_reach_all(cancelled("critic.weight", 2), None, Job())
    assert verdict.status is Status.FAIL
    assert "add up to 0 in AddmmBackward0, of train.py, line 9" in verdict.summary
    assert "check the signs" in (verdict.fix or "")


@pytest.mark.parametrize(("observed", "fix"), [(True, "remove data"), (False, "use_reentrant")])
def test_frozen_adapters_are_those_of_checkpointing_unless_their_path_ends_elsewhere(
    observed: bool, fix: str
) -> None:
    name = "layers.0.lora_down.weight"
    cut = Cut(kind="detached", name="data", place="train.py, line 9", parameters=(name,))
    diagnosis = Diagnosis(fault="no gradient", cuts=(cut,) if observed else ())
    smoke = msgspec.structs.replace(
        steps(HEAD, parameter(name, reached=False)), diagnosis=diagnosis
    )
    verdict = own_gradients.gradients_reach_all(own(smoke), None, Job())
    assert verdict.status is Status.FAIL
    assert fix in (verdict.fix or "")


def test_a_group_with_a_tiny_rate_fails_beside_others_that_train() -> None:
    still = parameter("body.weight", moved=False, rate=1e-10)
    smoke = steps(HEAD, still, optimizer=Optimizer(name="AdamW"), lr=1e-3)
    verdict = own_weights.weights_move(own(smoke), Job())
    assert verdict.status is Status.FAIL
    assert "in groups whose learning rate is at most 1e-10: body.weight" in verdict.summary
    unknown = parameter("body.weight", moved=False, rate=None)
    scheduled = steps(HEAD, unknown, optimizer=Optimizer(name="AdamW", schedule="Warmup"))
    assert own_weights.weights_move(own(scheduled), Job()).status is Status.PASS


def test_another_parameter_without_a_gradient_still_fails() -> None:
    lost = parameter("encoder.weight", reached=False)
    record = own(steps(HEAD, EXPERT, lost), routed=("experts.1.weight",))
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is Status.FAIL
    assert "1 of 3 parameters got no gradient: encoder.weight" in verdict.summary


def test_parameters_that_other_weights_may_reach_are_unknown_where_none_were_tried() -> None:
    late = "building and three steps took 40 s"
    record = own(steps(HEAD, EXPERT), unsearched=late)
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is Status.UNKNOWN
    assert late in verdict.summary
    cut = Cut(kind="detached", name="data", place="train.py, line 9", parameters=(EXPERT.name,))
    diagnosis = Diagnosis(fault="no gradient", cuts=(cut,))
    assert record.smoke is not None
    seen = msgspec.structs.replace(record.smoke, diagnosis=diagnosis)
    for smoke in (seen, steps(EXPERT)):
        record = own(smoke, unsearched=late)
        assert own_gradients.gradients_reach_all(record, None, Job()).status is Status.FAIL


def test_an_expert_that_only_the_first_seed_chose_is_no_fault_of_the_second() -> None:
    second = OtherSeed(seed=2, smoke=steps(HEAD, EXPERT))
    record = own(steps(HEAD, parameter("experts.1.weight")), seed=1, other_seed=second)
    assert own_gradients.gradients_reach_all(record, None, Job()).status is Status.PASS
    assert own_weights.weights_move(record, Job()).status is Status.PASS


def test_rows_that_stay_alike_are_a_warning() -> None:
    record = own(steps(HEAD, parameter("first.weight", rows_alike=True)))
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is Status.WARN
    assert "all rows are the same, before the steps and after them: first.weight" in verdict.summary


def test_parameters_that_forward_creates_are_a_warning() -> None:
    record = own(steps(HEAD), trend=Trend(created=((4, 16), (4,))))
    verdict = own_gradients.gradients_reach_all(record, None, Job())
    assert verdict.status is Status.WARN
    assert "shapes [4, 16], [4]" in verdict.summary


def test_weights_that_are_set_back_fail_and_a_clamped_scale_does_not() -> None:
    back = own_weights.weights_move(own(steps(HEAD, parameter("w", set_back=True))), Job())
    assert back.status is Status.FAIL
    assert "1 of 2 parameters have their initial values again" in back.summary
    scale = parameter("scale", set_back=True, dimensions=0)
    assert own_weights.weights_move(own(steps(HEAD, scale)), Job()).status is Status.PASS


STILL = parameter("head.weight", moved=False)


@pytest.mark.parametrize(
    ("optimizer", "lr", "status", "text"),
    [
        (Optimizer(name="SGD", resting=("head.weight",)), 1e-3, Status.WARN, "rate is 0: head"),
        (Optimizer(name="SGD", resting=("head.weight",), schedule="LambdaLR"), 1e-3,
         Status.WARN, "rate is 0: head"),
        (Optimizer(name="SGD", waiting=("head.weight",), schedule="LambdaLR"), 1e-3,
         Status.PASS, "their group is 0 in these steps, under LambdaLR"),
        (Optimizer(name="SGD"), 1e-12, Status.FAIL, "rate is 1e-12, and no schedule raises it"),
        (Optimizer(name="SGD", schedule="LambdaLR"), 1e-12, Status.PASS, "below what float32"),
    ],
)  # fmt: skip
def test_learning_rates_that_change_nothing(
    optimizer: Optimizer, lr: float, status: Status, text: str
) -> None:
    verdict = own_weights.weights_move(own(steps(STILL, optimizer=optimizer, lr=lr)), Job())
    assert verdict.status is status
    assert text in verdict.summary


def test_an_optimizer_that_does_nothing_fails_and_one_that_accumulates_does_not() -> None:
    still = parameter("head.weight", moved=False, steerable=True, grad_norm=0.9)
    smoke = steps(still, optimizer=Optimizer(name="Mine"), lr=0.1)
    verdict = own_weights.weights_move(own(smoke), Job())
    assert verdict.status is Status.FAIL
    assert "although a step of 0.1 along a gradient of norm 0.9 changes them" in verdict.summary
    later = own(smoke, trend=Trend(moved=("head.weight",)))
    assert own_weights.weights_move(later, Job()).status is Status.PASS


RISING = tuple(1.0 + 0.05 * step for step in range(20))


@pytest.mark.parametrize(
    ("trend", "maximize", "status", "fix"),
    [
        (Trend(losses=RISING, supervised=("cross_entropy",)), True, Status.WARN, "maximize=True"),
        (Trend(losses=RISING, supervised=("cross_entropy",)), False, Status.WARN, "minus sign"),
        (Trend(losses=RISING), True, Status.PASS, ""),
        (Trend(losses=(*RISING[:-1], 1.0), supervised=("mse_loss",)), False, Status.PASS, ""),
        (Trend(losses=(1.0,), misused=(Misuse(function="mse_loss", kind="negated"),)), False,
         Status.WARN, "minus sign"),
    ],
    ids=["maximized", "rising", "a reward", "not always", "negated"],
)  # fmt: skip
def test_losses_that_rise(trend: Trend, maximize: bool, status: Status, fix: str) -> None:
    smoke = steps(HEAD, optimizer=Optimizer(name="Adam", maximize=maximize))
    verdict = own_model.loss_finite(own(smoke, trend=trend), None)
    assert verdict.status is status
    assert fix in (verdict.fix or "")


@pytest.mark.parametrize(("loss", "status"), [(70_000.0, Status.PASS), (70.0, Status.WARN)])
def test_a_large_gradient_norm_is_compared_with_the_loss(loss: float, status: Status) -> None:
    smoke = msgspec.structs.replace(
        steps(HEAD), steps=(Step(loss=loss, grad_norm=2000.0, lr=1e-3),) * 3
    )
    assert own_model.loss_finite(own(smoke), None).status is status


def test_the_gradient_of_a_bias_may_cancel_beside_a_weight_that_is_computed() -> None:
    shift = parameter("net.2.bias", reached=False, computed=True, dimensions=1)
    for weight in ("net.2.weight", "net.2.parametrizations.weight.original", "net.2.weight_v"):
        record = own(steps(parameter(weight), shift))
        assert own_gradients.gradients_reach_all(record, None, Job()).status is Status.PASS
    record = own(steps(parameter("net.1.weight"), shift))
    assert own_gradients.gradients_reach_all(record, None, Job()).status is Status.FAIL


ABOVE = (2.0, *(5.0,) * 19)
SGD = Optimizer(name="SGD")


@pytest.mark.parametrize(
    ("losses", "slower", "status"),
    [
        (ABOVE, ((0.1, (2.0, 4.0, 6.0)), (1e-4, (2.0, 1.9, 1.8))), Status.WARN),
        (ABOVE, ((0.1, (2.0, 4.0, 6.0)), (1e-4, (2.0, 2.1, 2.2))), Status.PASS),
        (ABOVE, (), Status.PASS),
        ((2.0, *(5.0,) * 18, 1.9), ((0.1, (2.0, 1.9, 1.8)),), Status.PASS),
    ],
)
def test_a_rate_at_which_the_loss_stays_above_its_first_value(
    losses: tuple[float, ...], slower: tuple[tuple[float, tuple[float, ...]], ...], status: Status
) -> None:
    trend = Trend(losses=losses, rates=(12.8,) * 20, supervised=("cross_entropy",))
    record = own(steps(HEAD, optimizer=SGD, lr=12.8), trend=trend, slower=slower)
    verdict = own_model.loss_learned(record, None)
    assert verdict.status is status
    assert ("at 0.0001 of the learning rate it falls" in verdict.summary) == (status == "warn")


def test_flat_activations_are_a_warning_behind_large_weights() -> None:
    flat = Trend(saturated=("92 % of what sigmoid in train.py, line 9 gets",))
    assert own_model.loss_learned(own(steps(HEAD), trend=flat), None).status is Status.PASS
    large = msgspec.structs.replace(flat, large_weights=("a, 28 times",))
    verdict = own_model.loss_learned(own(steps(HEAD), trend=large), None)
    assert verdict.status is Status.WARN
    assert "activations are flat for most of what they get: 92 %" in verdict.summary


def test_an_evaluation_that_is_left_on_and_a_module_of_a_default() -> None:
    left = own_model.completes(own(steps(HEAD), turned_off="Dropout"), None)
    assert left.status is Status.NOTE
    assert "calls eval() of the model before the forward pass that trains: Dropout" in left.summary
    one = own(steps(HEAD), of_defaults=("norm=LayerNorm of Block is a, b and 2 more",))
    verdict = own_gradients.gradients_reach_all(one, None, Job())
    assert verdict.status is Status.NOTE
    assert "norm or nn.LayerNorm(width)" in (verdict.fix or "")
