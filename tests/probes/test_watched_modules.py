"""Which parts of a model are an installed package's, and which parameters no function gets."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn: Any = pytest.importorskip("torch.nn")
transformers: Any = pytest.importorskip("transformers")

from doctor.facts.diagnosis import Diagnosis  # noqa: E402
from doctor.probes.training_side.subject import unregistered  # noqa: E402
from doctor.probes.training_side.trials import evaluation  # noqa: E402
from doctor.probes.training_side.values import watched_modules  # noqa: E402

pytestmark = pytest.mark.slow


def bert() -> Any:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    return transformers.BertModel(
        transformers.BertConfig(vocab_size=16, intermediate_size=8, **sizes)
    )


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bert, self.head, self.spare = bert(), nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.bert(x).last_hidden_state)


def test_the_parts_of_a_library_are_told_by_their_class_and_by_its_code() -> None:
    model = Tagger()
    model.bert.classifier = nn.Linear(8, 2)
    owners = watched_modules.owners(model)
    assert owners == {"bert": True, "bert.classifier": False}
    seen = Diagnosis(fault="no gradient", owners=owners)
    assert seen.is_of_library("bert.pooler.dense")
    assert not seen.is_of_library("bert.classifier")
    assert not seen.is_of_library("head")
    assert watched_modules.owners(bert()) == {"": True}


def test_a_parameter_that_no_function_gets_is_unread() -> None:
    model = Tagger()
    used = {id(each) for each in (*model.bert.parameters(), *model.head.parameters())}
    assert watched_modules.Calls(model).unread(used) == ["spare.weight", "spare.bias"]


def test_layers_in_lists_of_lists_are_seen() -> None:
    layer = nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    names = [name for name, _ in unregistered.leaves("rows", [[layer], {"a": [layer.bias]}])]
    assert names == ["rows[0][0].weight", "rows[0][0].bias"]
    names = [name for name, _ in unregistered.leaves("rows", {"a": [layer.bias]})]
    assert names == ["rows['a'][0]"]


def test_a_buffer_that_is_nan_does_not_move() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert not evaluation._differ(nan, nan.clone())
    assert evaluation._differ(nan, torch.tensor([float("nan"), 2.0]))
    assert evaluation._differ(nan, torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_queue_is_no_statistic(axis: int) -> None:
    """The queue of a contrastive training gets other rows at each call; a mean of classes, the
    same again, and a running mean has no rows."""
    empty = torch.zeros(8, 4)
    once, twice = empty.clone(), empty.clone()
    once[:2] = 1.0
    twice[:4] = 1.0
    queue = [each.transpose(0, axis) for each in (empty, once, twice)]
    assert evaluation._is_queue(*queue)
    assert not evaluation._is_queue(empty, once, once + once)
    assert not evaluation._is_queue(torch.zeros(()), torch.ones(()), torch.full((), 2.0))
