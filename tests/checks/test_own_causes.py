"""Causes that are named from what was observed beside the fault, and those that are not."""

from __future__ import annotations

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training import own_cuts, own_gradients, own_model, own_weights
from doctor.checks.training.errors.explain import explain
from doctor.facts.diagnosis import Cut, Diagnosis
from doctor.facts.own_model import BatchTensor, OwnModel, StrayHook, Trend
from doctor.facts.raised import Operand, Raised
from doctor.facts.training import Optimizer, Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict

OK = Ended(how="ok")
KEEP = StrayHook(
    hook="keep in train.py, line 9",
    registered="train.py, line 4",
    module="Linear(in_features=6, out_features=8)",
    uses=("features",),
)


def parameter(name: str, **fields: object) -> Parameter:
    known = {"dtype": "float32", "size": 16, "computed": True, "had_gradient": True, "finite": True,
             "moved": True, "dimensions": 2, "grad_norm": 0.5}  # fmt: skip
    return msgspec.convert({"type": "Parameter", "name": name, **known, **fields}, Parameter)


def own(
    *parameters: Parameter,
    step: Step = Step(loss=1.0, grad_norm=1.0, lr=1e-3),  # noqa: B008 - it is frozen
    optimizer: Optimizer | None = None,
    diagnosis: Diagnosis | None = None,
    **fields: object,
) -> OwnModel:
    smoke = Smoke(
        device="cpu", precision="fp32", recipe="amp", lr=1e-3,
        stages=(Stage(name="optimizer", ended=OK),), steps=(step,) * 3,
        parameters=parameters or (parameter("head.weight"),), optimizer=optimizer,
        diagnosis=diagnosis,
    )  # fmt: skip
    return OwnModel(description="train.py:make", built=OK, smoke=smoke, **fields)  # type: ignore[arg-type]


def gradients(record: OwnModel) -> Verdict:
    return own_gradients.gradients_reach_all(record, None, Job())


@pytest.mark.parametrize(
    ("trend", "text", "fix"),
    [
        (Trend(norms_of_two=("batch_norm in 1 (BatchNorm1d)",)), "over 2 values", "more samples"),
        (Trend(single_keys=("attention in train.py, line 4",)), "sees 1 key", "batch_first=True"),
    ],
)
def test_results_that_hardly_depend_on_their_input_are_a_warning(
    trend: Trend, text: str, fix: str
) -> None:
    verdict = gradients(own(trend=trend))
    assert verdict.status is Status.WARN
    assert text in verdict.summary
    assert fix in (verdict.fix or "")
    assert gradients(own(trend=Trend())).status is Status.PASS
    fed = own_gradients.gradients_reach_all(own(trend=trend), None, Job(hf="model"))
    assert fed.status is Status.PASS  # the batch is the doctor's


def test_tokens_that_attend_to_themselves_are_a_note() -> None:
    verdict = gradients(own(trend=Trend(single_tokens=("attention in train.py, line 4",))))
    assert verdict.status is Status.PASS
    assert "note: sequences of 1 token" in verdict.summary


def test_a_hook_that_never_runs_is_the_cause_unless_a_path_ends() -> None:
    missing = parameter("side.weight", computed=False, had_gradient=False)
    verdict = gradients(own(parameter("head.weight"), missing, stray_hooks=(KEEP,)))
    assert verdict.status is Status.FAIL
    assert "the hook keep in train.py, line 9, never runs: train.py, line 4" in verdict.summary
    assert (verdict.fix or "").startswith("Register keep after the layers are replaced")
    cut = Cut(kind="detached", name="detach", place="train.py, line 7", parameters=("side.weight",))
    found = Diagnosis(fault="no gradient", cuts=(cut,))
    verdict = gradients(
        own(parameter("head.weight"), missing, diagnosis=found, stray_hooks=(KEEP,))
    )
    assert (verdict.fix or "").startswith("Let the gradient pass train.py, line 7")
    assert gradients(own(stray_hooks=(KEEP,))).status is Status.PASS


def raised_in(code: str, message: str = "must be Tensor, not NoneType") -> OwnModel:
    raised = Raised(error="TypeError", message=message, place="train.py, line 12", code=code)
    ended = Ended(how="error", detail=f"TypeError: {message}")
    return OwnModel(description="", built=ended, raised=raised, stray_hooks=(KEEP,))


def test_a_value_that_a_hook_was_to_keep_is_connected_by_its_name() -> None:
    explanation = explain(raised_in("return self.head(self.features)"))
    assert explanation
    assert "never runs" in explanation.cause
    other = explain(raised_in("return self.head(self.pooled)"))
    assert other is None or "never runs" not in other.cause
    sizes = explain(raised_in("return self.head(torch.cat(self.features, 1))", "sizes differ"))
    assert sizes
    assert "never runs" in sizes.cause


def predictions(rows: int, labels: int, *batch: BatchTensor) -> str:
    operands = (
        Operand(name="input", shape=(rows, 3), dtype="float32"),
        Operand(name="target", shape=(labels,), dtype="int64"),
    )
    raised = Raised(error="ValueError", function="cross_entropy", operands=operands)
    ended = Ended(how="error")
    explanation = explain(OwnModel(description="", built=ended, raised=raised, batch=batch))
    assert explanation
    return f"{explanation.cause}. {explanation.fix}"


IDS, FEATURES = {"name": "[0]", "dtype": "int64"}, {"name": "[0]", "dtype": "float32"}


def test_sequences_with_the_length_first_are_named_by_their_shapes() -> None:
    assert "pad_sequence(sequences, batch_first=True)" in predictions(
        7, 4, BatchTensor(shape=(7, 4), **IDS)
    )
    lists = [BatchTensor(name=f"x[{n}]", dtype="int64", shape=(7 - n,)) for n in range(4)]
    assert "x has 4 sequences, of which the longest has 7 positions" in predictions(7, 4, *lists)


@pytest.mark.parametrize(
    "batch",
    [
        (BatchTensor(shape=(7, 5), **IDS),),
        (BatchTensor(shape=(7, 4), **FEATURES),),  # 7 samples of 4 features
        tuple(BatchTensor(name=f"x[{n}]", dtype="int64", shape=(6 - n,)) for n in range(4)),
    ],
)
def test_other_numbers_of_labels_are_no_matter_of_the_length(
    batch: tuple[BatchTensor, ...],
) -> None:
    assert "pad_sequence" not in predictions(7, 4, *batch)


@pytest.mark.parametrize(("first", "named"), [(9, True), (8, False)])
def test_lengths_of_the_batch_show_which_dimension_is_the_length(first: int, named: bool) -> None:
    batch = (
        BatchTensor(name="x", dtype="float32", shape=(first, 4, 3)),
        BatchTensor(name="lengths", dtype="int64", shape=(4,), low=5, high=9),
    )
    raised = Raised(
        error="RuntimeError",
        message="start (16) + length (4) exceeds dimension size (16).",
        module_type="LSTM(16, 16, batch_first=True)",
    )
    built = Ended(how="error")
    explanation = explain(OwnModel(description="", built=built, raised=raised, batch=batch))
    assert (explanation is not None and "largest of lengths" in explanation.cause) is named


def test_a_mask_with_the_samples_first_beside_a_query_with_the_length_first() -> None:
    def text(shape: tuple[int, ...]) -> str:
        raised = Raised(
            error="AssertionError",
            message="Expected key_padded_mask.shape[0] to be 7, but got 4",
            function="multi_head_attention_forward",
            operands=(Operand(name="query", shape=shape, dtype="float32"),),
            observed={"length first": "train.py, line 3"},
        )
        built = Ended(how="error")
        explanation = explain(OwnModel(description="", built=built, raised=raised))
        return f"{explanation.cause} {explanation.fix}" if explanation else ""

    assert "batch_first=True) in train.py, line 3" in text((4, 7, 8))
    assert "exchanged" not in text((5, 7, 8))


def test_operations_of_whole_numbers_that_raise_are_explained() -> None:
    def fix(message: str, **observed: str) -> str:
        raised = Raised(error="RuntimeError", message=message, place="train.py, line 5",
                        observed=observed)  # fmt: skip
        built = Ended(how="error", detail=message)
        explanation = explain(OwnModel(description="", built=built, raised=raised))
        return f"{explanation.cause} {explanation.fix}" if explanation else ""

    derivative = "derivative for aten::floor_divide is not implemented"
    place = {"without derivative": "train.py, line 8 (`x // 2`)"}
    assert "Divide with / in train.py, line 8:" in fix(derivative, **place)
    assert "Divide with / in the line that calls it" in fix(derivative)
    assert "Replace nextafter" in fix("derivative for aten::nextafter is not implemented")
    zeros = fix("ZeroDivisionError", divisor="1 of 5 values of the divisor are 0, at [2]")
    assert "divisor.clamp(min=1)" in zeros
    assert "divisor" not in fix("ZeroDivisionError")


def test_a_factor_of_0_is_fixed_where_it_is_made() -> None:
    def fix(origin: str) -> str:
        cut = Cut(kind="zero", name="MulBackward0", place="train.py, line 9", origin=origin,
                  origin_place="train.py, line 2", remark="the other factor is 0")  # fmt: skip
        return own_cuts.fix([cut])

    assert "Look at train.py, line 2: a division that rounds down" in fix("floor_divide")
    assert "Look at train.py, line 2: whole numbers" in fix("the conversion to int64")
    assert "look at why the result of mystery is 0" in fix("mystery")
    assert fix("").startswith("Look at train.py, line 9")
    batch = Cut(kind="zero", name="AddmmBackward0", origin="part [0] of the batch",
                remark="the other factor, part [0] of the batch, is 0 throughout")  # fmt: skip
    assert own_cuts.fix([batch]).startswith("Look at how part [0] of the batch is made")


@pytest.mark.parametrize(
    ("cut", "named"),
    [
        (Cut(kind="zero", name="AddmmBackward0", origin="zeros", origin_place="train.py, line 2",
             parameters=("cell.weight_hh",)), True),
        (Cut(kind="zero", name="MkldnnRnnLayerBackward0", parameters=("l.weight_hh_l0",)), True),
        (Cut(kind="zero", name="AddmmBackward0", origin="zeros", origin_place="train.py, line 2",
             parameters=("cell.weight_hh", "cell.weight_ih")), False),
        (Cut(kind="zero", name="AddmmBackward0", origin="gt", origin_place="train.py, line 2",
             parameters=("cell.weight_hh",)), False),
    ],
)  # fmt: skip
def test_a_state_of_0_is_told_from_other_zeros(cut: Cut, named: bool) -> None:
    assert ("Pass the state of the step before" in own_cuts.fix([cut])) is named


def test_a_loss_of_0_names_the_operation_that_makes_it() -> None:
    cut = Cut(kind="zero", name="LogSoftmaxBackward0", place="train.py, line 3",
              remark="it is over a dimension of 1 value", certain=True)  # fmt: skip
    zero, diagnosis = Step(loss=0.0, grad_norm=0.0, lr=1e-3), Diagnosis(fault="zero loss")
    named = msgspec.structs.replace(diagnosis, cuts=(cut,))
    verdict = own_model.loss_finite(own(step=zero, diagnosis=named), None)
    assert verdict.status is Status.FAIL
    assert "0 in LogSoftmaxBackward0, of train.py, line 3: it is over a" in verdict.summary
    assert "two outputs" in (verdict.fix or "")
    assert (
        "LogSoftmax" not in own_model.loss_finite(own(step=zero, diagnosis=diagnosis), None).summary
    )


def test_a_loss_that_is_cut_off_at_0_is_one_that_all_samples_satisfy() -> None:
    cut = Cut(kind="zero", name="ClampMinBackward0", place="train.py, line 3")
    zero, diagnosis = Step(loss=0.0, grad_norm=0.0, lr=1e-3), Diagnosis(fault="zero loss")
    named = msgspec.structs.replace(diagnosis, cuts=(cut,))
    verdict = own_model.loss_finite(own(step=zero, diagnosis=named), None)
    assert "train.py, line 3: the loss is cut off at 0 for every sample" in (verdict.fix or "")


def test_sequences_that_are_read_as_samples_are_a_warning() -> None:
    trend = Trend(length_first=("read (LSTM) reads pad_sequence in train.py, line 4",))
    verdict = own_model.loss_finite(own(trend=trend), None)
    assert verdict.status is Status.WARN
    assert "read (LSTM) reads pad_sequence in train.py, line 4" in verdict.summary
    assert "batch_first=True to pad_sequence" in (verdict.fix or "")


@pytest.mark.parametrize(
    ("factor", "norm", "scaled"), [(65536.0, 4e4, True), (10.0, 4e4, False), (65536.0, 3.0, False)]
)
def test_a_factor_of_the_loss_is_named_if_gradients_are_large(
    factor: float, norm: float, scaled: bool
) -> None:
    trend = Trend(losses=(2.0, 1.9), loss_factor=factor, supervised=("cross_entropy",))
    record = own(step=Step(loss=2.0, grad_norm=norm, lr=1e-3), trend=trend)
    verdict = own_model.loss_finite(record, None)
    assert ("65536 times cross_entropy" in verdict.summary) is scaled
    assert (verdict.status is Status.PASS) is (norm < 1000)


def test_an_optimizer_of_earlier_layers_is_told_from_one_with_too_few_groups() -> None:
    def verdict(strays: int) -> Verdict:
        optimizer = Optimizer(name="AdamW", omitted=("head.weight",), strays=strays)
        return own_weights.weights_move(
            own(
                parameter("body.weight"), parameter("head.weight", moved=False), optimizer=optimizer
            ),
            Job(),
        )

    assert "2 tensors of its groups are no part of the model" in verdict(2).summary
    assert "after the layers are replaced" in (verdict(2).fix or "")
    assert "no part" not in verdict(0).summary
    assert "into a group of the optimizer" in (verdict(0).fix or "")
