"""Parts of torch that the user's code misuses: each error has a cause and a remedy of its own."""

from __future__ import annotations

import pytest
from own_code import Own, completes, judged

from doctor.checks.training import own_model
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status

pytestmark = pytest.mark.slow

HEAD = """
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x, factor)
        return x * factor
    @staticmethod
    def backward(ctx, gradient):
        x, factor = ctx.saved_tensors
        return gradient * factor, (gradient * x).sum(0)

def layer():
    return nn.Linear(4, 3)

def data():
    torch.manual_seed(0)
    return torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])

"""
FUNCTIONS = {
    "one gradient of two": (
        "def backward(ctx, gradient): return gradient",
        "forward of Own (train.py, line",
        "return 2 values from it, one for each argument (x, factor)",
    ),
    "a gradient of another shape": (
        "def backward(ctx, gradient): return gradient, gradient.t()",
        "passes 2 (x [6, 3]; factor [3])",
        "in its shape",
    ),
    "one argument of two": (
        "def backward(ctx): return None, None",
        "returns 1 output; apply()",
        "Define backward(ctx, grad) of Own",
    ),
    "fewer arguments": (
        "def forward(ctx, x): return x",
        "takes ctx, x; apply() in train.py",
        "return 2 values from it",
    ),
    "ctx beside setup_context": (
        "def forward(ctx, x, factor): return x\\n"
        "    @staticmethod\\n"
        "    def setup_context(ctx, inputs, output): pass",
        "takes ctx, x, factor; apply() in train.py",
        "return 2 values from it",
    ),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_a_function_of_the_user_is_named_with_its_counts(
    case: str, own: Own, without_diagnosis: list[object]
) -> None:
    method, cause, remedy = FUNCTIONS[case]
    method = method.replace("\\n", "\n")
    source = f"""{HEAD}
class Own(Scale):
    @staticmethod
    {method}

def make():
    model = layer()
    model.factor = nn.Parameter(torch.ones(3))
    def loss(model, batch):
        return F.cross_entropy(Own.apply(model(batch[0]).float(), model.factor), batch[1])
    return model, data(), loss
"""
    verdict = completes(own(source))
    assert verdict.status is Status.FAIL
    assert cause in verdict.summary
    assert remedy in (verdict.fix or "")
    assert "third value of the factory" not in (verdict.fix or "")


LOSSES = {
    "grad of grad": (
        "x = x.clone().requires_grad_(); first = torch.autograd.grad(m(x).tanh().sum(), x)[0]; "
        "return torch.autograd.grad((2 * first).sum(), x)[0].sum()",
        "the path to the loss ends at grad in train.py",
        "create_graph=True to torch.autograd.grad in train.py",
    ),
    "grad of a detached value": (
        "x = x.clone().requires_grad_(); y = m(x).detach(); "
        "return torch.autograd.grad(y.sum(), x)[0].sum()",
        "the path to the loss ends at detach in train.py",
        "remove detach there",
    ),
    "one_hot of a background class": (
        "return (m(x) * F.one_hot(y + 1, 3)).sum()",
        "2 of 6 values are 3, at [2] and [5] in the result of add of part [1] of the batch in "
        "train.py, line",
        "num_classes=4 or more",
    ),
    "one_hot of an ignored label": (
        "return (m(x) * F.one_hot(torch.where(y == 0, -100, y), 3)).sum()",
        "2 of 6 values are -100",
        "Replace the label -100",
    ),
    "one_hot of an unlabelled pixel": (
        "return (m(x) * F.one_hot(torch.where(y == 0, 255, y), 3)).sum()",
        "2 of 6 values are 255",
        "labels.masked_fill(labels == 255, 0)",
    ),
    "gather": ("return m(x).gather(1, y[:, None] + 1).sum()", "allowed are 0 to 2", "begin with 1"),
    "random numbers in vmap": (
        "return vmap(lambda row: F.dropout(m(row), 0.5).sum())(x).mean()",
        "randomness error mode",
        "randomness='different'",
    ),
    "item in vmap": (
        "return vmap(lambda row: m(row).sum() * row.sum().item())(x).mean()",
        "calling .item()",
        "Keep the value a tensor",
    ),
    "if in vmap": (
        "return vmap(lambda row: m(row).sum() if row.sum() > 0 else m(row).mean())(x).mean()",
        "data-dependent",
        "torch.where",
    ),
    "a written tensor in vmap": (
        "total = torch.zeros(3); return vmap(lambda row: total.add_(m(row)).sum())(x).mean()",
        "broadcast shape",
        "train.py",
    ),
    "grad of several values": (
        "return grad(lambda w: x @ w.t())(m.weight).sum()",
        "scalar Tensor",
        "one scalar tensor",
    ),
    "keys of a wrapped model": (
        "state = {'module.' + n: w for n, w in m.named_parameters()}; "
        "return functional_call(m, state, (x,)).sum()",
        "functional_call got module Linear",
        "without a prefix such as module.",
    ),
    "probabilities outside": (
        "return torch.distributions.Bernoulli(probs=m(x).float() * 9).log_prob(x[:, :3]).sum()",
        "Interval(lower_bound=0.0",
        "Pass logits=",
    ),
    "a covariance": (
        "c = torch.distributions.MultivariateNormal(torch.zeros(3), -torch.eye(3)); "
        "return c.log_prob(m(x).float()).sum()",
        "PositiveDefinite",
        "scale_tril=L",
    ),
    "values outside": (
        "d = torch.distributions.Beta(torch.ones(3), torch.ones(3)); "
        "return d.log_prob(m(x).float() + 9).sum()",
        "18 of 18 values violate Interval",
        "torch.sigmoid",
    ),
    "a packed sequence": (
        "p = nn.utils.rnn.pack_padded_sequence(x[..., None], torch.tensor([4] * 6), True); "
        "return m(p[:, -1]).sum()",
        "p is a PackedSequence",
        "train.py",
    ),
    "a state of one layer": (
        "r = nn.LSTM(4, 3, 2); h = torch.zeros(1, 6, 3); return r(x[None], (h, h))[0].sum()",
        "the state is [1, 6, 3]; LSTM with the input [1, 6, 4] takes [2, 6, 3]",
        "num_layers times 2 if bidirectional",
    ),
    "letters of einsum": (
        "return m(torch.einsum('bi,ij->bj', x, torch.ones(5, 4))).sum()",
        "subscript i has size 5",
        "each letter",
    ),
    "a scatter of fewer": (
        "return torch.zeros(6, 3).scatter(1, y[:, None], m(x).float()).sum()",
        "ScatterBackward0 is in train.py",
        "index.expand_as(source)",
    ),
    "an interpolation": (
        "return m(F.interpolate(x, scale_factor=2, mode='bilinear')).sum()",
        "Only 3D, 4D and 5D",
        "[batch, channels, height, width]",
    ),
    "a model without a wrapper": (
        "return m.module(x).sum()",
        "weight, bias",
        "train.py",
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_a_misused_part_of_torch_has_its_own_remedy(
    case: str, own: Own, without_diagnosis: list[object]
) -> None:
    code, cause, remedy = LOSSES[case]
    lines = "".join(f"        {each}\n" for each in code.split("; "))
    source = f"""{HEAD}
def make():
    def loss(m, batch):
        x, y = batch
{lines}
    return layer(), data(), loss
"""
    verdict = completes(own(source))
    assert verdict.status is Status.FAIL
    assert cause in verdict.summary
    assert remedy in (verdict.fix or "")


ROOT = """
def make():
    model = layer()
    model.root = nn.Parameter(torch.zeros(3))  # the gradient of its root is infinite
    passes = []
    def loss(m, batch):
        passes.append(1)
        x, y = batch
        logits = m(x).float() + m.root.sqrt()
        {after}
        return F.cross_entropy(logits, y)
    return model, data(), loss
"""
AFTER = {
    "an index": ("count = int(logits.sum().item())", Status.WARN),
    "an assertion": ("assert torch.isfinite(logits).all()", Status.WARN),
    "a distribution": ("torch.distributions.Categorical(logits=logits)", Status.WARN),
    "a key": ("batch['x'] if len(passes) > 1 else None", Status.FAIL),
    "a shape": ("m(x[:, :2]) if len(passes) > 1 else None", Status.FAIL),
}


@pytest.mark.parametrize("case", AFTER)
def test_an_error_that_follows_from_nan_is_that_of_the_step_before(
    case: str, own: Own, without_diagnosis: list[object]
) -> None:
    after, status = AFTER[case]
    record = own(HEAD + ROOT.format(after=after))
    assert judged(own_model.LOSS_FINITE, record).status is Status.FAIL
    verdict = completes(record)
    assert verdict.status is status
    assert ("see SMK006" in verdict.summary) == (status is Status.WARN)
    for options in (RunOptions(only=("SMK005",)), RunOptions(skip=("own-loss-finite",))):
        assert own_model.completes(record, None, options).status is Status.FAIL
    assert own_model.completes(record, None, RunOptions(only=("smk",))).status is status
    assert "Traceback, " not in (judged(own_model.LOSS_FINITE, record).fix or "")


UNDEFINED = {
    "softmax_signs": ("F.soft_margin_loss(y.sum(1), (gold > 1).float())", "signs"),
    "signs": ("F.soft_margin_loss(y.sum(1), (gold > 1).float() * 2 - 1)", ""),
    "cosine": ("F.cosine_embedding_loss(y, y.detach().flip(0), (gold > 1).float())", "signs"),
    "ranks": ("F.margin_ranking_loss(y[:, 0], y[:, 1], torch.ones(6))", ""),
    "kl": ("F.kl_div(y.log_softmax(1), y.detach().softmax(1), log_target=True)", "no log target"),
    "kl of logarithms": (
        "F.kl_div(y.log_softmax(1), y.detach().log_softmax(1), log_target=True)",
        "",
    ),
    "kl of scores": ("F.kl_div(y + 4, y.detach().softmax(1))", "no log-probabilities"),
    "several": ("F.cross_entropy(y, torch.tensor([[1., 1., 0.]] * 6))", "several"),
    "one hot": ("F.cross_entropy(y, F.one_hot(gold, 3).float())", ""),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_numbers_that_a_loss_is_not_defined_for(name: str, own: Own) -> None:
    loss, kind = UNDEFINED[name]
    record = own(f"""{HEAD}
class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = layer()
    def forward(self, x, gold):
        y = self.a(x)
        return {loss}

def make():
    return Scored(), data()
""")
    assert record.trend is not None
    assert [each.kind for each in record.trend.misused] == [kind] * bool(kind)


def test_a_momentum_of_another_library(own: Own) -> None:
    source = """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8, momentum={})
    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.norm(self.a(x)), labels)
def make():
    return Normed(), batch()
"""
    verdict = judged(own_model.LOSS_FINITE, own(source.format(0.99)))
    assert verdict.status is Status.WARN
    assert "norm, momentum 0.99" in verdict.summary
    for healthy in ("0.1", "None", "1.0"):
        assert judged(own_model.LOSS_FINITE, own(source.format(healthy))).status is Status.PASS
