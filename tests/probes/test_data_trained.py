"""What is trained is displaced, removed, overwritten or empty, with a sound neighbor of each."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402

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
