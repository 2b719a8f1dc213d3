"""Faults of the user's own training: learning rate, batch, weights, modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import preloaded
import pytest
from bisections import (
    SECONDS,
    OneProcess,
    Train,
    attempts_of,
    cause_of,
    diagnosed,
    diagnosis_of,
    factory_of,
    failure_of,
)

from doctor.checks.training.diagnosis import (
    add_diagnosis,
    attempts_table,
)
from doctor.collect.children import Children
from doctor.facts.training import Smoke
from doctor.judge.check import Owner, fail

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[OneProcess]:
    """One process for the factories of this module, whose faults stay in their own code."""
    child = OneProcess(Children(), preloaded.python())
    yield child
    child.close()


@pytest.fixture
def train_code(shared: OneProcess, tmp_path: Path) -> Train:
    """Trains the factory in `code`, and diagnoses it."""

    def run(code: str, **how: Any) -> Smoke:
        return diagnosed(shared, factory_of(tmp_path / "planted.py", code), **how)

    return run


POISSON = """
    import torch

    def make():
        torch.manual_seed(0)
        x = torch.rand(16, 128) * 6000  # a count model on inputs nobody normalised
        model = torch.nn.Linear(128, 1)
        torch.nn.init.zeros_(model.weight)
        y = torch.poisson(torch.full((16, 1), 3.0))
        loss = torch.nn.PoissonNLLLoss()
        return model, (x, y), lambda module, batch: loss(module(batch[0]), batch[1])
"""

CLASSIFIER = """
    import torch
    from torch.nn import functional as F

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(50, 16)
            self.scale = torch.nn.Linear(4, 16)
            self.head = torch.nn.Linear(16, 10)

        def forward(self, tokens, values, labels):
            x = self.embedding(tokens) + self.scale(values)[:, None]
            logits = self.head(x)
            return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    def make():
        torch.manual_seed(0)
        model = Classifier()
        batch = {{
            "tokens": torch.randint(50, (4, 16)),
            "values": torch.randn(4, 4),
            "labels": torch.randint(10, (4, 16)),
        }}
        {plant}
        return model, batch
"""


def test_learning_rate(train_code: Train) -> None:
    smoke = train_code(POISSON, precision="fp32")
    assert (diagnosis_of(smoke).fault, diagnosis_of(smoke).step) == ("non-finite loss", 2)
    assert (diagnosis_of(smoke).origin, diagnosis_of(smoke).first_module) == ("loss", None)
    assert attempts_of(smoke)[-2:] == [("lower-lr", "fixed"), ("repeat", "same")]
    assert (
        "finite at a tenth of the learning rate, inf at 0.0003: the learning rate is too high"
    ) in cause_of(smoke, own=True)
    verdict = add_diagnosis(fail("x"), smoke, own=True)
    assert verdict.owner is Owner.JOB
    assert "warm it up" in (verdict.fix or "")


NONE_COUNTS = "labels: all 64 are ignored (-100), so the loss is the mean of nothing"


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        ('batch["values"][1, 2:] = float("nan")', "values: 2 of 16 values not finite"),
        ('batch["values"][0, 0] = float("inf")', "values: 1 of 16 values not finite"),
        ('batch["labels"][0, :3] = 10', "labels: 3 of 64 values outside [0, 10): 10"),
        ('batch["labels"][0, 0] = -1', "labels: 1 of 64 values outside [0, 10): -1"),
        ('batch["labels"][:] = -100', NONE_COUNTS),
        (
            'batch["tokens"][0, :2] = 50',
            "tokens: 2 of 64 values outside the vocabulary [0, 50): 50",
        ),
        ('batch["tokens"] = batch["tokens"][:, :0]', "tokens: empty, its shape is [4, 0]"),
        ("pass", ""),
        ('batch["labels"][0, 5:] = -100', ""),
    ],
)
def test_what_is_wrong_with_a_batch(
    plant: str, text: str, shared: OneProcess, tmp_path: Path
) -> None:
    subject = factory_of(tmp_path / f"{tmp_path.name}.py", CLASSIFIER.format(plant=plant))
    how = {"device": "cpu", "precision": "bf16", "recipe": "amp", "subject": subject}
    answer = shared.request(SECONDS, stage="look", **how)
    notes = [note["look"] for note in answer.notes if "look" in note]
    messages = answer.answer["look"] if answer.answer else notes[0]
    assert messages["bad_batch"] == ([text] if text else [])
    assert messages["bad_weights"] == []


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        ('batch["values"][1, 2:] = float("nan")', "values: 2 of 16 values not finite"),
        ('batch["labels"][0, :3] = 10', "labels: 3 of 64 values outside [0, 10): 10"),
        ('batch["labels"][:] = -100', NONE_COUNTS),
    ],
)
def test_bad_batch(plant: str, text: str, train_code: Train) -> None:
    smoke = train_code(CLASSIFIER.format(plant=plant))
    cause = cause_of(smoke, own=True)
    beyond = "labels: 3 of 64" in text
    what = (
        "the batch and the sizes of the model do not agree" if beyond else "the batch is the cause"
    )
    assert cause.startswith(f"{what}: {text}; ")
    assert cause.endswith("with these values replaced")
    assert attempts_of(smoke) == [("valid-batch", "fixed"), ("repeat", "same")]
    verdict = add_diagnosis(fail("x"), smoke, own=True)
    assert verdict.owner is Owner.JOB
    assert "ps-P11" in verdict.sources


def test_ignored_labels_beside_others_are_no_fault(train_code: Train) -> None:
    plant = 'batch["labels"][1] = -100; model.head.weight.data[0, 0] = float("nan")'
    diagnosis = diagnosis_of(train_code(CLASSIFIER.format(plant=plant)))
    assert diagnosis.remarks == ("labels: 1 of 4 rows hold ignored labels only",)
    assert not diagnosis.bad_batch
    assert attempts_table(diagnosis)[0] == "Also: labels: 1 of 4 rows hold ignored labels only."


def test_weights_that_are_not_finite_before_the_first_step(train_code: Train) -> None:
    smoke = train_code(CLASSIFIER.format(plant="model.head.weight.data[:3] = float('nan')"))
    assert cause_of(smoke, own=True) == (
        "the weights are the cause: head.weight: 48 of 160 values not finite; "
        "finite with these values replaced"
    )
    assert attempts_of(smoke) == [("finite-weights", "fixed"), ("repeat", "same")]


@pytest.mark.parametrize(
    ("plant", "remark"),
    [
        ('batch["unread"] = torch.full((4,), float("nan"))', "unread: 4 of 4 values not finite"),
        ('model.register_buffer("best", torch.tensor(float("inf")))', "best: 1 of 1 values not"),
    ],
)
def test_invalid_values_that_nothing_reads_are_not_blamed(
    plant: str, remark: str, train_code: Train
) -> None:
    code = CLASSIFIER.format(plant=plant).replace("labels):", "labels, unread=None):")
    unstable = "return x.min().clamp(max=0).log() + F.cross_entropy"
    smoke = train_code(code.replace("return F.cross_entropy", unstable))
    diagnosis = diagnosis_of(smoke)
    assert not diagnosis.fixed_by
    assert "is the cause: " not in cause_of(smoke, own=True)
    assert any(remark in line for line in attempts_table(diagnosis))


MODULE = """
    import torch

    class Odd(torch.nn.Module):
        def forward(self, x):
            return {expression}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.odd = Odd()
            self.last = torch.nn.Linear(8, 1)

        def forward(self, x):
            return self.last(self.odd(self.first(x))).square().mean()

    def make():
        torch.manual_seed(0)
        return Model(), (torch.randn(4, 8),)
"""


@pytest.mark.parametrize(
    ("expression", "precision"),
    [("x / (x - x)", "fp32"), ("torch.exp(x.abs() * 1e4)", "fp32"), ("x / (x - x)", "fp16")],
)
def test_module_whose_output_is_not_finite(
    expression: str, precision: str, train_code: Train
) -> None:
    """Also while a GradScaler skips every step."""
    smoke = train_code(MODULE.format(expression=expression), precision=precision)
    diagnosis = diagnosis_of(smoke)
    assert (diagnosis.origin, diagnosis.first_module, diagnosis.first_module_type) == (
        "module",
        "odd",
        "Odd",
    )
    assert diagnosis.step == 1
    assert not diagnosis.fixed_by
    assert diagnosis.source
    assert (diagnosis.source.place, diagnosis.source.certain) == ("planted.py, line 6", True)
    assert diagnosis.source.samples == (0, 1, 2, 3)
    text = cause_of(smoke, own=True)
    assert f"in planted.py, line 6 (`return {expression}`), in step 1: " in text
    assert text.endswith("each of the 4 samples does it")


@pytest.mark.parametrize(
    ("expression", "operation", "stable"),
    [
        ("(x * 0).sqrt()", "SqrtBackward0", "clamp(min=0) + 1e-12"),
        ("(x * 0).norm(dim=-1, keepdim=True) ** 0.5 + x", "PowBackward0", "(x + 1e-12) ** p"),
    ],
)
def test_operation_whose_gradient_is_not_finite(
    expression: str, operation: str, stable: str, train_code: Train
) -> None:
    smoke = train_code(MODULE.format(expression=expression), precision="fp32")
    diagnosis = diagnosis_of(smoke)
    assert (diagnosis.fault, diagnosis.origin) == ("non-finite gradient", "gradient")
    assert diagnosis.bad_gradients == ("first.weight", "first.bias")
    assert (diagnosis.operation or "").startswith(
        f"{operation}, of `return {expression}` in planted.py"
    )
    assert f"values stop being finite in the backward pass of {operation}" in (
        cause_of(smoke, own=True)
    )
    assert stable in (add_diagnosis(fail("x"), smoke, own=True).fix or "")


def test_a_model_that_the_factory_returns_again_needs_a_new_process(train: Train) -> None:
    code = """
        import torch

        class Model(torch.nn.Linear):
            def forward(self, x):
                wrong = torch.is_autocast_enabled("cpu")
                return super().forward(x).square().mean() * (0.0 if wrong else 1.0)

        MODEL = Model(4, 1)

        def make():
            return MODEL, (torch.randn(3, 4),)
    """
    smoke = train(code=code, separate=True, changes=())
    assert attempts_of(smoke) == [("repeat", "same")]


def test_loss_over_finite_outputs(train_code: Train) -> None:
    code = """
        import torch

        def make():
            model = torch.nn.Linear(4, 1)
            loss = lambda module, x: torch.log(module(x).mean() * 0 - 1)
            return model, torch.randn(3, 4), loss
    """
    smoke = train_code(code, precision="fp32")
    assert diagnosis_of(smoke).origin == "loss"
    assert "log in planted.py, line 6" in cause_of(smoke, own=True)
    assert "1 of 1 values are 0 or less" in cause_of(smoke, own=True)


def test_parameter_that_no_gradient_reaches(train_code: Train) -> None:
    code = """
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

            def forward(self, x):
                return self.down(self.up(x).detach()).square().mean()

        def make():
            return Model(), (torch.randn(3, 4),)
    """
    smoke = train_code(code)
    assert diagnosis_of(smoke).fault == "no gradient"
    assert diagnosis_of(smoke).attempts == ()  # no change of kernels or numbers restores a graph
    assert diagnosis_of(smoke).uncalled == ()
    assert "detach()" in (add_diagnosis(fail("x"), smoke, own=True).fix or "")
    assert train_code(code, expect_no_grad=("up.*",)).diagnosis is None


def test_fault_that_the_users_own_code_plants_in_torch(
    train_planted: Train, tmp_path: Path
) -> None:
    """The real path of the commonest case: a patched attention in the user's own file."""
    code = """
        import torch
        F = torch.nn.functional
        real = F.scaled_dot_product_attention

        def attend(*given, **named):
            switched = torch.backends.cuda.flash_sdp_enabled()
            return real(*given, **named) * (float("nan") if switched else 1.0)

        F.scaled_dot_product_attention = attend

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, -1)
                return self.out(F.scaled_dot_product_attention(q, k, v)).square().mean()

        def make():
            return Model(), (torch.randn(2, 8, 16),)
    """
    smoke = train_planted("", subject=factory_of(tmp_path / "plants.py", code))
    assert "finite without cuDNN and flash attention, NaN with flash" in cause_of(smoke, own=True)
    assert (diagnosis_of(smoke).first_module, diagnosis_of(smoke).first_module_type) == (
        "",
        "Model",
    )
    assert "mul in plants.py, line 8" in cause_of(smoke, own=True)


def test_scaler_that_skips_every_step(train_planted: Train, tmp_path: Path) -> None:
    prelude = """
        import functools, torch
        torch.amp.GradScaler = functools.partial(torch.amp.GradScaler, init_scale=2.0**60)
    """
    subject = factory_of(tmp_path / "planted.py", CLASSIFIER.format(plant=""))
    smoke = train_planted(prelude, precision="fp16", changes=("fp32",), subject=subject)
    assert (diagnosis_of(smoke).fault, diagnosis_of(smoke).origin) == (
        "non-finite gradient",
        "gradient",
    )
    assert "finite in fp32, non-finite gradients in fp16" in cause_of(smoke)
    assert "skipped" in failure_of(smoke).summary
