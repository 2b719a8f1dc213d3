"""What a factory may return, and the errors of one that returns something else."""

from __future__ import annotations

import pytest
from own_code import Own, completes, smoke_of

from doctor.checks.training import own_gradients, own_weights
from doctor.checks.training import own_model as checks
from doctor.job.job import Job
from doctor.judge.check import Owner, Status
from doctor.report import own_model

pytestmark = pytest.mark.slow

UNSEEDED = """
import random
import numpy
def make():
    inputs = torch.rand(4, 8) + random.random() + numpy.random.rand()
    return Net(), {"x": inputs, "labels": torch.randint(3, (4,))}
"""


def test_the_same_code_trains_alike_in_every_process(own: Own, own_process: Own) -> None:
    first, second = smoke_of(own(UNSEEDED)), smoke_of(own_process(UNSEEDED))
    assert [step.loss for step in first.steps] == [step.loss for step in second.steps]


def test_the_example_of_the_contract_trains(own: Own) -> None:
    record = own(own_model.EXAMPLE)
    assert completes(record).status is Status.PASS
    assert own_weights.weights_move(record, Job()).status is Status.PASS
    assert smoke_of(record).optimizer


@pytest.mark.parametrize(
    "returned",
    [
        "Net(), batch()",
        "Net(), tuple(batch().values())",
        "Net(), list(batch().values())",
        "nn.Sequential(nn.Linear(8, 1), nn.Flatten(0), nn.Softplus(), Mean()), torch.ones(4, 8)",
        "Net(), batch(), lambda module, inputs: module(**inputs)['loss']",
        "Net(), batch(), lambda module, inputs: (module(**inputs)['loss'], 1)",
        "Net(), lambda module: module(**batch())",
        "Tokens()",
        "Example()",
        "Example(), torch.ones(4, 8), lambda module, x: module(x)",
        "nn.Linear(8, 3), tuple(batch().values()), nn.CrossEntropyLoss()",
        "nn.Linear(8, 3), tuple(batch().values()), lambda logits, y: nn.functional.nll_loss("
        "logits.log_softmax(-1), y)",
        "nn.Linear(8, 3), tuple(batch().values()), lambda out, b: nn.functional.nll_loss("
        "out.log_softmax(-1), b[1])",
        "Net(), batch(), lambda outputs, batch: outputs['loss'] + 0 * batch['x'].sum()",
        "nn.Linear(8, 8), batch()['x'], lambda recon, batch: (recon - batch).pow(2).mean()",
        "{'model': Net(), 'batch': [batch()].__iter__()}",
        "{'model': Net(), 'loader': [batch(), batch(), batch()]}",
        "Net(), [tuple(batch().values()), tuple(batch().values()), tuple(batch().values())]",
        "nn.Linear(8, 3), [tuple(batch().values()), tuple(batch().values())], support_and_query",
        "nn.ModuleDict({'actor': Net()}), tuple(batch().values()), of_actor",
        "{'module': Net(), 'data': batch(), 'loss_fn': None}",
        "with_optimizer(Net(), batch(), None)",
        "with_optimizer(Net(), batch())",
        "with_optimizer(nn.Linear(8, 3), tuple(batch().values()), nn.CrossEntropyLoss())",
        "nn.Linear(8, 3), tuple(batch().values()), lambda z, t: passed_on(z, t[1])",
        "nn.Linear(8, 3), tuple(batch().values()), lambda a, t: passed_on(a(t[0]), t[1])",
        "Net(), batch(), Words()",
        "nn.Linear(8, 3), tuple(batch().values()), focal",
        "nn.Linear(8, 3), tuple(batch().values()), weighted",
        "{'model': Net(), 'train': [batch(), batch()], 'eval': [batch()], 'tokenizer': Words()}",
    ],
)
def test_a_factory_returns_what_the_contract_says(returned: str, own: Own) -> None:
    record = own(f"""
        class Mean(nn.Module):
            def forward(self, x):
                return x.mean()

        class Words:
            def convert_ids_to_tokens(self, ids): ...
            def pad(self, rows): ...
            def __call__(self, texts): ...

        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(17, 17)
                self.config = type("Config", (), {{"vocab_size": 17}})()

            def forward(self, input_ids, labels):
                record = self.table(input_ids).flatten(0, 1)
                return (nn.functional.cross_entropy(record, labels.flatten()),)

        class Example(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 2)
                self.example_input_array = torch.ones(4, 8)

            def forward(self, x):
                return self.inner(x).pow(2).mean()

        def passed_on(anything, labels):
            return nn.functional.cross_entropy(anything, labels)

        def focal(logits, labels, gamma=2.0):
            return (passed_on(logits, labels) ** gamma).mean()

        def weighted(model, batch, weight=0.5, *, extra=1.0):
            x, labels = batch
            return weight * passed_on(model(x), labels)

        def support_and_query(module, task):
            (x, labels), (more, others) = task
            return sum(passed_on(module(a), b) for a, b in ((x, labels), (more, others)))

        def of_actor(policy, batch):
            x, y = batch
            return policy["actor"](x, y)["loss"]

        def with_optimizer(*parts):
            optimizer = torch.optim.AdamW(parts[0].parameters())
            return (*parts, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1000))

        def make():
            return {returned}
        """)
    assert record.built.ok
    assert record.description.endswith("train.py:make")
    assert completes(record).status is Status.PASS
    assert checks.loss_finite(record, None).status is Status.PASS
    assert own_gradients.gradients_reach_all(record, None, Job()).status is Status.PASS
    assert own_weights.weights_move(record, Job()).status is Status.PASS
    assert record.trainable == record.parameters


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("return 7", "the factory returned int; return (module, batch)"),
        ("return (1, 2)", "the factory returned (int, int); return (module, batch)"),
        ("return Net()", "which has neither config.vocab_size nor example_input_array"),
        ("return Net(), 7", "the factory's batch is int"),
        ("return Net(), batch(), 7", "not a loss function"),
        ("return Net().requires_grad_(False), batch()", "nothing would train"),
        ("return Net().to('meta'), batch()", "on the meta device"),
        ("return Net(), {'x': torch.ones(4, 8, device='meta')}", "the batch has tensors on the"),
        ("raise ValueError('no such data set')", "ValueError: no such data set"),
        ("sys.exit(3)", "the factory called sys.exit(3)"),
        ("return make(1)", "TypeError: make() takes 0 positional arguments"),
    ],
)
def test_the_error_of_a_factory_is_reported(body: str, text: str, own: Own) -> None:
    record = own(f"def make():\n    {body}\n")
    assert not record.built.ok
    verdict = completes(record)
    assert (verdict.status, text in verdict.summary) == (Status.FAIL, True), verdict.summary
    assert record.smoke is None
    assert ("train.py" in record.traceback) == ("Error" in text or "exit" in text)
    assert "probes" not in record.traceback


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def other(): pass", "train.py has no make; it has Net, batch, other"),
        ("make = 7", "train.py is not a function"),
        ("sys.exit('bye')", "called sys.exit('bye') while it was imported"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def make(:", "SyntaxError"),
    ],
)
def test_a_file_without_the_factory(source: str, text: str, own: Own) -> None:
    assert text in completes(own(source)).summary


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        ("module(**inputs)['loss'].detach()", "does not require grad"),
        ("torch.ones(4)", "the loss has the shape [4] and is not a scalar"),
        ("{'loss': 7}", "returned no loss but dict"),
        ("7", "returned no loss but int"),
    ],
)
def test_an_invalid_loss_is_reported_with_its_stage(
    loss: str, text: str, own: Own, without_diagnosis: list[object]
) -> None:
    record = own(f"def make():\n    return Net(), batch(), lambda module, inputs: {loss}\n")
    verdict = completes(record)
    assert verdict.status is Status.FAIL
    assert text in verdict.summary
    assert "forward raised" in verdict.summary or "backward raised" in verdict.summary
    assert ("detach" if "grad" in text else "return model, batch, lambda") in (verdict.fix or "")
    assert verdict.owner is Owner.JOB


@pytest.mark.parametrize(
    ("initial", "factor", "rate", "resting", "waiting"),
    [
        ("0.0", "1.0", 0.0, True, False),
        ("1e-3", "float(step > 100)", 1e-3, False, True),
        ("1e-12", "step + 1.0", 3e-12, False, False),
    ],
)
def test_a_schedule_can_raise_a_learning_rate_only_if_it_multiplies_more_than_0(
    own: Own, initial: str, factor: str, rate: float, resting: bool, waiting: bool
) -> None:
    record = own(f"""
        def make():
            net = Net()
            groups = [{{"params": net.a.parameters(), "lr": {initial}}},
                      {{"params": net.b.parameters(), "lr": 1e-3}}]
            optimizer = torch.optim.SGD(groups)
            factors = [lambda step: {factor}, lambda step: 1.0]
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factors)
            return {{"model": net, "batch": batch(), "optimizer": optimizer, "scheduler": schedule}}
        """)
    smoke = smoke_of(record)
    assert smoke.optimizer is not None
    names = ("a.weight", "a.bias")
    assert smoke.optimizer.resting == (names if resting else ())
    assert smoke.optimizer.waiting == (names if waiting else ())
    (weight,) = [each for each in smoke.parameters if each.name == "a.weight"]
    assert weight.rate == pytest.approx(rate)


def test_parameters_of_the_loss_and_weights_that_were_left_out_are_recorded(own: Own) -> None:
    record = own("""
        class Centers(nn.Module):
            def __init__(self):
                super().__init__()
                self.centers = nn.Parameter(torch.randn(3, 8))
            def forward(self, output, batch):
                return (output - self.centers[batch[1]]).pow(2).mean()

        class Critic:
            def __init__(self):
                self.layers = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
                self.centers = Centers()
            def __call__(self, output, batch):
                return self.centers(output, batch) - self.layers(output).mean()

        def make():
            net = nn.Linear(8, 8)
            net.load_state_dict({"module.weight": torch.ones(8, 8)}, strict=False)
            optimizer = torch.optim.Adam(net.parameters())
            return net, tuple(batch().values()), Critic(), optimizer
        """)
    assert record.of_loss == ("centers.centers",)
    assert [(each.given, each.unused) for each in record.partial_loads] == [(1, 1)]
    assert completes(record).status is Status.WARN


def test_an_optimizer_with_a_closure_is_replaced(own: Own) -> None:
    record = own("""
        class SAM(torch.optim.SGD):
            def step(self, closure):
                closure()
        def make():
            net = Net()
            return net, batch(), None, SAM(net.parameters(), lr=0.1)
        """)
    assert completes(record).status is Status.PASS
    assert "SAM needs a closure, so AdamW was used" in record.description


@pytest.mark.parametrize(
    ("body", "named", "fix"),
    [
        ("def __int__(self): self.a = nn.Linear(8, 3)", "Empty.__int__", "Rename that method"),
        (
            "def __init__(self):\n        super().__init__()\n        self.a = [[nn.Linear(8, 3)]]",
            "layers are in a, a list",
            "nn.ModuleList([...])",
        ),
        (
            "def __init__(self):\n        super().__init__()\n        self.w = torch.randn(8, 3)",
            "tensors are in w",
            "nn.Parameter(",
        ),
        ("size = 3", "it has none", "Make the layers in __init__"),
    ],
)
def test_a_model_without_parameters_says_where_its_weights_are(
    body: str, named: str, fix: str, own: Own
) -> None:
    source = f"class Empty(nn.Module):\n    {body}\ndef make():\n    return Empty(), batch()\n"
    verdict = completes(own(source))
    assert verdict.fix is not None
    assert (named in verdict.summary, fix in verdict.fix) == (True, True)
    assert "requires_grad_(True)" not in verdict.fix


def test_a_frozen_model_is_not_taken_for_one_without_parameters(own: Own) -> None:
    verdict = completes(own("def make():\n    return Net().requires_grad_(False), batch()\n"))
    assert "requires_grad_(True)" in str(verdict.fix)
