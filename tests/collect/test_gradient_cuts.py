"""Where the path of a parameter to the loss ends: factories in one real process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest

from doctor.checks.training import own_cuts
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.diagnosis import Cut

pytestmark = pytest.mark.slow

FACTORIES = """
import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

class Negative(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return -x
    @staticmethod
    def backward(ctx, gradient):
        return -gradient

def made(between):
    def loss(model, batch):
        hidden = between(model, batch[0])
        return F.cross_entropy(model.second(hidden).float(), batch[1])
    return Two(), (torch.randn(8, 8), torch.randint(4, (8,))), loss

def detached():
    return made(lambda m, x: m.first(x).relu().detach())

def data():
    return made(lambda m, x: Negative.apply(m.first(x)).data)

def items():
    return made(lambda m, x: torch.tensor([[v.item() for v in row] for row in m.first(x)]))

def arrays():
    return made(lambda m, x: torch.from_numpy(numpy.abs(m.first(x).detach().float().numpy())))

def without_grad():
    def between(m, x):
        with torch.no_grad():
            return m.first(x)
    return made(between)

def chosen():
    return made(lambda m, x: F.one_hot(m.first(x).argmax(-1), 16).float())

def routed():
    def between(m, x):
        value, index = m.first(x).topk(1)
        return F.one_hot(index[:, 0], 16).float()
    return made(between)

def not_read():
    def between(m, x):
        m.first(x).relu()
        return torch.cat([x, x], 1)
    return made(between)

def checkpointed():
    def between(m, x):
        return checkpoint(m.first, x.requires_grad_(), use_reentrant=True).detach()
    return made(between)

def rounded():
    return made(lambda m, x: m.first(x).round())

def clamped():
    return made(lambda m, x: (m.first(x) + 50).clamp(0, 1))

def over_one_value():
    return made(lambda m, x: m.first(x)[:, :1].softmax(1).expand(-1, 16))

def replaced():
    def between(m, x):
        m.first.weight = nn.Parameter(m.first.weight.data * 0.9)
        return m.first(x)
    return made(between)

def multiplied():
    return made(lambda m, x: torch.cat([x, x], 1) + 0 * m.first(x))
"""


@pytest.fixture(scope="module")
def child() -> Iterator[TorchChild]:
    running = TorchChild(Children(), preloaded.python())
    yield running
    running.end()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cuts") / "cuts_of.py"
    path.write_text(FACTORIES, "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "kind", "function", "text", "remedy"),
    [
        ("detached", "detached", "detach", "ends at detach in", "remove detach there"),
        ("data", "detached", "data", "ends at data in", "remove data there"),
        ("items", "number", "item", "ends at item in", "torch.stack instead of .item()"),
        ("arrays", "number", "numpy", "ends at numpy in", "operations of torch instead"),
        ("without_grad", "no_grad", "linear", "runs under torch.no_grad()", "outside of"),
        ("chosen", "indices", "argmax", "ends at argmax in", "gumbel_softmax"),
        ("routed", "indices", "topk", "ends at topk in", "multiply what is chosen"),
        ("not_read", "unused", "relu", "nothing was seen to use the result of relu", "Use the"),
        ("checkpointed", "detached", "detach", "ends at detach in", "remove detach there"),
        ("rounded", "zero", "RoundBackward0", "becomes 0 in RoundBackward0", "straight-through"),
        ("clamped", "zero", "ClampBackward1", "becomes 0 in ClampBackward1", "beyond the bounds"),
        ("over_one_value", "zero", "SoftmaxBackward0", "over a dimension of 1 value", "sigmoid"),
        ("replaced", "replaced", "", "replaces it by a new parameter", "in place under"),
        ("multiplied", "zero", "MulBackward0", "becomes 0 in MulBackward0", "the other factor"),
    ],
)
def test_the_end_of_a_path_is_named_with_its_line(
    name: str, kind: str, function: str, text: str, remedy: str, child: TorchChild, file: Path
) -> None:
    place = {"file": file.name, "name": name, "directory": str(file.parent)}
    subject: dict[str, Any] = {"kind": "factory", **place, "batch": 2, "length": None}
    answer = child.request(
        60,
        stage="cuts",
        names=["first.weight", "first.bias"],
        subject=subject,
        device="cpu",
        precision="bf16",
        recipe="amp",
    )
    assert answer.answer, answer.ended
    found = msgspec.convert(answer.answer["cuts"]["cuts"], list[Cut])
    assert (found[0].kind, found[0].name, len(found)) == (kind, function, 1)
    assert kind == "replaced" or found[0].place.startswith("cuts_of.py, line ")
    assert set(found[0].parameters) <= {"first.weight", "first.bias"}
    assert text in own_cuts.clause(found)
    assert remedy in own_cuts.fix(found)
