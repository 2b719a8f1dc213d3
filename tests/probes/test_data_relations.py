"""Targets in which a relation holds that should not, and sound neighbours of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from data_targets import verdicts  # noqa: E402
from map_datasets import Rows  # noqa: E402

from doctor.judge.check import Status  # noqa: E402

data = torch.utils.data
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


SERIES = torch.cumsum(torch.randn(1500, generator=seeded(1)), 0)
IMAGES = torch.rand(200, 3, 16, 16, generator=seeded(2))
CLASSES = torch.arange(200) % 5
MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]


class Stream(data.IterableDataset):  # type: ignore[misc]
    def __init__(self, once: bool) -> None:
        self.rows = ((IMAGES[n], CLASSES[n]) for n in range(200)) if once else range(200)
        self.once = once

    def __iter__(self) -> Any:
        return self.rows if self.once else ((IMAGES[n], CLASSES[n]) for n in self.rows)


def windows(first_target: int, steps: int = 1) -> Any:
    return Rows(900, lambda n: (SERIES[n : n + 24, None],
                                SERIES[n + first_target : n + first_target + steps]))  # fmt: skip


def table(scale: float = 1.0, rows: int = 200) -> Any:
    x = torch.randn(rows, 6, generator=seeded(rows)) * scale + 9 * (scale > 1)
    return data.TensorDataset(x, (torch.rand(rows, generator=seeded()) > 0.5).long())


def images(change: Callable[[Any], Any] = lambda x: x, first: int = 0) -> Any:
    return Rows(100, lambda n: (change(IMAGES[first + n]), int(CLASSES[first + n])))


def loaders(train: Any, other: Any) -> Any:
    return data.DataLoader(train, batch_size=16, shuffle=True), data.DataLoader(
        other, batch_size=16
    )


def augmented(number: int) -> Any:
    return IMAGES[number] + 0.1 * torch.randn(3, 16, 16), int(CLASSES[number])


AUGMENTED = Rows(200, augmented)


def parts(end: int) -> Any:
    """Train, and eval from the row 120 on."""
    return [data.Subset(AUGMENTED, each) for each in (range(end), range(120, 200))]


def oversampled(split_first: bool) -> Any:
    """Rows of the rare class forty times, before or after the data are split."""
    x = torch.randn(400, 28, generator=seeded())
    y = (torch.arange(400) % 50 == 0).long()

    def copied(rows: Any) -> Any:
        return torch.cat([rows, *[rows[y[rows] == 1]] * 40])

    rows = torch.arange(400)
    if split_first:
        ours, theirs = copied(rows[:320]), rows[320:]
    else:
        mixed = copied(rows)
        mixed = mixed[torch.randperm(len(mixed), generator=seeded(1))]
        ours, theirs = mixed[:500], mixed[500:]
    return [data.TensorDataset(x[each], y[each]) for each in (ours, theirs)]


def prices(eval_scale: float, train_scale: float, mean: float = 1.0) -> Any:
    """Targets in original units, and the statistics of a row beside its inputs."""
    x = torch.randn(120, 6, generator=seeded())
    return [
        Rows(120, lambda n, scale=scale, level=level: {
            "x": x[n], "y": x[n, :1] * scale, "mean": x[n, 1:3] + level})
        for scale, level in ((train_scale, 1.0), (eval_scale, mean))
    ]  # fmt: skip


def leaking() -> Any:
    x, y = torch.randn(300, 5), (torch.rand(300) < 0.4).float()
    x[:, 3] = torch.where(y > 0, torch.rand(300) * 30 + 1, torch.zeros(()))
    return data.TensorDataset(x, y)


def histories(leak: bool) -> Any:
    items = torch.randint(1, 900, (300, 12), generator=seeded())
    used = torch.randint(4, 12, (300,), generator=seeded(1))
    items[torch.arange(12) >= used[:, None]] = 0
    last = items.gather(1, used[:, None] - 1)[:, 0]
    return data.TensorDataset(items if leak else items * (items != last[:, None]), last)


def frames(lengths: Callable[[list[int], int], Any]) -> Any:
    sizes = count(0)

    def collate(rows: Any) -> Any:
        used = [40 + (7 * next(sizes)) % 50 for _ in rows]
        x = torch.zeros(len(rows), max(used), 8)
        for row, size in zip(x, used, strict=True):
            row[:size] = torch.randn(size, 8)
        return {"features": x, "lengths": torch.tensor(lengths(used, max(used)))}

    return data.DataLoader(range(128), batch_size=16, collate_fn=collate)


def paired(sort: bool) -> Any:
    names = [f"a/{n}.png" for n in range(40)]
    masks = [f"b/{n}_mask.png" for n in range(40)]
    return images() if not sort else Rows(40, images().row, images=names, masks=sorted(masks))


def seeded_row(number: int, seed: Any = None) -> Any:
    if seed is not None:
        np.random.seed(seed)
    return IMAGES[number] + float(np.random.rand()), int(CLASSES[number])


def texts(marks: Callable[[Any], Any], **more: Callable[[Any], Any]) -> Any:
    """Tokens of several lengths, with a mask of them."""
    lengths = torch.randint(5, 22, (160,), generator=seeded())
    ids = torch.randint(9, 500, (160, 24), generator=seeded(1))
    ids[torch.arange(24) >= lengths[:, None]] = 0
    batch = {"input_ids": ids, "attention_mask": marks(ids).long()}
    batch.update({name: make(lengths) for name, make in more.items()})
    return [{name: each[n : n + 16] for name, each in batch.items()} for n in range(0, 160, 16)]


def tagged(rare: bool) -> Any:
    batches = texts(lambda ids: ids > 0)
    for batch in batches:
        batch["input_ids"][:, 0] = 1
        tags = torch.where(torch.rand(16, 24) < 0.2, 3, 0)
        tags[:, 5], tags[:, 0] = 2, torch.arange(16) % 4 if rare else 0
        batch["labels"] = tags.masked_fill(batch["attention_mask"] == 0, -100)
    return batches


def hidden() -> Any:
    """Masked tokens of a small vocabulary, whose labels are the tokens themselves."""
    batches = texts(lambda ids: ids > 0)
    for batch in batches:
        ids = torch.randint(4, 24, (16, 24))
        ids[:, 0] = 1
        ids *= batch["attention_mask"]
        batch["labels"] = ids.masked_fill(batch["attention_mask"] == 0, -100)
        batch["input_ids"] = ids.masked_fill((torch.rand(16, 24) < 0.12) & (ids > 3), 3)
    return batches


def model(outputs: int) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, outputs))


def regression(squeeze: bool) -> Any:
    head = model(1) if not squeeze else torch.nn.Sequential(model(1), torch.nn.Flatten(0))
    rows = data.TensorDataset(torch.randn(200, 6), torch.randn(200))
    return head, data.DataLoader(rows, batch_size=16), torch.nn.MSELoss()


def classifier(outputs: int) -> Any:
    rows = data.TensorDataset(torch.randn(200, 6), CLASSES)
    return model(outputs), data.DataLoader(rows, batch_size=16), torch.nn.CrossEntropyLoss()


def values(name: str, change: Callable[[Any], Any], shape: tuple[int, ...] = (200, 12, 3)) -> Any:
    x = change(torch.randn(shape, generator=seeded()))
    return data.DataLoader(Rows(shape[0], lambda n: {name: x[n], "y": float(n % 7)}), batch_size=16)


def with_code(x: Any) -> Any:
    return torch.where(torch.rand(x.shape, generator=seeded(1)) < 0.02, -999.0, x)


def with_nan(x: Any) -> Any:
    x[150, 2, 1] = float("nan")
    return x


def views(same: bool) -> Any:
    def row(number: int) -> Any:
        one, two = (augmented(number)[0] for _ in range(2))
        return [one, one if same else two], int(CLASSES[number])

    return data.DataLoader(Rows(100, row), batch_size=16)


def weighted(weights: int) -> Any:
    sampler = data.WeightedRandomSampler(torch.ones(weights), 200)
    return data.DataLoader(table(), batch_size=16, sampler=sampler)


def maps(turned: bool) -> Any:
    found = torch.zeros(60, 16, 24, dtype=torch.long)
    found[:, 4:9, 3:12] = 1
    each = found.mT if turned else found
    return data.DataLoader(data.TensorDataset(torch.rand(60, 3, 16, 24), each), batch_size=8)


def resized(mode: str) -> Any:
    drawn = torch.zeros(60, 1, 40, 40)
    for number, each in enumerate(drawn):
        for block in range(4):
            at = (number * 7 + block * 9) % 26
            each[:, at : at + 12, (at * 3) % 26 :][..., :12] = (1.0, 2.0, 4.0, 6.0)[block]
    made = torch.nn.functional.interpolate(drawn, size=(56, 56), mode=mode)[:, 0].long()
    return data.DataLoader(data.TensorDataset(torch.rand(60, 3, 56, 56), made), batch_size=8)


def joined(restart: bool) -> Any:
    lengths = [5, 9, 7]
    positions = torch.cat([torch.arange(n) for n in lengths]) if restart else torch.arange(21)
    ids = torch.randint(5, 90, (40, 1, 21), generator=seeded())
    return [{"input_ids": each, "labels": each, "position_ids": positions[None],
             "seq_lengths": torch.tensor(lengths)} for each in ids]  # fmt: skip


def streamed(once: bool) -> Any:
    return data.DataLoader(Stream(once), batch_size=16)


def translations(start: int = 9, fill: int = -100, stop: int = 1, copied: bool = False) -> Any:
    """A small T5 with its batches: labels that begin, end and are padded so."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=500, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2,
                      decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)  # fmt: skip
    batches = texts(lambda ids: ids > 0)
    for number, batch in enumerate(batches):
        labels = batch["input_ids"][:, :12].flip(0).clamp(min=9)
        labels[:, 0] = start
        for row, each in enumerate(labels):
            end = 4 + (row + number) % 7
            each[end], each[end + 1 :] = stop, fill
        batch["labels"] = labels
        if copied:
            batch["decoder_input_ids"] = labels.clamp(min=0)
    return {"model": T5ForConditionalGeneration(config), "train": batches}


def encoder(positions: int, ignored: int = -100) -> Any:
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(vocab_size=500, hidden_size=8, num_hidden_layers=1, num_labels=4,
                        num_attention_heads=2, intermediate_size=8,
                        max_position_embeddings=positions)  # fmt: skip
    batches = tagged(False)
    for batch in batches:
        batch["labels"] = batch["labels"].where(batch["labels"] >= 0, ignored)
    return {"model": BertForTokenClassification(config), "train": batches}


def divided(ends: list[int]) -> Any:
    return [{**each, "cu_seqlens": torch.tensor(ends)} for each in joined(True)]


CASES: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("DAT024", partial(windows, 23), partial(windows, 24)),
    ("DAT024", partial(windows, 23), partial(windows, 12, 24)),  # Informer's labels overlap
    ("DAT024", leaking, table),
    ("DAT024", partial(histories, True), partial(histories, False)),
    ("DAT024", partial(views, True), partial(views, False)),
    ("DAT025", lambda: data.random_split(windows(24), [700, 200], generator=seeded()),
     lambda: [data.Subset(windows(24), range(700)), data.Subset(windows(24), range(724, 900))]),
    ("DAT025", lambda: (table(), table(50.0, 120)), lambda: (table(), table(1.0, 120))),
    ("DAT025", lambda: (images(lambda x: (x - MEAN) / 0.2), images(first=100)),
     lambda: (images(lambda x: x * 0.9), images(first=100))),
    ("DAT025", lambda: (images(), images(lambda x: x.permute(1, 2, 0), 100)),
     lambda: (images(), images(first=100))),
    ("DAT025", lambda: [data.Subset(data.TensorDataset(IMAGES, CLASSES.sort().values), each)
                        for each in (range(150), range(150, 200))],
     lambda: [data.Subset(data.TensorDataset(IMAGES, CLASSES), each)
              for each in (range(150), range(150, 200))]),
    ("DAT025", lambda: data.random_split(Rows(200, augmented), [150, 50], generator=seeded()),
     lambda: (Rows(100, augmented), images(first=100))),
    ("DAT007", partial(parts, 150), partial(parts, 120)),
    ("DAT007", partial(oversampled, False), partial(oversampled, True)),
    ("DAT025", partial(prices, 9.0, 900.0), partial(prices, 900.0, 9.0)),
    ("DAT025", partial(prices, 9.0, 900.0), partial(prices, 9.0, 9.0, mean=900.0)),
    ("DAT023", partial(streamed, True), partial(streamed, False)),
    ("DAT023", lambda: Rows(100, partial(seeded_row, seed=3)), lambda: Rows(100, seeded_row)),
    ("DAT022", partial(weighted, 5), partial(weighted, 200)),
    ("DAT022", lambda: frames(lambda used, width: [width] * len(used)),
     lambda: frames(lambda used, width: used)),
    ("DAT022", lambda: frames(lambda used, width: [160 * n for n in used]),
     lambda: frames(lambda used, width: [n // 4 for n in used])),
    ("DAT022", partial(paired, True), partial(paired, False)),
    ("DAT022", lambda: texts(lambda ids: ids == 0), lambda: texts(lambda ids: ids > 0)),
    ("DAT022", lambda: texts(lambda ids: ids > 0, start_positions=lambda n: n + 3,
                             end_positions=lambda n: n + 4),
     lambda: texts(lambda ids: ids > 0, start_positions=lambda n: n - 3,
                   end_positions=lambda n: n - 2)),
    ("DAT022", partial(tagged, True), partial(tagged, False)),
    ("DAT022", partial(tagged, True), hidden),
    ("DAT022", partial(regression, False), partial(regression, True)),
    ("DAT022", partial(classifier, 4), partial(classifier, 5)),
    ("DAT022", lambda: values("x", with_code), lambda: values("x", lambda x: x * 100)),
    ("DAT022", lambda: values("x", with_nan), lambda: values("x", lambda x: x)),
    ("DAT022", lambda: values("sound", lambda x: (900 * x).round(), (60, 4000)),
     lambda: values("counts", lambda x: (900 * x).abs().round(), (60, 4000))),
    ("DAT022", partial(maps, True), partial(maps, False)),
    ("DAT022", partial(translations, start=0), translations),
    ("DAT022", partial(translations, fill=0), translations),
    ("DAT022", partial(translations, stop=8), translations),
    ("DAT024", partial(translations, copied=True), translations),
    ("DAT022", partial(encoder, 20), partial(encoder, 24)),
    ("DAT022", partial(encoder, 24, -1), partial(encoder, 24)),
    ("DAT022", partial(divided, [5, 14, 21]), partial(divided, [0, 5, 14, 21])),
    ("DAT020", partial(resized, "bilinear"), partial(resized, "nearest")),
    ("DAT015", partial(joined, False), partial(joined, True)),
]  # fmt: skip


def target_of(made: Any) -> Any:
    """As a factory returns it: datasets get loaders."""
    if isinstance(made, (tuple, list)) and len(made) == 2 and isinstance(made[0], data.Dataset):
        return loaders(*made)
    return (
        data.DataLoader(made, batch_size=16, shuffle=True)
        if isinstance(made, data.Dataset)
        else made
    )


@pytest.mark.parametrize(("code", "faulty", "sound"), CASES, ids=range(len(CASES)))
def test_a_fault_is_named_and_its_neighbour_is_not(
    code: str, faulty: Any, sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdicts(target_of(faulty()), monkeypatch)[code].status in LOUD
    quiet = verdicts(target_of(sound()), monkeypatch)
    assert quiet[code].status not in LOUD, quiet[code].summary
