"""Targets whose fault a step on the batch shows, or the order and the joints of rows, with a sound
neighbour of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import (  # noqa: E402
    file_order,
    languages,
    merges,
    returned,
    stated,
    targets,
)

data = torch.utils.data
functional = torch.nn.functional
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


class Rows(data.Dataset):  # type: ignore[misc]
    def __init__(self, size: int, row: Callable[[int], Any]) -> None:
        self.size, self.row = size, row

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> Any:
        return self.row(number)


def loader(rows: Any, **options: Any) -> Any:
    return data.DataLoader(rows, **{"batch_size": 16, **options})


class Factors(torch.nn.Module):
    """Users and items; `offset` as click models have one table for both."""

    def __init__(self, users: int, items: int, *, offset: bool = False) -> None:
        super().__init__()
        self.offset = users if offset else 0
        self.user = torch.nn.Embedding(users + (items if offset else 0), 4)
        self.item = self.user if offset else torch.nn.Embedding(items, 4)

    def forward(self, user: Any, item: Any, rating: Any) -> Any:
        score = (self.user(user) * self.item(item + self.offset)).sum(-1)
        return functional.mse_loss(score, rating)


def ratings(first: int, offset: bool = False, rare: bool = False) -> Any:
    """Users and items from `first` on; with `rare`, the last ones are in the last row alone."""
    user = torch.randint(0, 49, (600,), generator=seeded())
    item = torch.randint(0, 29, (600,), generator=seeded(1))
    at = -1 if rare else 0
    user[at], item[at] = 49, 29
    rows = data.TensorDataset(user + first, item + first, torch.rand(600, generator=seeded(2)))
    return Factors(50, 30, offset=offset), loader(rows)


class Items(torch.nn.Module):
    """Predicts the next item; padding is left out by `ignored`, by a mask, or not at all."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.table = way, torch.nn.Embedding(60, 8)

    def forward(self, input_ids: Any, labels: Any) -> Any:
        logits = (self.table(input_ids) @ self.table.weight.T).flatten(0, 1)
        target = labels.flatten()
        if self.way == "ignored":
            return functional.cross_entropy(logits, target, ignore_index=0)
        each = functional.cross_entropy(logits, target, reduction="none")
        return (each * (target > 0)).mean() if self.way == "mask" else each.mean()


def histories(way: str) -> Any:
    ids = torch.randint(1, 60, (160, 21), generator=seeded())
    used = torch.randint(4, 21, (160,), generator=seeded(1))
    ids[torch.arange(21) < 21 - used[:, None]] = 0
    rows = Rows(160, lambda n: {"input_ids": ids[n, :-1], "labels": ids[n, 1:]})
    return Items(way), loader(rows)


class Speech(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out, self.loss = torch.nn.Linear(4, 12), torch.nn.CTCLoss(zero_infinity=True)

    def forward(self, sound: Any, letters: Any, frames: Any, counts: Any) -> Any:
        return self.loss(self.out(sound).log_softmax(-1).transpose(0, 1), letters, frames, counts)


def spoken(first: int, module: bool = True) -> Any:
    """Letters from `first` on, one text behind the other."""
    counts = torch.full((8,), 6)
    batches = []
    for number in range(8):
        letters = torch.randint(first, 11, (48,), generator=seeded(number))
        batches.append((torch.rand(8, 20, 4), letters, torch.full((8,), 20), counts))
    names = ("features", "targets", "input_lengths", "target_lengths")
    if not module:
        return {"train": [dict(zip(names, each, strict=True)) for each in batches],
                "loss": torch.nn.CTCLoss()}  # fmt: skip
    return Speech(), batches


class Segmenter(torch.nn.Module):
    def __init__(self, binary: bool) -> None:
        super().__init__()
        self.binary, self.out = binary, torch.nn.Conv2d(3, 1 if binary else 2, 1)

    def forward(self, image: Any, mask: Any) -> Any:
        made = self.out(image)
        if self.binary:
            return functional.binary_cross_entropy_with_logits(made[:, 0], mask.float())
        return functional.cross_entropy(made, mask)


def masks(high: int, kind: Any = torch.long) -> Any:
    found = torch.zeros(64, 12, 12, dtype=torch.long)
    for number, each in enumerate(found):
        each[number % 5 : number % 5 + 6, 2:8] = 1
    return Rows(64, lambda n: {"image": torch.rand(3, 12, 12), "mask": (found[n] * high).to(kind)})


def molecules(moved: bool, named: bool = True) -> Any:
    def collate(rows: Any) -> Any:
        starts = torch.tensor([0, *[len(x) for x, _ in rows]]).cumsum(0).tolist()
        edges = [e + (start if moved else 0) for (_, e), start in zip(rows, starts, strict=False)]
        owners = torch.cat([torch.full((len(x),), n) for n, (x, _) in enumerate(rows)])
        parts = (
            torch.cat([x for x, _ in rows]),
            torch.cat(edges, 1),
            owners,
            torch.rand(len(rows)),
        )
        if not named:
            return parts
        return dict(zip(("x", "edge_index", "batch", "y"), parts, strict=True))

    def row(number: int) -> Any:
        count = 6 + number % 5
        return torch.rand(count, 4), torch.stack([torch.arange(count - 1), torch.arange(1, count)])

    return loader(Rows(96, row), collate_fn=collate)


def links(known: bool) -> Any:
    """A graph of train, and one of eval whose links are asked for."""
    edges = torch.randint(0, 40, (2, 120), generator=seeded())
    asked = edges[:, :40] if known else torch.arange(80).reshape(2, 40) % 40 + 40
    graph = {"x": torch.rand(90, 4), "edge_index": edges}
    train = {**graph, "edge_label_index": edges[:, :40], "edge_label": torch.ones(40)}
    return [train], [{**train, "edge_label_index": asked}]


def cars(swapped: bool, square: bool = False) -> Any:
    height, width = (64, 64) if square else (32, 96)

    def row(number: int) -> Any:
        x, y = (number * 7) % 70 * width / 96, (number * 5) % 20 * height / 32
        sides = (height, width) if swapped else (width, height)
        box = [(x + 10) / sides[0], (y + 5) / sides[1], 20 / sides[0], 10 / sides[1]]
        return torch.rand(3, height, width), torch.tensor([[float(number % 3), *box]])

    return loader(Rows(96, row), batch_size=1)


def headlines(copied: bool) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=500, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2,
                      decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)  # fmt: skip
    ids = torch.randint(9, 500, (96, 24), generator=seeded())
    ids[:, -1] = 1
    labels = ids if copied else torch.cat([ids[:, 4:15].flip(1), ids[:, -1:]], 1)
    rows = Rows(96, lambda n: {"input_ids": ids[n], "attention_mask": torch.ones(24).long(),
                               "labels": labels[n]})  # fmt: skip
    return {"model": T5ForConditionalGeneration(config), "train": loader(rows)}


def episodes(way: str, length: Callable[[int], int] = lambda n: 12 + 5 * (n % 6)) -> Any:
    """Episodes one behind the other: their ends are marked, nowhere, or a row late."""
    rows: list[Any] = []
    for number in range(40):
        states = torch.rand(length(number) + 1, 3, generator=seeded(number))
        count = len(states) - 1
        flags = [float(n == count - 1 and way == "marked") for n in range(count)]
        flags[0] = float(way == "late" and number > 0)
        rows += [(states[n], n % 2, 1.0, states[n + 1], flags[n]) for n in range(count)]
    names = ("obs", "action", "reward", "next_obs", "done")
    return loader(Rows(len(rows), lambda n: dict(zip(names, rows[n], strict=True))), shuffle=True)


def scenes() -> tuple[Any, Any]:
    """Images with some areas on a ground, and their label maps."""
    images = torch.rand(60, 3, 40, 40, generator=seeded()) * 0.2
    areas = torch.zeros(60, 40, 40, dtype=torch.long)
    for number in range(60):
        for kind in (1, 2):
            row, column = (number * 5 * kind) % 24, (number * 11 + 7 * kind) % 24
            images[number, :, row : row + 12, column : column + 12] += 0.3 * kind
            areas[number, row : row + 12, column : column + 12] = kind
    return images.clamp(0, 1), areas


IMAGES, AREAS = scenes()
MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
SPREAD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]


def drawn(way: str) -> Any:
    """Images that are cut out or turned anew for each row, with or without their label map."""

    def row(number: int) -> Any:
        image, area = IMAGES[number], AREAS[number]
        if way == "turned":
            return image.rot90(int(torch.randint(4, ())), (1, 2)), area
        if way == "brighter":
            return image * (0.7 + 0.5 * torch.rand(())), area
        at, aside = torch.randint(0, 12, (2,)).tolist()
        part = area[at : at + 28, aside : aside + 28] if way == "both" else area[6:34, 6:34]
        return image[:, at : at + 28, aside : aside + 28], part

    return loader(Rows(60, row))


def normalized(times: int, unit: float = 1.0) -> Any:
    """Bytes that were divided by 255, and normalized so often."""
    made = (IMAGES[:, :, ::2, ::2] * 255).round() / 255
    for _ in range(times):
        made = (made - MEAN * unit) / (SPREAD * unit)
    return loader(data.TensorDataset(made, torch.arange(60) % 3))


def table(way: str) -> Any:
    x = torch.randn(400, 7, generator=seeded())
    y = torch.rand(400, generator=seeded(1)) * 900 + 100
    if way == "parts":
        x[:, 2], x[:, 5] = 0.3 * y + 20 * x[:, 6], 0.7 * y - 20 * x[:, 6]
    if way == "logarithm":
        x[:, 4] = y.log()
    if way == "toy":
        y = x @ torch.arange(1.0, 8.0)
    return loader(data.TensorDataset(x, y))


def noisy(once: bool) -> Any:
    def collate(rows: Any) -> Any:
        x = torch.stack(rows)
        noise = torch.randn(1 if once else len(x), *x.shape[1:]).expand(x.shape).contiguous()
        return {"x": x, "noise": noise, "t": torch.randint(0, 1000, (len(x),))}

    return loader(Rows(60, lambda n: IMAGES[n]), collate_fn=collate)


SERIES = torch.sin(torch.arange(2500.0) / 9) + 0.3 * torch.randn(2500, generator=seeded(3))
TIMES = torch.arange(2500.0) * 3600


def forecast(first: int, back: bool = False) -> Any:
    values, times = (e.flip(0) if back else e for e in (SERIES, TIMES))
    return Rows(300, lambda n: {"x": values[first + n : first + n + 24, None],
                                "y": values[first + n + 24],
                                "timestamp": times[first + n : first + n + 24]})  # fmt: skip


class Batches(Rows):
    """Rows whose length counts batches, as in another library."""

    def __init__(self, size: int) -> None:
        super().__init__(size, lambda n: (IMAGES[n], n % 3))
        self.images = list(IMAGES)


def tags(fill: int) -> Any:
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(vocab_size=90, hidden_size=8, num_hidden_layers=1, num_labels=4,
                        num_attention_heads=2, intermediate_size=8)  # fmt: skip
    ids = torch.randint(5, 90, (96, 20), generator=seeded())
    mask = (torch.arange(20) < torch.randint(5, 20, (96,), generator=seeded(1))[:, None]).long()
    labels = torch.randint(0, 4, (96, 20), generator=seeded(2)).masked_fill(mask == 0, fill)
    rows = {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}
    each = Rows(96, lambda n: {name: value[n] for name, value in rows.items()})
    return BertForTokenClassification(config), None, loader(each)


class Clicks(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, padding: int | None) -> None:
        super().__init__()
        self.items = torch.nn.Embedding(50, 8, padding_idx=padding)

    def forward(self, items: Any) -> Any:
        return self.items(items).mean(1) @ self.items.weight.T


def clicks(first: int, padding: int | None) -> Any:
    """The next item after a history, numbered from `first`."""
    items = torch.randint(first, 50, (400, 9), generator=seeded())
    rows = data.TensorDataset(items[:, :8], items[:, 8])
    return Clicks(padding), loader(rows), torch.nn.CrossEntropyLoss()


CASES: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
    ("DAT022", partial(ratings, 1), partial(ratings, 0)),
    ("DAT022", partial(ratings, 1, offset=True), partial(ratings, 0, offset=True)),
    ("DAT022", partial(ratings, 1, rare=True), partial(ratings, 0, rare=True)),
    ("DAT005", partial(histories, "all"), partial(histories, "ignored")),
    ("DAT005", partial(histories, "all"), partial(histories, "mask")),
    ("DAT022", partial(spoken, 0), partial(spoken, 1)),
    ("DAT022", partial(spoken, 0, module=False), partial(spoken, 1, module=False)),
    ("DAT022", lambda: (Segmenter(False), loader(masks(255))),
     lambda: (Segmenter(False), loader(masks(1)))),
    ("DAT022", lambda: (Segmenter(True), loader(masks(255))),
     lambda: (Segmenter(True), loader(masks(1)))),
    ("DAT020", lambda: loader(masks(255)), lambda: loader(masks(1))),
    ("DAT020", lambda: loader(masks(255)), lambda: loader(masks(255, torch.uint8))),
    ("DAT022", partial(molecules, False), partial(molecules, True)),
    ("DAT022", partial(molecules, False, named=False), partial(molecules, True, named=False)),
    ("DAT024", partial(links, True), partial(links, False)),
    ("DAT022", partial(cars, True), partial(cars, False)),
    ("DAT022", partial(cars, True), partial(cars, False, square=True)),
    ("DAT022", partial(drawn, "image alone"), partial(drawn, "both")),
    ("DAT022", partial(drawn, "turned"), partial(drawn, "brighter")),
    ("DAT010", partial(normalized, 2), partial(normalized, 1)),
    ("DAT010", partial(normalized, 1, 255.0), partial(normalized, 0)),
    ("DAT022", partial(table, "parts"), partial(table, "toy")),
    ("DAT022", partial(table, "logarithm"), partial(table, "")),
    ("DAT022", partial(noisy, True), partial(noisy, False)),
    ("DAT022", lambda: loader(forecast(0, back=True)), lambda: loader(forecast(0))),
    ("DAT025", lambda: (loader(forecast(1500)), loader(forecast(100))),
     lambda: (loader(forecast(100)), loader(forecast(1500)))),
    ("DAT022", lambda: loader(Batches(15), batch_size=4), lambda: loader(Batches(60))),
    ("DAT005", partial(tags, 0), partial(tags, -100)),
    ("DAT022", partial(clicks, 0, 0), partial(clicks, 1, 0)),
    ("DAT022", partial(clicks, 0, 0), partial(clicks, 0, None)),
    ("DAT024", partial(headlines, True), partial(headlines, False)),
    ("DAT022", partial(episodes, "nowhere"), partial(episodes, "marked")),
    ("DAT022", partial(episodes, "late"), partial(episodes, "marked")),
    # episodes of one length may have been ended by a limit of time
    ("DAT022", partial(episodes, "nowhere"), partial(episodes, "nowhere", lambda n: 20)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "faulty", "sound"), CASES, ids=range(len(CASES)))
def test_a_fault_is_named_and_its_neighbour_is_not(
    code: str, faulty: Any, sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdicts(faulty(), monkeypatch)[code].status in LOUD
    quiet = verdicts(sound(), monkeypatch)
    assert quiet[code].status not in LOUD, quiet[code].summary


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("loss = CrossEntropyLoss(ignore_index=0)", stated.Stated({0}, False, None)),
        ("PAD = 3\nloss = f(x, y, ignore_index=PAD)", stated.Stated({3}, False, None)),
        ("loss = f(x, y, ignore_index=tokenizer.pad_token_id)", stated.Stated(set(), True, None)),
        ("loss = nn.CTCLoss()", stated.Stated(set(), False, 0)),
        ("loss = nn.CTCLoss(blank=28)", stated.Stated(set(), False, 28)),
        ("loss = nn.CTCLoss(blank=len(letters))", stated.Stated(set(), False, None)),
        ("not Python :", stated.Stated()),
    ],
)
def test_the_source_states_what_its_losses_ignore(code: str, expected: Any) -> None:
    assert stated.of_code(code) == expected


def test_numbered_files_in_the_order_of_their_names() -> None:
    names = [f"/data/part_{n}.csv" for n in range(1, 13)]
    assert file_order.misordered(sorted(names)) == sorted(names)
    assert file_order.misordered(names) == []
    assert file_order.misordered([f"/data/part_{n:02d}.csv" for n in range(12)]) == []


def test_languages_are_exchanged_in_some_rows() -> None:
    english = [f"the house of the {n} is old and the door is open" for n in "abcdefgh" * 8]
    german = [f"das Haus von {n} ist alt und die Tür ist offen" for n in "abcdefgh" * 8]
    mixed = [(g, e) if n % 9 == 0 else (e, g) for n, (e, g) in enumerate(zip(english, german))]  # noqa: B905
    ones, others = ([each[side] for each in mixed] for side in (0, 1))
    (found,) = languages.of_fields({"en": ones, "de": others})
    assert found["kind"] == "languages exchanged"
    assert found["part"] == 8
    assert languages.of_fields({"en": english, "de": german}) == []
    assert languages.of_fields({"prompt": ones, "code": others}) == []
    copied = [e if n % 4 == 0 else g for n, (e, g) in enumerate(zip(english, german))]  # noqa: B905
    assert languages.of_fields({"en": english, "de": copied})[0]["kind"] == "text not translated"


def test_joins_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    inner = __import__("pandas.core.reshape.merge", fromlist=["merge"])
    for owner, name in ((inner, "merge"), (pandas, "merge"), (pandas, "concat")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back afterwards
    watched = merges.watch()
    assert watched is not None
    orders = pandas.DataFrame({"customer": [n % 40 for n in range(120)], "price": range(120)})
    several = pandas.DataFrame({"customer": [n % 40 for n in range(80)], "city": range(80)})
    orders.merge(several, on="customer", how="left")
    orders.merge(several.drop_duplicates("customer"), on="customer", how="left")
    several[:40].merge(orders, on="customer", how="left")  # from one to many, as it is meant
    orders.merge(several.assign(customer=lambda t: t.customer + 900), on="customer", how="left")
    half = orders[orders.price % 2 == 0]
    pandas.concat([half, orders[:60]], axis=1)
    pandas.concat([half.reset_index(drop=True), orders[:60]], axis=1)
    source = targets.Source("train", "loader", None, 240)
    kinds = [each["kind"] for each in watched.records([source])]
    assert kinds == ["merge multiplies", "merge without partners", "columns beside others"]
    small = targets.Source("train", "loader", None, 120)  # of which it takes one row for each order
    assert "merge multiplies" not in [each["kind"] for each in watched.records([small])]


NET, LOSS = torch.nn.Linear(6, 2), torch.nn.CrossEntropyLoss()
TABLE = data.TensorDataset(torch.randn(64, 6), torch.arange(64) % 2)
OPTIMIZER = torch.optim.SGD(NET.parameters(), 0.1)
ONE, TWO = loader(TABLE), loader(TABLE)


@pytest.mark.parametrize(
    ("value", "splits", "module", "criterion"),
    [
        ((NET, LOSS, ONE), 1, NET, LOSS),
        ((NET, ONE, LOSS), 1, NET, LOSS),
        ((ONE, NET), 1, NET, None),
        ((NET, None, ONE), 1, NET, None),
        (
            (NET, (ONE, TWO), LOSS, torch.optim.SGD(NET.parameters(), 0.1), {"lr": 0.1}),
            2,
            NET,
            LOSS,
        ),
        (({"train": ONE, "val": TWO}, NET, LOSS), 2, NET, LOSS),
        ((ONE, TWO), 2, None, None),
        ((ONE, TWO, ONE), 2, None, None),
        ((LOSS, ONE), 1, None, LOSS),
        ({"net": NET, "trainloader": ONE, "testloader": TWO, "criterion": LOSS}, 2, NET, LOSS),
        ({"model": NET, "loaders": {"train": ONE, "valid": TWO}}, 2, NET, None),
        ({"first": ONE}, 1, None, None),
        (SimpleNamespace(model=NET, train_dl=ONE, loss_fn=LOSS), 1, NET, LOSS),
    ],
    ids=range(13),
)
def test_what_a_factory_returns_is_read_in_any_order(
    value: Any, splits: int, module: Any, criterion: Any
) -> None:
    opened = returned.read(value)
    assert len(opened.sources) == splits
    assert opened.module is module
    assert opened.criterion is criterion
    assert (opened.loss is None) is (module is None)


def test_what_holds_no_data_is_refused() -> None:
    for value in (NET, (NET,), {"lr": 0.1}, (NET, LOSS)):
        with pytest.raises(targets.NotData):
            returned.read(value)
