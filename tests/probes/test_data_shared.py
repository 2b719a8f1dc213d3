"""Targets with a fault that only counts, two splits or several rows show, and a sound neighbour."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402
from map_datasets import Rows  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import sounds, targets, two_splits  # noqa: E402

data = torch.utils.data
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


X = torch.randn(400, 6, generator=seeded(1)) * 3 + 1
Y = (torch.rand(400, generator=seeded(2)) < 0.2).long()
COUNTS = torch.bincount(Y)
IMAGES = torch.nn.functional.avg_pool2d(torch.rand(240, 3, 32, 32, generator=seeded(3)), 3, 1, 1)
IMAGES = IMAGES + 0.3 * torch.rand(240, 3, 32, 32, generator=seeded(4))
POINTS = torch.rand(60, 17, 2, generator=seeded(5)) * 31
OTHER_SIDE = [0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15]


def loader(dataset: Any, **options: Any) -> Any:
    return data.DataLoader(dataset, **{"batch_size": 16, "shuffle": True, **options})


def split(train: Any, other: Any) -> Any:
    return loader(train), loader(other, shuffle=False)


def weighted_loss(weight: Any) -> Any:
    return (
        torch.nn.Linear(6, 2),
        loader(data.TensorDataset(X, Y)),
        torch.nn.CrossEntropyLoss(weight),
    )


def positives(weight: float) -> Any:
    loss = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(weight))
    train = loader(data.TensorDataset(X, Y[:, None].float()))
    return {"train": train, "model": torch.nn.Linear(6, 1), "criterion": loss}


def sampled(weights: Any) -> Any:
    sampler = data.WeightedRandomSampler(weights, 400)
    return loader(data.TensorDataset(X, Y), sampler=sampler, shuffle=False)


def standard(values: Any, fitted: Any) -> Any:
    return (values - fitted.mean(0)) / fitted.std(0)


def filled(values: Any, fitted: Any) -> Any:
    low, high = fitted.min(0).values, fitted.max(0).values
    return (values - low) / (high - low)


def scaled(scale: Any, of_train: slice, of_eval: slice) -> Any:
    train = data.TensorDataset(scale(X[:300], X[of_train]), Y[:300])
    return split(train, data.TensorDataset(scale(X[300:], X[of_eval]), Y[300:]))


TRAIN, EVAL, ALL = slice(300), slice(300, None), slice(None)


def reordered(order: list[int]) -> Any:
    moved = X * torch.arange(1, 7) + torch.arange(6) * 5
    other = data.TensorDataset(moved[300:, order], Y[300:])
    return split(data.TensorDataset(moved[:300], Y[:300]), other)


def patients(first: int) -> Any:
    def rows(at: int, start: int, size: int) -> Any:
        return Rows(size, lambda n: {"image": IMAGES[at + n], "label": n % 3,
                                     "patient_id": start + n % 20})  # fmt: skip

    return split(rows(0, 0, 200), rows(200, first, 40))


def pictures(row: Callable[[int], Any]) -> Any:
    train = Rows(200, lambda n: (IMAGES[n], n % 3))
    return split(train, Rows(40, lambda n: (row(n), n % 3)))


WORDS = ("red", "green", "table", "chair", "river", "stone", "cloud", "bread", "winter", "music",
         "paper", "garden", "engine")  # fmt: skip


def sentence(number: int) -> str:
    found = [WORDS[(number * k * k + 3 * k + number // 7) % 13] for k in range(1, 12)]
    return f"{' '.join(found)} {number}."


def sentences(change: Callable[[str], str], first: int) -> Any:
    train = Rows(200, lambda n: {"text": sentence(n), "label": n % 3})
    return split(train, Rows(64, lambda n: {"text": change(sentence(first + n)), "label": n % 3}))


def classes(of_eval: Any) -> Any:
    train = data.TensorDataset(X[:300], torch.arange(300) % 3)
    return split(train, data.TensorDataset(X[300:], of_eval))


def graph(first_of_val: int, first_node: int = 0) -> Any:
    edges = torch.randint(first_node, 400 + (first_node > 0), (2, 3000), generator=seeded(1))
    batch = {"x": X, "edge_index": edges, "y": Y, "train_mask": torch.arange(400) < 300,
             "val_mask": torch.arange(400) >= first_of_val}  # fmt: skip
    return loader([0], batch_size=None, shuffle=False, collate_fn=lambda _: batch)


def detections(scale: float) -> Any:
    def row(number: int) -> Any:
        at = torch.rand(4, 2, generator=seeded(number)) * 20
        size = torch.rand(4, 2, generator=seeded(number + 900)) * 12 + 2
        boxes = torch.cat([at, (at + size).clamp(max=31.9)], 1) * scale
        return IMAGES[number], {"boxes": boxes, "labels": torch.ones(4, dtype=torch.long)}

    return loader(Rows(100, row), collate_fn=lambda rows: tuple(zip(*rows, strict=True)))


def mirrored(swap: bool) -> Any:
    def row(number: int) -> Any:
        image, points = IMAGES[number], POINTS[number].clone()
        if torch.rand(()) < 0.5:
            image, points[:, 0] = image.flip(-1), 31 - points[:, 0]
            points = points[OTHER_SIDE] if swap else points
        return {"image": image, "keypoints": points}

    return loader(Rows(60, row))


def features(change: Callable[[Any], Any]) -> Any:
    x = X.clone()
    x[:, 2] = change(x[:, 2])
    return loader(data.TensorDataset(x, Y))


def with_code(column: Any) -> Any:
    column = torch.where(torch.arange(400) % 9 == 0, -999.0, column)
    return (column - column.mean()) / column.std()


def in_two_units(column: Any) -> Any:
    height = 170 + column
    return torch.where(torch.arange(400) % 5 == 0, height / 100, height)


def lines(dropped: tuple[int, ...]) -> Any:
    """Sentences with numbers, and the same in another language, of which some lines are lost."""
    one = [f"We ordered {n * 37 % 991} boxes from town {n % 89}." for n in range(600)]
    two = [f"Wir haben {n * 37 % 991} Kisten aus Ort {n % 89} bestellt." for n in range(600)]
    two = [text for n, text in enumerate(two) if n not in dropped]
    return loader(Rows(len(two), lambda n: {"source": one[n], "target": two[n]}))


def interactions(exclude: bool) -> Any:
    liked = {user: set(range(user, user + 30)) for user in range(20)}
    pairs = [(user, item) for user in liked for item in liked[user]]

    def row(number: int) -> Any:
        user, item = pairs[number]
        other = (number * 7) % 100
        while exclude and other in liked[user]:
            other = (other + 31) % 100
        return {"user_id": user, "pos_item": item, "neg_item": other}

    return loader(Rows(len(pairs), row))


def passages(repeat: int) -> Any:
    def collate(numbers: list[int]) -> Any:
        queries = torch.stack([torch.randint(5, 900, (8,), generator=seeded(n)) for n in numbers])
        found = [torch.randint(5, 900, (16,), generator=seeded(n // repeat)) for n in numbers]
        return {"query_input_ids": queries, "passage_input_ids": torch.stack(found),
                "labels": torch.arange(len(numbers))}  # fmt: skip

    return loader(range(160), collate_fn=collate, shuffle=False)


def transitions(same: bool) -> Any:
    return loader(
        Rows(300, lambda n: {"obs": X[n], "action": n % 3, "reward": 0.1 * n,
                             "next_obs": X[n if same else n + 1], "done": 0.0})
    )  # fmt: skip


def in_order(shuffled: bool) -> Any:
    classes = torch.cat([torch.zeros(230), torch.ones(170)]).long()
    return loader(data.TensorDataset(X, classes), shuffle=shuffled)


class Folder(Rows):
    """As an ImageFolder: it lists its files, and numbers its own classes."""


def folders(tmp: Path, names: list[str]) -> Any:
    each = []
    for part, found in (("train", ["a", "b", "c"]), ("val", names)):
        numbers = {name: n for n, name in enumerate(found)}
        files = []
        for n in range(40):
            file = tmp / f"{part}{n}"
            file.write_bytes(bytes([n] * 64))
            files.append((str(file), n % len(found)))
        at = 0 if part == "train" else 100
        row = partial(lambda first, n: (IMAGES[first + n], n % 2), at)
        each.append(Folder(40, row, samples=files, class_to_idx=numbers))
    return split(*each)


CASES: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("DAT022", lambda: weighted_loss(COUNTS / 400), lambda: weighted_loss(400 / COUNTS)),
    ("DAT022", lambda: positives(0.25), lambda: positives(3.6)),
    ("DAT022", lambda: sampled(COUNTS[Y].float()), lambda: sampled((1 / COUNTS)[Y])),
    ("DAT022", lambda: sampled((1 / COUNTS)[Y.sort().values]), lambda: sampled(torch.rand(400))),
    ("DAT025", lambda: scaled(standard, TRAIN, EVAL), lambda: scaled(standard, TRAIN, TRAIN)),
    ("DAT025", lambda: scaled(standard, ALL, ALL), lambda: scaled(standard, TRAIN, TRAIN)),
    ("DAT025", lambda: scaled(filled, TRAIN, EVAL), lambda: scaled(filled, TRAIN, TRAIN)),
    ("DAT025", lambda: reordered([5, 1, 2, 3, 4, 0]), lambda: reordered([0, 1, 2, 3, 4, 5])),
    ("DAT025", lambda: patients(10), lambda: patients(100)),
    ("DAT025", lambda: pictures(lambda n: IMAGES[n * 5] * 0.8 + 0.05),
     lambda: pictures(lambda n: IMAGES[200 + n])),
    ("DAT025", lambda: pictures(lambda n: IMAGES[n * 5].flip(-1)),
     lambda: pictures(lambda n: IMAGES[200 + n])),
    ("DAT025", lambda: sentences(str.upper, 0), lambda: sentences(str.upper, 300)),
    ("DAT025", lambda: classes(torch.zeros(100).long()), lambda: classes(torch.arange(100) % 3)),
    ("DAT022", lambda: graph(250), lambda: graph(300)),
    ("DAT022", lambda: graph(300, 1), lambda: graph(300)),
    ("DAT022", lambda: detections(0.5), lambda: detections(1.0)),
    ("DAT022", lambda: mirrored(False), lambda: mirrored(True)),
    ("DAT022", lambda: features(with_code), lambda: features(lambda x: x.exp())),
    ("DAT022", lambda: features(in_two_units), lambda: features(lambda x: x.exp())),
    ("DAT022", lambda: lines((60, 200, 340)), lambda: lines(())),
    ("DAT022", lambda: interactions(False), lambda: interactions(True)),
    ("DAT022", lambda: passages(4), lambda: passages(1)),
    ("DAT024", lambda: transitions(True), lambda: transitions(False)),
    ("DAT009", lambda: in_order(False), lambda: in_order(True)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "faulty", "sound"), CASES, ids=range(len(CASES)))
def test_a_fault_is_named_and_its_neighbour_is_not(
    code: str, faulty: Any, sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdicts(faulty(), monkeypatch)[code].status in LOUD
    for other, verdict in verdicts(sound(), monkeypatch).items():
        assert verdict.status not in LOUD, (other, verdict.summary)


def test_folders_that_number_their_classes_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verdicts(folders(tmp_path, ["a", "c"]), monkeypatch)["DAT022"]
    assert found.status is Status.WARN
    assert "class_to_idx" in found.summary
    same = verdicts(folders(tmp_path, ["a", "b", "c"]), monkeypatch)["DAT022"]
    assert same.status not in LOUD


def wave(rate: int) -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return b"RIFF\0\0\0\0WAVE" + form + b"data\0\0\0\0"


@pytest.mark.parametrize(
    ("code", "rates", "found"),
    [
        ("x = wave.open(path)", (16000, 44100), 10),
        ("x = resample(wave.open(path))", (16000, 44100), 0),
        ("x = wave.open(path)", (16000, 16000), 0),
        ("", (16000, 44100), 0),
    ],
)
def test_files_of_sound_with_two_rates(
    code: str, rates: tuple[int, int], found: int, tmp_path: Path
) -> None:
    files = [tmp_path / f"{n}.wav" for n in range(30)]
    for n, file in enumerate(files):
        file.write_bytes(wave(rates[n % 3 == 0]))
    train = targets.source("train", Rows(30, lambda n: n, files=files))
    assert sum(each["part"] for each in sounds.of_source(train, None, code)) == found
    assert sounds.rate_of(str(tmp_path / "absent.wav")) == 0
    flac = tmp_path / "a.flac"
    flac.write_bytes(b"fLaC" + bytes(14) + (48000 << 4).to_bytes(3, "big") + bytes(20))
    assert sounds.rate_of(str(flac)) == 48000


def test_one_class_in_eval_counts_where_chance_does_not_make_it_so() -> None:
    rare, even = Counter({"0": 990, "1": 10}), Counter({"0": 500, "1": 500})
    assert two_splits.of_classes(rare, Counter({"0": 128})) is None
    assert two_splits.of_classes(even, Counter({"0": 128})) is not None
