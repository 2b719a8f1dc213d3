"""What a faulty step shows beside its place: values, what made them, what overwrites weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.checks.training import place
from doctor.collect.child_messages import Answer
from doctor.collect.children import fit
from doctor.collect.torch_child import TorchChild
from doctor.facts.diagnosis import Diagnosis, Source

pytestmark = pytest.mark.slow

FACTORIES = """
import math
import torch
from torch import nn
from torch.nn import functional as F

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)
        self.prototypes = nn.Parameter(torch.ones(4, 8))
        self.register_buffer("deviation", torch.tensor([1.0, 2, 0, 1, 1, 3]))

    def forward(self, x):
        return self.second(self.first(x).relu())

def made(loss, model=None):
    return model or Two(), {"x": torch.randn(8, 6), "y": torch.randint(4, (8,))}, loss

def neighbours():
    def loss(model, batch):
        count = torch.zeros(8).index_add(0, torch.tensor([0, 1, 2, 4, 5, 6, 7]), torch.ones(7))
        return (model(batch["x"]) / count[:, None]).mean()
    return made(loss)

def prototypes():
    def loss(model, batch):
        with torch.no_grad():
            model.prototypes[2] = 0
        return (model.prototypes / model.prototypes.norm(dim=1, keepdim=True)).mean()
    return made(loss)

def too_short():
    def loss(model, batch):
        scores = model(batch["x"]).log_softmax(1)[:, None].expand(8, 2, 4)
        labels = torch.tensor([[1, 2, 3, 1, 2], [1, 1, 1, 1, 1]])
        return F.ctc_loss(scores, labels, (8, 8), (5, 5))
    return made(loss)

def smoothed():
    mask = torch.tensor([False, False, False, True])
    def loss(model, batch):
        logits = model(batch["x"]).masked_fill(mask, -math.inf)
        return F.cross_entropy(logits, batch["y"] % 3, label_smoothing=0.1)
    return made(loss)

def swapped():
    def loss(model, batch):
        return F.kl_div(torch.full((8, 4), 0.25), model(batch["x"]).log_softmax(1))
    return made(loss)

def weighted():
    weight = torch.ones(3) / torch.tensor([2.0, 0, 1])
    def loss(model, batch):
        logits = model(batch["x"])[:, :3]
        return F.binary_cross_entropy_with_logits(logits, torch.ones(8, 3), pos_weight=weight)
    return made(loss)

def nothing_selected():
    def loss(model, batch):
        keep = torch.ones(8, 4, dtype=torch.bool)
        keep[7] = False
        return (1 - model(batch["x"]).masked_fill(~keep, -math.inf).logsumexp(1)).mean()
    return made(loss)

def growing():
    def loss(model, batch):
        state = torch.ones(8, 6)
        for _ in range(40):
            state = state @ (model.first.weight.t() @ model.first.weight) * 1e3
        return state.mean()
    return made(loss)

def weight_norm():
    model = Two()
    nn.init.zeros_(model.second.weight)
    model.second = nn.utils.parametrizations.weight_norm(model.second)
    return made(lambda model, batch: model(batch["x"]).mean(), model)

class Divided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        return gradient / torch.zeros(8, 1)

def other_data():
    x = torch.zeros(8, 6)
    return made(lambda model, batch: (x / x + model(x)[:, :1]).mean())

class Carrying(Two):
    def __init__(self, statistic):
        super().__init__()
        self.statistic, self.level = statistic, torch.zeros(6)
        self.register_buffer("unread", torch.tensor([1.0, float("nan")]))

    def forward(self, x):
        result = super().forward(x - self.level)
        with torch.no_grad():
            self.level = self.statistic(x)
        return result

def carried():
    return made(lambda model, batch: model(batch["x"]).mean(),
                Carrying(lambda x: x[x[:, 0] > 9].mean(0)))

def carried_finite():
    def loss(model, batch):
        model.deviation.sub_(1.0)
        return (model(batch["x"]).mean() / model.deviation[0]).mean()
    return made(loss, Carrying(lambda x: x.mean(0)))

class Watched(Two):
    def forward(self, x):
        self.shares = (x - x) / (x - x)  # for a plot
        return super().forward(x)

def unread_nan():
    steps = []
    def loss(model, batch):
        steps.append(None)
        return model(batch["x"]).mean() / (2.0 - len(steps))
    return made(loss, Watched())

def in_place():
    return made(lambda model, batch: model(batch["x"]).detach().neg_().exp_().neg_().log_().mean()
                + model(batch["x"]).mean())

def read_from_a_buffer():
    model = Carrying(lambda x: x.mean(0))
    model.level[2] = float("nan")
    return made(lambda model, batch: model(batch["x"]).mean(), model)

# Steps that complete

def pairs():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    return model, (torch.randn(2, 6), torch.randint(4, (2,))), nn.CrossEntropyLoss()

def threes():
    model, _, loss = pairs()
    return model, (torch.randn(3, 6), torch.randint(4, (3,))), loss

class Attention(nn.Module):
    def __init__(self, lengths, batch_first=True):
        super().__init__()
        self.lengths = lengths
        self.attention = nn.MultiheadAttention(6, 2, batch_first=batch_first)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        steps = [x[:, None].expand(-1, length, -1) for length in self.lengths]
        return self.head(sum(self.attention(each, each, each)[0].mean(1) for each in steps))

def batch_taken_for_the_length():
    model = Attention((1,), batch_first=False)
    model.forward = lambda x: model.head(model.attention(x[None], x[None], x[None])[0][0])
    return classified(model)

class Hidden(Attention):
    def forward(self, x):
        steps = x[:, None].expand(-1, 3, -1)
        own = ~torch.eye(3, dtype=torch.bool)
        return self.head(self.attention(steps, steps, steps, attn_mask=own)[0].mean(1))

def cell_of_one_step():
    class Model(Two):
        def forward(self, x):
            return self.second(self.cell(x))
    model = Model()
    del model.first, model.prototypes
    model.cell = nn.GRUCell(6, 8)
    return classified(model)

class Recurrent(nn.Module):
    def __init__(self, steps, kind=nn.GRU):
        super().__init__()
        self.steps, self.read, self.head = steps, kind(6, 8, num_layers=2), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.read(x.expand(self.steps, -1, -1))[0][-1])

class Forgetting(Recurrent):
    def forward(self, x):
        return self.head(self.read(x[None])[0][-1] + self.read(2 * x[None])[0][-1])

class MaskOf(Two):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x):
        q = self.first(x)[None]
        mask = self.mask(x) if callable(self.mask) else self.mask
        return self.second(F.scaled_dot_product_attention(q, q, q, attn_mask=mask)[0])

class Flagged(Two):
    def __init__(self, **flags):
        super().__init__()
        vars(self.first).update(flags)

def flags_of_settings():
    return classified(Flagged(pos_requires_grad=False, no_requires_grad=False,
                              requires_grad_pos=False, input_requires_grad=False))

def flags_without_effect():
    return classified(Flagged(requires_grad=False, require_grad=False, requires_grads=False,
                              requres_grad=False))

def classified(model):
    return model, (torch.randn(8, 6), torch.randint(4, (8,))), nn.CrossEntropyLoss()

class Overwritten(Two):
    def forward(self, x):
        with torch.no_grad():
            self.first.weight.copy_(self.start)
        return super().forward(x)

def set_back():
    model = Overwritten()
    model.start = model.first.weight.detach().clone()
    return classified(model)

class Copied(Two):
    def forward(self, x):
        self.third.load_state_dict(self.second.state_dict())
        return self.third(self.first(x).tanh()) + super().forward(x)

def copied():
    model = Copied()
    model.third = nn.Linear(8, 4)
    return classified(model)

class Clipped(Two):
    def forward(self, x):
        self.first.weight.data.clamp_(-0.1, 0.1)
        return super().forward(x)

def ended():
    model = Two()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, eps=1e-6)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1e-6)
    return dict(zip(("model", "batch", "loss"), classified(model)), optimizer=optimizer,
                scheduler=scheduler, max_grad_norm=1e-15)
"""
RETURNED = {
    "buffer": 'made(lambda model, batch: model(batch["x"] / model.deviation).mean())',
    "certain": 'made(lambda m, batch: (m(batch["x"]).float() * 1e4).softmax(1).log().mean())',
    "rate": 'made(lambda model, batch: model(batch["x"]).relu().log().mean())',
    "negative": 'made(lambda model, batch: (-model(batch["x"]).exp()).log().mean())',
    "own_backward": 'made(lambda model, batch: Divided.apply(model(batch["x"])).mean())',
    "one_token": "classified(Attention((1,)))",
    "hidden_by_a_mask": "classified(Hidden(()))",
    "one_key_and_more": "classified(Attention((1, 2)))",
    "layer_of_one_step": "classified(Recurrent(1, nn.LSTM))",
    "layer_of_two_steps": "classified(Recurrent(2))",
    "layer_that_forgets": "classified(Forgetting(1, nn.RNN))",
    "mask_of_queries": "classified(MaskOf(lambda x: torch.ones(len(x), 1, dtype=torch.bool)))",
    "mask_of_one_value": "classified(MaskOf(torch.zeros(1, 1)))",
    "mask_of_the_diagonal": "classified(MaskOf(lambda x: torch.eye(len(x), dtype=torch.bool)))",
    "scaled": 'made(lambda model, batch: 4096 * F.cross_entropy(model(batch["x"]), batch["y"]))',
    "norm_over_one": "classified(nn.Sequential(nn.Linear(6, 1), nn.LayerNorm(1), nn.Linear(1, 4)))",
    "clipped": "classified(Clipped())",
    "summed_softmax": 'made(lambda model, batch: model(batch["x"]).softmax(1).sum(1).mean())',
}
"""Factory -> what it returns."""
FACTORIES += "".join(f"\ndef {name}():\n    return {code}\n" for name, code in RETURNED.items())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("origins") / "faulty.py"
    path.write_text(FACTORIES, "utf-8")
    return path


class Asked:
    """What one process answers about a factory of the file."""

    def __init__(self, child: TorchChild, file: Path) -> None:
        self.child, self.file = child, file

    def answer(self, stage: str, name: str, **more: Any) -> Answer:
        place = {"file": self.file.name, "name": name, "directory": str(self.file.parent)}
        subject = {"kind": "factory", **place, "batch": 2, "length": None}
        how = {"device": "cpu", "precision": "bf16", "recipe": "amp", **more}
        return self.child.request(60, stage=stage, subject=subject, **how)

    def traced(self, name: str, step: int = 1) -> dict[str, Any]:
        """Where the first value that is not finite comes from."""
        answer = self.answer("trace", name, step=step)
        assert answer.answer, answer.ended
        found: dict[str, Any] = answer.answer["trace"].get("source", {})
        return found

    def source(self, name: str, step: int = 1) -> Source:
        source = fit({"type": "Source", **self.traced(name, step)}, Source)
        assert isinstance(source, Source)
        return source

    def notes(self, name: str, **more: Any) -> dict[str, Any]:
        """What is noted about a training that completes."""
        own: dict[str, Any] = {}
        for note in self.answer("own", name, **more).notes:
            own |= note.get("own", {})
        return own


@pytest.fixture
def asked(warm: TorchChild, file: Path) -> Asked:
    return Asked(warm, file)


@pytest.mark.parametrize(
    ("name", "operation", "remark", "origin", "remedy"),
    [
        ("neighbours", "div", "1 of 8 values of the divisor are 0, at [3, 0]",
         "the result of index_add in faulty.py, line 22", "Clamp the count"),
        ("prototypes", "div", "are 0, at [2, 0]", "the result of norm of the parameter prototypes",
         "functional.normalize"),
        ("buffer", "div", "are 0, at [2]", "the buffer deviation", "that buffer is computed"),
        ("certain", "log", "0 or less (all 0)", "the result of softmax", "log_softmax"),
        ("rate", "log", "0 or less (all 0)", "the result of relu", "softplus"),
        ("negative", "log", "0 or less (all negative)", "the result of neg", "softplus"),
        ("smoothed", "neg", "8 of 32 values of its input are -inf, and label_smoothing=0.1", "",
         "Omit label_smoothing"),
        ("too_short", "_ctc_loss", "1 of 2 samples are too short for their labels: sample 1 has 8 "
         "frames, and its 5 labels need 9", "", "as many frames"),
        ("swapped", "xlogy", "input and target are swapped", "", "Exchange the arguments"),
        ("weighted", "binary_cross_entropy_with_logits", "its pos_weight are inf already, at [1]",
         "", "how pos_weight is computed"),
        ("nothing_selected", "logsumexp", "1 of 8 rows are -inf throughout: nothing is selected "
         "there, at [7]", "the result of masked_fill", "that is not masked"),
        ("growing", "mul", "matrix products before it grow from", "", "keep the scale"),
        ("weight_norm", "_weight_norm_interface", "4 of 4 rows of the direction have a norm of 0",
         "the parameter second.parametrizations.weight.original1", "random numbers"),
    ],
)  # fmt: skip
def test_the_values_and_what_made_them_are_named(
    name: str, operation: str, remark: str, origin: str, remedy: str, asked: Asked
) -> None:
    source = asked.source(name)
    assert source.name == operation
    assert any(remark in each for each in source.remarks), source.remarks
    assert origin in source.origin
    diagnosis = Diagnosis(fault="non-finite loss", source=source)
    assert remark in place.location(diagnosis, "AdamW")
    fix = place.fix_by_location(diagnosis, "")
    assert remedy in fix
    assert "Look at the loss" not in fix or "keep the scale" not in fix


def test_the_line_of_the_users_own_backward_pass_is_named(asked: Asked) -> None:
    source = asked.traced("own_backward")
    assert source["code"] == "return gradient / torch.zeros(8, 1)"
    assert source["backward"] is True


def test_samples_of_a_batch_that_the_loss_does_not_read_are_not_blamed(asked: Asked) -> None:
    assert "samples" not in asked.traced("other_data")


def test_a_value_that_a_module_carries_to_the_next_step_is_traced_to_its_step(asked: Asked) -> None:
    source = asked.source("carried", step=2)
    assert (source.name, source.step, source.state) == ("mean", 1, "level")
    assert source.remarks == ("the tensor has no values",)
    assert "statistic(x)" not in source.code  # the line inside of the function
    diagnosis = Diagnosis(fault="non-finite loss", source=source, step=2)
    assert "the result goes into level, which step 2 reads" in place.location(diagnosis, "AdamW")


def test_a_buffer_that_stays_finite_or_never_was_is_not_blamed(asked: Asked) -> None:
    source = asked.source("carried_finite")
    assert (source.name, source.state) == ("div", "")


def test_a_value_that_no_later_step_reads_is_not_blamed(asked: Asked) -> None:
    """`shares` is NaN after step 1, and the loss divides by 0 in step 2."""
    source = asked.traced("unread_nan", step=2)
    assert source.get("state", "") == ""
    assert "shares" not in source.get("code", "")


def test_the_values_before_an_operation_in_place_count(asked: Asked) -> None:
    source = asked.source("in_place")
    assert source.name == "log_"
    assert "0 or less (all negative)" in source.remarks[0]


def test_the_input_that_is_not_finite_is_named(asked: Asked) -> None:
    source = asked.source("read_from_a_buffer")
    assert "of an input are NaN already" in source.remarks[0]
    assert source.origin == "the tensor level"


def test_a_norm_over_one_value_is_noted_with_what_computes_it(asked: Asked) -> None:
    trend = asked.notes("norm_over_one")["trend"]
    (norm,) = trend["constant_norms"]
    assert norm.startswith("layer_norm in ")
    assert norm.endswith("in 1 (LayerNorm), of what 0.weight, 0.bias compute")


@pytest.mark.parametrize(
    ("name", "discarded", "write"),
    [
        ("set_back", ["first.weight"], "copy_ in faulty.py, line"),
        ("copied", ["third.weight"], "copy_ of load_state_dict in faulty.py, line"),
        ("clipped", [], "clamp_ in faulty.py, line"),
    ],
)
def test_writes_of_the_forward_pass_are_noted(
    name: str, discarded: list[str], write: str, asked: Asked
) -> None:
    trend = asked.notes(name)["trend"]
    assert trend["discarded"] == discarded
    assert trend["writes"][0].startswith(write)


def test_a_constant_loss_has_tiny_gradients_in_fp32(asked: Asked) -> None:
    assert 0.0 < asked.notes("summed_softmax")["trend"]["norm_in_fp32"] < 1e-6
    assert asked.notes("clipped")["trend"]["norm_in_fp32"] is None


def test_the_optimizer_and_its_rates_are_noted(asked: Asked) -> None:
    own = asked.notes("ended")
    optimizer = own["smoke"]["optimizer"]
    assert (optimizer["epsilon"], optimizer["momentum"]) == (1e-6, 0.0)
    assert optimizer["decay"] == pytest.approx(1e-4)
    assert own["trend"]["rates"][:2] == pytest.approx([1e-3, 1e-9])
    assert any(each["clipped"] for each in own["smoke"]["parameters"])


@pytest.mark.parametrize(
    ("name", "norms", "attention", "tokens"),
    [
        ("pairs", 1, 0, 0),
        ("threes", 0, 0, 0),
        ("hidden_by_a_mask", 0, 1, 0),
        ("batch_taken_for_the_length", 0, 1, 0),
        ("one_token", 0, 0, 1),
        ("one_key_and_more", 0, 0, 0),
        ("mask_of_queries", 0, 0, 0),
        ("mask_of_one_value", 0, 0, 0),
        ("mask_of_the_diagonal", 0, 1, 0),
    ],
)
def test_norms_over_two_values_and_attention_over_one_key_are_noted(
    name: str, norms: int, attention: int, tokens: int, asked: Asked
) -> None:
    trend = asked.notes(name)["trend"]
    assert (len(trend["norms_of_two"]), len(trend["single_keys"])) == (norms, attention)
    assert len(trend["single_tokens"]) == tokens
    assert trend["masked_attention"] is (True if name.startswith("mask_of") else None)
    if norms:
        assert "batch_norm" in trend["norms_of_two"][0]
        assert "of what 0.weight, 0.bias compute" in trend["norms_of_two"][0]
    if attention and name != "mask_of_the_diagonal":
        assert "attention (MultiheadAttention)" in trend["single_keys"][0]


def test_the_factor_of_a_loss_is_noted(asked: Asked) -> None:
    assert asked.notes("scaled")["trend"]["loss_factor"] == pytest.approx(4096, rel=0.01)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("cell_of_one_step", ["cell.weight_hh"]),
        ("layer_of_one_step", ["read.weight_hh_l0", "read.weight_hh_l1"]),
        ("layer_of_two_steps", []),
        ("layer_that_forgets", []),
    ],
)
def test_weights_of_a_state_of_0_are_noted(name: str, weights: list[str], asked: Asked) -> None:
    own = asked.notes(name, precision="fp32")  # not every CPU has an LSTM in bf16
    assert sorted(own["trend"]["single_steps"]) == weights


def test_flags_without_effect_are_noted_and_settings_are_not(asked: Asked) -> None:
    without = asked.notes("flags_without_effect")["ineffective"]
    assert [each.split()[0] for each in without] == [
        "first.requires_grad", "first.require_grad", "first.requires_grads", "first.requres_grad",
    ]  # fmt: skip
    assert not asked.notes("flags_of_settings").get("ineffective")
