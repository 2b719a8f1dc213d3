"""DAT: judges over records of what a loader delivered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from doctor._util.records import Ended, Unknown
from doctor.catalog import of_families
from doctor.facts.data import Data, Labels, Lengths, Offset, Padding, Problem, Split, Starts, Stops
from doctor.judge.check import Status, Verdict

CHECKS = {check.code: check for check in of_families("DAT")}
LABELS = Labels(
    objective="next token",
    documents=256,
    tokens=9000,
    trained=4000,
    compared=3000,
    matches={"0": 3000},
    prompts=256,
)
STOPS = Stops(answers=256, stopped=256, generation=("</s>",), source="generation_config.json")
SPLIT = Split(
    name="train",
    kind="loader",
    total=51_000,
    rows=256,
    batches=32,
    ended="samples",
    lengths=Lengths(p50=30, p95=60, longest=64),
    labels=LABELS,
    stops=STOPS,
    starts=Starts(documents=256, token="<s>"),
    padding=Padding(rows=256, excluded=900),
)
OFFSET = Offset(positions=16, shifts={"1": 16})


def data(offset: Any = OFFSET, **fields: Any) -> Data:
    """The data of one split, of which these fields or records differ."""
    records = {}
    for name, value in fields.items():
        old = getattr(SPLIT, name)
        changed = isinstance(value, dict) and isinstance(old, msgspec.Struct)
        records[name] = msgspec.structs.replace(old, **value) if changed else value
    split = msgspec.structs.replace(SPLIT, **records)
    return Data(target="train.py:make", opened=Ended(how="ok"), splits=(split,), offset=offset)


def verdict(code: str, facts: Data) -> Verdict:
    return CHECKS[code].judge(data=facts)


@pytest.mark.parametrize("code", CHECKS)
def test_healthy_data_are_neither_warned_of_nor_failed(code: str) -> None:
    assert verdict(code, data()).status in (Status.PASS, Status.SKIP)


@pytest.mark.parametrize("code", sorted(set(CHECKS) - {"DAT018"}))
def test_nothing_read_is_never_healthy(code: str) -> None:
    nothing = Data(target="train.py:make", opened=Ended(how="ok"))
    assert verdict(code, nothing).status in (Status.UNKNOWN, Status.SKIP)


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"unlabelled": 256, "rows": (0,)}, Status.FAIL, "no trained label"),
        ({"unlabelled": 13, "rows": (3, 9)}, Status.WARN, "rows 3, 9"),
        ({"unlabelled": 13, "full": 13}, Status.WARN, "fills the whole length"),
        ({"unlabelled": 12}, Status.PASS, "256 of 51,000 rows"),
        ({"unlabelled": 4, "documents": 8}, Status.NOTE, "only 8"),
        ({"unlabelled": 8, "documents": 8}, Status.FAIL, "8 documents"),
        ({"unlabelled": 40, "objective": "other tokens"}, Status.SKIP, "by chance"),
        ({"unlabelled": 256, "objective": "other tokens"}, Status.FAIL, "-100"),
    ],
)
def test_rows_without_a_trained_label(fields: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT001", data(labels=fields))
    assert found.status is status
    assert word in found.summary


@pytest.mark.parametrize(
    ("stops", "status", "word"),
    [
        ({"stopped": 0, "ends": {"<|im_end|>": 256}}, Status.WARN, "<|im_end|>"),
        ({"stopped": 0, "masked_ends": 256}, Status.WARN, "masked"),
        ({"stopped": 0}, Status.WARN, "no stop"),
        ({"stopped": 40}, Status.PASS, "40 of 256"),
        ({"stopped": 0, "cut": 256}, Status.UNKNOWN, "cut"),
    ],
)
def test_the_stop_that_is_trained(stops: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT002", data(stops=stops))
    assert found.status is status
    assert word in found.summary
    assert verdict("DAT002", data(stops=Unknown(reason="no tokenizer"))).status is Status.UNKNOWN


def test_the_remedy_for_another_stop_names_it() -> None:
    found = verdict("DAT002", data(stops={"stopped": 0, "ends": {"<|im_end|>": 256}}))
    assert found.fix is not None
    assert "<|im_end|>" in found.fix


def test_cut_answers_are_named_with_the_lengths() -> None:
    found = verdict("DAT003", data(stops={"cut": 30, "stopped": 226}))
    assert found.status is Status.WARN
    assert "p95 60" in found.summary
    assert verdict("DAT003", data(stops={"cut": 5})).status is Status.PASS


@pytest.mark.parametrize(("twice", "status"), [(256, Status.WARN), (5, Status.PASS)])
def test_two_tokens_for_the_beginning(twice: int, status: Status) -> None:
    assert verdict("DAT004", data(starts={"twice": twice})).status is status


@pytest.mark.parametrize(
    ("padding", "status", "word"),
    [
        ({"trained": 900, "trained_rows": (0, 1)}, Status.WARN, "rows 0, 1"),
        ({"excluded": 0, "padded": 90, "attended": 90}, Status.WARN, "mask includes"),
        ({"excluded": 0, "padded": 90, "labelled": 90}, Status.WARN, "train a run"),
        ({"excluded": 0, "padded": 90}, Status.PASS, "not trained"),
        ({"excluded": 0}, Status.SKIP, "padded"),
    ],
)
def test_padding(padding: dict[str, Any], status: Status, word: str) -> None:
    found = verdict("DAT005", data(padding=padding))
    assert found.status is status
    assert word in found.summary


@pytest.mark.parametrize(
    ("labels", "loss", "status", "word"),
    [
        ("0", {"1": 16}, Status.PASS, "t+1"),
        ("1", {"0": 16}, Status.PASS, "t+1"),
        ("1", {"1": 16}, Status.FAIL, "t+2"),
        ("0", {"0": 16}, Status.FAIL, "token t:"),
        ("0", {"1": 8, "3": 8}, Status.UNKNOWN, "not measured"),
        ("2", None, Status.FAIL, "t+2"),
        ("1", None, Status.SKIP, "needs a model"),
    ],
)
def test_the_shift_of_labels_and_loss(
    labels: str, loss: dict[str, int] | None, status: Status, word: str
) -> None:
    offset = Offset(positions=16, shifts=loss) if loss else None
    found = verdict("DAT006", data(offset, labels={"matches": {labels: 2990}}))
    assert found.status is status
    assert word in found.summary


def test_an_offset_that_was_not_measured_is_unknown() -> None:
    assert verdict("DAT006", data(Unknown(reason="no embedding"))).status is Status.UNKNOWN


def test_what_was_not_delivered_fails_with_its_place() -> None:
    problem = Problem(error="KeyError", place="train.py:31", batch=3)
    found = verdict("DAT018", data(problem=problem, ended="error"))
    assert found.status is Status.FAIL
    assert "KeyError at train.py:31, in batch 3" in found.summary
    assert verdict("DAT018", data(rows=0)).status is Status.FAIL
    assert verdict("DAT018", data(ended="hang")).status is Status.FAIL
    unread = Data(target="t", opened=Ended(how="ok"), died="SIGSEGV")
    assert verdict("DAT018", unread).status is Status.UNKNOWN
