"""Inputs that models and distributions refuse, and graphs from before the first step: the cause
and the remedy, from records."""

from __future__ import annotations

import re
from typing import Any

import pytest

from doctor._util.records import Ended
from doctor.checks.training.errors import grown
from doctor.checks.training.errors.explain import explain
from doctor.checks.training.errors.explanation import Explanation
from doctor.checks.training.remedies import INVALID
from doctor.facts.own_model import BatchTensor, OwnModel
from doctor.facts.raised import Operand, Raised


def explained(
    message: str, *, batch: tuple[BatchTensor, ...] = (), **fields: Any
) -> Explanation | None:
    error, _, text = message.partition(": ")
    raised = Raised(error=error, message=text, place="train.py, line 9", **fields)
    ended = Ended(how="error", detail=message)
    return explain(OwnModel(description="a:b", built=ended, raised=raised, batch=batch))


IDS = "ValueError: You must specify exactly one of input_ids or inputs_embeds"


@pytest.mark.parametrize(
    ("observed", "cause", "remedy"),
    [
        ({"ids passed": "both"}, "both are passed", "leave the other out"),
        ({"ids passed": "neither", "passed": "ids"}, "gets ids", "as input_ids"),
        ({"ids passed": "neither", "of the decoder": "yes"}, "the decoder gets", "Pass labels"),
        (
            {"ids passed": "neither", "of the decoder": "yes", "smooths labels": "yes"},
            "takes the labels out",
            "DataCollatorForSeq2Seq(tokenizer, model=model)",
        ),
    ],
)
def test_ids_are_explained_by_what_was_passed(
    observed: dict[str, str], cause: str, remedy: str
) -> None:
    explanation = explained(IDS, observed=observed)
    assert explanation
    assert cause in explanation.cause
    assert remedy in explanation.fix


COUNTED = {"parameter": "scale", "violations": "3 of 8 values", "constraint": "GreaterThan(0)"}


def test_a_distribution_counts_what_it_refuses() -> None:
    message = "ValueError: Expected parameter scale (Tensor of shape (8,)) of distribution Normal("
    message += "loc: 8) to satisfy the constraint GreaterThan(0), but found invalid values:"
    explanation = explained(message, observed={**COUNTED, "range": "-2 to -1"})
    assert explanation
    assert explanation.cause == "3 of 8 values of scale violate GreaterThan(0): -2 to -1"
    assert "softplus(scale)" in explanation.fix
    explanation = explained(message)
    assert explanation
    assert explanation.cause == ""


def test_actions_that_count_from_one_are_no_samples_of_another_scale() -> None:
    message = "ValueError: Expected value argument (Tensor of shape (8,)) to be within the "
    message += "support ({}) of the distribution Categorical(logits: 8), but found invalid values:"
    whole = "IntegerInterval(lower_bound=0, upper_bound=3)"
    observed = {**COUNTED, "parameter": "value", "constraint": whole}
    explanation = explained(message.format(whole), observed=observed)
    assert explanation
    assert explanation.cause.endswith(f"3 of 8 values violate {whole}")
    assert "from 0" in explanation.fix
    explanation = explained(message.format("Interval(lower_bound=0.0, upper_bound=1.0)"))
    assert explanation
    assert "from 0" not in explanation.fix


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("`lengths` array must be sorted in decreasing order", "enforce_sorted=False"),
        ("'lengths' argument should be a 1D CPU int64 tensor", "lengths.cpu()"),
        ("Length of all samples has to be greater than 0", "without elements"),
    ],
)
def test_packed_sequences_name_what_their_lengths_lack(message: str, remedy: str) -> None:
    explanation = explained(f"RuntimeError: {message}")
    assert explanation
    assert remedy in explanation.fix
    others = {"enforce_sorted=False", "lengths.cpu()", "without elements"} - {remedy}
    assert not any(other in explanation.fix for other in others)


def of_lengths(rows: int, labels: int, samples: int, **observed: str) -> Explanation | None:
    batch = tuple(
        BatchTensor(name=name, dtype="int64", shape=(samples, labels // samples))
        for name in ("input_ids", "labels")
    )
    operands = (
        Operand(name="input", shape=(rows, 90), dtype="float32"),
        Operand(name="target", shape=(labels,), dtype="int64"),
    )
    message = f"ValueError: Expected input batch_size ({rows}) to match target ({labels})."
    return explained(
        message, batch=batch, function="cross_entropy", operands=operands, observed=observed
    )


def test_lengths_are_named_for_each_sample() -> None:
    explanation = of_lengths(60, 36, 3, embedded="20")
    assert explanation
    assert "in each of 3 samples 20 against 12; input_ids, labels" in explanation.cause
    assert "inputs_embeds has 20 positions" in explanation.cause
    assert explanation.fix.startswith("Prepend 8 ignored labels")
    explanation = of_lengths(60, 36, 3)
    assert explanation
    assert "logits[:, 8:]" in explanation.fix
    explanation = of_lengths(24, 36, 3)
    assert explanation
    assert "Cut the labels to the 8 positions" in explanation.fix
    explanation = of_lengths(32, 24, 7)  # no multiple of the samples
    assert explanation
    assert "samples" not in explanation.cause


def test_exchanged_dimensions_of_the_labels_are_named() -> None:
    operands = (
        Operand(name="input", shape=(4, 5, 9), dtype="bfloat16"),
        Operand(name="target", shape=(9, 4), dtype="int64"),
    )
    message = "ValueError: Expected input batch_size (4) to match target batch_size (9)."
    explanation = explained(message, function="cross_entropy", operands=operands)
    assert explanation
    assert "[9, 4]: the logits have 4 samples of 9 positions" in explanation.cause
    assert "padding_value=-100" in explanation.fix


TWICE = "RuntimeError: Trying to backward through the graph a second time"


@pytest.mark.parametrize(
    ("observed", "cause", "remedy"),
    [
        ({"of the batch": "old of the batch"}, "before the first step: old", "torch.no_grad()"),
        ({"kept": "state[0], state[1]"}, "kept from step to step", "the tensors of state"),
        ({"kept": "hidden"}, "kept from step to step", "hidden = hidden.detach()"),
    ],
)
def test_a_graph_of_an_earlier_step_is_named(
    observed: dict[str, str], cause: str, remedy: str
) -> None:
    explanation = explained(TWICE, observed=observed)
    assert explanation
    assert cause in explanation.cause
    assert remedy in explanation.fix


@pytest.mark.parametrize(
    ("remark", "remedy"),
    [
        ("tokens: 1 of 6 values outside the vocabulary [0, 50): 50", "one row more"),
        ("tokens: 2 of 6 values outside the vocabulary [0, 50): 50, 61", "resize_token_embeddings"),
        ("tokens: 1 of 6 values outside the vocabulary [0, 5): 50", "resize_token_embeddings"),
        ("labels: 1 of 6 values outside [0, 5): 5", "Count the classes from 0"),
    ],
)
def test_numbers_that_exceed_a_table_have_their_remedy(remark: str, remedy: str) -> None:

    remedies = [text for expression, text in INVALID if re.search(expression, remark)]
    assert len(remedies) == 1
    assert remedy in remedies[0]


GROWN = {
    "grown at": "train.py, line 9 (`gap = depth - self.one(x)`)",
    "grown shapes": "depth [8] and [8, 1]",
    "grown to": "[8, 8]",
    "grown numbers": "64",
    "grown name": "depth",
}


@pytest.mark.parametrize(
    ("function", "first", "second", "accidental"),
    [
        ("linear", (8, 24), (32, 17), True),
        ("linear", (8, 32), (32, 18), True),
        ("linear", (8, 24), (32, 20), False),
        ("linear", (8, 17), (32, 24), False),
        ("matmul", (8, 8), (1, 5), True),
        ("matmul", (8, 8), (6, 5), False),
        ("add", (8, 8), (8, 5), True),
        ("add", (8, 8), (5, 8), False),
        ("cat", (8, 8), (8, 1), True),
        ("cat", (8, 8), (8, 3), False),
    ],
)
def test_a_broadcast_leads_where_the_call_accepts_its_arguments_without_it(
    function: str, first: Any, second: Any, accidental: bool
) -> None:
    operands = (Operand(name="input", shape=first), Operand(name="weight", shape=second))
    raised = Raised(error="RuntimeError", function=function, operands=operands, observed=GROWN)
    explanation = grown.explain(raised)
    assert (explanation is not None) == accidental
    if explanation:
        assert "depth [8] and [8, 1] broadcast to [8, 8] in train.py, line 9" in explanation.cause
        assert "depth[:, None] is [8, 1]" in explanation.fix
