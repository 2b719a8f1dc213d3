"""DAT: the cause that a verdict names, and its fix, where facts tell one fault from another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from data_facts import MIXING, data, verdict

from doctor.facts.data import Labels, Offset, Starts
from doctor.facts.data_batches import Agreement, Epochs, Inputs
from doctor.facts.data_rows import Markers, Relation, Repeats
from doctor.judge.check import Status

TOKENS = Labels(objective="next token", documents=256, tokens=900, trained=400, compared=300)


def relation(kind: str, fields: tuple[str, ...] = ()) -> Relation:
    values = {"type": "Relation", "kind": kind, "part": 256, "whole": 256, "fields": fields}
    return msgspec.convert(values, Relation)


@pytest.mark.parametrize(
    ("relations", "unlabelled", "word", "fix"),
    [
        ((relation("marker nowhere", ("response_template",)),), 80, "response_template", "marker"),
        ((relation("answers unmarked"),), 256, "has no {% generation %}", "{% endgeneration %}"),
        ((), 256, "every label is -100; read", "Look at a row"),
    ],
)
def test_why_rows_have_no_label(relations: Any, unlabelled: int, word: str, fix: str) -> None:
    labels = msgspec.structs.replace(TOKENS, unlabelled=unlabelled, rows=(3,))
    found = verdict("DAT001", data(labels=labels, relations=relations))
    assert found.status is (Status.FAIL if unlabelled == 256 else Status.WARN)
    assert word in found.summary
    assert fix in (found.fix or "Look at a row")


@pytest.mark.parametrize(("without", "status"), [(256, Status.WARN), (100, Status.PASS)])
def test_documents_without_a_beginning(without: int, status: Status) -> None:
    starts = Starts(documents=256, token="<bos>", without=without)
    assert verdict("DAT004", data(starts=starts)).status is status


@pytest.mark.parametrize(("beside", "word"), [(40, "next to it"), (3, "another class")])
def test_rows_of_one_sample_with_several_labels(beside: int, word: str) -> None:
    repeats = Repeats(rows=300, telling=300, labelled=300, conflicting=40, beside=beside)
    found = verdict("DAT008", msgspec.structs.replace(data(), repeats=repeats))
    assert found.status is Status.WARN
    assert word in found.summary
    assert ("several labels" in (found.fix or "")) is (beside == 40)


def test_rows_that_occur_twice_have_a_remedy() -> None:
    repeats = Repeats(rows=300, telling=300, repeated=100)
    found = verdict("DAT008", msgspec.structs.replace(data(), repeats=repeats))
    assert found.status is Status.NOTE
    assert "listed twice" in (found.fix or "")


@pytest.mark.parametrize(("high", "floored"), [(1.0, True), (9.0, False)])
def test_images_that_were_divided_as_whole_numbers(high: float, floored: bool) -> None:
    images = Inputs(name="x", samples=64, shape=(16, 3, 8, 8), low=0.0, high=high, whole=True)
    mixing = msgspec.structs.replace(MIXING, constant=150)
    found = verdict("DAT009", data(mixing=mixing, inputs=images))
    assert found.status is Status.WARN
    assert ("whole-number division" in found.summary) is floored


@pytest.mark.parametrize("told", [True, False])
def test_an_order_that_an_epoch_does_not_change(told: bool) -> None:
    epochs = Epochs(sampler="Shares", epochs=2, compared=400, same=True, told=told)
    found = verdict("DAT019", data(epochs=epochs))
    assert found.status is Status.WARN
    assert ("self.epoch" in (found.fix or "")) is told


@pytest.mark.parametrize("filled", [60, 2])
def test_blanks_that_pad_the_targets(filled: int) -> None:
    agreement = Agreement(rows=256, blank=0, targets=256, blanks=60, filled=filled)
    found = verdict("DAT022", data(agreement=agreement))
    assert found.status is Status.WARN
    assert ("length of each target" in (found.fix or "")) is (filled == 60)


@pytest.mark.parametrize(("answers", "word"), [(256, "train an answer"), (0, "are missing")])
def test_questions_without_the_prompt_of_an_answer(answers: int, word: str) -> None:
    markers = Markers(documents=256, template=True, prompt="<a>", answers=answers, questions=256,
                      unanswered=256)  # fmt: skip
    found = verdict("DAT014", data(markers=markers, labels=TOKENS))
    assert found.status is Status.WARN
    assert word in found.summary


@pytest.mark.parametrize(
    ("shifts", "code", "status"),
    [
        ({"-1": 16}, "DAT015", Status.FAIL),
        ({"-1": 16}, "DAT006", Status.SKIP),
        ({"1": 12, "-1": 4}, "DAT015", Status.PASS),
    ],
)
def test_a_mask_that_is_too_wide(shifts: dict[str, int], code: str, status: Status) -> None:
    offset = Offset(positions=16, shifts=shifts)
    assert verdict(code, data(offset, labels={"matches": {"1": 3000}})).status is status
