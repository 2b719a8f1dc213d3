"""Rows that are changed by reading them, and rows that are random."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from doctor._util.records import Ended  # noqa: E402
from doctor.catalog import of_families  # noqa: E402
from doctor.facts.data import Data, Split  # noqa: E402
from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import split_look, targets, vocabulary  # noqa: E402

pytestmark = pytest.mark.slow
CHECKS = {check.code: check for check in of_families("DAT")}


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, read: Any) -> None:
        self.read, self.random = read, np.random.default_rng(0)
        self.images = torch.rand(64, 3, 8, 8) * 255
        self.arrays = np.random.default_rng(1).normal(3, 2, (64, 20)).astype("float32")
        self.ids = [[7, 8, 9 + n % 5, 4] * (2 + n % 3) for n in range(64)]
        self.dicts: list[dict[str, Any]] = [
            {"x": self.images[n], "label": n % 4} for n in range(64)
        ]

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> Any:
        return self.read(self, number), number % 4


def divided(rows: Rows, n: int) -> Any:
    x = rows.images[n]
    x /= 255.0
    return x


def standardized(rows: Rows, n: int) -> Any:
    x = rows.arrays[n]
    x -= 3.0
    x *= 0.5
    return x


def ended(rows: Rows, n: int) -> Any:
    ids = rows.ids[n]
    ids += [2]
    return torch.tensor(ids[:4]), ids


def begun(rows: Rows, n: int) -> Any:
    rows.ids[n].insert(0, 1)
    return rows.ids[n]


def popped(rows: Rows, n: int) -> Any:
    return rows.dicts[n].pop("x")


def flipped(rows: Rows, n: int) -> Any:
    x = rows.images[n] / 255
    return (x.flip(-1) if random.random() < 0.5 else x) * torch.empty(1).uniform_(0.8, 1.2)


def own_numbers(rows: Rows, n: int) -> Any:
    return rows.images[n] * float(rows.random.uniform(0.8, 1.2))


def cropped(rows: Rows, n: int) -> Any:
    return rows.ids[n][: 1 + int(rows.random.integers(len(rows.ids[n])))]


def clamped(rows: Rows, n: int) -> Any:
    return rows.images[n].clamp_(0, 200)


def judged(read: Any, **loader: Any) -> Any:
    def collate(batch: Any) -> Any:
        return {"labels": torch.tensor([label for _, label in batch])}

    items = torch.utils.data.DataLoader(Rows(read), batch_size=8, collate_fn=collate, **loader)
    source = targets.Source("train", "loader", items, 64)
    look = split_look.SplitLook(source, vocabulary.Vocabulary(), None, "")
    for batch in look.reading.batches_of(512, 60.0):
        look.add(batch)
    split = msgspec.convert(look.record(), Split, strict=False)
    facts = Data(target="t.py:make", opened=Ended(how="ok"), splits=(split,))
    return CHECKS["DAT023"].judge(data=facts)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (divided, "becomes 0.003922 times its values"),
        (standardized, "becomes 0.5 times its values - 1.5"),
        (ended, "has 1 values more"),
        (begun, "has 1 values more"),
        (popped, "can be read once: KeyError"),
    ],
)
def test_a_row_that_reading_changes(read: Any, words: str) -> None:
    found = judged(read, shuffle=True)
    assert found.status is Status.WARN
    assert words in found.summary


@pytest.mark.parametrize(
    ("read", "status"),
    [
        (flipped, Status.PASS),
        (clamped, Status.PASS),
        (own_numbers, Status.SKIP),
        (cropped, Status.SKIP),
    ],
)
def test_a_row_that_is_random_or_stays(read: Any, status: Status) -> None:
    assert judged(read).status is status


def test_rows_that_no_number_reads() -> None:
    source = targets.Source("train", "loader", [{"labels": torch.arange(4)}], 1)
    look = split_look.SplitLook(source, vocabulary.Vocabulary(), None, "")
    assert look.record()["rereading"] is None
