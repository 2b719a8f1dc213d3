"""What a loss makes of tokens, of padding and of answers, and how texts end, with a sound neighbour
of each."""

from __future__ import annotations

import math
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import (  # noqa: E402
    attended,
    columns,
    cut_ends,
    documents,
    epoch_orders,
    left_borders,
    markers_held,
    pairs,
    places,
    row_ends,
    split_look,
    templates,
    vocabulary,
)
from doctor.probes.training_side.data.facets import other_kinds  # noqa: E402

data = torch.utils.data
functional = torch.nn.functional
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)
WORDS, LENGTH = 60, 20


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


class Decoder(torch.nn.Module):
    """One that sees `ahead` later tokens, all of them if that is None."""

    def __init__(self, ahead: int | None = 0) -> None:
        super().__init__()
        self.words, self.out = torch.nn.Embedding(WORDS, 16), torch.nn.Linear(16, WORDS)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.ahead = ahead

    def forward(self, ids: Any) -> Any:
        size = ids.shape[1]
        sees = torch.ones(size, size).tril(size if self.ahead is None else self.ahead).bool()
        return self.out(self.layer(self.words(ids), src_mask=~sees))


def plain(model: Any, batch: Any) -> Any:
    return functional.cross_entropy(model(batch["ids"]).flatten(0, 1), batch["ids"].flatten())


def shifted(model: Any, batch: Any) -> Any:
    made = model(batch["ids"][:, :-1])
    return functional.cross_entropy(made.transpose(1, 2), batch["ids"][:, 1:])


@pytest.mark.parametrize(
    ("loss", "ahead", "code", "status"),
    [
        (plain, 0, "DAT006", Status.FAIL),
        (shifted, 0, "DAT006", Status.PASS),
        (shifted, 1, "DAT015", Status.FAIL),
        (shifted, None, "DAT015", Status.FAIL),
        (plain, None, "DAT015", Status.SKIP),  # an autoencoder
    ],
)
def test_labels_that_a_loss_makes_itself(
    loss: Any, ahead: int | None, code: str, status: Status, monkeypatch: Any
) -> None:
    ids = torch.randint(0, WORDS, (96, LENGTH), generator=seeded())
    loader = data.DataLoader([{"ids": each} for each in ids], batch_size=8)
    made = {"model": Decoder(ahead), "loss": loss, "train": loader}
    found = verdicts(made, monkeypatch)
    assert found[code].status is status
    other = "DAT006" if code == "DAT015" else "DAT015"
    assert found[other].status is not Status.FAIL


class Steps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.out = torch.nn.GRU(2, 8, batch_first=True), torch.nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x)[0])


def of_padding(way: str, monkeypatch: Any) -> dict[str, Any]:
    """Series that are padded by 0; `way` tells how the loss leaves that out."""
    sizes = torch.randint(5, 30, (96,), generator=seeded(1)).tolist()
    rows = [torch.randn(size, 2, generator=seeded(size)) for size in sizes]
    filler = -999.0 if way == "value" else 0.0

    def collate(some: list[Any]) -> Any:
        pad = torch.nn.utils.rnn.pad_sequence
        return {
            "x": pad(some, batch_first=True),
            "y": pad([each.cumsum(0)[:, :1] for each in some], True, filler),
            "lengths": torch.tensor([len(each) for each in some]),
        }

    def loss(model: Any, batch: Any) -> Any:
        made, wanted = model(batch["x"]), batch["y"]
        kept = torch.arange(made.shape[1])[None] < batch["lengths"][:, None]
        kept = wanted[..., 0] > -900 if way == "value" else kept if way == "mask" else kept | True
        return functional.mse_loss(made[kept], wanted[kept])

    loader = data.DataLoader(rows, batch_size=12, collate_fn=collate)
    return verdicts({"model": Steps(), "loss": loss, "train": loader}, monkeypatch)


@pytest.mark.parametrize(("way", "loud"), [("nothing", True), ("mask", False), ("value", False)])
def test_padding_that_a_loss_of_numbers_counts(way: str, loud: bool, monkeypatch: Any) -> None:
    found = of_padding(way, monkeypatch)
    assert (found["DAT005"].status in LOUD) is loud
    assert found["DAT022"].status not in LOUD  # the code pads, and stands for no measurement


@pytest.mark.parametrize(
    ("ends", "longest", "found"),
    [("many", 12, 20), ("stop", 12, 0), ("many", 5, 0)],
)
def test_targets_that_are_cut(ends: str, longest: int, found: int) -> None:
    sizes = [longest] * 20 + [longest - 1] * 30
    last = [100 + n if ends == "many" else 7 for n in range(20)] + [7] * 30
    assert len(cut_ends.cut(sizes, last)) == found


@pytest.mark.parametrize(("ends", "found"), [(range(100, 140), 40), ([9] * 40, 0)])
def test_targets_of_one_length(ends: Any, found: int) -> None:
    texts = [[1] * 11 + [end] for end in ends]
    assert len(cut_ends.of_one_length([12] * 40, texts)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Turn it off. Then wait for ten minutes and look whether the light goes on again", True),
        ("Turn it off. Then wait for ten minutes and look whether the light goes on.", False),
        ("10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", False),
    ],
)
def test_texts_of_one_number_of_words(text: str, found: bool) -> None:
    made = columns.Columns()
    for number in range(40):
        some = str(number) * (1 + number % 7)  # of several lengths in characters
        made.add({"instruction": "q", "output": text.replace("ten", some).replace("10", some)})
    assert bool(made.cuts()) is found


def rows_of(*each: list[int]) -> list[documents.Document]:
    none = torch.zeros(0, dtype=torch.long)
    return [
        documents.Document(n, torch.tensor(ids), torch.tensor(ids), none)
        for n, ids in enumerate(each)
    ]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (([5, 6, 7], [5, 6, 7, 8]), 2),
        (([5, 6, 7], [8, 6, 7]), 0),  # of one length: they may begin within a text
        (([1, 5, 6], [5, 6, 7, 8]), 0),
    ],
)
def test_documents_without_a_beginning(texts: Any, found: int) -> None:
    def tokenizer(text: str) -> Any:
        return {"input_ids": [1, len(text)]}

    assert row_ends.lacking(rows_of(*texts), 1, tokenizer) == found
    assert row_ends.lacking(rows_of(*texts), 2, tokenizer) == 0


@pytest.mark.parametrize(
    ("trained", "stated", "otherwise"), [(True, 1, False), (False, 1, True), (True, None, True)]
)
def test_models_of_ones_own_know_no_beginning(
    trained: bool, stated: int | None, otherwise: bool
) -> None:
    module = torch.nn.Sequential(torch.nn.LayerNorm(4))
    if trained:
        torch.nn.init.normal_(module[0].weight)
    module.config = SimpleNamespace(bos_token_id=stated)
    look = SimpleNamespace(module=module, vocabulary=vocabulary.Vocabulary(bos=1))
    assert split_look.SplitLook._begins_otherwise(look) is otherwise  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("template", "found"),
    [("{% for m in messages %}{{ m }}{% endfor %}", True), ("{%- generation %}", False), ("", 0)],
)
def test_templates_that_do_not_tell_answers(template: str, found: bool) -> None:
    known = vocabulary.Vocabulary(tokenizer=SimpleNamespace(chat_template=template))
    assert bool(markers_held.unmarked(rows_of([1, 2]), known)) is bool(found)


class Shares(data.Sampler):  # type: ignore[misc,unused-ignore]
    def __init__(self, way: str) -> None:
        self.way, self.epoch = way, 3

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 64

    def __iter__(self) -> Any:
        if self.way == "in turn":
            return iter(range(64))
        if self.way == "curriculum":
            return iter(sorted(range(64), key=lambda row: row * 37 % 64))
        seed = self.epoch if self.way == "epoch" else 0
        return iter(torch.randperm(64, generator=seeded(seed)).tolist())


@pytest.mark.parametrize(
    ("way", "found"),
    [("seed", True), ("epoch", False), ("in turn", False), ("curriculum", False)],
)
def test_samplers_that_are_told_of_epochs(way: str, found: bool) -> None:
    sampler = Shares(way)
    loader = data.DataLoader(torch.arange(64), sampler=sampler)
    made = epoch_orders.of_source(SimpleNamespace(items=loader, kind="loader"))
    assert (made is not None) is found
    assert sampler.epoch == 3


@pytest.mark.parametrize(("early", "found"), [(True, True), (False, False)])
def test_borders_within_padding_on_the_left(early: bool, found: bool) -> None:
    looked, draw, width = left_borders.LeftBorders(), random.Random(0), 30
    ids = torch.zeros(24, width, dtype=torch.long)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for number in range(24):
        padding, prompt = number % 6, draw.randrange(9, 14)
        text = [draw.randrange(10, 90) for _ in range(width - padding)]
        text[prompt - 1] = 5
        ids[number, padding:], mask[number, padding:] = torch.tensor(text), 1
        begins = prompt + (0 if early else padding)
        labels[number, begins:] = ids[number, begins:]
    looked.add(documents.Tokens(ids, labels, mask, {}), 0)
    assert bool(looked.records()) is found


def test_a_mask_that_ends_with_the_text_is_no_padding() -> None:
    mask = torch.ones(6, 12, dtype=torch.long)
    for number, row in enumerate(mask):
        row[: number + 1] = 0
    assert attended.padding_of(mask, mask == 0) is None
    ids = mask.flip(1) * torch.randint(2, 9, (6, 12), generator=seeded())
    assert attended.padding_of(ids, ids == 0) is not None


@pytest.mark.parametrize(("equal", "form"), [(True, "input_ids_%s"), (False, "input_ids_%s")])
def test_pairs_of_tokens_whose_names_end_with_their_side(equal: bool, form: str) -> None:
    chosen = torch.randint(0, 50, (40, 8), generator=seeded())
    made = pairs.Pairs()
    made.add({form % "chosen": chosen, form % "rejected": chosen if equal else chosen + 1}, 0)
    record = made.record()
    assert record is not None
    assert record["equal"] == (40 if equal else 0)


@pytest.mark.parametrize(
    ("inner", "prompted"),
    [(lambda n: [30 + n, 7], 20), (lambda n: [30 + n, 60 + n], 0), (lambda n: [4, 7], 0)],
)
def test_answers_of_which_the_beginning_is_given(inner: Any, prompted: int) -> None:
    """A thought that ends alike is given; tokens of answers, and another turn, are not."""
    none = torch.zeros(0, dtype=torch.long)
    each = []
    for number in range(20):
        ids = torch.tensor([4, 20 + number, 2, 3, *inner(number), 90, 91, 2])
        labels = ids.clone()
        labels[:6] = -100
        each.append(documents.Document(number, ids, labels, none))
    counts = templates.borders(each, [2, 3], [4], 0)
    assert counts["prompted"] == prompted


def test_codes_at_the_end_of_rows_pad_them() -> None:
    marks = torch.arange(10)[None] >= torch.tensor([[4], [6], [8], [10]])
    assert places.pads(marks)
    assert places.pads(marks[..., None].expand(-1, -1, 3))
    assert not places.pads(marks.flip(1))


class Pictures(data.Dataset):  # type: ignore[misc]
    def __init__(self, corruption: Any = None, root: str = "") -> None:
        self.corruption, self.root = corruption, root

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> int:
        return number


def fog(x: float) -> float:
    return math.sqrt(x)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (Pictures(fog), "corruption"),
        (data.ConcatDataset([Pictures(fog), Pictures()]), "corruption"),
        (data.Subset(Pictures(), [1, 2]), ""),
        (Pictures(root="/data/domainnet/val"), ""),
    ],
)
def test_eval_of_another_kind(other: Any, found: str) -> None:
    sources = [
        SimpleNamespace(items=data.DataLoader(each), kind="loader") for each in (Pictures(), other)
    ]
    assert other_kinds.stated(*sources) == found  # type: ignore[arg-type]


def test_counts_of_words_are_those_of_texts() -> None:
    lengths, open_ = Counter({18: 90, 17: 6}), Counter({18: 80})
    assert columns.ends_at(18, lengths, open_, prose=0)
    assert not columns.ends_at(18, lengths, Counter({18: 20}), prose=96)
    assert not columns.ends_at(18, Counter({18: 96}), Counter({18: 90}), prose=0)
