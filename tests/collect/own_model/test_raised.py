"""Errors of the user's own training: what is observed where they are raised."""

from __future__ import annotations

from typing import Any

import pytest
from own_code import Own, completes

from doctor.facts import observations as seen
from doctor.facts.own_model import OwnModel
from doctor.judge.check import Status

pytestmark = pytest.mark.slow


def raised_by(record: OwnModel) -> Any:
    assert record.raised, record.built
    return record.raised


ONCE = """
calls = []
def make():
    def loss(module, inputs):
        calls.append(1)
        if len(calls) > 1:
            {again}
        return module.a(torch.zeros(4, 9)).sum()
    return Net(), batch(), loss
"""


@pytest.mark.parametrize(
    "again", ["time.sleep(600)", "os.kill(os.getpid(), 11)", "return module.b(inputs['x']).sum()"]
)
def test_a_repetition_that_ends_otherwise_leaves_the_error(again: str, own: Own) -> None:
    record = own(ONCE.format(again=again))
    raised = raised_by(record)
    assert (raised.error, raised.module, raised.code) == (
        "RuntimeError",
        "a",
        "return module.a(torch.zeros(4, 9)).sum()",
    )
    verdict = completes(record)
    assert "forward raised: RuntimeError: mat1 and mat2" in verdict.summary
    assert verdict.status is Status.FAIL


def test_the_repetition_shows_the_arguments(own: Own) -> None:
    record = own(ONCE.format(again="pass"))
    assert [(each.name, each.shape, each.parameter) for each in raised_by(record).operands] == [
        ("input", (4, 9), ""),
        ("weight", (8, 8), "a.weight"),
        ("bias", (8,), "a.bias"),
    ]
    assert "in_features=9" in (completes(record).fix or "")


WORKER = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return {"x": torch.zeros(8), "ids": torch.zeros(3 + index)}

def make():
    loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=1)
    return Net(), loader
"""


def test_a_batch_that_a_worker_cannot_make_is_made_again_here(own_process: Own) -> None:
    record = own_process(WORKER)
    (unequal,) = raised_by(record).all(seen.UnequalSamples)
    assert (unequal.field, unequal.sizes) == ("'ids'", ((3,), (4,), (5,), (6,)))
    assert "collate_fn" in (completes(record).fix or "")


OBSERVED = {
    "NameError": (
        "optmizer = torch.optim.SGD(Net().parameters(), 1); return Net(), optimizer",
        seen.Missing(kind="name", name="optimizer", members=("optmizer",), similar=("optmizer",)),
    ),
    "KeyError": (
        "inputs = batch(); return Net(), inputs['label']",
        seen.Missing(
            kind="key", name="", owner="inputs", members=("x", "labels"), similar=("labels",)
        ),
    ),
    "AttributeError": (
        "return Net().c, batch()",
        seen.Missing(kind="attribute", name="c", owner="Net", members=("a", "b")),
    ),
    "ValueError": (
        "both = (Net(), batch(), None); model, inputs = both",
        seen.Parts(name="both", count=3, parts=("Net", "{'x', 'labels'}", "None")),
    ),
}


@pytest.mark.parametrize("error", OBSERVED)
def test_names_are_observed_where_the_factory_raised(error: str, own: Own) -> None:
    code, record = OBSERVED[error]
    raised = raised_by(own(f"def make():\n    {code}\n"))
    assert raised.errors[0] == error
    assert raised.errors[-2:] == ("Exception", "BaseException")
    assert record in raised.observations


def test_what_a_function_accepts_is_observed(own: Own) -> None:
    raised = raised_by(own("def make():\n    return torch.optim.AdamW([], rate=1)\n"))
    (signature,) = raised.all(seen.Signature)
    assert signature.accepts[:2] == ("params", "lr")
    assert signature.needs == ("params",)


SOME = {
    "None": ("value = None", "value.shape", {seen.NoneValue(name="value")}),
    "nan": (
        "x = torch.full((2, 2), float('nan'))",
        "torch.linalg.cholesky(x)",
        {seen.NonFinite(name="x", text="4 of 4 values")},
    ),
    "index": (
        "x = torch.tensor([0, 7, 9])",
        "torch.zeros(5)[x]",
        {
            seen.IndexRange(
                least=-5, size=5, low=7, high=9, some=(7, 9), outside=2, values=3, distinct=2,
                at=((1,), (2,)), origin="the result of tensor in train.py, line {line}",
            )
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ["None", "nan", "index"])
def test_the_values_of_the_raising_line_are_observed(case: str, own: Own) -> None:
    before, line, expected = SOME[case]
    record = own(f"""
    def loss(module, inputs):
        {before}
        {line}
        return module(**inputs)["loss"]

    def make():
        return Net(), batch(), loss
    """)
    (kind,) = {type(each) for each in expected}
    (one,) = raised_by(record).all(kind)
    (known,) = expected
    names = [name for name in known.__struct_fields__ if name not in ("origin", "line")]
    assert [getattr(one, name) for name in names] == [getattr(known, name) for name in names]


TRAINING = {
    "kept": (
        "kept = [torch.zeros(3)]",
        "kept[0] = kept[0].detach() * 0 + module.b(kept[0].new_zeros(8)) + kept[0]",
        "kept[0].sum()",
        seen.KeptGraph(names=("kept[0]",), where="training"),
    ),
    "backward": (
        "",
        "value = module(**inputs)['loss']; value.backward()",
        "value",
        seen.BackwardCall,
    ),
    "in place": (
        "",
        "y = module.a(inputs['x']).sigmoid(); y += 1",
        "y.sum()",
        seen.Saved,
    ),
}


@pytest.mark.parametrize("case", TRAINING)
def test_the_graph_of_a_backward_pass_is_observed(case: str, own: Own) -> None:
    before, line, result, expected = TRAINING[case]
    record = own(f"""
    def make():
        {before or "pass"}
        def loss(module, inputs):
            {line}
            return {result}
        return Net(), batch(), loss
    """)
    kind = expected if isinstance(expected, type) else type(expected)
    (one,) = raised_by(record).all(kind)
    assert isinstance(expected, type) or one == expected


def test_secrets_are_not_shown_in_arguments(own: Own) -> None:
    source = """
    def make():
        api_key, table = "a-very-secret-value", {}
        return torch.optim.AdamW(Net().parameters(), lr=table[api_key])
    """
    raised = raised_by(own(source))
    assert seen.Value(name="api_key", text="[redacted]") in raised.observations
    assert "secret-value" not in repr(raised.observations)


LIGHTNING = """
class Module(Net):
    training_step = lambda self, batch, index: self(**batch)["loss"]
    train_dataloader = lambda self: [batch()]
    trainer = None

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr={rate})

def make():
    return Module()
"""


@pytest.mark.parametrize(
    ("rate", "built"),
    [("0.1", True), ("self.hparams['lr']", False), ("self.trainer.max_epochs", True)],
)
def test_an_optimizer_that_cannot_be_configured(rate: str, built: bool, own: Own) -> None:
    """It is the code's fault, unless it needs the Trainer, which the doctor does not have."""
    record = own(LIGHTNING.replace("{rate}", rate))
    assert record.built.ok is built
    assert ("AdamW was used" in record.description) is ("trainer" in rate)


@pytest.mark.parametrize(
    "line",
    [
        "user, word = credentials",
        "connect('host', 'alice', passwd=credentials[1])",
        "connect(address, 'alice', None)",
        "len(address, credentials)",
    ],
)
def test_texts_of_secrets_are_not_shown(line: str, own: Own) -> None:
    record = own(f"""
    def connect(host, user, passwd):
        raise ConnectionError("refused")

    def make():
        credentials = tuple("alice hunter2hunter x".split())
        address = "postgresql://bob:" + credentials[1] + "@db/x"
        {line}
    """)
    assert record.raised is not None
    assert "hunter2" not in repr(record)


def test_an_argument_that_is_a_class_leaves_the_error(own: Own) -> None:
    record = own("""
    import numpy as np

    def loss(model, batch):
        return model(**batch)["loss"] + np.loadtxt("/nope/w.txt", dtype=np.float32).sum()

    def make():
        return Net(), batch(), loss
    """)
    assert record.raised is not None
    assert record.raised.error == "FileNotFoundError"
    assert "FileNotFoundError" in str(record.smoke)
