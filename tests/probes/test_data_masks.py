"""Masks of attention that a batch brings along are tried as they are; padding is no answer."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from data_targets import verdicts  # noqa: E402

from doctor.judge.check import Status  # noqa: E402
from doctor.probes.training_side.data import documents, inputs, labels  # noqa: E402

data = torch.utils.data
functional = torch.nn.functional
pytestmark = pytest.mark.slow
WORDS, LENGTH, HEADS = 50, 22, 2


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """Sees what the mask says; `ignored`: as torch's layer, which ignores what is true."""

    def __init__(self, ignored: bool = False) -> None:
        super().__init__()
        self.table, self.places = torch.nn.Embedding(WORDS, 8), torch.nn.Embedding(64, 8)
        self.mixed = torch.nn.MultiheadAttention(8, HEADS, batch_first=True)
        self.head, self.ignored = torch.nn.Linear(8, WORDS), ignored

    def forward(self, input_ids: Any, attn_mask: Any, labels: Any, position_ids: Any = None) -> Any:
        at = torch.arange(input_ids.shape[1]) if position_ids is None else position_ids
        x = self.table(input_ids) + self.places(at)
        if self.ignored:
            x = x + self.mixed(x, x, x, attn_mask=attn_mask)[0]
        else:
            q = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            made = functional.scaled_dot_product_attention(q, q, q, attn_mask=attn_mask)
            x = x + made.transpose(1, 2).flatten(2)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def rows_of(prompt: int = 0) -> list[dict[str, Any]]:
    """Rows of several lengths, padded by 0 on the right, whose labels are the next tokens."""
    drawn = torch.Generator().manual_seed(3)
    made = []
    for number in range(64):
        row = torch.randint(1, WORDS, (LENGTH + 1,), generator=drawn)
        row[LENGTH - number % 5 :] = 0
        wanted = row[1:].masked_fill(row[1:] == 0, -100)
        wanted[:prompt] = -100
        made.append({"input_ids": row[:-1], "labels": wanted})
    return made


def masks(way: str, keys: Any) -> Any:
    """Rows x queries x keys, true where a query sees a key."""
    size = keys.shape[1]
    whole = torch.ones(size, size)
    sees = {"later": whole.triu(), "one ahead": whole.tril(1)}.get(way, whole.tril()).bool()
    sees = sees[None] & keys[:, None]
    if way == "prompt":
        sees = sees | (torch.arange(size) < 6)
    if way == "whole prompt and answer":
        sees = sees | keys[:, None]
    return sees | torch.eye(size, dtype=torch.bool)


def target(way: str, form: str, prompt: int = 0) -> Any:
    def collate(some: list[Any]) -> Any:
        batch = data.default_collate(some)
        sees = masks(way, batch["input_ids"] != 0)
        mask = sees[:, None]
        if form == "added":
            mask = torch.zeros(sees.shape).masked_fill(~sees, float("-inf"))[:, None]
        elif form == "heads":
            mask = ~sees.repeat_interleave(HEADS, 0)
        elif form == "one":
            mask = masks(way, torch.ones(1, LENGTH).bool())[0]
        return {**batch, "attn_mask": mask}

    loader = data.DataLoader(rows_of(prompt), batch_size=16, collate_fn=collate)
    return Decoder(form == "heads"), loader


@pytest.mark.parametrize("form", ["each", "added", "heads", "one"])
@pytest.mark.parametrize(
    ("way", "prompt", "status"),
    [
        ("later", 0, Status.FAIL),
        ("one ahead", 0, Status.FAIL),
        ("earlier", 0, Status.PASS),
        ("prompt", 6, Status.PASS),
        ("whole prompt and answer", 6, Status.FAIL),
    ],
)
def test_the_mask_of_the_batch_is_tried(
    way: str, prompt: int, status: Status, form: str, monkeypatch: Any
) -> None:
    found = verdicts(target(way, form, prompt), monkeypatch)
    assert found["DAT015"].status is status, found["DAT015"].summary
    assert "the batch's own attn_mask" in found["DAT015"].summary
    assert ("Turn the batch's mask" in (found["DAT015"].fix or "")) is (status is Status.FAIL)
    assert found["DAT010"].status is Status.SKIP
    assert found["DAT013"].status is Status.PASS


def packed(crosses: bool) -> Any:
    numbers = (torch.arange(LENGTH) >= 9).long()
    at = torch.cat([torch.arange(9), torch.arange(LENGTH - 9)])
    sees = torch.ones(LENGTH, LENGTH).tril().bool()
    sees = sees if crosses else sees & (numbers[:, None] == numbers)
    ids = torch.randint(1, WORDS, (64, LENGTH + 1), generator=torch.Generator().manual_seed(4))
    rows = [
        {"input_ids": each[:-1], "labels": each[1:], "attn_mask": sees[None], "position_ids": at}
        for each in ids
    ]
    return Decoder(), data.DataLoader(rows, batch_size=8)


@pytest.mark.parametrize("crosses", [True, False])
def test_documents_under_the_mask_of_the_batch(crosses: bool, monkeypatch: Any) -> None:
    found = verdicts(packed(crosses), monkeypatch)["DAT015"]
    assert found.status is (Status.NOTE if crosses else Status.PASS), found.summary
    assert ("depends on the first" in found.summary) is crosses


def test_a_mask_in_a_form_that_is_not_tried_is_unknown(monkeypatch: Any) -> None:
    ids = torch.randint(1, WORDS, (64, LENGTH + 1), generator=torch.Generator().manual_seed(4))
    rows = [{"input_ids": each[:-1], "labels": each[1:], "mask": torch.ones(3, 4)} for each in ids]

    def loss(model: Any, batch: Any) -> Any:
        sees = torch.ones(batch["input_ids"].shape[1:] * 2).tril().bool()
        return model(batch["input_ids"], sees, batch["labels"])

    made = {"model": Decoder(), "loss": loss, "train": data.DataLoader(rows, batch_size=8)}
    found = verdicts(made, monkeypatch)["DAT015"]
    assert found.status is Status.UNKNOWN
    assert "mask has a form that is not tried" in found.summary


@pytest.mark.parametrize(
    ("ids", "trained", "inverted"),
    [
        ([5, 6, 7, 8, 9, 4, 0, 0, 0, 0], range(5), False),  # the end is not trained, nor padding
        ([5, 6, 7, 8, 9, 4, 3, 2, 8, 7], range(5), True),
        ([5, 6, 7, 8, 9, 4, 3, 2, 0, 0], range(4), True),
        ([5, 6, 7, 8, 9, 4, 3, 2, 0, 0], range(4, 8), False),
    ],
)
def test_padding_is_no_answer(ids: list[int], trained: range, inverted: bool) -> None:
    row = torch.tensor(ids)
    wanted = torch.full_like(row, -100)
    wanted[list(trained)] = row[list(trained)]
    document = documents.Document(0, row, wanted, row[:0])
    assert labels.is_inverted(document) is inverted


def test_masks_are_no_images() -> None:
    image = torch.rand(4, 1, 8, 8)
    assert inputs.image_of({"attn_mask": image}) is None
    assert inputs.image_of({"sees": image > 0.5}) is None
    assert inputs.image_of({"image": image}) is not None
