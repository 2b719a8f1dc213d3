"""Directories of files: what is read of them as train and eval, and what these have in common."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from data_targets import examined, verdicts

from doctor.judge.check import Status
from doctor.probes.training_side.data import files, two_splits
from doctor.probes.training_side.data.targets import NotData
from doctor.report.header import data_parts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("names", "said", "reason"),
    [
        ((), "no file is in the directory", ""),
        (("cat/1.jpg", "cat/2.JPG", "dog/1.png"), "3 images in 2 directories", "form"),
        (("a/b/c/rows.jsonl",), "more than one directory below it, in a/b/c", "form"),
        (("a/b/model.bin",), "it holds a/b/model.bin", "form"),
    ],
)
def test_what_a_directory_without_rows_holds_is_said_truly(
    names: tuple[str, ...], said: str, reason: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"0")
    with pytest.raises(NotData) as raised:
        files.open_path(str(tmp_path))
    assert said in str(raised.value)
    assert raised.value.reason == reason


def test_values_that_hardly_return_are_no_classes() -> None:
    reached = Counter(map(str, [*range(21), 3, 3, 4, 5]))
    assert two_splits.of_classes(reached, Counter(map(str, range(20, 30)))) is None
    classes = Counter({str(n): 5 for n in range(20)} | {"rare": 1})
    assert two_splits.of_classes(classes, Counter({"0": 5, "other": 5})) is not None


def text(number: int) -> str:
    return f"The {number}th sentence of a table, which stands for itself"


def written(folder: Path, **splits: list[dict[str, Any]]) -> str:
    for name, rows in splits.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def test_splits_of_other_columns_are_compared_by_those_that_both_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = [{"": n, "text": text(n), "label": float(n % 2)} for n in range(60)]
    other = [{"": 99 + n, "text": text(n), "label": n % 2, "year": 1990 + n} for n in range(40)]
    found = verdicts(written(tmp_path, train=train, val=other), monkeypatch)["DAT007"]
    assert found.status is Status.WARN
    assert "40 of 40" in found.summary
    assert "by what both have: text" in found.summary
    apart = [{**row, "text": text(100 + n)} for n, row in enumerate(other)]
    found = verdicts(written(tmp_path, train=train, val=apart), monkeypatch)["DAT007"]
    assert found.status is Status.PASS


def test_an_instruction_that_all_rows_have_is_nothing_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"instruction": "Say whether this text is about the weather, yes or no"}
    train = [{**asked, "input": text(n), "output": "yes"} for n in range(60)]
    other = [{**asked, "sentence": text(n + 100), "output": "yes"} for n in range(40)]
    found = verdicts(written(tmp_path, train=train, val=other), monkeypatch)["DAT007"]
    assert found.status is Status.PASS


SENT = {
    "place": ({"Label": 1, "location": "Oslo"}, {"Label": 0, "location": "Rome"}, True),
    "aspect": ({"Label": 1, "aspect": "food"}, {"Label": 0, "aspect": "price"}, False),
    "second text": ({"Label": 1, "text_b": text(900)}, {"Label": 0, "text_b": text(901)}, False),
}


@pytest.mark.parametrize("name", SENT)
def test_who_sent_a_text_and_from_where_makes_no_other_sample(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, same = SENT[name]
    rows = [{"id": n, "text": text(n // 2), **(two if n % 2 else one)} for n in range(80)]
    found = verdicts(written(tmp_path, train=rows), monkeypatch)["DAT008"]
    assert found.status is (Status.WARN if same else Status.PASS)


def test_a_few_copies_with_another_class_are_said_beside_the_repeated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": text(n % 500), "label": n % 2} for n in range(600)]
    rows[550]["label"] = 1
    found = verdicts(written(tmp_path, train=rows), monkeypatch)["DAT008"]
    assert found.status is Status.NOTE
    assert "1 of them with another class: line 51 = line 551" in found.summary


def test_rows_of_eval_are_looked_at_as_those_of_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": text(n), "label": n % 2} for n in range(80)]
    empty = [{"text": text(n + 100) if n % 9 else "", "label": n % 2} for n in range(80)]
    found = verdicts(written(tmp_path, train=rows, test=empty), monkeypatch)["DAT021"]
    assert found.status is Status.WARN
    assert "eval: 9 of 80 rows" in found.summary


def test_the_answer_of_the_only_row_of_eval_is_not_one_for_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = [{"prompt": text(n), "completion": text(n + 99)} for n in range(80)]
    only = [{"prompt": text(300), "completion": text(400)}]
    found = verdicts(written(tmp_path, train=train, val=only), monkeypatch)["DAT021"]
    assert found.status is Status.PASS


def test_the_files_of_each_split_are_named_and_those_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": text(n)} for n in range(8)]
    names = dict.fromkeys(("notes", "test", "train_1", "train_2", "train_3", "train_4"), rows)
    parts = dict(data_parts(examined(written(tmp_path, **names), monkeypatch)))
    assert parts["files"] == (
        "train: train_1.jsonl, train_2.jsonl, train_3.jsonl and 1 more · eval: test.jsonl · "
        "not read: notes.jsonl"
    )
    alone = dict(data_parts(examined(str(tmp_path / "test.jsonl"), monkeypatch)))
    assert "files" not in alone
