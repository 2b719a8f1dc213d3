"""Classes and words that two splits number each for itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")

from doctor._util.records import Ended  # noqa: E402
from doctor.catalog import of_families  # noqa: E402
from doctor.facts.data import Data, Split  # noqa: E402
from doctor.facts.data_batches import Agreement  # noqa: E402
from doctor.facts.data_rows import Numbering  # noqa: E402
from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import numbering, targets  # noqa: E402

CHECKS = {check.code: check for check in of_families("DAT")}
ALL, FEWER = ["cat", "dog", "fox", "owl"], ["cat", "fox", "owl"]


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, **held: Any) -> None:
        self.rows = [torch.rand(4) for _ in range(40)]
        self.__dict__.update(held)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


def numbers(names: list[str]) -> dict[str, int]:
    return {name: n for n, name in enumerate(names)}


def judged(train: Any, other: Any) -> Any:
    first, second = (
        targets.Source(n, "dataset", d) for n, d in (("train", train), ("eval", other))
    )
    record = numbering.of_splits(first, second)
    found = msgspec.convert(record, Numbering) if record else None
    split = Split(name="train", kind="dataset", rows=40, agreement=Agreement(rows=40))
    facts = Data(target="t", opened=Ended(how="ok"), splits=(split,), numbering=found)
    return CHECKS["DAT022"].judge(data=facts)


@pytest.mark.parametrize(
    ("train", "other"),
    [
        (Rows(class_to_idx=numbers(ALL)), Rows(class_to_idx=numbers(FEWER))),
        (
            Rows(label2id=numbers(ALL)),
            torch.utils.data.Subset(Rows(label2id=numbers(FEWER)), [1, 2]),
        ),
        (Rows(names=ALL), Rows(names=[*reversed(ALL)])),
        (Rows(vocab={"<pad>": 0, "the": 1, "a": 2}), Rows(vocab={"<pad>": 0, "a": 1, "the": 2})),
    ],
)
def test_a_split_that_numbers_for_itself(train: Any, other: Any) -> None:
    found = judged(train, other)
    assert found.status is Status.WARN
    assert "another number in eval" in found.summary


@pytest.mark.parametrize(
    ("train", "other"),
    [
        (Rows(class_to_idx=numbers(ALL)), Rows(class_to_idx=numbers(ALL))),
        (Rows(class_to_idx=numbers(ALL)), Rows(class_to_idx={"cat": 0, "owl": 3})),
        (Rows(counts={"cat": 90, "dog": 12}), Rows(counts={"cat": 9, "dog": 3})),
        (Rows(speakers=numbers(["a", "b"])), Rows(speakers=numbers(["c", "d"]))),
        (Rows(row_of=numbers(list(map(str, range(40))))),
         Rows(row_of=numbers(list(map(str, range(39, -1, -1)))))),
        (Rows(rate=3, names=[3, 4]), Rows()),
    ],
)  # fmt: skip
def test_one_numbering_and_other_mappings(train: Any, other: Any) -> None:
    assert judged(train, other).status is Status.PASS
