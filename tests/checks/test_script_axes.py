"""What runs over samples, or mixes axes, and what only looks like it."""

from __future__ import annotations

import pytest
from script_code import codes

MODULE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        {made}
    def forward(self, x):
        {body}
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
"""
VIEW = "axes-exchanged-by-view"
LSTM = "self.rnn = nn.LSTM(d, d, batch_first=True); self.out = nn.Linear(d, 2)"
TIME = "self.rnn = nn.LSTM(d, d); self.out = nn.Linear(d, 2)"
CONV = "self.conv = nn.Conv2d(3, 8, 3); self.out = nn.Linear(8, 2)"
ATTENTION = "self.conv = nn.Conv2d(3, 8, 3); self.attn = nn.MultiheadAttention(8, 2{})"
ENSEMBLE = "self.w = nn.Parameter(torch.randn(5, 8, 8)); self.out = nn.Linear(8, 2)"


def module(made: str, body: str) -> str:
    lines = body.replace("; ", "\n        ")
    return MODULE.format(made=made.replace("; ", "\n        "), body=lines)


@pytest.mark.parametrize(
    ("made", "body", "slug"),
    [
        (LSTM, "h, _ = self.rnn(x); return self.out(h.mean(dim=0))", "batch-axis"),
        (LSTM, "h, _ = self.rnn(x); h = h.max(0).values; return self.out(h)", "batch-axis"),
        (LSTM, "h, _ = self.rnn(x); w = torch.softmax(h, dim=0); return (w * h).sum(1)",
         "batch-axis"),
        (LSTM, "B, T, C = x.shape; k = F.softmax(x, dim=0); return self.out(k.sum(1))",
         "batch-axis"),
        (CONV, "B, C = x.shape; return x.softmax(dim=0)", "batch-axis"),
        (CONV, "B, T = x.shape; s = x.view(T, B, 1); return self.out(s[-1])", VIEW),
        (CONV, "B, C, H, W = x.shape; s = x.view(B, H * W, C); return s.mean(1)", VIEW),
        (CONV, "b, _, t, f = x.shape; h = self.conv(x).view(b, t, -1); return h.mean(1)",
         VIEW),
        (ATTENTION.format(""), "B, C, H, W = x.shape; "
         "h = self.conv(x).flatten(2).transpose(1, 2); "
         "h = self.attn(h, h, h)[0]; return h.mean(2)", "time-axis-first"),
    ],
)  # fmt: skip
def test_axes_that_mix_samples(made: str, body: str, slug: str) -> None:
    assert slug in codes(module(made, body))


@pytest.mark.parametrize(
    ("made", "body"),
    [
        # the time comes first
        (TIME, "h, _ = self.rnn(x.transpose(0, 1)); return self.out(h.mean(dim=0))"),
        (TIME, "T, B, C = x.shape; w = F.softmax(x, dim=0); return self.out((w * x).sum(dim=0))"),
        # pooled along the time
        (LSTM, "h, _ = self.rnn(x); return self.out(h.mean(dim=1))"),
        # a mean over layers, and over the members of an ensemble
        (LSTM, "a, _ = self.rnn(x); b, _ = self.rnn(a); "
         "h = torch.stack([a, b]).mean(dim=0); return self.out(h[:, -1])"),
        (ENSEMBLE, "h = torch.bmm(x.expand(5, -1, -1), self.w); return self.out(h.mean(dim=0))"),
        # statistics of the batch that no layer gets
        (LSTM, "h, _ = self.rnn(x); self.center = h.mean(dim=0); return self.out(h[:, -1])"),
        # axes that were moved before, or whose lengths have other names since
        (CONV, "B, T = x.shape; s = x.t().reshape(T, B, 1); return self.out(s[-1])"),
        (CONV, "B, C, H, W = x.shape; s = x.permute(0, 2, 3, 1).reshape(B, H * W, C); "
         "return s.mean(1)"),
        (CONV, "B, C, H, W = x.shape; s = x.flatten(2).transpose(1, 2); "
         "s = s.transpose(1, 2).reshape(B, C, H, W); return s.mean((2, 3))"),
        (CONV, "B, H, W, C = x.shape; return self.out(x.view(B, H * W, C).mean(1))"),
        (CONV, "b, _, t, f = x.shape; return x.view(b, t, -1).mean(1)"),
        (CONV, "b, c, h, w = x.shape; f = x.view(b, c, w * h); return f @ f.transpose(1, 2)"),
        (CONV, "N, C, H, W = x.shape; n = C // 4; x = x.view(N, n, 2, 2, H, W); "
         "x = x.permute(0, 1, 4, 2, 5, 3).reshape(N, n, H * 2, W * 2); return x.mean((2, 3))"),
        (CONV, "B, T = x.shape; T = T // 2; s = x.view(T, B, 2); return s.mean(0)"),
        # proposals of one image, over which detection normalizes
        (CONV, "b, c = x.shape; return (x.softmax(dim=0) * x.softmax(dim=1)).sum(0)"),
        # attention that gets the time first, has batch_first, or runs over the batch on purpose
        (ATTENTION.format(""), "h = self.conv(x).flatten(2).permute(2, 0, 1); "
         "return self.attn(h, h, h)[0].mean(0)"),
        (ATTENTION.format(", batch_first=True"), "h = self.conv(x).flatten(2).transpose(1, 2); "
         "return self.attn(h, h, h)[0].mean(1)"),
        (ATTENTION.format(""), "h = self.conv(x).mean((2, 3)); "
         "B, C = h.shape; h = h.unsqueeze(1); return self.attn(h, h, h)[0].squeeze(1)"),
        # attention over time: one weight for each step
        (LSTM, "h, _ = self.rnn(x); w = torch.softmax(self.out(h), dim=1); return (w * h).sum(1)"),
    ],
)  # fmt: skip
def test_axes_on_purpose(made: str, body: str) -> None:
    found = codes(module(made, body))
    assert not {"batch-axis", "axes-exchanged-by-view", "time-axis-first"} & found.keys(), found


SEGMENTED = """
import torch
import torch.nn.functional as F
from torchvision.models.segmentation import fcn_resnet50
model = fcn_resnet50(num_classes=3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    pred = model(x)["out"]
    loss = F.cross_entropy(pred, y)
    {}
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("line", "fires"),
    [
        ("share = F.softmax(pred, dim=-1)", True),
        ("share = F.softmax(pred, dim=3)", True),
        ("share = F.softmax(pred, dim=1)", False),
        ("share = F.softmax(pred, dim=-3)", False),
        ("pred = pred.permute(0, 2, 3, 1); share = F.softmax(pred, dim=-1)", False),
        ("share = F.softmax(pred.flatten(2), dim=-1)", False),
    ],
)
def test_classes_of_the_loss(line: str, *, fires: bool) -> None:
    code = SEGMENTED.format(line.replace("; ", "\n    "))
    assert ("batch-axis" in codes(code)) is fires


COMPARED = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet18
net = resnet18()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def info(z):
    sim = {product}
    return F.cross_entropy(sim.fill_diagonal_(-1e4), labels)
for x, _ in loader:
    opt.zero_grad()
    z = F.normalize(net(x), dim={dim})
    loss = info(z)
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("product", "dim", "fires"),
    [
        ("z @ z.T / 0.1", 0, True),
        ("z @ z.T / 0.1", 1, False),
        ("z @ z.T / 0.1", -1, False),
        ("z.T @ z / 0.1", 0, False),
        ("torch.mm(z.t(), z)", 0, False),
    ],
)
def test_unit_length(product: str, dim: int, *, fires: bool) -> None:
    assert ("batch-axis" in codes(COMPARED.format(product=product, dim=dim))) is fires


CHARACTERS = """
import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 30)
    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h){}
net = Net()
ctc = nn.CTCLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y, n, m in loader:
    opt.zero_grad()
    loss = ctc(net(x).transpose(0, 1), y, n, m)
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("end", "fires"),
    [
        (".log_softmax(dim=1)", True),
        (".log_softmax(dim=-1)", False),
        (".log_softmax(2)", False),
        (".transpose(0, 1).log_softmax(2).transpose(0, 1)", False),
    ],
)
def test_characters_are_last(end: str, *, fires: bool) -> None:
    assert ("batch-axis" in codes(CHARACTERS.format(end))) is fires


GATE = "self.gate = nn.Linear(8, 4); self.out = nn.Linear(8, 2)"
PAIRS = "self.a = nn.Linear(8, 4); self.b = nn.Linear(8, 4)"
LAYER_WEIGHTS = "self.mix = nn.Parameter(torch.zeros(8)); self.out = nn.Linear(8, 2)"
CENTERS = "self.q = nn.Linear(8, 8); self.k = nn.Linear(8, 8); self.c = nn.Parameter(torch.ones(8))"
FRAMES = "self.body = torchvision.models.resnet18(); self.out = nn.Linear(8, 2)"
SILENT = {"batch-axis", "time-axis-first", "attention-formula", "standard-part-of-a-network"}


@pytest.mark.parametrize(
    ("made", "body"),
    [
        # one sequence, or one image, without a batch
        ("self.e = nn.Embedding(9, 8); self.rnn = nn.LSTM(8, 8); self.out = nn.Linear(8, 2)",
         "h, _ = self.rnn(self.e(x)); return F.log_softmax(self.out(h), dim=1)"),
        (TIME, "h, _ = self.rnn(x); return torch.softmax(self.out(h), dim=1)"),
        (TIME, "h, _ = self.rnn(x); s = self.out(h); loss = F.cross_entropy(s, tags); "
         "return loss, F.softmax(s, dim=-1)"),
        (CONV, "h = torch.relu(self.conv(x)); return F.normalize(h.softmax(dim=0), dim=1)"),
        # samples by samples, in both directions
        (PAIRS, "s = self.a(x) @ self.b(x).T; B, _ = s.shape; one = F.log_softmax(s / 0.1, dim=1); "
         "two = F.log_softmax(s, dim=0); return one.diag() + two.diag()"),
        (PAIRS, "batch = x.shape[0]; s = self.a(x).view(batch, batch); "
         "return F.log_softmax(s, dim=1).diag()"),
        # shares that were changed in place
        (GATE, "p = F.softmax(self.gate(x), dim=1); p[x > 0] = 0; "
         "return self.out(x), p.mean(dim=1)"),
        (GATE, "p = F.softmax(self.gate(x), dim=1); p.masked_fill_(x > 0, 0.0); "
         "return self.out(x), p.mean(dim=1)"),
        (GATE, "p = F.softmax(self.gate(x), dim=1); p.clamp_(min=0.1); "
         "return self.out(x), p.mean(dim=1)"),
        # one learned weight for each layer, or each stream
        (LAYER_WEIGHTS, "w = F.softmax(self.mix, dim=0); "
         "return self.out((w.unsqueeze(-1) * x).sum(dim=1))"),
        (LAYER_WEIGHTS, "w = F.softmax(self.mix.view(2, 4), dim=0); "
         "return self.out((w.unsqueeze(1) @ x).squeeze(1))"),
        # places choose their cluster
        (CENTERS, "q, k = self.q(self.c), self.k(x); m = torch.einsum('bqd,bkd->bqk', q, k); "
         "return torch.softmax(m, dim=1)"),
    ],
)  # fmt: skip
def test_axes_that_are_not_known(made: str, body: str) -> None:
    found = codes(module(made, body))
    assert not SILENT & found.keys(), found


@pytest.mark.parametrize(
    "body",
    [
        "h = AutoModel.from_pretrained('v')(x).last_hidden_state; return self.out(h.mean(dim=0))",
        "h = self.body(x).unsqueeze(0).mean(dim=1); return self.out(h)",
    ],
)
@pytest.mark.parametrize(
    ("size", "fires"), [("None", False), ("1", False), ("8", True)]
)  # the frames of one video are what a loader of single samples gives
def test_frames_of_one_video(body: str, size: str, *, fires: bool) -> None:
    code = "import torchvision\nfrom transformers import AutoModel\n" + module(FRAMES, body)
    loader = f"\nloader = torch.utils.data.DataLoader(rows, batch_size={size})\nfor x, y in"
    assert ("batch-axis" in codes(code.replace("\nfor x, y in", loader))) is fires


def test_rows_that_attend_to_one_another_are_a_warning() -> None:
    made = "self.rows = nn.MultiheadAttention(8, 2); self.out = nn.Linear(8, 2)"
    body = "B, T, C = x.shape; h = x + self.rows(x, x, x)[0]; return self.out(h[:, 0])"
    assert codes(module(made, body))["time-axis-first"] == "warn"


def test_the_reciprocal_of_a_reciprocal() -> None:
    body = "inv = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6); {}"
    for last, fires in (("std = 1.0 / inv; return x / std", False), ("return x / inv", True)):
        code = module(GATE, body.format(last)).replace("Net", "RMSNorm")
        assert ("standard-part-of-a-network" in codes(code)) is fires


def test_the_cost_of_names_on_many_ways() -> None:
    """Each name is made of itself twice, on two ways: what follows is judged nevertheless."""
    way = "if k == {0}: x = self.a(x) + x\n        else: x = torch.cat([x, x], dim=0)"
    ways = "\n        ".join(way.format(n) + "\n        z = F.softmax(x + x, dim=-1)"
                             for n in range(40))  # fmt: skip
    body = ways + "\n        B, T, C = y.shape\n        return F.softmax(y, dim=0)"
    code = module("self.a = nn.Linear(8, 8)", body).replace(
        "forward(self, x)", "forward(self, x, k, y)"
    )
    assert codes(code)["batch-axis"] == "fail"
