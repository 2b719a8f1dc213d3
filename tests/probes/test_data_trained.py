"""What is trained is displaced, removed, overwritten or empty, with a sound neighbor of each."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import (  # noqa: E402
    conditions,
    episodes,
    piece_tags,
    pooled,
    removed_columns,
    targets,
    vocabulary,
)

data = torch.utils.data
functional = torch.nn.functional
pytestmark = pytest.mark.slow
LOUD = (Status.WARN, Status.FAIL)


def seeded(number: int = 0) -> Any:
    return torch.Generator().manual_seed(number)


class Rows(data.Dataset):  # type: ignore[misc]
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]


def answers(count: int = 160) -> list[tuple[list[int], list[int]]]:
    """Prompts and answers."""
    draw = random.Random(0)
    return [
        ([1, *(draw.randrange(10, 500) for _ in range(draw.randint(6, 30)))],
         [*(draw.randrange(500, 900) for _ in range(draw.randint(4, 25))), 2])
        for _ in range(count)
    ]  # fmt: skip


class Packed:
    """Several documents in a row; `way` is how far the labels of each are moved."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self, pairs: list[Any]) -> Any:
        ids, positions, spans, at = [], [], [], 0
        for prompt, answer in pairs:
            spans.append((at + len(prompt), at + len(prompt) + len(answer)))
            ids += prompt + answer
            positions += range(len(prompt) + len(answer))
            step = {"answers": len(answer), "prompts": len(prompt), "nothing": 0}
            at += step.get(self.way, len(prompt) + len(answer))
        labels = [-100] * len(ids)
        for start, end in [(0, len(ids))] if self.way == "whole" else spans:
            labels[start:end] = ids[start:end]
        named = {"input_ids": ids, "labels": labels, "position_ids": positions}
        return {name: torch.tensor([each]) for name, each in named.items()}


@pytest.mark.parametrize(
    ("way", "loud"),
    [("answers", True), ("prompts", True), ("right", False), ("whole", False)],
)
def test_labels_of_packed_rows(way: str, loud: bool, monkeypatch: Any) -> None:
    loader = data.DataLoader(answers(), batch_size=8, shuffle=True, collate_fn=Packed(way))
    found = verdicts(loader, monkeypatch)
    assert (found["DAT013"].status in LOUD) is loud, found["DAT013"].summary
    assert found["DAT001"].status not in LOUD


def test_prompts_that_are_trained_beside_others_are_not_repeated(monkeypatch: Any) -> None:
    """Documents of two kinds in one corpus: some mask their prompt, others are trained."""

    def collate(pairs: list[Any]) -> Any:
        found = Packed("right")(pairs[:1])
        return found if len(pairs[0][0]) % 3 == 0 else {**found, "labels": found["input_ids"]}

    loader = data.DataLoader(answers(), batch_size=1, collate_fn=collate)
    assert verdicts(loader, monkeypatch)["DAT013"].status not in LOUD


class Pieces:
    """A tokenizer of word pieces."""

    def __init__(self, words: str) -> None:
        self.words = words.split()

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.words[each] for each in ids]


WORDPIECE = "[CLS] went anni ##ka to . goth ##en"
BYTES = "[CLS] \u0120went \u0120anni ka \u0120to . \u0120goth en"


@pytest.mark.parametrize("words", [WORDPIECE, BYTES])
@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([-100, 1, 0, 0, 2, 0, 0, 0, -100], True),  # one by one
        ([-100, 1, -100, 0, 0, 2, -100, 0, -100], False),
        ([-100, 1, 1, 0, 0, 2, 2, 0, -100], False),
        ([-100, 1, 3, 0, 0, 2, 4, 0, -100], False),  # B and I
    ],
)
def test_tags_of_pieces(words: str, tags: list[int], found: bool) -> None:
    ids = torch.tensor([[0, 2, 3, 1, 4, 6, 7, 5, 0]] * 8)
    known = vocabulary.Vocabulary(tokenizer=Pieces(words))
    look = piece_tags.PieceTags(known)
    tokens = SimpleNamespace(ids=ids, labels=torch.tensor([tags] * 8))
    look.add(tokens, 0)  # type: ignore[arg-type]
    assert bool(look.records()) is found


class DecoderForSequenceClassification(torch.nn.Module):
    def __init__(self, pad: int | None) -> None:
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=pad)

    def forward(self, input_ids: Any) -> Any:
        return (input_ids != self.config.pad_token_id).int().argmax(-1)


class EncoderForSequenceClassification(DecoderForSequenceClassification):
    def forward(self, input_ids: Any) -> Any:
        return input_ids[:, 0]


@pytest.mark.parametrize(
    ("module", "left", "found"),
    [
        (DecoderForSequenceClassification(0), False, True),
        (DecoderForSequenceClassification(7), False, False),
        (DecoderForSequenceClassification(0), True, False),
        (EncoderForSequenceClassification(0), False, False),
    ],
)
def test_padding_that_a_classifier_takes_for_text(module: Any, left: bool, found: bool) -> None:
    ids = torch.randint(10, 90, (16, 12), generator=seeded())
    mask = (torch.arange(12) < torch.arange(4, 20)[:, None].clamp(max=12)).long()
    ids = torch.where(mask > 0, ids, 7)
    if left:
        ids, mask = ids.flip(1), mask.flip(1)
    look = pooled.Pooled(module)
    look.add(SimpleNamespace(ids=ids, mask=mask), 0)  # type: ignore[arg-type]
    assert bool(look.records()) is found


@pytest.mark.parametrize(
    ("share", "name", "text", "found"),
    [
        (0.9, "prompt_ids", True, True),
        (0.9, "caption_embeds", False, True),
        (0.9, "text_tokens", True, True),
        (0.1, "prompt_ids", True, False),
        (0.9, "token_type_ids", True, False),
        (0.9, "context_mask", True, False),
    ],
)
def test_conditions_that_are_mostly_empty(share: float, name: str, text: bool, found: bool) -> None:
    look = conditions.Conditions()
    ids = torch.randint(5, 90, (128, 8), generator=seeded())
    empty = torch.rand(128, generator=seeded(1)) < share
    nothing = torch.tensor([1, 2, 0, 0, 0, 0, 0, 0])
    rows = torch.where(empty[:, None], nothing, ids) if text else ids * (~empty[:, None]).float()
    look.add({"pixel_values": torch.rand(128, 3, 4, 4), name: rows}, 0)
    parts = [each["part"] / each["whole"] for each in look.records()]
    assert (max(parts, default=0.0) > 0.5) is found


class Towers(torch.nn.Module):
    def forward(self, input_ids: Any = None, labels: Any = None, **extra: Any) -> Any:
        account = extra.get("account")
        return input_ids if account is None else input_ids + account


class Named(torch.nn.Module):
    def forward(self, input_ids: Any, account: Any = None, labels: Any = None) -> Any:
        return input_ids + account


@pytest.mark.parametrize(
    ("module", "removes", "column", "found"),
    [
        (Towers(), True, "account", True),
        (Towers(), False, "account", False),
        (Towers(), True, "text", False),
        (Named(), True, "text", False),
    ],
)
def test_columns_that_a_trainer_removes(
    module: Any, removes: bool, column: str, found: bool
) -> None:
    rows = Rows([{"input_ids": [1, 2], "labels": 0, column: 3.0}] * 8)
    trainer = SimpleNamespace(
        args=SimpleNamespace(remove_unused_columns=removes), train_dataset=rows
    )
    source = targets.Source("train", "loader", data.DataLoader(rows), 8)
    opened = targets.Opened([source], module, trainer=trainer)
    batch = {"input_ids": torch.ones(1, 2), "labels": torch.zeros(1)}
    records = removed_columns.of_source(opened, source, [batch])
    assert bool(records) is found


class Buffered:
    def __init__(self, copies: bool) -> None:
        self.buffer, self.copies = torch.empty(16, 5), copies

    def __call__(self, rows: list[Any]) -> Any:
        for number, (values, _) in enumerate(rows):
            self.buffer[number] = values
        made = self.buffer[: len(rows)]
        return {"x": made.clone() if self.copies else made,
                "y": torch.tensor([each for _, each in rows])}  # fmt: skip


@pytest.mark.parametrize("copies", [False, True])
def test_batches_in_one_memory(copies: bool, monkeypatch: Any) -> None:
    rows = [(torch.rand(5, generator=seeded(n)), n % 3) for n in range(96)]
    loader = data.DataLoader(rows, batch_size=16, shuffle=True, collate_fn=Buffered(copies))
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert found.status not in LOUD  # loaders of images reuse their memory on purpose
    assert ("to one memory" in found.summary) is not copies


@pytest.mark.parametrize(
    ("filler", "right", "loud"),
    [(-11.5, False, True), (0.0, False, True), (-11.5, True, False)],
)
def test_lengths_beside_padding(filler: float, right: bool, loud: bool, monkeypatch: Any) -> None:
    counts = torch.randint(10, 40, (96,), generator=seeded()).tolist()
    sounds = [torch.randn(n, 6, generator=seeded(n)) for n in counts]

    def collate(rows: list[Any]) -> Any:
        widest = max(map(len, rows))
        made = [functional.pad(each, (0, 0, 0, widest - len(each)), value=filler) for each in rows]
        lengths = torch.tensor([len(each) for each in (rows if right else made)])
        return {"mel": torch.stack(made), "lengths": lengths, "labels": torch.arange(len(rows)) % 3}

    loader = data.DataLoader(Rows(sounds), batch_size=16, shuffle=True, collate_fn=collate)
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


@pytest.mark.parametrize("alike", [True, False])
def test_targets_of_several_classes(alike: bool, monkeypatch: Any) -> None:
    tags = (torch.rand(96, 6, generator=seeded()) < 0.4).float()
    tags = tags.amax(0, keepdim=True).expand(96, 6) if alike else tags
    rows = [{"x": torch.rand(9, generator=seeded(n)), "labels": tags[n]} for n in range(96)]
    found = verdicts(data.DataLoader(Rows(rows), batch_size=16), monkeypatch)["DAT022"]
    assert (found.status in LOUD) is alike, found.summary


STATED = "EOT = 256\n"


@pytest.mark.parametrize(
    ("ends", "code", "loud"),
    [(False, STATED, True), (True, STATED, False), (False, "PAD = 256\n", False)],
)
def test_texts_behind_one_another(
    ends: bool, code: str, loud: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    file = tmp_path / "t.py"
    file.write_text(code)
    stream = torch.randint(32, 128, (64 * 64 + 1,), generator=seeded())
    if ends:
        stream[::40] = 256
    rows = data.TensorDataset(stream[:-1].view(64, 64), stream[1:].view(64, 64))
    found = verdicts(data.DataLoader(rows, batch_size=8), monkeypatch, str(file))["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


class Walk:
    """A walk that a limit of time ends, with the next state as `way` stores it."""

    def __init__(self, way: str, limit: int = 25, count: int = 1200) -> None:
        self.rows: list[dict[str, Any]] = []
        place, at = torch.zeros(2), 0
        draw = seeded(3)
        for _ in range(count):
            step = place + 0.2 * torch.rand(2, generator=draw)
            at += 1
            fails = way == "slot" and at == 13 and len(self.rows) % 4 == 0
            ends = fails or (at == limit and way != "endless")
            start = torch.rand(2, generator=draw) - 0.5
            after = start if ends and way != "true" else step
            discount = 0.0 if fails or (ends and way == "marked") else 0.99
            self.rows.append({"obs": place, "next_obs": after, "discount": torch.tensor(discount)})
            place, at = (start, 0) if ends else (step, at)


@pytest.mark.parametrize(
    ("way", "found"),
    [("slot", True), ("true", False), ("marked", False), ("endless", False), ("refilled", False)],
)
def test_next_states_where_time_is_up(way: str, found: bool) -> None:
    source = targets.Source("train", "loader", data.DataLoader(Rows(Walk(way).rows)), 1200)
    assert bool(episodes.jumps(source)) is found


class Windows(data.Dataset):  # type: ignore[misc]
    def __init__(self, within: bool, name: str) -> None:
        self.values = torch.rand(600, generator=seeded())
        own = self.values.clone() if name == "series" else torch.arange(600) // 60
        setattr(self, name, own)
        starts = range(600 - 12)
        self.starts = [n for n in starts if not within or n // 60 == (n + 11) // 60]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Any:
        at = self.starts[number]
        return {"x": self.values[at : at + 10], "y": self.values[at + 10 : at + 12]}


@pytest.mark.parametrize(
    ("within", "name", "loud"),
    [(False, "store_ids", True), (False, "patient", True), (True, "store_ids", False),
     (False, "month", False), (False, "series", False)],
)  # fmt: skip
def test_windows_of_several_series(within: bool, name: str, loud: bool, monkeypatch: Any) -> None:
    loader = data.DataLoader(Windows(within, name), batch_size=16, shuffle=True)
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


@pytest.mark.parametrize(
    ("kind", "loud"), [("several", True), ("shares", False), ("smoothed", False)]
)
def test_shares_of_classes(kind: str, loud: bool, monkeypatch: Any) -> None:
    made = torch.rand(160, 6, generator=seeded())
    hot = functional.one_hot(made.argmax(1), 6).float()
    target = {"several": (made < 0.4).float(), "shares": made / made.sum(1, keepdim=True),
              "smoothed": 0.9 * hot + 0.1 / 6}[kind]  # fmt: skip
    loader = data.DataLoader(data.TensorDataset(torch.rand(160, 4), target), batch_size=16)
    parts = (torch.nn.Linear(4, 6), loader, torch.nn.CrossEntropyLoss())
    found = verdicts(parts, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


class ByLength:
    """Sequences in the order of their length, as packing needs them."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(self, rows: list[Any]) -> Any:
        order = sorted(range(len(rows)), key=lambda n: -len(rows[n][0]))
        first = rows if self.way == "as they come" else [rows[n] for n in order]
        second = first if self.way == "right" else rows
        inputs = torch.nn.utils.rnn.pad_sequence([row[0] for row in first], batch_first=True)
        return inputs, torch.tensor([row[1] for row in second])


@pytest.mark.parametrize(
    ("way", "loud"), [("inputs alone", True), ("right", False), ("as they come", False)]
)
def test_targets_of_inputs_in_another_order(way: str, loud: bool, monkeypatch: Any) -> None:
    counts = torch.randint(4, 20, (96,), generator=seeded()).tolist()
    rows = [(torch.randn(n, 3, generator=seeded(at)), at % 4) for at, n in enumerate(counts)]
    loader = data.DataLoader(Rows(rows), batch_size=16, shuffle=True, collate_fn=ByLength(way))
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


class Classes(data.Dataset):  # type: ignore[misc]
    """Images of classes, which are left out for guidance."""

    def __init__(self, left_out: float, null: int = 6) -> None:
        self.targets = [number % 6 for number in range(192)]
        self.left_out, self.null = left_out, null

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, number: int) -> Any:
        out = bool(torch.rand(()) < self.left_out)
        image = torch.rand(3, 8, 8, generator=seeded(number))
        return image, self.null if out else self.targets[number]


@pytest.mark.parametrize(("left_out", "loud"), [(0.9, True), (0.1, False)])
def test_classes_that_are_left_out(left_out: float, loud: bool, monkeypatch: Any) -> None:
    loader = data.DataLoader(Classes(left_out), batch_size=16, shuffle=True)
    found = verdicts(loader, monkeypatch)["DAT022"]
    assert (found.status in LOUD) is loud, found.summary


@pytest.mark.parametrize(
    ("names", "loud"), [(("tgt_in", "tgt_out"), True), (("src", "tgt"), False)]
)
def test_what_a_decoder_gets(names: tuple[str, str], loud: bool, monkeypatch: Any) -> None:
    ids = torch.randint(3, 60, (96, 12), generator=seeded())
    rows = [dict(zip(names, (row, row), strict=True)) for row in ids]
    rows = [{"src_ids": torch.randint(3, 60, (9,), generator=seeded(n)), **row}
            for n, row in enumerate(rows)]  # fmt: skip
    found = verdicts(data.DataLoader(Rows(rows), batch_size=16), monkeypatch)["DAT024"]
    assert (found.status in LOUD) is loud, found.summary


class Attention(torch.nn.Module):
    """Of torch's layer, or of the function itself; `way` is what the mask marks."""

    def __init__(self, layer: bool, marks_text: bool) -> None:
        super().__init__()
        self.layer, self.marks_text = layer, marks_text
        self.table, self.out = torch.nn.Embedding(90, 8), torch.nn.Linear(8, 3)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: Any, y: Any) -> Any:
        made, mask = self.table(ids), (ids != 0) if self.marks_text else (ids == 0)
        if self.layer:
            made = self.attention(made, made, made, key_padding_mask=mask)[0]
        else:
            parts = made[:, None]
            attend = functional.scaled_dot_product_attention
            made = attend(parts, parts, parts, attn_mask=mask[:, None, None])[:, 0]
        return functional.cross_entropy(self.out(made.mean(1)), y)


@pytest.mark.parametrize("layer", [True, False])
@pytest.mark.parametrize("marks_text", [True, False])
def test_masks_of_attention(layer: bool, marks_text: bool, monkeypatch: Any) -> None:
    ids = torch.randint(3, 90, (96, 14), generator=seeded())
    counts = torch.randint(4, 15, (96, 1), generator=seeded(1))
    ids = ids * (torch.arange(14) < counts)
    rows = [{"ids": row, "y": n % 3} for n, row in enumerate(ids)]
    loader = data.DataLoader(Rows(rows), batch_size=16, shuffle=True)
    found = verdicts((Attention(layer, marks_text), loader), monkeypatch)["DAT022"]
    assert (found.status in LOUD) is (layer is marks_text), found.summary
