"""Readings of batches, datasets and rows: each fault, and sound data that resemble it."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402
from map_datasets import Rows  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import (  # noqa: E402
    documents,
    files,
    label_sides,
    mixing,
    rereading,
    row_ends,
    shared,
    sounds,
    two_splits,
    vocabulary,
)

data = torch.utils.data
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)
NONE = -100


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


def chat(ids: str, labels: str) -> tuple[Any, Any, Any]:
    """Tokens a to z, labels of them, "." for padding and for what is not trained."""
    return (
        torch.tensor([0 if each == "." else ord(each) for each in ids]),
        torch.tensor([NONE if each == "." else ord(each) for each in labels]),
        torch.tensor([int(each != ".") for each in ids]),
    )


@pytest.mark.parametrize(
    ("ids", "labels", "moved"),
    [
        ("...abcdefgh", "....efgh...", True),
        ("abcdefgh...", ".......efgh", True),
        ("...abcdefgh", ".......efgh", False),
        ("abcdefgh...", "....efgh...", False),
        ("...aaaaaaaa", "....aaaa...", False),  # each label is the token beside it, too
        ("...abcdefgh", "...ABCDEFGH", False),  # of a decoder
        ("...abcdefgh", "...bcdefgh.", False),  # the next tokens
        ("..abcdefgh.", "....efgh...", None),  # padded on both sides
        ("abcdefghijk", "....efghijk", None),
    ],
)
def test_labels_that_are_padded_on_the_other_side(
    ids: str, labels: str, moved: bool | None
) -> None:
    assert label_sides.is_moved(*chat(ids, labels)) is moved


STOP, TURN, MARK, LINE = 2, 7, 5, 13


@pytest.mark.parametrize(
    ("end", "answers"),
    [
        ([TURN, LINE], 40),  # the model's own end of a text never comes
        ([TURN], 40),
        ([STOP], 0),
        ([STOP, LINE], 0),
        ([TURN, STOP], 0),
        ([], 0),  # an end that is no token of its own
    ],
)
def test_the_end_of_whole_chats(end: list[int], answers: int) -> None:
    draw = random.Random(0)
    rows = []
    for number in range(40):
        words = [draw.randrange(20, 900) for _ in range(8 + number % 7)]
        ids = torch.tensor([3, *words, MARK, MARK, *reversed(words), *end])
        rows.append(documents.Document(number, ids, ids.clone(), ids[:0]))
    tokenizer = SimpleNamespace(all_special_ids=[STOP, TURN, MARK])
    known = vocabulary.Vocabulary(tokenizer, eos=2, stops=(STOP,), source="the model")
    record = row_ends.stops(rows, known, [MARK, MARK])
    assert record is not None
    assert record["answers"] == answers
    assert bool(record["ends"] if answers else record["chats"]) is bool(end)


def black(number: int, empty: bool) -> tuple[Any, Any]:
    image = torch.rand(3, 8, 8, generator=seeded(number))
    target = (image.mean(0) > 0.5).long()
    return (image * 0, target * (not empty)) if number % 5 == 0 else (image, target)


def table_of(rows: list[int]) -> Any:
    return torch.tensor([[float(n), 0.0, 0.5, 0.5, 0.2, 0.2] for n in rows])


@pytest.mark.parametrize(
    ("targets_of", "bare"),
    [
        (lambda maps: maps, {0}),
        (lambda maps: torch.nn.functional.pad(maps[:, 1:], (0, 0, 1, 0), value=255), {0}),
        (lambda maps: [{"boxes": torch.zeros(int(n > 0), 4)} for n in range(len(maps))], {0}),
        (lambda maps: table_of([1, 1, 2, 3]), {0}),
        (lambda maps: torch.tensor([0, 0, 1, 1]), set()),
        (lambda maps: torch.rand(4, 6), set()),
    ],
)
def test_an_empty_image_without_an_object(targets_of: Any, bare: set[int]) -> None:
    images, maps = zip(*(black(n, True) for n in range(4)), strict=True)
    batch = torch.stack(images), targets_of(torch.stack(maps))
    assert mixing.empty_targets(batch, 4) == bare


@pytest.mark.parametrize("empty", [True, False])
def test_black_images_count_where_they_have_an_object(empty: bool, monkeypatch: Any) -> None:
    dataset = Rows(80, lambda n: black(n, empty))
    if not empty:
        dataset = Rows(80, lambda n: (black(n, True)[0], black(n + 1 - n % 5, True)[1]))
    found = verdicts(data.DataLoader(dataset, 8, shuffle=True), monkeypatch)["DAT009"]
    assert (found.status in LOUD) is not empty


def test_half_of_the_images_and_maps_that_are_black(monkeypatch: Any) -> None:
    """A reader that gives zeros for both where it finds no file."""
    dataset = Rows(80, lambda n: black(5 * n if n % 2 else 5 * n + 1, True))
    found = verdicts(data.DataLoader(dataset, 8, shuffle=True), monkeypatch)["DAT009"]
    assert found.status in LOUD


@pytest.mark.parametrize(
    ("step", "how"),
    [
        (lambda x, n: x * 0.9 + 2, "scaled"),
        (lambda x, n: x, "same"),
        # noise of one pattern that grows with the epoch, and other noise in each
        (lambda x, n: x + torch.rand(20, generator=seeded()), "other"),
        (lambda x, n: x + torch.rand(20, generator=seeded(n)), "other"),
        (lambda x, n: torch.arange(20.0) + n % 2, "other"),
    ],
)
def test_rows_that_readings_change(step: Any, how: str) -> None:
    value = torch.randn(20, generator=seeded(9)).double()
    series = []
    for number in range(4):
        value = step(value, number).double()
        series.append(value)
    assert rereading.drift(series).how == how


def series(scaled_by: slice) -> tuple[Any, Any]:
    steps = torch.arange(900.0)[:, None]
    made = torch.randn(900, 3, generator=seeded(4)).cumsum(0) + steps * 0.01
    made = (made - made[scaled_by].mean(0)) / made[scaled_by].std(0)
    return made[:700], made[700:]


@pytest.mark.parametrize(
    ("scaled_by", "kind"),
    [
        (slice(None), "fitted on eval"),
        (slice(0, 700), None),
        (slice(0, 650), None),
        (slice(0, 100), None),
    ],
)
def test_the_series_that_windows_are_cut_from(scaled_by: slice, kind: str | None) -> None:
    def windows(held: Any) -> Any:
        return Rows(len(held) - 60, lambda n: (held[n : n + 48], held[n + 48 : n + 60, 0]), x=held)

    parts = [
        shared.series_held(windows(each.numpy() if kind else each)) for each in series(scaled_by)
    ]
    found = shared.scaled(*parts, of_series=True)
    assert (found or {}).get("kind") == kind


def test_recordings_that_are_scaled_each_for_itself() -> None:
    """As those of patients are, before windows are cut from them."""
    parts = []
    for count in (6, 2):
        each = [torch.randn(500, 3, generator=seeded(n)).cumsum(0) for n in range(count)]
        held = torch.cat([(e - e.mean(0)) / e.std(0, correction=0) for e in each])
        parts.append(shared.series_held(Rows(count, lambda n: (n, n), signal=held)))
    assert None not in parts
    assert shared.scaled(*parts, of_series=True) is None


def test_one_table_that_both_splits_look_up() -> None:
    held = series(slice(None))[0]
    table = (held - held.mean(0)) / held.std(0)
    parts = [shared.series_held(Rows(n, lambda i: table[i % 9], table=table)) for n in (300, 60)]
    assert shared.scaled(*parts) is None


def test_an_array_of_as_many_rows_is_no_series() -> None:
    held = torch.rand(100, 3)
    assert shared.series_held(Rows(100, lambda n: held[n], x=held)) is None
    assert shared.series_held(Rows(50, lambda n: held[n], x=held, y=held.clone())) is None


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ({"-1": 40}, "eval unlabelled"),
        ({"-1": 20, "1": 20}, "class in eval alone"),  # as outliers
        ({"7": 40}, "class in eval alone"),
        ({"0": 20, "1": 20}, None),
    ],
)
def test_an_eval_whose_labels_are_kept_back(other: dict[str, int], kind: str | None) -> None:
    found = two_splits.of_classes(Counter({"0": 90, "1": 80}), Counter(other))
    assert (found or {}).get("kind") == kind


def test_an_eval_of_one_of_two_signs_has_labels() -> None:
    found = two_splits.of_classes(Counter({"-1": 90, "1": 80}), Counter({"-1": 3}))
    assert found is None


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("rate = 8000 if old else 16000\n    t = numpy.arange(rate) / rate", False),
        ("rate = 16000\n    t = numpy.arange(rate)", False),
        ("x, rate = read(path)\n    x = fit(x, rate)", True),
        ("rate = header(path) if wav else 16000\n    return x / rate", True),
        ("rate = w.getframerate()\n    assert rate == 16000", True),
    ],
)
def test_a_rate_that_is_a_number_of_the_source(source: str, uses: bool) -> None:
    assert sounds.uses_rate(f"def write(path):\n    {source}\n") is uses


def test_a_broken_row_has_the_name_of_its_file(tmp_path: Any, monkeypatch: Any) -> None:
    for number in range(3):
        text = '{"text": "one row of a file"}\n' * 4
        (tmp_path / f"train-{number}.jsonl").write_text(text[:-9] if number == 1 else text)
    found = verdicts(str(tmp_path), monkeypatch)["DAT018"]
    assert "train-1.jsonl, in line 4" in found.summary
    alone = verdicts(str(tmp_path / "train-1.jsonl"), monkeypatch)["DAT018"]
    assert "jsonl" not in alone.summary
    assert files.BrokenRow(1, "ValueError").file == ""


def shapes(number: int) -> tuple[Any, Any]:
    """A picture with a bright rectangle of no symmetry, and its map."""
    draw = random.Random(number)
    target = torch.zeros(32, 32, dtype=torch.long)
    down, right = draw.randrange(20), draw.randrange(18)
    target[down : down + draw.randint(5, 10), right : right + draw.randint(6, 12)] = 1
    noise = 0.1 * torch.randn(3, 32, 32, generator=seeded(number))
    return 0.3 + noise + 0.5 * target, target


def flipped(number: int, apart: bool) -> tuple[Any, Any]:
    image, target = shapes(number)
    first = random.random() < 0.5
    second = random.random() < 0.5 if apart else first
    return (image.flip(-1) if first else image), (target.flip(-1) if second else target)


def twofold(number: int) -> tuple[Any, Any]:
    """Two equal objects side by side, of which the left one is labelled."""
    image, target = flipped(number, False)
    both = torch.maximum(image[0], image[0].flip(-1))
    return torch.stack([both] * 3), target


def every_other(number: int) -> tuple[Any, Any]:
    """Tiles with an object and tiles without one in turn."""
    image, target = shapes(number)
    empty = 0.3 + 0.1 * torch.rand(3, 32, 32, generator=seeded(number))
    return (empty, torch.zeros_like(target)) if number % 2 else (image, target)


def by_text(number: int) -> int:
    return sorted(range(150), key=str)[number]


PLACES: list[tuple[Any, bool]] = [
    (Rows(150, lambda n: flipped(n, True)), True),
    (Rows(150, lambda n: flipped(n, False)), False),
    (Rows(150, twofold), False),
    (Rows(150, every_other), False),
    (Rows(150, lambda n: (torch.rand(3, 32, 32), shapes(n)[1])), False),
    (Rows(150, lambda n: (shapes(by_text(n))[0], shapes(n)[1])), True),
    (Rows(150, lambda n: (shapes(n)[0], shapes(by_text(n))[1])), True),
    (Rows(150, lambda n: (shapes(by_text(n))[0], shapes(by_text(n))[1])), False),
    (Rows(150, lambda n: (shapes(n + 7)[0], shapes(3 * n)[1])), False),  # of no order
]


@pytest.mark.parametrize(("dataset", "loud"), PLACES, ids=range(len(PLACES)))
def test_maps_that_are_turned_apart_or_of_other_rows(
    dataset: Any, loud: bool, monkeypatch: Any
) -> None:
    random.seed(3)
    found = verdicts(data.DataLoader(dataset, 10, shuffle=True), monkeypatch)["DAT027"]
    assert (found.status in LOUD) is loud, found.summary


def boxed(number: int) -> tuple[Any, Any]:
    """Blurred pictures, whose edges differ from their middle, with a box that all have there."""
    coarse = torch.rand(1, 3, 4, 4, generator=seeded(number))
    size = (40, 30 + number % 9)
    image = torch.nn.functional.interpolate(coarse, size=size, mode="bicubic").clamp(0, 1)[0]
    at = torch.tensor([[1.0, 2.0, 9.0 + number % 7, 12.0]])
    return image, {"boxes": at, "labels": torch.tensor([1])}


def test_a_box_at_one_place_of_all_images(monkeypatch: Any) -> None:
    rows = [boxed(n) for n in range(60)]
    loader = data.DataLoader(rows, 4, collate_fn=lambda batch: tuple(zip(*batch, strict=True)))
    assert verdicts(loader, monkeypatch)["DAT027"].status not in LOUD
