"""Faults planted in real trainings, in real processes, and their diagnosis."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import preloaded
import pytest
from shims import clock_stopped_until

from doctor._util.records import Ended
from doctor.checks.training import smoke as judged
from doctor.checks.training.diagnosis import (
    CHANGE_NAMES,
    add_diagnosis,
    attempts_table,
    remedy_for,
    summarize,
)
from doctor.collect import child as child_process
from doctor.collect import diagnosis as bisection
from doctor.collect.child import CUT_OFF, PROBES
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.collect import collect
from doctor.collect.diagnosis import CHANGES, RATES, REPAIRS, diagnose
from doctor.collect.faults import MOST_SKIPPED, fault_of
from doctor.collect.torch_child import TorchChild, cut_short
from doctor.facts.diagnosis import LEFT_OUT, Attempt, Diagnosis, Fault
from doctor.facts.facts import decode, encode
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.catalog import CHECKS
from doctor.judge.check import Owner, Status, Verdict, fail, ok
from doctor.judge.engine import examine

pytestmark = pytest.mark.slow

SECONDS = 120.0
HANG_SECONDS = 0.5
"""For what is expected to hang, from when it does."""
SMALL = {"kind": "small"}

Train = Callable[..., Smoke]


class OneProcess(TorchChild):
    """Ends only after a death, so that one import of torch serves the training and its bisection.

    `hanging` are the changes and stages that are expected to hang: they alone get `HANG_SECONDS`,
    once `hangs` exists.
    """

    hanging: tuple[str, ...] = ()
    hangs = Path()

    def request(self, seconds: float, *arguments: Any, **request: Any) -> Answer:
        if request.get("change", request["stage"]) in self.hanging:
            self.hangs.unlink(missing_ok=True)
            with clock_stopped_until(self.hangs.exists):
                return super().request(HANG_SECONDS, *arguments, **request)
        answer = super().request(min(seconds, SECONDS), *arguments, **request)
        if _stale(answer):
            super().end()
        return answer

    def end(self) -> None:
        """Nothing: a healthy process goes on."""

    def close(self) -> None:
        super().end()


def _stale(answer: Answer) -> bool:
    parts = (answer.answer or {}).values()
    return any(isinstance(part, dict) and part.get("stale") for part in parts)


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Train]:
    """Trains a subject with `prelude` planted in every process of the probe, and diagnoses it.

    `code` is a file with a factory `make`, which is trained instead of the small model.
    `separate`: the bisection has a process of its own, as in a run of the doctor. `changes` are
    those that the bisection tries.
    """
    probes = tmp_path / "probes"
    (probes / "training_side").mkdir(parents=True)
    (probes / "launch.py").symlink_to(PROBES / "launch.py")
    monkeypatch.setattr(child_process, "PROBES", probes)
    running: list[TorchChild] = []

    def run(
        prelude: str = "",
        code: str = "",
        separate: bool = False,
        hanging: tuple[str, ...] = (),
        changes: tuple[str, ...] = CHANGES,
        **how: Any,
    ) -> Smoke:
        head = f"import sys\nsys.path.insert(0, {str(PROBES)!r})\nimport wire\n"
        probe = str(PROBES / "training_side" / "torch_stages.py")
        tail = f"\nimport runpy\nrunpy.run_path({probe!r}, run_name='__main__')\n"
        script = head + textwrap.dedent(prelude) + tail
        (probes / "training_side" / "torch_stages.py").write_text(script, "utf-8")
        monkeypatch.setattr(bisection, "CHANGES", changes)
        child = (TorchChild if separate else OneProcess)(Children(), preloaded.python())
        running.append(child)
        if isinstance(child, OneProcess):
            child.hanging, child.hangs = hanging, tmp_path / "hangs"
        subject: dict[str, Any] = SMALL
        if code:
            subject = _factory(tmp_path / "planted.py", code)
        return _diagnosed(child, subject, **how)

    yield run
    for child in running:
        TorchChild.end(child)


def _diagnosed(
    child: TorchChild,
    subject: dict[str, Any],
    precision: str = "bf16",
    recipe: str = "amp",
    **limits: Any,
) -> Smoke:
    how = {"device": "cpu", "precision": precision, "recipe": recipe, "subject": subject}
    answer = child.request(SECONDS, stage="smoke", **how)
    smoke = _smoke(answer, precision, recipe)
    limits = {"attempt_seconds": SECONDS, "total_seconds": 10 * SECONDS} | limits
    return msgspec.structs.replace(smoke, diagnosis=diagnose(child, subject, smoke, **limits))


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
        return _diagnosed(shared, _factory(tmp_path / "planted.py", code), **how)

    return run


PLANTED = """
import sys
sys.path.insert(0, {probes!r})
import wire

requests = wire.requests

def serve():
    import torch
    F = torch.nn.functional
    places = [(F, "scaled_dot_product_attention"), (F, "linear"), (F, "silu"),
              (F, "cross_entropy"), (torch.amp, "GradScaler"),
              (wire.sibling("changes"), "attempt")]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    for request in requests():
        if request["stage"] != "plant":
            yield request
            continue
        for owner, name, value in originals:
            setattr(owner, name, value)
        exec(request["code"], {{"wire": wire}})
        wire.send(answer={{}})

wire.requests = serve
import runpy
runpy.run_path({probe!r}, run_name="__main__")
"""
"""The probe, with one request more: code that plants a fault in torch, in the place of the last."""


@pytest.fixture(scope="module")
def planting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    """One process for the faults that are planted in torch and leave it alive."""
    probes = tmp_path_factory.mktemp("probes")
    (probes / "training_side").mkdir()
    (probes / "launch.py").symlink_to(PROBES / "launch.py")
    script = PLANTED.format(
        probes=str(PROBES), probe=str(PROBES / "training_side" / "torch_stages.py")
    )
    (probes / "training_side" / "torch_stages.py").write_text(script, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "PROBES", probes)
        child = OneProcess(Children(), preloaded.python())
        assert child.imported().ended.ok
    yield child
    child.close()


@pytest.fixture
def train_planted(planting: OneProcess, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Trains a subject, the small model by default, with a fault planted in torch."""

    def run(
        plant: str, changes: tuple[str, ...] = CHANGES, subject: dict[str, Any] = SMALL, **how: Any
    ) -> Smoke:
        monkeypatch.setattr(bisection, "CHANGES", changes)
        assert planting.request(SECONDS, stage="plant", code=textwrap.dedent(plant)).ended.ok
        return _diagnosed(planting, subject, **how)

    return run


def _smoke(answer: Answer, precision: Any, recipe: str) -> Smoke:
    if answer.answer:
        return msgspec.convert(answer.answer["smoke"], Smoke)
    return cut_short(answer, "cpu", precision, recipe)


def _diagnosis(smoke: Smoke) -> Diagnosis:
    assert smoke.diagnosis
    return smoke.diagnosis


def _attempts(smoke: Smoke) -> list[tuple[str, str]]:
    return [(each.change, each.outcome) for each in _diagnosis(smoke).attempts]


def _cause(smoke: Smoke, *, own: bool = False) -> str:
    return summarize(_diagnosis(smoke), smoke, own=own)


def _failure(smoke: Smoke) -> Verdict:
    """The first of SMK001 to SMK003 that fails."""
    verdicts = [check.judge(smoke=smoke) for check in judged.CHECKS[:3]]
    return next(verdict for verdict in verdicts if verdict.status is Status.FAIL)


def test_a_sound_training_has_no_diagnosis(train_planted: Train) -> None:
    assert train_planted("").diagnosis is None


# Kernels, planted in torch before the probe runs

ATTENTION = """
    import torch
    real = torch.nn.functional.scaled_dot_product_attention

    def attend(*given, **named):
        switches = torch.backends.cuda
        seen = real(*given, **named)
        return seen * float("nan") if {wrong} else seen

    torch.nn.functional.scaled_dot_product_attention = attend
"""
CUDNN_EVERYWHERE = """
    wire.sibling("changes").CUDNN_DEVICES = ("cuda", "cpu")
"""
"""cuDNN's switch exists in a CPU build too, so its effect on a GPU is tested on the CPU."""


def test_cudnn_attention(train: Train) -> None:
    prelude = ATTENTION.format(wrong="switches.cudnn_sdp_enabled()") + CUDNN_EVERYWHERE
    smoke = train(prelude, separate=True)
    assert _attempts(smoke) == [("repeat", "same"), ("cudnn-off", "fixed"), ("repeat", "same")]
    diagnosis = _diagnosis(smoke)
    assert (diagnosis.first_module, diagnosis.first_module_type) == (
        "layers.0.attention",
        "Attention",
    )
    verdict = _failure(smoke)
    assert (
        "Finite without cuDNN attention, NaN with it: cuDNN's attention kernel is the cause "
        "(document bf16-training-stability, Quick Diagnostics)"
    ) in verdict.summary
    assert verdict.owner is Owner.ENVIRONMENT
    assert "torch.backends.cuda.enable_cudnn_sdp(False)" in (verdict.fix or "").splitlines()
    assert "bts-quick" in verdict.sources


def test_flash_attention(train_planted: Train) -> None:
    smoke = train_planted(ATTENTION.format(wrong="switches.flash_sdp_enabled()"))
    assert _attempts(smoke)[1:3] == [("cudnn-off", "not possible"), ("flash-off", "fixed")]
    assert "NaN with flash: the flash attention kernel is the cause" in _cause(smoke)


def test_fused_attention(train_planted: Train) -> None:
    smoke = train_planted(ATTENTION.format(wrong="switches.mem_efficient_sdp_enabled()"))
    assert _attempts(smoke) == [
        ("repeat", "same"),
        ("cudnn-off", "not possible"),
        ("flash-off", "same"),
        ("math", "fixed"),
        ("repeat", "same"),
    ]
    assert "NaN with the fused kernels: the fused attention path is the cause" in _cause(smoke)


def test_attention_with_every_backend(train_planted: Train) -> None:
    smoke = train_planted(ATTENTION.format(wrong="True"))
    assert _attempts(smoke)[-2:] == [("eager", "fixed"), ("repeat", "same")]
    assert "finite with eager attention, NaN with scaled_dot_product_attention" in _cause(smoke)


# Precision

LINEAR = """
    import torch
    real = torch.nn.functional.linear

    def linear(x, weight, bias=None):
        return real(x, weight, bias) * (float("nan") if {wrong} else 1.0)

    torch.nn.functional.linear = linear
"""


def test_half_precision_weights(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong="weight.dtype == torch.bfloat16"), recipe="pure-bf16")
    assert _attempts(smoke)[-3:] == [
        ("eager", "same"),
        ("fp32-weights", "fixed"),
        ("repeat", "same"),
    ]
    assert "finite with fp32 weights, NaN with bf16 weights" in _cause(smoke)


def test_autocast(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong='torch.is_autocast_enabled("cpu")'))
    diagnosis = _diagnosis(smoke)
    assert [each.outcome for each in diagnosis.attempts if each.change == "fp32-weights"] == [
        "not possible"
    ]
    assert diagnosis.fixed_by
    assert diagnosis.fixed_by.change == "fp32"
    assert "finite in fp32, NaN in bf16: bf16 arithmetic is the cause" in _cause(smoke)


def test_no_change_fixes_a_broken_installation(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong="True"))
    diagnosis = _diagnosis(smoke)
    assert not diagnosis.fixed_by
    expected = [change for change in CHANGES if change not in RATES]  # it is faulty in step 1
    assert [change for change, _ in _attempts(smoke)] == ["repeat", *expected]
    assert {outcome for _, outcome in _attempts(smoke)} == {"same", "not possible"}
    assert (diagnosis.first_module, diagnosis.step) == ("layers.0.attention.qkv", 1)
    assert "none of the 5 changes that could be tried fixes it" in _cause(smoke)
    assert "layers.0.attention.qkv (Linear), in step 1" in _cause(smoke)
    verdict = _failure(smoke)
    assert verdict.owner is Owner.ENVIRONMENT
    lines = (verdict.fix or "").splitlines()
    assert lines[2:4] == [
        "  unchanged                      same fault    loss nan, grad_norm nan",
        "  cuDNN attention off            not possible  cuDNN attention runs on NVIDIA GPUs only",
    ]
    assert len({line.index("same fault") for line in lines if "same fault" in line}) == 1


# The user's own training: learning rate, batch, weights, modules

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
    assert (_diagnosis(smoke).fault, _diagnosis(smoke).step) == ("non-finite loss", 2)
    assert (_diagnosis(smoke).origin, _diagnosis(smoke).first_module) == ("loss", None)
    assert _attempts(smoke)[-2:] == [("lower-lr", "fixed"), ("repeat", "same")]
    assert (
        "finite at a tenth of the learning rate, inf at 0.0003: the learning rate is too high"
    ) in _cause(smoke, own=True)
    verdict = add_diagnosis(fail("x"), smoke, own=True)
    assert verdict.owner is Owner.JOB
    assert "warm it up" in (verdict.fix or "")


def _factory(file: Path, code: str) -> dict[str, Any]:
    file.write_text(textwrap.dedent(code), "utf-8")
    where = {"file": file.name, "name": "make", "directory": str(file.parent)}
    return {"kind": "factory", **where, "batch": 2, "length": None}


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
    subject = _factory(tmp_path / f"{tmp_path.name}.py", CLASSIFIER.format(plant=plant))
    how = {"device": "cpu", "precision": "bf16", "recipe": "amp", "subject": subject}
    answer = shared.request(SECONDS, stage="look", **how)
    messages = answer.answer["look"] if answer.answer else answer.notes[0]["look"]
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
    cause = _cause(smoke, own=True)
    assert cause.startswith(f"the batch is the cause: {text}; ")
    assert cause.endswith("with these values replaced")
    assert _attempts(smoke) == [("valid-batch", "fixed"), ("repeat", "same")]
    verdict = add_diagnosis(fail("x"), smoke, own=True)
    assert verdict.owner is Owner.JOB
    assert "ps-P11" in verdict.sources


def test_ignored_labels_beside_others_are_no_fault(train_code: Train) -> None:
    plant = 'batch["labels"][1] = -100; model.head.weight.data[0, 0] = float("nan")'
    diagnosis = _diagnosis(train_code(CLASSIFIER.format(plant=plant)))
    assert diagnosis.remarks == ("labels: 1 of 4 rows hold ignored labels only",)
    assert not diagnosis.bad_batch
    assert attempts_table(diagnosis)[0] == "Also: labels: 1 of 4 rows hold ignored labels only."


def test_weights_that_are_not_finite_before_the_first_step(train_code: Train) -> None:
    smoke = train_code(CLASSIFIER.format(plant="model.head.weight.data[:3] = float('nan')"))
    assert _cause(smoke, own=True) == (
        "the weights are the cause: head.weight: 48 of 160 values not finite; "
        "finite with these values replaced"
    )
    assert _attempts(smoke) == [("finite-weights", "fixed"), ("repeat", "same")]


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
    diagnosis = _diagnosis(smoke)
    assert not diagnosis.fixed_by
    assert "is the cause: " not in _cause(smoke, own=True)
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
    diagnosis = _diagnosis(smoke)
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
    text = _cause(smoke, own=True)
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
    diagnosis = _diagnosis(smoke)
    assert (diagnosis.fault, diagnosis.origin) == ("non-finite gradient", "gradient")
    assert diagnosis.bad_gradients == ("first.weight", "first.bias")
    assert (diagnosis.operation or "").startswith(
        f"{operation}, of `return {expression}` in planted.py"
    )
    assert f"values stop being finite in the backward pass of {operation}" in (
        _cause(smoke, own=True)
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
    assert _attempts(smoke) == [("repeat", "same")]


def test_loss_over_finite_outputs(train_code: Train) -> None:
    code = """
        import torch

        def make():
            model = torch.nn.Linear(4, 1)
            loss = lambda module, x: torch.log(module(x).mean() * 0 - 1)
            return model, torch.randn(3, 4), loss
    """
    smoke = train_code(code, precision="fp32")
    assert _diagnosis(smoke).origin == "loss"
    assert "log in planted.py, line 6" in _cause(smoke, own=True)
    assert "1 of 1 values are 0 or less" in _cause(smoke, own=True)


# Errors, crashes, hangs

RAISE = """
    import torch
    real = torch.nn.functional.silu

    def silu(x):
        {what}
        return real(x)

    torch.nn.functional.silu = silu
"""


FLASH = "switches.flash_sdp_enabled()"


def test_error_in_an_attention_kernel(train_planted: Train) -> None:
    wrong = f"{FLASH} and torch.zeros(2) @ torch.zeros(3)"
    smoke = train_planted(ATTENTION.format(wrong=wrong), changes=("flash-off",))
    assert "completes without cuDNN and flash attention, raises with flash" in _cause(smoke)
    lines = (_failure(smoke).fix or "").splitlines()
    assert any(re.match("  unchanged +same fault  +forward: RuntimeError", line) for line in lines)


def test_crash_in_an_attention_kernel(train: Train) -> None:
    dies = "__import__('os').kill(__import__('os').getpid(), 11)"
    smoke = train(ATTENTION.format(wrong=f"{FLASH} and {dies}"), changes=("flash-off",))
    assert _diagnosis(smoke).fault == "crashed"
    assert _diagnosis(smoke).attempts[0].detail == "forward: SIGSEGV inside forward"
    assert "completes without cuDNN and flash attention, crashes with flash" in _cause(smoke)
    assert "SIGSEGV" in _failure(smoke).summary


def test_crash_that_no_change_fixes() -> None:
    same = tuple(Attempt(change=name, outcome="same") for name in ("repeat", "math", "fp32"))
    crashed = Ended(how="signal", detail="SIGABRT inside forward")
    verdict = _failure(record(crashed, diagnosis=Diagnosis(fault="crashed", attempts=same)))
    assert "None of the 2 changes that could be tried fixes it" in verdict.summary
    assert (verdict.fix or "").startswith(judged.CRASHED)


HUNG = Ended(how="timeout", detail="no answer in 120 s inside forward")


def test_hang_in_an_attention_kernel(train: Train, tmp_path: Path) -> None:
    hangs = str(tmp_path / "hangs")
    wrong = f"{FLASH} and (open({hangs!r}, 'w'), __import__('time').sleep(600))"
    hanging = ("smoke", "look", "repeat")
    smoke = train(ATTENTION.format(wrong=wrong), hanging=hanging, changes=("flash-off",))
    assert _diagnosis(smoke).fault == "hung"
    assert _attempts(smoke) == [("repeat", "same"), ("flash-off", "fixed"), ("repeat", "same")]
    assert "completes without cuDNN and flash attention, hangs with flash" in _cause(smoke)


def test_attempts_after_the_deadline_are_left_out(train_planted: Train) -> None:
    smoke = train_planted(LINEAR.format(wrong="True"), total_seconds=0.0)
    assert {each.detail for each in _diagnosis(smoke).attempts} == {LEFT_OUT}
    assert {each.outcome for each in _diagnosis(smoke).attempts} == {"not possible"}
    assert len(_diagnosis(smoke).attempts) == 1 + len(CHANGES) - len(RATES)


WHILE = """
    import torch
    changes = wire.sibling("changes")
    real, attempt, tried = torch.nn.functional.cross_entropy, changes.attempt, []

    def watch(stage, plan, change):
        tried.append(change)
        return attempt(stage, plan, change)

    def loss(*given, **named):
        return real(*given, **named) * (float("nan") if {faulty} else 1.0)

    changes.attempt, torch.nn.functional.cross_entropy = watch, loss
"""
"""A fault that goes away after some attempts, whose changes have nothing to do with it."""


def test_fault_that_is_gone_when_repeated(train_planted: Train) -> None:
    smoke = train_planted(WHILE.format(faulty="not tried"))
    assert _attempts(smoke) == [("repeat", "fixed")] * 3
    assert _diagnosis(smoke).intermittent
    assert "finite in 3 of 3 repetitions with nothing changed" in _cause(smoke)


def test_a_change_that_fixes_by_chance_is_not_the_cause(train_planted: Train) -> None:
    smoke = train_planted(WHILE.format(faulty='set(tried) <= {"repeat"}'))
    assert _attempts(smoke)[0] == ("repeat", "same")
    assert _attempts(smoke)[-1] == ("repeat", "fixed")
    assert _diagnosis(smoke).fixed_by is None
    assert "not reproduced: finite in 1 of 2 repetitions" in _cause(smoke)


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
    assert _diagnosis(smoke).fault == "no gradient"
    assert _diagnosis(smoke).attempts == ()  # no change of kernels or numbers restores a graph
    assert _diagnosis(smoke).uncalled == ()
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
    smoke = train_planted("", subject=_factory(tmp_path / "plants.py", code))
    assert "finite without cuDNN and flash attention, NaN with flash" in _cause(smoke, own=True)
    assert (_diagnosis(smoke).first_module, _diagnosis(smoke).first_module_type) == ("", "Model")
    assert "mul in plants.py, line 8" in _cause(smoke, own=True)


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}


def test_attention_of_a_transformers_model(train_planted: Train, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), "utf-8")
    subject = {"kind": "hf", "directory": str(tmp_path), "layers": 1, "weights": False,
               "lora": None, "dtype": None, "batch": 2, "length": 16}  # fmt: skip
    smoke = train_planted(ATTENTION.format(wrong="True"), changes=("eager",), subject=subject)
    assert _attempts(smoke)[-2:] == [("eager", "fixed"), ("repeat", "same")]
    text = _cause(smoke, own=True)
    assert "finite with eager attention, NaN with the model's own attention implementation" in text
    assert _diagnosis(smoke).first_module == "model.layers.0.self_attn"


def test_scaler_that_skips_every_step(train_planted: Train, tmp_path: Path) -> None:
    prelude = """
        import functools, torch
        torch.amp.GradScaler = functools.partial(torch.amp.GradScaler, init_scale=2.0**60)
    """
    subject = _factory(tmp_path / "planted.py", CLASSIFIER.format(plant=""))
    smoke = train_planted(prelude, precision="fp16", changes=("fp32",), subject=subject)
    assert (_diagnosis(smoke).fault, _diagnosis(smoke).origin) == (
        "non-finite gradient",
        "gradient",
    )
    assert "finite in fp32, non-finite gradients in fp16" in _cause(smoke)
    assert "skipped" in _failure(smoke).summary


PLANTED_BY_THE_ENVIRONMENT = """
import builtins
real = builtins.__import__

def importing(name, *given, **named):
    module = real(name, *given, **named)
    if name == "torch" and given and given[0].get("__name__") == "__main__":
        builtins.__import__ = real
        plant(module)
    return module

def plant(torch):
    attend = torch.nn.functional.scaled_dot_product_attention

    def attention(*given, **named):
        wrong = torch.backends.cuda.flash_sdp_enabled()
        return attend(*given, **named) * (float("nan") if wrong else 1.0)

    torch.nn.functional.scaled_dot_product_attention = attention

builtins.__import__ = importing
"""


def test_a_whole_run_names_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED_BY_THE_ENVIRONMENT, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    messages: list[str] = []
    job = Job(device="cpu", python=preloaded.python())
    facts = collect(job, RunOptions(quick=True), Expect(), messages.append)
    findings = {finding.check.code: finding for finding in examine(CHECKS, facts)}
    assert findings["SMK001"].status is Status.PASS
    assert findings["SMK002"].status is Status.FAIL
    text = "Finite without cuDNN and flash attention, NaN with flash: the flash attention kernel"
    assert text in findings["SMK002"].verdict.summary
    assert "finding the cause (flash-off): forward" in messages
    assert decode(encode(facts)) == facts


# The rules, without processes

OK = Ended(how="ok")
WELL = Step(loss=5.0, grad_norm=2.0, lr=3e-4)
SKIPPED = Step(loss=5.0, grad_norm="inf", lr=3e-4, skipped=True)


def parameter(**changes: Any) -> Parameter:
    known: dict[str, Any] = {"dtype": "float32", "had_gradient": True, "finite": True}
    return Parameter(name="w", size=8, moved=True, **(known | changes))


def record(ended: Ended = OK, *steps: Step, **changes: Any) -> Smoke:
    known: dict[str, Any] = {"device": "cpu", "precision": "bf16", "recipe": "amp", "lr": 3e-4}
    known |= {"stages": (Stage(name="forward", ended=ended),), "parameters": (parameter(),)}
    return Smoke(**(known | changes), steps=steps or (WELL,))


@pytest.mark.parametrize(
    ("smoke", "fault"),
    [
        (record(), None),
        (record(Ended(how="error")), "raised"),
        (record(Ended(how="signal")), "crashed"),
        (record(Ended(how="timeout")), "hung"),
        (record(OK, WELL, Step(loss="nan", grad_norm="nan", lr=1.0)), "non-finite loss"),
        (record(OK, Step(loss=0.0, grad_norm=0.0, lr=1.0)), "zero loss"),
        (record(OK, Step(loss=0.0, grad_norm=1.0, lr=1.0)), None),
        (record(OK, Step(loss=1.0, grad_norm="inf", lr=1.0)), "non-finite gradient"),
        (record(OK, *[SKIPPED] * MOST_SKIPPED, WELL), None),
        (record(OK, *[SKIPPED] * (MOST_SKIPPED + 1), WELL), "non-finite gradient"),
        (record(OK, SKIPPED), "non-finite gradient"),
        (record(parameters=(parameter(finite=False),)), "non-finite gradient"),
        (record(parameters=(parameter(had_gradient=False),)), "no gradient"),
    ],
)
def test_a_fault_is_what_the_checks_complain_about(smoke: Smoke, fault: Fault | None) -> None:
    assert fault_of(smoke) == fault
    statuses = {check.judge(smoke=smoke).status for check in judged.CHECKS[:3]}
    assert (Status.FAIL in statuses) == (fault is not None)


def test_the_end_of_the_budget_is_no_fault() -> None:
    assert fault_of(record(CUT_OFF)) is None


def test_every_change_has_words_and_the_limit_is_that_of_the_check() -> None:
    assert list(CHANGE_NAMES) == ["repeat", *CHANGES, *REPAIRS.values()]
    assert judged.MOST_SKIPPED == MOST_SKIPPED


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fault", get_args(Fault))
def test_every_cause_can_be_told(fault: Fault, change: str, own: bool) -> None:
    attempts = (
        Attempt(change="repeat", outcome="same"),
        Attempt(change=change, outcome="fixed", loss=5.0, grad_norm=1.0),
    )
    smoke = record(diagnosis=Diagnosis(fault=fault, attempts=attempts))
    verdict = add_diagnosis(fail("x"), smoke, own=own)
    assert "{" not in f"{verdict.summary}{verdict.fix}"
    assert " the cause" in verdict.summary or "too high" in verdict.summary
    assert verdict.sources
    assert (verdict.fix or "").endswith("no fault    loss 5, grad_norm 1")


def test_a_known_remedy_is_kept_if_no_change_fixes_it() -> None:
    same = tuple(Attempt(change=name, outcome="same") for name in ("repeat", "math"))
    smoke = record(diagnosis=Diagnosis(fault="raised", attempts=same))
    known = fail("x", fix="Free the GPU.", owner=Owner.MACHINE, sources=("ps-U10",))
    verdict = add_diagnosis(known, smoke)
    assert (verdict.fix or "").startswith("Free the GPU.\nAttempts")
    assert verdict.owner is Owner.MACHINE
    assert "ps-U10" in verdict.sources
    fixed = Diagnosis(fault="raised", attempts=(same[0], Attempt(change="math", outcome="fixed")))
    verdict = add_diagnosis(known, record(diagnosis=fixed))
    assert "enable_mem_efficient_sdp(False)" in (verdict.fix or "")


NO_SCALER = "allocate: RuntimeError: torch 2.1.2+cu121 has no GradScaler for cpu"


def test_a_precision_that_torch_lacks_is_not_blamed_on_its_arithmetic() -> None:
    """fp32 completes there, which shows nothing."""
    stopped = Stage(name="allocate", ended=Ended(how="error", detail=NO_SCALER))
    fixed = (Attempt(change="repeat", outcome="same"), Attempt(change="fp32", outcome="fixed"))
    smoke = record(stages=(stopped,), diagnosis=Diagnosis(fault="raised", attempts=fixed))
    verdict = judged.STEP_COMPLETES.judge(smoke=smoke, siblings=())
    assert "install a newer torch" in verdict.fix
    assert "cause" not in f"{verdict.summary}{verdict.fix}"


def test_nothing_is_searched_where_torch_lacks_the_precision() -> None:
    stopped = Stage(name="allocate", ended=Ended(how="error", detail=NO_SCALER))
    child = TorchChild(Children(), "/bin/false")
    assert diagnose(child, SMALL, record(stages=(stopped,))) is None
    child.end()


def test_a_bisection_that_ran_out_of_time_names_no_cause() -> None:
    tried = [Attempt(change=name, outcome="same") for name in ("repeat", "math")]
    cut = Attempt(change="eager", outcome="not possible", detail=LEFT_OUT)
    text = summarize(Diagnosis(fault="hung", attempts=(*tried, cut)), record(), own=True)
    assert "cause unknown: none of 1 changes" in text
    assert "look at the model" not in text


def test_only_what_was_tried_is_excluded() -> None:
    attempts = (
        Attempt(change="repeat", outcome="same"),
        Attempt(change="math", outcome="same"),
        Attempt(change="other-batch", outcome="not possible", detail="the factory makes one"),
        Attempt(change="fp32", outcome="not possible", detail=LEFT_OUT),
    )
    diagnosis = Diagnosis(fault="zero loss", attempts=attempts)
    fix = remedy_for(diagnosis, record(diagnosis=diagnosis), own=True).fix
    assert "Tried without effect: attention's math backend only. Could not be tried: another" in fix
    assert "Not reached in time: everything in fp32." in fix
    nothing = remedy_for(Diagnosis(fault="zero loss"), record(), own=True).fix
    assert "ried" not in nothing


def test_positions_are_told_from_tokens() -> None:
    code = (
        "import sys; sys.path.append('..'); import torch, inspect_step as step\n"
        "for indices in ([[0, 1, 2, 3, 4]], [[0, 7, 2, 1, 2]]):\n"
        "  try: step._check_tokens(torch.tensor(indices), torch.zeros(3, 2), {})\n"
        "  except step.InvalidInput as error: print(error)\n"
    )
    done = subprocess.run(
        [preloaded.python(), "-c", code, "2"],
        cwd=PROBES / "training_side",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "positions: 2 of 5 beyond the model's length, it has 3",
        "tokens: 1 of 5 values outside the vocabulary [0, 3): 7",
    ]


def test_a_verdict_without_a_diagnosis_is_unchanged() -> None:
    assert add_diagnosis(fail("x"), record()) == fail("x")
    diagnosis = Diagnosis(fault="hung")
    assert add_diagnosis(ok("x"), record(diagnosis=diagnosis)) == ok("x")
    assert summarize(diagnosis, record()) == "no change was tried to find the cause"
    assert attempts_table(diagnosis) == []
