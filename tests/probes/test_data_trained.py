"""What is trained is displaced, removed, overwritten or empty, with a sound neighbor of each."""

from __future__ import annotations

import random
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
