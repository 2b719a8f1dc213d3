"""Rows that were copied before the split, and rows that are equal by chance."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.data import row_contents, row_overlap, rows, targets  # noqa: E402

pytestmark = pytest.mark.slow


def drawn(number: int) -> Any:
    return torch.Generator().manual_seed(number)


def oversampled() -> list[Any]:
    """600 measured rows of a class, and 40 of another one that are drawn 600 times."""
    values = torch.rand(640, 5, generator=drawn(0))
    rare = torch.randint(600, 640, (600,), generator=drawn(1))
    numbers = torch.cat([torch.arange(600), rare])
    return [(values[n], int(n >= 600)) for n in numbers.tolist()]


def of_few_values() -> list[Any]:
    """Standardized classes: five columns of three values."""
    made = torch.randint(0, 3, (1200, 5), generator=drawn(2)) * 1.2247 - 1.2247
    return [(each + 0.1, n % 2) for n, each in enumerate(made)]


def of_frequent_values() -> list[Any]:
    """Rows by Zipf's law: few are frequent, many occur once."""
    values = torch.rand(5000, 5, generator=drawn(3))
    weights = 1.0 / torch.arange(1.0, 5001.0)
    numbers = torch.multinomial(weights, 1200, replacement=True, generator=drawn(4)).tolist()
    return [(values[n], n % 2) for n in numbers]


def of_several_classes() -> list[Any]:
    """Equal inputs whose class differs: those of a place or a day, which are no copies."""
    return [(row[0], n % 2) for n, row in enumerate(oversampled())]


def found(made: list[Any]) -> dict[str, Any]:
    order = torch.randperm(len(made), generator=drawn(5)).tolist()
    parts = ("train", order[:960]), ("eval", order[960:])
    train, other = (
        targets.Source(name, "dataset", [made[n] for n in part], len(part)) for name, part in parts
    )
    return row_overlap.overlap(rows.read(train, 5.0), other, 5.0)[0]


def test_rows_that_were_oversampled_before_the_split_are_shared() -> None:
    record = found(oversampled())
    assert record["shared"] == record["copied"] > 60
    assert record["repeated"] == 0


@pytest.mark.parametrize("made", [of_few_values, of_frequent_values, of_several_classes])
def test_rows_that_are_equal_by_chance_are_no_copies(made: Any) -> None:
    record = found(made())
    assert record["copied"] == 0
    assert record["repeated"] > 30


@pytest.mark.parametrize(
    ("row", "fractions"),
    [
        ((torch.tensor([0.5, 1.0, 0.5, 0.25]), 1), 2),
        ({"a": 0.5, "b": 2.0, "c": 3, "d": "0.1", "e": 0.75}, 2),
        ([0.1] * 9, 1),
        ("0.5 0.6 0.7", 0),
        (torch.arange(9), 0),
    ],
)
def test_the_fractions_of_a_row(row: Any, fractions: int) -> None:
    assert row_contents.fractions_in(row) == fractions


SENTENCE = "the lamp over the second bench was replaced after the fuse had blown"


def row_like(**fields: Any) -> Any:
    return row_contents.row_of(fields)


@pytest.mark.parametrize("first", [3, True, 2.5, None, "x"])
def test_the_first_column_does_not_decide_whether_a_row_has_content(first: Any) -> None:
    made, other = (row_like(a=first, text=text) for text in (SENTENCE, SENTENCE[4:]))
    assert made.telling
    assert made.content != other.content
    chat = row_like(a=first, turns=[{"who": "a", "said": SENTENCE}])
    assert chat.telling
    assert chat.content == row_like(a=first, turns=[{"who": "a", "said": SENTENCE}]).content


def test_whole_numbers_among_others_are_one_number_each() -> None:
    assert not row_like(age=1234567890, height=1.5, weight=1234567890).telling
    assert row_contents.row_of(list(range(20))).telling


ASKED = [{"role": "user", "content": SENTENCE}, {"role": "assistant", "content": "By whom?"}]


@pytest.mark.parametrize(
    ("row", "column", "same"),
    [
        ({"text": SENTENCE}, "split", True),
        ({"text": SENTENCE}, "fold", True),
        ({"text": SENTENCE}, "base_id", False),
        ({"text": SENTENCE}, "instance_id", False),
        ({"messages": ASKED}, "split", True),
        ({"messages": ASKED}, "source", True),
        ({"messages": [{"role": "user", "content": "<image>\n" + SENTENCE}]}, "source", False),
        ({"messages": ASKED}, "prompt_id", False),
        ({"messages": ASKED}, "image_id", False),  # stands for the image
        ({"text": SENTENCE}, "document_id", False),
        ({"target": SENTENCE}, "source", False),  # of a translation
        ({"messages": ASKED}, "answer", False),
        ({"tokens": 5.5}, "split", False),  # no text beside it
    ],
)
def test_where_a_copy_stands_makes_it_no_other_sample(
    row: dict[str, Any], column: str, same: bool
) -> None:
    one, other = (row_like(**row, **{column: f"{n}-th"}) for n in range(2))
    assert (one.content == other.content) is same


def test_the_path_of_a_source_makes_a_chat_another_sample() -> None:
    one, other = (row_like(messages=ASKED, source=f"train2017/{n}.jpg") for n in range(2))
    assert one.content != other.content
