"""General questions to samples: targets that belong to another input, two splits that one change
makes alike, statements; each fault has a sound neighbour."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import examined, verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import targets  # noqa: E402
from doctor.probes.training_side.data.facets import (  # noqa: E402
    changes,
    image_turns,
    learner,
    questions,
    statements,
    tables,
)

data = torch.utils.data
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)
MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
Rows = tuple[Any, Any]


def seeded(number: int) -> Any:
    return torch.Generator().manual_seed(number)


def table(count: int, seed: int, classes: bool = False) -> Rows:
    spreads = torch.linspace(0.5, 3, 8)
    x = torch.randn(count, 8, generator=seeded(seed)) * spreads + torch.linspace(-2, 4, 8)
    y = x @ torch.randn(8, generator=seeded(77)) + torch.randn(count, generator=seeded(seed + 1))
    return (x, (y > y.median()).long()) if classes else (x, y[:, None])


def images(count: int, seed: int) -> Rows:
    """Warm ones of 0 to 1, whose class is their brightest channel and how fine they are."""
    y = torch.randint(0, 4, (count,), generator=seeded(seed))
    coarse = torch.rand(count, 3, 4, 4, generator=seeded(seed + 1))
    x = torch.nn.functional.interpolate(coarse, size=(24, 24), mode="bilinear") * 0.5
    x = x + 0.3 * torch.tensor([1.0, 0.5, 0.1])[:, None, None]
    for number, each in enumerate(y.tolist()):
        x[number, each % 3] += 0.15
        x[number, :, :: each + 1] += 0.15
    return (x + 0.05 * torch.randn(x.shape, generator=seeded(seed + 2))).clamp(0, 1), y


def areas(count: int, seed: int) -> Rows:
    """Images with a bright rectangle, and the map of it."""
    draw = random.Random(seed)
    maps = torch.zeros(count, 32, 32, dtype=torch.long)
    for each in maps:
        down, right = draw.randrange(18), draw.randrange(20)
        each[down : down + draw.randint(5, 9), right : right + draw.randint(7, 12)] = 1
    noise = 0.1 * torch.randn(count, 3, 32, 32, generator=seeded(seed))
    return (0.3 + noise + 0.5 * maps[:, None]).clamp(0, 1), maps


def two(train: Rows, other: Rows) -> Any:
    loaders = [
        data.DataLoader(data.TensorDataset(*each), batch_size=16, shuffle=shuffle)
        for each, shuffle in ((train, True), (other, False))
    ]
    return {"train": loaders[0], "eval": loaders[1]}


def changed(make: Callable[..., Rows], train: Any = None, other: Any = None, **options: Any) -> Any:
    """Two splits, of which one or both went through a function of their inputs and targets."""
    same: Callable[..., Rows] = lambda x, y: (x, y)  # noqa: E731
    ours, theirs = make(240, 1, **options), make(96, 5, **options)
    return two((train or same)(*ours), (other or same)(*theirs))


def normal(x: Any, y: Any) -> Rows:
    return (x - MEAN) / STD, y


def boxes(read: Callable[[Any], Any]) -> Any:
    """A detector's rows: corners of the rectangles as `read` gives them."""
    rows = []
    for image, mask in zip(*areas(96, 3), strict=True):
        down, right = torch.nonzero(mask).T
        box = torch.tensor([[right.min(), down.min(), right.max() + 1, down.max() + 1]]).float()
        target = {name: torch.ones(1) for name in ("image_id", "area", "iscrowd")}
        target["labels"] = torch.ones(1, dtype=torch.long)
        rows.append((image, {**target, "boxes": read(box)}))
    collate = lambda each: tuple(zip(*each, strict=True))  # noqa: E731
    return data.DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collate)


def tagged(step: int) -> Any:
    draw = random.Random(4)
    rows = []
    for _ in range(128):
        ids = [draw.randrange(4, 90) for _ in range(16)]
        tags = [1 if each < 16 else 2 if each > 75 else 0 for each in ids]
        rows.append({"input_ids": ids, "labels": tags[-step:] + tags[:-step] if step else tags})
    rows = [{name: torch.tensor(each) for name, each in row.items()} for row in rows]
    return data.DataLoader(rows, batch_size=16, shuffle=True)


def texts(place: int, tells: bool) -> Any:
    """Rows of words, one of which is that of their class, or any."""
    draw = random.Random(6)
    rows = []
    for _ in range(160):
        label, ids = draw.randrange(3), [draw.randrange(10, 200) for _ in range(12)]
        ids[place] = 4 + (label if tells else draw.randrange(3))
        rows.append({"input_ids": torch.tensor(ids), "labels": torch.tensor(label)})
    return data.DataLoader(rows, batch_size=16, shuffle=True)


class Stated(data.TensorDataset):  # type: ignore[misc]
    """A sample is an image of shape (3, 24, 24) with pixels in [0, 1], and its class."""

    classes = ("bird", "cat", "dog", "fish")


def stated(scale: float = 1.0, first: int = 0) -> Any:
    x, y = images(96, 1)
    return data.DataLoader(Stated(x * scale, y + first), batch_size=16, shuffle=True)


def described(text: str, last: int = 3, columns: Any = ()) -> Any:
    """Values beyond [0, 1] and one class more than names, or a table whose columns have names."""
    x, y = table(96, 1) if columns else images(96, 1)
    kind = type("Described", (data.TensorDataset,), {
        "__doc__": text, "__module__": "own", "feature_names": columns,
        "classes": ("bird", "cat", "dog"),
    })  # fmt: skip
    y = y if columns else torch.where(y == 3, last, y)
    return data.DataLoader(kind(x if columns else x * 3 - 1, y), batch_size=16, shuffle=True)


STORED = "Image values are stored in [0, 1]; __getitem__ standardizes them."
FAULTS: list[tuple[str, Callable[[], Any], Callable[[], Any], str]] = [
    ("DAT027", lambda: changed(images, lambda x, y: (x, y.roll(1))), lambda: changed(images),
     "1 row"),
    ("DAT027", lambda: changed(images, lambda x, y: (x, y.sort().values)),
     lambda: changed(images, lambda x, y: (x[y.argsort()], y.sort().values)), "nothing"),
    ("DAT027", lambda: changed(table, lambda x, y: (x[:-1], y[1:])), lambda: changed(table),
     "1 row"),
    ("DAT027", lambda: changed(areas, lambda x, y: (x.flip(-1), y)),
     lambda: changed(areas, lambda x, y: (x.flip(-1), y.flip(-1))), "mirrored"),
    ("DAT027", lambda: changed(areas, lambda x, y: (x, y.roll(1, 0))),
     lambda: changed(areas), "row before"),
    ("DAT027", lambda: boxes(lambda b: b[:, [1, 0, 3, 2]]), lambda: boxes(lambda b: b), "y1"),
    ("DAT027", lambda: tagged(1), lambda: tagged(0), "1 place before"),
    ("DAT027", lambda: stated(255.0), lambda: stated(), "values from 0 to 1"),
    ("DAT027", lambda: stated(first=1), lambda: stated(), "4 classes"),
    ("DAT027", lambda: described("Returns images with pixels in [0, 1]."),
     lambda: described(STORED), "values from 0 to 1"),
    ("DAT027", lambda: described("", last=4), lambda: described(""), "3 classes"),
    ("DAT027", lambda: described("", columns=[f"column {n}" for n in range(40)]),
     lambda: described("", columns=["age", "city"]), "40 columns"),
    ("DAT025", lambda: changed(images, other=lambda x, y: (x[:, [2, 1, 0]], y)),
     lambda: changed(images, other=lambda x, y: (x * 0.8, y)), "2, 1, 0"),
    ("DAT025", lambda: changed(images, normal, lambda x, y: normal(x[:, [2, 1, 0]], y)),
     lambda: changed(images, normal, normal), "2, 1, 0"),
    ("DAT025", lambda: changed(images, normal, lambda x, y: (x - MEAN, y)),
     lambda: changed(images, normal, lambda x, y: normal(x * 0.8, y)), "deviation"),
    ("DAT025", lambda: changed(images, other=lambda x, y: (x.permute(0, 2, 3, 1), y)),
     lambda: changed(images), "dimension"),
    ("DAT025", lambda: changed(images, other=lambda x, y: (x, torch.tensor([2, 0, 3, 1])[y])),
     lambda: changed(images), "0 is 2"),
    ("DAT025", lambda: changed(table, lambda x, y: ((x - x.mean(0)) / x.std(0), y)),
     lambda: changed(table, other=lambda x, y: (x + 1.5, y)), "spread 1"),
    ("DAT025", lambda: changed(table, lambda x, y: (x / x.norm(dim=1, keepdim=True), y)),
     lambda: changed(table), "length 1"),
    ("DAT024", lambda: texts(0, True), lambda: texts(0, False), "place 0"),
    ("DAT024", lambda: texts(-2, True), lambda: texts(-2, False), "place 10"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "faulty", "sound", "word"), FAULTS)
def test_faults(code: str, faulty: Any, sound: Any, word: str, monkeypatch: Any) -> None:
    verdict = verdicts(faulty(), monkeypatch)[code]
    assert verdict.status in LOUD
    assert word in verdict.summary
    found = verdicts(sound(), monkeypatch)
    assert not [each for each in ("DAT024", "DAT025", "DAT027") if found[each].status in LOUD]


def forecast() -> Any:
    """The sign of the next value: the own input shows nothing, that of a later row all."""
    steps = torch.randn(500, generator=seeded(8))
    x = torch.stack([steps[n : n + 5] for n in range(490)])
    y = torch.stack([(steps[n + 5] > 0).long() for n in range(490)])
    return two((x[:360], y[:360]), (x[360:], y[360:]))


def drawn(count: int, seed: int) -> Rows:
    return torch.rand(count, 3, 24, 24, generator=seeded(seed)), torch.arange(count) % 4


class Frames(data.Dataset):  # type: ignore[misc]
    """Frames of clips, with the map of one `step` frames further on."""

    def __init__(self, clips: range, step: int) -> None:
        self.rows = []
        for clip in clips:
            ground = torch.nn.functional.interpolate(
                torch.rand(1, 3, 8, 8, generator=seeded(clip)), size=(32, 32)
            )[0]
            down, right = clip % 5 + 8, float(clip % 7)
            maps = torch.zeros(12, 32, 32, dtype=torch.long)
            for n, each in enumerate(maps):
                at = int(right + 1.6 * n)
                each[down : down + 8, at : at + 7] = 1
            noise = 0.02 * torch.randn(12, 3, 32, 32, generator=seeded(clip))
            frames = 0.4 * ground + noise + 0.6 * maps[:, None]
            self.rows += [(frames[n], maps[n + step]) for n in range(1, 11)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


def frames(step: int) -> Any:
    parts = Frames(range(16), step), Frames(range(20, 28), step)
    return {n: data.DataLoader(e, 16) for n, e in zip(("train", "eval"), parts, strict=True)}


class Upright(data.Dataset):  # type: ignore[misc]
    """A shape in some quarter turn, and the same upright."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, number: int) -> Any:
        shape, tall = torch.zeros(32, 32), 16 + number % 9
        shape[4 : 4 + tall, 8:13] = shape[tall : 4 + tall, 8:20] = 1
        return shape.rot90(int(torch.randint(4, (1,))))[None] + 0.0, shape.long()


def strong(x: Any, y: Any) -> Rows:
    """Colors exchanged by chance and brightness changed: an augmentation that hides the class."""
    orders = torch.stack([torch.randperm(3, generator=seeded(n)) for n in range(len(x))])
    mixed = x[torch.arange(len(x))[:, None], orders]
    return mixed * (0.3 + 1.4 * torch.rand(len(x), 3, 1, 1, generator=seeded(9))), y


def characters() -> Any:
    """The next one of a small alphabet is the label."""
    draw = random.Random(2)
    rows = [torch.tensor([draw.randrange(20) for _ in range(25)]) for _ in range(96)]
    rows = [{"input_ids": each[:-1], "labels": each[1:]} for each in rows]
    return data.DataLoader(rows, batch_size=16, shuffle=True)


def padded() -> Any:
    """Eval is filled up to one length by 1, without a mask."""
    draw = random.Random(2)

    def rows(count: int, length: int) -> Rows:
        made = torch.ones(count, length, dtype=torch.long)
        for each in made:
            each[: draw.randint(9, 12)] = torch.randint(4, 200, (1,))
        return made, torch.randint(0, 3, (count,), generator=seeded(3))

    return two(rows(160, 12), rows(96, 40))


def steep() -> Any:
    """Eval goes further up than train: no logarithm explains that."""
    steps = torch.arange(320.0)[:, None]
    x = torch.randn(320, 3, generator=seeded(4)) * torch.tensor([5.0, 1.0, 0.3]) + 0.05 * steps
    y = x.sum(1, keepdim=True)
    return two((x[:200], y[:200]), (x[200:] * 1.8, y[200:]))


GENERAL = {
    "targets of other rows", "targets of no row", "tags of another place", "places apart",
    "boxes of another form", "column holds target", "one class taught", "prepared apart",
    "targets numbered apart", "stated otherwise", "gives class away",
}  # fmt: skip
HEALTHY: list[Callable[[], Any]] = [
    forecast,
    characters,
    padded,
    steep,
    lambda: changed(table, lambda x, y: (torch.ones_like(x), y)),
    lambda: changed(drawn),  # nothing can be learned
    lambda: changed(images, strong),
    lambda: changed(images, lambda x, y: (x, torch.where(torch.rand(len(y)) < 0.6, y.roll(7), y))),
    lambda: changed(images, other=lambda x, y: (x.mean(1, keepdim=True) + 0.02 * x, 3 - y)),
    lambda: changed(images, other=lambda x, y: (x, y + 10)),  # other classes, as of persons
    lambda: changed(areas, lambda x, y: (1 - x, y), lambda x, y: (1 - x, y)),
    lambda: changed(table, lambda x, y: (x, y), lambda x, y: (x * 1.5 + 1, y)),
    lambda: tagged(0),
    lambda: frames(1),
    lambda: frames(-1),
    lambda: data.DataLoader(Upright(), batch_size=16),
]


@pytest.mark.parametrize("make", HEALTHY)
def test_nothing_is_said_of_what_may_be_so(make: Any, monkeypatch: Any) -> None:
    torch.manual_seed(0)
    found = examined(make(), monkeypatch)
    kinds = {each.kind for split in found.splits for each in split.relations}
    assert not GENERAL & (kinds | {each.kind for each in found.relations})


def test_a_learner_of_chance_never_says_more() -> None:
    """Of 100 tables without a relation none is clear in any order."""
    for seed in range(100):
        x = torch.randn(96, 6, generator=seeded(seed))
        made = learner.outputs_of(torch.randint(0, 3, (96,), generator=seeded(seed + 1000)))
        assert made is not None
        asked = learner.Learner(x, made[0])
        orders = [torch.arange(96).roll(step) for step in range(96)]
        assert not any(score.is_clear for score in asked.scores(orders))


def test_each_change_is_undone_by_another_one() -> None:
    """A change keeps rows, and channels or steps; texts are short enough for a report."""
    shapes = ((4, 3, 8, 8), (4, 1, 8, 8), (4, 40), (4, 9, 3))
    for value in (*map(torch.rand, shapes), torch.randint(1, 9, (4, 6))):
        found = list(changes.of_field(value))
        assert found
        assert all(len(each.text) <= 60 for each in found)
        assert all(len(each.apply(value)) == 4 for each in found)


def test_a_move_is_told_by_its_sides() -> None:
    assert image_turns.moved(0, -2) == "moved by 12 % to the left"
    assert image_turns.moved(-1, 2) == "moved by 6 % up and 12 % to the right"


def test_names_and_words_need_not_be_all() -> None:
    ages = statements.Measured(classes=(0.0, 90.0), labels=73)
    assert statements.of_classes(3, ages) is None
    assert statements.of_tokens(100, statements.Measured(tokens=(0.0, 102.0))) is None
    assert statements.of_tokens(100, statements.Measured(tokens=(0.0, 160.0))) is not None


def test_rows_are_those_of_the_dataset_in_order() -> None:
    x, y = table(700, 1)
    source = targets.source(
        "train", data.DataLoader(data.TensorDataset(x, y), batch_size=7, shuffle=True)
    )
    found = tables.of_source(source)
    assert found is not None
    assert found.target is not None
    assert found.total == 700
    assert torch.equal(found.target, y[found.order])
    assert found.order[:32].tolist() == list(range(32))


def test_a_stream_and_a_dataset_that_raises_are_no_reason_to_end() -> None:
    class Broken(data.TensorDataset):  # type: ignore[misc]
        def __getitem__(self, number: int) -> Any:
            raise KeyError(number)

    x, y = table(100, 1)
    sources = [
        targets.source("train", data.DataLoader(Broken(x, y))),
        targets.source("eval", iter([x])),
    ]
    assert questions.of_splits(sources, {"train": [], "eval": []}, None) == []
    assert questions.of_splits(sources, {}, None) == []
