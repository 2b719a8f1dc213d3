"""Where the path of a parameter to the loss ends: factories in one real process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.checks.training import own_cuts
from doctor.collect.torch_child import TorchChild
from doctor.facts.diagnosis import Cut

pytestmark = pytest.mark.slow

Cuts = Callable[..., list[Cut]]

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

def without_grad():
    def between(m, x):
        with torch.no_grad():
            return m.first(x)
    return made(between)

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

def replaced():
    def between(m, x):
        m.first.weight = nn.Parameter(m.first.weight.data * 0.9)
        return m.first(x)
    return made(between)

class Lost(Negative):
    @staticmethod
    def backward(ctx, gradient):
        return None

class Zero(Negative):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0

def hook(hidden):
    hidden.register_hook(lambda gradient: gradient * 0)
    return hidden

def through():
    def between(m, x):
        wide = torch.cat([x, x], 1).requires_grad_()
        return wide + (m.first(x) - wide).detach()
    return made(between)

def hooked_twice():
    def between(m, x):
        hidden = hook(m.first(x).relu())
        return hidden.sin() + hidden.cos()
    return made(between)

def hooked_weight():
    new, without_values = torch.zeros(16, 1), torch.empty(3, device="meta")
    def masked(gradient):
        return (gradient * new, without_values)[0]
    def between(m, x):
        return m.first(x) + F.linear(x, m.first.weight)
    model, batch, loss = made(between)
    for each in model.first.parameters():
        each.register_hook(lambda gradient: gradient.clone())
        each.register_hook(masked if each.dim() > 1 else lambda gradient: gradient * new[:, 0])
    return model, batch, loss

def erased():
    model, batch, loss = made(lambda m, x: m.first(x))
    def clear(parameter):
        parameter.grad.zero_()
    for each in model.first.parameters():
        each.register_post_accumulate_grad_hook(clear)
    return model, batch, loss

def hooked_module():
    def nothing(module, gradients, outputs):
        return tuple(None if each is None else each * 0 for each in gradients)
    model, batch, loss = made(lambda m, x: m.first(x))
    model.first.register_full_backward_hook(lambda module, gradients, outputs: None)
    model.second.register_full_backward_hook(nothing)
    return model, batch, loss

def cancelled_with_a_hook():
    model, batch, loss = cancelled()
    for each in model.first.parameters():
        each.register_hook(lambda gradient: gradient * 2)
    return model, batch, loss

def ratio(x):
    logits = x.log_softmax(1)
    return (logits - 1.0 * logits).exp() + 0.0 * logits.exp()

def zero_weight():
    def between(m, x):
        with torch.no_grad():
            m.second.weight.zero_()
        return m.first(x)
    return made(between)

def filled():
    def between(m, x):
        scale = torch.zeros(16)
        scale[:] = 3.0
        return m.first(x) * (scale * (x[:1, :1] > 1e9))
    return made(between)

def hooked_and_used_twice():
    def between(m, x):
        if not m.first.weight._backward_hooks:
            for each in m.first.parameters():
                each.register_hook(lambda gradient: gradient * 0)
        return m.first(x) + m.first(2 * x)
    return made(between)

def beside_a_row_of_padding():
    model, batch, loss = detached()
    model.words = nn.Embedding(9, 8, padding_idx=0)
    return model, batch, lambda m, b: loss(m, b) + m.words.weight.sum()

def slope(value, x, create_graph):
    return torch.autograd.grad(value.float().sum(), x, create_graph=create_graph)[0]

def without_create_graph():
    def between(m, x):
        x = x.clone().requires_grad_()
        return slope(m.first(x).tanh(), x, False).repeat(1, 2)
    return made(between)

def by_backward():
    def between(m, x):
        x = x.clone().requires_grad_()
        m.first(x).sum().backward()
        return x.grad.repeat(1, 2)
    return made(between)

def nearest():
    def between(m, x):
        grid = m.first(x).float().view(8, 8, 1, 2)
        picked = F.grid_sample(x.view(8, 1, 1, 8), grid, mode="nearest", align_corners=False)
        return picked.view(8, 8).repeat(1, 2)
    return made(between)

def codes():
    book = torch.randn(16, 16)
    def between(m, x):
        hidden = m.first(x).float()
        nearest = book[torch.cdist(hidden, book).argmin(1)]
        return nearest + (nearest - hidden.detach()).pow(2).mean()
    return made(between)

def measured():
    accuracies = []
    def between(m, x):
        hidden = m.first(x)
        accuracies.append((hidden.argmax(1) == 0).float().mean())
        return hidden.detach()
    return made(between)

def both_sides():
    def between(m, x):
        hidden = m.first(x)
        return hidden.detach() + torch.cat([x, x], 1) * hidden.float().detach()
    return made(between)
"""

EXPRESSIONS = {
    "shrunk": "m.first(x) * 1e-12 + torch.cat([x, x], 1)",
    "detached": "m.first(x).relu().detach()",
    "data": "Negative.apply(m.first(x)).data",
    "items": "torch.tensor([[v.item() for v in row] for row in m.first(x)])",
    "arrays": "torch.from_numpy(numpy.abs(m.first(x).detach().float().numpy()))",
    "chosen": "F.one_hot(m.first(x).argmax(-1), 16).float()",
    "rounded": "m.first(x).round()",
    "clamped": "(m.first(x) + 50).clamp(0, 1)",
    "over_one_value": "m.first(x)[:, :1].softmax(1).expand(-1, 16)",
    "multiplied": "torch.cat([x, x], 1) + 0 * m.first(x)",
    "checkpointed": "checkpoint(m.first, x.requires_grad_(), use_reentrant=True).detach()",
    "cancelled": "torch.cat([x, x], 1) + m.first(x).sum() - m.first(x).sum()",
    "cancelled_beside_a_factor": "ratio(m.first(x))",
    "converted": "m.first(x) * torch.full((16,), 0.3).long()",
    "reversed_by_zero": "Zero.apply(m.first(x))",
    "hooked": "hook(m.first(x).relu())",
    "lost": "Lost.apply(m.first(x)) + torch.cat([x, x], 1)",
    "sampled": "torch.distributions.Normal(m.first(x).float(), 1.0).sample()",
    "other_branch": "torch.where(x.sum() < 1e9, torch.cat([x, x], 1), m.first(x))",
    "masked": "m.first(x).masked_fill(torch.ones(16, dtype=torch.bool), 0.5)",
    "left_out": "torch.cat([x, x, m.first(x)], 1)[:, :16]",
    "variable": "torch.autograd.Variable(m.first(x).relu(), requires_grad=True)",
    "tensor_anew": "torch.tensor(m.first(x), requires_grad=True)",
    "smaller": "torch.maximum(m.first(x), torch.tensor(1e3))",
    "inactive": "(m.first(x) - 1e3).relu()",
    "saturated": "torch.tanh(m.first(x) + 1e3)",
    "drawn": "torch.bernoulli(m.first(x).float().sigmoid())",
    "compared": "(m.first(x) > 0).float()",
    "one_group": "F.group_norm(m.first(x)[..., None], 16)[..., 0]",
    "rounded_down": "m.first(x) * (torch.ones(16, dtype=torch.long) // 2)",
    "difference": "m.first(x) * (x - x)[:, :1]",
    "chosen_without_graph": "F.one_hot(m.first(x).detach().argmax(-1), 16).float()",
    "counted": "torch.stack([r.histc(16, -2, 2) for r in m.first(x).float()])",
    "sign": "m.first(x).sign()",
}
"""Factory -> what is between the first and the second layer."""
FACTORIES += "".join(
    f"\ndef {name}():\n    return made(lambda m, x: {code})\n" for name, code in EXPRESSIONS.items()
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cuts") / "cuts_of.py"
    path.write_text(FACTORIES, "utf-8")
    return path


@pytest.fixture
def cuts_of(warm: TorchChild, file: Path) -> Cuts:
    """Those of a factory."""

    def cuts(name: str, **more: Any) -> list[Cut]:
        place = {"file": file.name, "name": name, "directory": str(file.parent)}
        subject = {"kind": "factory", **place, "batch": 2, "length": None}
        how = {"device": "cpu", "precision": "bf16", "recipe": "amp", "subject": subject}
        names = ["first.weight", "first.bias"]
        answer = warm.request(60, stage="cuts", names=names, **how, **more)
        assert answer.answer, answer.ended
        return msgspec.convert(answer.answer["cuts"]["cuts"], list[Cut])

    return cuts


@pytest.mark.parametrize(
    ("name", "kind", "function", "text", "remedy"),
    [
        ("detached", "detached", "detach", "ends at detach in", "remove detach there"),
        ("data", "detached", "data", "ends at data in", "remove data there"),
        ("items", "number", "item", "ends at item in", "torch.stack instead of torch.tensor"),
        ("arrays", "number", "numpy", "ends at numpy in", "operations of torch instead"),
        ("without_grad", "no_grad", "linear", "runs under torch.no_grad()", "outside of"),
        ("chosen", "indices", "argmax", "ends at argmax in", "gumbel_softmax"),
        ("routed", "indices", "topk", "ends at topk in", "multiply what is chosen"),
        ("not_read", "unused", "relu", "nothing was seen to use the result of relu", "Use the"),
        ("checkpointed", "detached", "detach", "ends at detach in", "remove detach there"),
        ("rounded", "zero", "RoundBackward0", "becomes 0 in RoundBackward0", "straight-through"),
        ("clamped", "zero", "ClampBackward1", "beyond the bounds [0, 1]", "wider bounds"),
        ("over_one_value", "zero", "SoftmaxBackward0", "over a dimension of 1 value", "sigmoid"),
        ("lost", "none", "LostBackward", "returns None for it", "in backward() of Lost"),
        (
            "reversed_by_zero",
            "zero",
            "ZeroBackward",
            "its backward() returns zeros, at cuts_of.py",
            "what it multiplies",
        ),
        ("sampled", "no_grad", "normal", "sample(), normal, runs", "Call rsample()"),
        ("other_branch", "zero", "WhereBackward0", "of its condition are True", "the condition"),
        ("masked", "zero", "MaskedFillBackward0", "16 of 16 values of its mask", "inverted"),
        ("left_out", "zero", "CatBackward0", "leaves this part out: Slice", "the slice"),
        ("smaller", "zero", "MaximumBackward0", "below those of the other", "chosen everywhere"),
        ("inactive", "zero", "ReluBackward0", "128 of 128 inputs are 0 or less", "no unit"),
        ("saturated", "zero", "TanhBackward0", "results are exactly -1 or 1", "saturated"),
        ("drawn", "zero", "BernoulliBackward0", "BernoulliBackward0", "random draw"),
        ("compared", "indices", "gt", "ends at gt", "a comparison has no gradient"),
        ("through", "detached", "detach", "ends at detach", "add a loss of its own"),
        ("hooked", "result hook", "<lambda> in cuts_of.py", "makes it 0", "the hook"),
        ("cancelled", "cancelled", "", "add up to 0", "check the signs"),
        ("cancelled_beside_a_factor", "cancelled", "", "add up to 0", ".detach() the one"),
        ("hooked_twice", "result hook", "<lambda> in cuts_of.py", "makes it 0", "the hook"),
        (
            "erased",
            "hook",
            "clear",
            "of values that are not 0 it leaves 0",
            "the hook clear in cuts_of.py",
        ),
        ("hooked_module", "result hook", "nothing in cuts_of.py", "(of second)", "the hook"),
        ("cancelled_with_a_hook", "cancelled", "", "add up to 0", "check the signs"),
        ("one_group", "zero", "NativeGroupNormBackward0", "over 1 value", "over more values"),
        (
            "zero_weight",
            "zero",
            "AddmmBackward0",
            "the parameter second.weight, is 0 throughout",
            "random numbers",
        ),
        ("replaced", "replaced", "", "replaces it by a new parameter", "in place under"),
        ("multiplied", "zero", "MulBackward0", "the other factor is 0", "computes that factor"),
        ("rounded_down", "zero", "MulBackward0", "floor_divide in cuts_of.py", "divide with /"),
        ("converted", "zero", "MulBackward0", "the conversion to int64 in cuts_of", "fractions"),
        ("difference", "zero", "MulBackward0", "sub in cuts_of.py", "subtracts equal values"),
        ("filled", "zero", "MulBackward0", "throughout: gt in cuts_of.py", "hides every value"),
        ("hooked_and_used_twice", "hook", "<lambda>", "makes its gradient 0", "takes the place"),
        ("without_create_graph", "constant", "grad", "ends at grad in", "create_graph=True"),
        ("by_backward", "constant", "backward", "ends at backward in", "instead of backward()"),
        ("nearest", "zero", "GridSampler2D", "its mode is nearest", "mode='bilinear'"),
        ("variable", "constant", "Variable", "copies the result of relu", "without Variable("),
        ("tensor_anew", "constant", "tensor", "ends at tensor in", "Use the value itself"),
        ("counted", "constant", "histc", "ends at histc in", "smooth kernel"),
        ("sign", "zero", "SignBackward0", "becomes 0 in SignBackward0", "x.sign() - x"),
        ("measured", "detached", "detach", "ends at detach in", "remove detach there"),
        ("beside_a_row_of_padding", "detached", "detach", "ends at detach in", "remove detach"),
        ("chosen_without_graph", "indices", "argmax", "ends at argmax in", "gumbel_softmax"),
    ],
)
def test_the_end_of_a_path_is_named_with_its_line(
    name: str, kind: str, function: str, text: str, remedy: str, cuts_of: Cuts
) -> None:
    found = cuts_of(name)
    assert (found[0].kind, len(found)) == (kind, 1)
    assert found[0].name.startswith(function)
    assert kind in ("replaced", "cancelled", "result hook") or found[0].place.startswith(
        "cuts_of.py, line "
    )
    assert set(found[0].parameters) <= {"first.weight", "first.bias"}
    assert text in own_cuts.clause(found)
    assert remedy in own_cuts.fix(found)


def test_a_hook_on_a_parameter_is_named_with_its_variable(cuts_of: Cuts) -> None:
    cuts = cuts_of("hooked_weight")
    assert {(cut.kind, cut.name) for cut in cuts} == {("hook", "masked"), ("hook", "<lambda>")}
    text = own_cuts.clause(cuts)
    assert "the hook masked on it, in cuts_of.py, line " in text or "masked, <lambda>" in text
    assert "new of its variables is 0 throughout" in text
    assert "add up" not in text
    assert "empty" in own_cuts.fix(cuts)


def test_all_ends_whose_values_reach_the_loss_are_named(cuts_of: Cuts) -> None:
    cuts = cuts_of("codes")
    assert [(cut.kind, cut.name) for cut in cuts] == [("indices", "argmin"), ("detached", "detach")]
    assert "z + (codes - z).detach()" in own_cuts.fix(cuts)


def test_each_detach_of_a_line_is_named(cuts_of: Cuts) -> None:
    cuts = cuts_of("both_sides")
    assert {cut.kind for cut in cuts} == {"detached"}
    if all(cut.remark for cut in cuts):  # Python 3.11 and newer know the columns
        text = own_cuts.clause(cuts)
        assert "`hidden.detach()`, `hidden.float().detach()`" in text
    assert own_cuts.fix(cuts).count("remove detach there") == 1


def test_the_operation_that_makes_a_gradient_tiny_is_named(cuts_of: Cuts) -> None:
    (cut,) = cuts_of("shrunk", small=True)
    assert (cut.kind, cut.name) == ("small", "MulBackward0")
    assert "the gradient shrinks in MulBackward0" in own_cuts.clause([cut])
    assert "remove the tiny factor" in own_cuts.fix([cut])
