"""Causes that are named from what was observed beside the fault, and those that are not."""

from __future__ import annotations

import re

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training import own_cuts, own_gradients, own_model, own_weights
from doctor.checks.training.batch_remedies import INVALID, fix_of_index
from doctor.checks.training.diagnosis import remedy_for, summarize
from doctor.facts.diagnosis import Attempt, Cut, Diagnosis
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Optimizer, Parameter, Smoke, Stage, Step
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict

OK = Ended(how="ok")


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


@pytest.mark.parametrize(
    ("remark", "remedy"),
    [
        ("tokens: 1 of 6 values outside the vocabulary [0, 50): 50", "one row more"),
        ("tokens: 2 of 6 values outside the vocabulary [0, 50): 50, 61", "resize_token_embeddings"),
        ("tokens: 1 of 6 values outside the vocabulary [0, 5): 50", "resize_token_embeddings"),
        ("tokens: 5 of 30 values outside the vocabulary [0, 40): -100", "no input ids"),
        ("tokens: 5 of 30 values outside the vocabulary [0, 40): -1", "masked_fill(ids < 0, 0)"),
        ("labels: 1 of 6 values outside [0, 5): 5", "as many outputs as there are classes"),
        ("labels: 1 of 6 values outside [0, 5): 5; the smallest label is 1", "Subtract 1 from"),
        ("labels: 2 of 6 values outside [0, 2): 2, 3; the smallest label is 1", "highest label +"),
        ("labels: 1 of 6 values outside [0, 5): 255; the smallest label is 1", "ignore_index"),
    ],
)
def test_numbers_that_exceed_a_table_have_their_remedy(remark: str, remedy: str) -> None:
    remedies = [text for expression, text in INVALID if re.search(expression, remark)]
    assert len(remedies) == 1
    assert remedy in remedies[0]


def test_ids_beyond_a_table_do_not_accuse_the_batch_alone() -> None:
    def said(remark: str) -> str:
        fixed = Attempt(change="valid-batch", outcome="fixed")
        diagnosis = Diagnosis(fault="raised", attempts=(fixed,), bad_batch=(remark,))
        remedy = remedy_for(diagnosis, own().smoke, own=True)
        return f"{remedy.cause}: {remedy.fix}"

    beyond = said("tokens: 1 of 6 values outside the vocabulary [0, 50): 50")
    assert "do not agree" in beyond
    assert "Fix the data" not in beyond
    negative = said("tokens: 1 of 6 values outside the vocabulary [0, 50): -1")
    assert "the batch is the cause" in negative
    assert "Fix the data" in negative
    assert "the batch is the cause" in said("x: 1 of 6 values not finite")


@pytest.mark.parametrize(
    ("remark", "fix"),
    [
        ("every index is padding_idx", "check the batch"),
        ("6 of 16 indices are padding_idx, the others get no gradient", "a mask is inverted"),
    ],
)
def test_an_embedding_without_gradient_has_the_remedy_of_its_indices(remark: str, fix: str) -> None:
    text = own_cuts.fix([Cut(kind="zero", name="EmbeddingBackward0", remark=remark)])
    assert fix in text
    assert ("every index" in text) == ("every index" in remark)


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


@pytest.mark.parametrize(
    ("remark", "named"),
    [
        ("the other factor, the parameter l3.weight, is 0 throughout", "l3.weight"),
        ("the other factor, computed from the parameter l2.bias, is 0 throughout", "weight of l2"),
        ("the other factor, computed from the parameter block.gamma, is 0", "block.gamma"),
    ],
)
def test_a_factor_of_zeros_is_named(remark: str, named: str) -> None:
    fix = own_cuts.fix([Cut(kind="zero", name="AddmmBackward0", remark=remark)])
    assert f"{named} with random numbers" in fix


def test_layers_that_are_all_zero_are_named_together() -> None:
    layers = [parameter(f"l{n}.weight", dimensions=2) for n in (1, 2, 3)]
    seen_there = "initialize l3.weight with random numbers"
    assert "(l1.weight, l2.weight)" in own_cuts.layers_of_zeros(layers, seen_there)
    assert "one may be 0" in own_cuts.layers_of_zeros(layers[1:], seen_there)
    assert own_cuts.layers_of_zeros(layers, "Use this part too") == ""


def test_of_two_factors_in_each_module_one_is_drawn() -> None:
    seen_there = "initialize l1.b with random numbers"
    factors = [parameter(f"l{n}.{one}", dimensions=2) for n in (1, 2) for one in "ab"]
    fix = own_cuts.pairs_of_zeros(factors, seen_there)
    assert "one of l1.a and l1.b, which multiply each other, in 2 modules" in fix
    assert "leave the other at 0" in fix
    layers = [parameter(f"l{n}.weight", dimensions=2) for n in (1, 2)]
    assert own_cuts.pairs_of_zeros(layers, seen_there) == ""
    assert own_cuts.pairs_of_zeros(factors, "Use this part too") == ""


def test_positions_beyond_their_table_say_how_many_there_are() -> None:
    remark = "positions: 16 of 48 beyond the model's length, it has 32; they are arange"
    assert "it has 32, or cut the samples to 32" in fix_of_index((remark,))
    assert fix_of_index(("the values are 5 to 9",)) == ""


def test_an_error_behind_the_replaced_values_is_not_called_complete() -> None:
    fixed = Attempt(change="valid-index", outcome="fixed", detail="forward: RuntimeError: view")
    diagnosis = Diagnosis(fault="raised", attempts=(fixed,), bad_index=("positions: 3 of 8",))
    text = summarize(diagnosis, own().smoke, own=True)
    assert "the next error is forward: RuntimeError: view" in text
    assert "completes" not in text
