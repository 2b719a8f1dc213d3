"""An embedding and an output layer that are meant to share their weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn: Any = pytest.importorskip("torch.nn")

from doctor.probes.training_side.subject import initial_weights, tying  # noqa: E402

pytestmark = pytest.mark.slow


class Language(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.config = SimpleNamespace(**settings)
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)


class Tying(Language):
    def tie_weights(self) -> None:
        self.head.weight = nn.Parameter(self.table.weight.clone())


def shared(model: Any) -> None:
    model.head.weight = model.table.weight


def cloned(model: Any) -> None:
    model.head.weight = nn.Parameter(model.table.weight.clone())


def copied(model: Any) -> None:
    model.head.weight.data.copy_(model.table.weight.data)


def in_the_same_memory(model: Any) -> None:
    model.head.weight.data = model.table.weight.data


def wrapped(model: Any) -> None:
    model.head.weight = nn.Parameter(model.table.weight)


def replaced(model: Any) -> None:
    shared(model)
    model.table = nn.Embedding.from_pretrained(torch.randn(9, 4), freeze=False)


def untouched(model: Any) -> None:
    """Two layers with numbers of their own."""


@pytest.mark.parametrize(
    ("tie", "settings", "text"),
    [
        (cloned, {"tie_word_embeddings": True}, "starts as a copy"),
        (copied, {"weight_tying": True}, "starts as a copy"),
        (in_the_same_memory, {}, "in the memory of table.weight"),
        (wrapped, {"tie_word_embeddings": True}, "in the memory of table.weight"),
        (replaced, {"share_embeddings": True}, "are two parameters"),
        (untouched, {"tie_word_embeddings": True}, "are two parameters"),
        (shared, {"tie_word_embeddings": True}, ""),
        (untouched, {"tie_word_embeddings": False}, ""),
        (untouched, {}, ""),
        (cloned, {"tie_word_embeddings": False}, ""),
        (untouched, {"shared_memory": True}, ""),
    ],
)
def test_weights_that_are_meant_to_be_one(tie: Any, settings: Any, text: str) -> None:
    model = Language(**settings)
    tie(model)
    found = tying.untied(model)
    assert len(found) == bool(text)
    assert not text or text in found[0]


def test_a_method_that_copies() -> None:
    model = Tying()
    model.tie_weights()
    assert tying.untied(model) == [
        "head.weight starts as a copy of table.weight, in spite of tie_weights()"
    ]


def test_a_frozen_table_and_an_encoder_beside_a_tied_decoder() -> None:
    model = Language(tie_word_embeddings=True)
    copied(model)
    model.table.weight.requires_grad_(False)
    assert tying.untied(model) == []
    tied = Language(tie_word_embeddings=True)
    shared(tied)
    tied.source = nn.Embedding(9, 4)
    assert tying.untied(tied) == []


@pytest.mark.parametrize(
    ("share", "text"), [(0.95, "0, p 0.95"), (0.9, ""), (0.5, ""), (1.0, ""), (0.05, "")]
)
def test_a_share_that_stays_is_no_share_that_is_dropped(share: float, text: str) -> None:
    found = initial_weights.heavy_dropouts(nn.Sequential(nn.Dropout(share), nn.Linear(2, 2)))
    assert found == ([text] if text else [])


class Block(nn.Module):
    def __init__(self, norm: nn.Module | None = None, act: nn.Module = nn.GELU()) -> None:  # noqa: B008
        super().__init__()
        self.norm, self.act = norm or nn.LayerNorm(4), act


class Normed(Block):
    def __init__(self, norm: nn.Module = nn.LayerNorm(4)) -> None:  # noqa: B008
        super().__init__(norm)


def test_a_default_argument_that_is_one_module_for_all() -> None:
    assert tying.of_defaults(nn.ModuleList([Normed(), Normed(), Normed()])) == [
        "norm=LayerNorm of Normed is 0.norm, 1.norm and 1 more"
    ]
    one, norm = Normed(), nn.LayerNorm(4)
    for healthy in ([one, Block(), Block()], [Normed(norm), Normed(norm)]):
        assert tying.of_defaults(nn.ModuleList(healthy)) == []
