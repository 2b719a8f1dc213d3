"""Faults planted in real trainings, in real processes, and what the doctor says of them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from runs import llama

from doctor._util.records import Ended
from doctor.checks.training import smoke as judged
from doctor.checks.training.diagnosis import WORDS, complete, sentence, table
from doctor.collect import child as child_process
from doctor.collect.child import CUT_OFF, PROBES, Answer
from doctor.collect.children import Children
from doctor.collect.collect import collect
from doctor.collect.diagnosis import CHANGES, MOST_SKIPPED, diagnose, fault_of
from doctor.collect.torch_child import TorchChild, cut_short
from doctor.facts.facts import decode, encode
from doctor.facts.training import LEFT_OUT, Attempt, Diagnosis, Fault, Parameter, Smoke, Stage, Step
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.catalog import CHECKS
from doctor.judge.check import Owner, Status, Verdict, fail, ok
from doctor.judge.engine import examine

SECONDS = 120.0
SMALL = {"kind": "small"}

Train = Callable[..., Smoke]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Train]:
    """Trains a subject with `prelude` planted in every process of the probe, and diagnoses it.

    `code` is a file with a factory `make`, `folder` a transformers model: they are trained
    instead of the small model then.
    """
    children = Children()
    probes = tmp_path / "probes"
    (probes / "training_side").mkdir(parents=True)
    (probes / "launch.py").symlink_to(PROBES / "launch.py")
    monkeypatch.setattr(child_process, "PROBES", probes)

    def run(
        prelude: str = "",
        code: str = "",
        precision: str = "bf16",
        recipe: str = "amp",
        first_seconds: float = SECONDS,
        folder: Path | None = None,
        **limits: Any,
    ) -> Smoke:
        head = f"import sys\nsys.path.insert(0, {str(PROBES)!r})\nimport wire\n"
        probe = str(PROBES / "training_side" / "torch_stages.py")
        tail = f"\nimport runpy\nrunpy.run_path({probe!r}, run_name='__main__')\n"
        script = head + textwrap.dedent(prelude) + tail
        (probes / "training_side" / "torch_stages.py").write_text(script, "utf-8")
        subject: dict[str, Any] = SMALL
        if code:
            subject = _factory(tmp_path / "planted.py", code)
        if folder:
            subject = {"kind": "hf", "folder": str(folder), "layers": 1, "weights": False,
                       "lora": None, "dtype": None, "batch": 2, "length": 16}  # fmt: skip
        child = TorchChild(children, sys.executable)
        how = {"device": "cpu", "precision": precision, "recipe": recipe, "subject": subject}
        answer = child.request(first_seconds, stage="smoke", **how)
        smoke = _smoke(answer, precision, recipe)
        found = diagnose(child, subject, smoke, **limits)
        child.end()
        return msgspec.structs.replace(smoke, diagnosis=found)

    yield run
    children.interrupt()


def _smoke(answer: Answer, precision: Any, recipe: str) -> Smoke:
    if answer.answer:
        return msgspec.convert(answer.answer["smoke"], Smoke)
    return cut_short(answer, "cpu", precision, recipe)


def _found(smoke: Smoke) -> Diagnosis:
    assert smoke.diagnosis
    return smoke.diagnosis


def _tried(smoke: Smoke) -> list[tuple[str, str]]:
    return [(each.change, each.outcome) for each in _found(smoke).attempts]


def _said(smoke: Smoke, *, own: bool = False) -> str:
    return sentence(_found(smoke), smoke, own=own)


def _complaint(smoke: Smoke) -> Verdict:
    """The first of SMK001 to SMK003 that fails."""
    verdicts = [check.judge(smoke=smoke) for check in judged.CHECKS[:3]]
    return next(verdict for verdict in verdicts if verdict.status is Status.FAIL)


def test_nothing_is_searched_where_all_is_well(train: Train) -> None:
    assert train().diagnosis is None


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
"""cuDNN's switch is there in a CPU build too: what it would mean on a GPU is tried on the CPU."""


def test_cudnn_attention(train: Train) -> None:
    smoke = train(ATTENTION.format(wrong="switches.cudnn_sdp_enabled()") + CUDNN_EVERYWHERE)
    assert _tried(smoke) == [("repeat", "same"), ("cudnn-off", "mended"), ("repeat", "same")]
    found = _found(smoke)
    assert (found.first_module, found.first_module_type) == ("layers.0.attention", "Attention")
    verdict = _complaint(smoke)
    assert (
        "Finite without cuDNN attention, NaN with it: cuDNN's attention kernel is the cause "
        "(document bf16-training-stability, Quick Diagnostics)"
    ) in verdict.summary
    assert verdict.owner is Owner.ENVIRONMENT
    assert "enable_cudnn_sdp(False)" in (verdict.fix or "")
    assert "TORCH_CUDNN_SDPA_DEPRIORITIZED=1 in the environment (torch 2.10" in (verdict.fix or "")


def test_flash_attention(train: Train) -> None:
    smoke = train(ATTENTION.format(wrong="switches.flash_sdp_enabled()"))
    assert _tried(smoke)[1:3] == [("cudnn-off", "not possible"), ("flash-off", "mended")]
    assert "NaN with flash: the flash attention kernel is the cause" in _said(smoke)


def test_fused_attention(train: Train) -> None:
    smoke = train(ATTENTION.format(wrong="switches.mem_efficient_sdp_enabled()"))
    assert _tried(smoke) == [
        ("repeat", "same"),
        ("cudnn-off", "not possible"),
        ("flash-off", "same"),
        ("math", "mended"),
        ("repeat", "same"),
    ]
    assert "NaN with the fused kernels: the fused attention path is the cause" in _said(smoke)


def test_attention_with_every_backend(train: Train) -> None:
    smoke = train(ATTENTION.format(wrong="True"))
    assert _tried(smoke)[-2:] == [("eager", "mended"), ("repeat", "same")]
    assert "finite with attention spelled out, NaN with scaled_dot_product" in _said(smoke)


# Precision

LINEAR = """
    import torch
    real = torch.nn.functional.linear

    def linear(x, weight, bias=None):
        return real(x, weight, bias) * (float("nan") if {wrong} else 1.0)

    torch.nn.functional.linear = linear
"""


def test_half_precision_weights(train: Train) -> None:
    smoke = train(LINEAR.format(wrong="weight.dtype == torch.bfloat16"), recipe="pure-bf16")
    assert _tried(smoke)[-3:] == [("eager", "same"), ("fp32-weights", "mended"), ("repeat", "same")]
    assert "finite with fp32 weights, NaN with bf16 weights" in _said(smoke)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_autocast(precision: str, train: Train) -> None:
    smoke = train(LINEAR.format(wrong='torch.is_autocast_enabled("cpu")'), precision=precision)
    found = _found(smoke)
    assert [each.detail for each in found.attempts if each.change == "fp32-weights"] == [
        "the weights are fp32 already"
    ]
    assert found.mended_by
    assert found.mended_by.change == "fp32"
    assert f"finite in fp32, NaN in {precision}: {precision} arithmetic is the cause" in _said(
        smoke
    )


def test_nothing_mends_a_broken_installation(train: Train) -> None:
    smoke = train(LINEAR.format(wrong="True"))
    assert not _found(smoke).mended_by
    assert {outcome for _, outcome in _tried(smoke)} == {"same", "not possible"}
    said = "none of 6 changes mends it: torch's installation or the GPU is to be suspected"
    assert said in _said(smoke)
    assert "output that is not finite is that of layers.0.attention.qkv (Linear), in step 1" in (
        _said(smoke)
    )
    verdict = _complaint(smoke)
    assert verdict.owner is Owner.ENVIRONMENT
    assert "reinstall torch" in (verdict.fix or "")
    lines = (verdict.fix or "").splitlines()
    assert lines[1:4] == [
        "Tried, one change at a time:",
        "  unchanged                      the same      loss nan, grad_norm nan",
        "  cuDNN attention off            not possible  cuDNN attention runs on NVIDIA GPUs only",
    ]
    assert len({line.index("the same") for line in lines if "the same" in line}) == 1


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


def test_learning_rate(train: Train) -> None:
    smoke = train(code=POISSON, precision="fp32")
    assert (_found(smoke).fault, _found(smoke).step) == ("non-finite loss", 2)
    assert (_found(smoke).born, _found(smoke).first_module) == ("loss", None)
    assert _tried(smoke)[-2:] == [("lower-lr", "mended"), ("repeat", "same")]
    assert (
        "finite at a tenth of the learning rate, inf at 0.0003: the learning rate is too high"
    ) in _said(smoke, own=True)
    verdict = complete(fail("x"), smoke, own=True)
    assert verdict.owner is Owner.JOB
    assert "warm it up" in (verdict.fix or "")


def _factory(file: Path, code: str) -> dict[str, Any]:
    file.write_text(textwrap.dedent(code), "utf-8")
    where = {"file": file.name, "name": "make", "folder": str(file.parent)}
    return {"kind": "factory", **where, "batch": 2, "length": None}


@pytest.fixture(scope="module")
def child() -> Iterator[TorchChild]:
    """One process for looks that change nothing in it."""
    child = TorchChild(Children(), sys.executable)
    yield child
    child.end()


NONE_COUNTS = "labels: all 64 are ignored (-100), so the loss is the mean of nothing"


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        ('batch["values"][1, 2:] = float("nan")', "values: 2 of 16 values not finite"),
        ('batch["values"][0, 0] = float("inf")', "values: 1 of 16 values not finite"),
        ('batch["labels"][0, :3] = 10', "labels: 3 of 64 values outside [0, 10)"),
        ('batch["labels"][0, 0] = -1', "labels: 1 of 64 values outside [0, 10)"),
        ('batch["labels"][:] = -100', NONE_COUNTS),
        ('batch["tokens"][0, :2] = 50', "tokens: 2 of 64 values outside the vocabulary [0, 50)"),
        ('batch["tokens"] = batch["tokens"][:, :0]', "tokens: empty, its shape is [4, 0]"),
        ("pass", ""),
        ('batch["labels"][0, 5:] = -100', ""),
    ],
)
def test_what_is_wrong_with_a_batch(
    plant: str, said: str, child: TorchChild, tmp_path: Path
) -> None:
    subject = _factory(tmp_path / f"{tmp_path.name}.py", CLASSIFIER.format(plant=plant))
    how = {"device": "cpu", "precision": "bf16", "recipe": "amp", "subject": subject}
    answer = child.request(SECONDS, stage="look", **how)
    told = answer.answer["look"] if answer.answer else answer.notes[0]["look"]
    assert told["bad_batch"] == ([said] if said else [])
    assert told["bad_weights"] == []


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        ('batch["values"][1, 2:] = float("nan")', "values: 2 of 16 values not finite"),
        ('batch["labels"][0, :3] = 10', "labels: 3 of 64 values outside [0, 10)"),
        ('batch["labels"][:] = -100', NONE_COUNTS),
    ],
)
def test_bad_batch(plant: str, said: str, train: Train) -> None:
    smoke = train(code=CLASSIFIER.format(plant=plant))
    assert _said(smoke, own=True) == f"the batch is the cause: {said}"
    assert _tried(smoke) == [("other-batch", "not possible")]
    verdict = complete(fail("x"), smoke, own=True)
    assert verdict.owner is Owner.JOB
    assert "ps-P11" in verdict.sources


def test_ignored_labels_beside_others_are_no_fault(train: Train) -> None:
    plant = 'batch["labels"][1] = -100; model.head.weight.data[0, 0] = float("nan")'
    found = _found(train(code=CLASSIFIER.format(plant=plant)))
    assert found.noted == ("labels: 1 of 4 rows hold ignored labels only",)
    assert not found.bad_batch
    assert table(found) == ["Also seen: labels: 1 of 4 rows hold ignored labels only."]


def test_weights_that_are_not_finite_before_the_first_step(train: Train) -> None:
    smoke = train(code=CLASSIFIER.format(plant="model.head.weight.data[:3] = float('nan')"))
    assert _said(smoke, own=True) == (
        "the weights are the cause: before the first step head.weight: 48 of 160 values not finite"
    )
    assert _tried(smoke) == []


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
    "expression",
    ["x / (x - x)", "torch.log(torch.relu(x) * 0)", "torch.exp(x.abs() * 1e4)", "(x - 100).sqrt()"],
)
def test_module_whose_output_is_not_finite(expression: str, train: Train) -> None:
    smoke = train(code=MODULE.format(expression=expression), precision="fp32")
    found = _found(smoke)
    assert (found.born, found.first_module, found.first_module_type) == ("module", "odd", "Odd")
    assert not found.mended_by
    said = _said(smoke, own=True)
    assert "changes mends it: the model's own code is the cause; the first output that" in said
    assert said.endswith("is that of odd (Odd), in step 1")


@pytest.mark.parametrize(
    ("expression", "operation", "stable"),
    [
        ("(x * 0).sqrt()", "SqrtBackward0", "torch.sqrt(x + 1e-12)"),
        ("(x * 0).norm(dim=-1, keepdim=True) ** 0.5 + x", "PowBackward0", "(x + 1e-12) ** p"),
    ],
)
def test_operation_whose_gradient_is_not_finite(
    expression: str, operation: str, stable: str, train: Train
) -> None:
    smoke = train(code=MODULE.format(expression=expression), precision="fp32")
    found = _found(smoke)
    assert (found.fault, found.born) == ("non-finite gradient", "gradient")
    assert found.bad_gradients == ("first.weight", "first.bias")
    assert (found.operation or "").startswith(
        f"{operation}, of `return {expression}` in planted.py"
    )
    assert f"the gradient norm of first.weight, first.bias is not, made by {operation}" in (
        _said(smoke, own=True)
    )
    assert stable in (complete(fail("x"), smoke, own=True).fix or "")


def test_model_that_the_factory_gives_again_starts_anew(train: Train) -> None:
    code = """
        import torch

        class Model(torch.nn.Linear):
            def forward(self, x):
                wrong = torch.is_autocast_enabled("cpu")
                return super().forward(x).square().mean() * (float("nan") if wrong else 1.0)

        MODEL = Model(4, 1)

        def make():
            return MODEL, (torch.randn(3, 4),)
    """
    smoke = train(code=code)
    assert _tried(smoke)[-2:] == [("fp32", "mended"), ("repeat", "same")]
    assert "finite in fp32, NaN in bf16" in _said(smoke, own=True)


def test_loss_over_finite_outputs(train: Train) -> None:
    code = """
        import torch

        def make():
            model = torch.nn.Linear(4, 1)
            loss = lambda module, x: torch.log(module(x).mean() * 0 - 1)
            return model, torch.randn(3, 4), loss
    """
    smoke = train(code=code, precision="fp32")
    assert _found(smoke).born == "loss"
    assert "all modules' outputs are finite in step 1, the loss made of them is not" in (
        _said(smoke, own=True)
    )


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


def test_error_in_an_attention_kernel(train: Train) -> None:
    smoke = train(ATTENTION.format(wrong=f"{FLASH} and torch.zeros(2) @ torch.zeros(3)"))
    assert "it completes without cuDNN and flash attention, it raises with flash" in _said(smoke)
    lines = (_complaint(smoke).fix or "").splitlines()
    assert lines[2].startswith(
        "  unchanged                      the same      forward: RuntimeError"
    )


def test_crash_in_an_attention_kernel(train: Train) -> None:
    dies = "__import__('os').kill(__import__('os').getpid(), 11)"
    smoke = train(ATTENTION.format(wrong=f"{FLASH} and {dies}"))
    assert _found(smoke).fault == "crashed"
    assert _found(smoke).attempts[0].detail == "forward: SIGSEGV inside forward"
    assert "it completes without cuDNN and flash attention, it crashes with flash" in _said(smoke)
    assert "SIGSEGV" in _complaint(smoke).summary


def test_crash_that_nothing_mends(train: Train) -> None:
    smoke = train(RAISE.format(what="import os; os.abort()"))
    assert {outcome for _, outcome in _tried(smoke)} == {"same", "not possible"}
    assert len(_tried(smoke)) == 1 + len(CHANGES)
    verdict = _complaint(smoke)
    assert "None of 6 changes mends it" in verdict.summary
    assert (verdict.fix or "").startswith(judged.CRASHED)


def test_hang_in_an_attention_kernel(train: Train) -> None:
    wrong = f"{FLASH} and __import__('time').sleep(600)"
    smoke = train(ATTENTION.format(wrong=wrong), first_seconds=5, attempt_seconds=3.0)
    assert _found(smoke).fault == "hung"
    assert "it completes without cuDNN and flash attention, it hangs with flash" in _said(smoke)


def test_time_that_is_over_is_told(train: Train) -> None:
    smoke = train(
        RAISE.format(what="__import__('time').sleep(600)"),
        first_seconds=3,
        attempt_seconds=2.0,
        total_seconds=3.0,
    )
    left = [each for each in _found(smoke).attempts if each.detail == LEFT_OUT]
    assert left
    assert {each.outcome for each in left} == {"not possible"}


def test_fault_that_is_gone_when_repeated(train: Train, tmp_path: Path) -> None:
    once = f"""
        import os, torch
        if not os.path.exists({str(tmp_path / "seen")!r}):
            open({str(tmp_path / "seen")!r}, "w").close()
            real = torch.nn.functional.silu
            torch.nn.functional.silu = lambda x: real(x) * float("nan")
    """
    smoke = train(once)
    assert _tried(smoke) == [("repeat", "mended")] * 3
    assert _said(smoke) == (
        "not reproduced: finite in 3 of 3 repetitions with nothing changed; it comes and goes with "
        "the same numbers"
    )


def test_mending_by_chance_is_no_cause(train: Train) -> None:
    thrice = """
        import torch
        real, calls = torch.nn.functional.cross_entropy, []

        def loss(*given, **named):
            calls.append(1)
            return real(*given, **named) * (float("nan") if len(calls) < 4 else 1.0)

        torch.nn.functional.cross_entropy = loss
    """
    smoke = train(thrice)
    assert _tried(smoke)[0] == ("repeat", "same")
    assert _tried(smoke)[-1] == ("repeat", "mended")
    assert _found(smoke).mended_by is None
    assert "not reproduced: finite in 1 of 2 repetitions" in _said(smoke)


def test_parameter_that_no_gradient_reaches(train: Train) -> None:
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
    smoke = train(code=code)
    assert _found(smoke).fault == "no gradient"
    assert _found(smoke).attempts[0].detail == "no gradient in 2 of 4 parameters"
    assert "detach()" in (complete(fail("x"), smoke, own=True).fix or "")
    assert train(code=code, expected=("up.*",)).diagnosis is None


def test_fault_that_the_users_own_code_plants_in_torch(train: Train) -> None:
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
    smoke = train(code=code)
    assert "finite without cuDNN and flash attention, NaN with flash" in _said(smoke, own=True)
    assert (_found(smoke).first_module, _found(smoke).first_module_type) == ("", "Model")
    assert "that of the model itself (Model), in step 1" in _said(smoke, own=True)


def test_attention_of_a_transformers_model(train: Train, tmp_path: Path) -> None:
    llama().config.save_pretrained(tmp_path / "llama")
    smoke = train(ATTENTION.format(wrong="True"), folder=tmp_path / "llama")
    assert _tried(smoke)[-2:] == [("eager", "mended"), ("repeat", "same")]
    said = _said(smoke, own=True)
    assert "finite with eager attention, NaN with the attention that the model loads" in said
    assert "that of model.layers.0.self_attn (LlamaAttention), in step 1" in said


def test_scaler_that_skips_every_step(train: Train) -> None:
    prelude = """
        import functools, torch
        torch.amp.GradScaler = functools.partial(torch.amp.GradScaler, init_scale=2.0**60)
    """
    smoke = train(prelude, precision="fp16")
    assert (_found(smoke).fault, _found(smoke).born) == ("non-finite gradient", "gradient")
    assert "finite in fp32, gradients that are not finite in fp16" in _said(smoke)
    assert "skipped" in _complaint(smoke).summary


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
    told: list[str] = []
    facts = collect(Job(device="cpu", python=sys.executable), RunOptions(), Expect(), told.append)
    findings = {finding.check.code: finding for finding in examine(CHECKS, facts)}
    assert findings["SMK001"].status is Status.PASS
    assert findings["SMK002"].status is Status.FAIL
    said = "Finite without cuDNN and flash attention, NaN with flash: the flash attention kernel"
    assert said in findings["SMK002"].verdict.summary
    assert "finding the cause (flash-off): forward" in told
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
        (record(OK, Step(loss=0.0, grad_norm=1.0, lr=1.0)), "zero loss"),
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
    assert list(WORDS) == ["repeat", *CHANGES]
    assert judged.MOST_SKIPPED == MOST_SKIPPED


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fault", get_args(Fault))
def test_every_cause_can_be_told(fault: Fault, change: str, own: bool) -> None:
    attempts = (
        Attempt(change="repeat", outcome="same"),
        Attempt(change=change, outcome="mended", loss=5.0, grad_norm=1.0),
    )
    smoke = record(diagnosis=Diagnosis(fault=fault, attempts=attempts))
    verdict = complete(fail("x"), smoke, own=own)
    assert "{" not in f"{verdict.summary}{verdict.fix}"
    assert " the cause" in verdict.summary or "too high" in verdict.summary
    assert verdict.sources
    assert (verdict.fix or "").endswith("well      loss 5, grad_norm 1")


def test_a_known_remedy_stays_where_nothing_mends_it() -> None:
    same = tuple(Attempt(change=name, outcome="same") for name in ("repeat", "math"))
    smoke = record(diagnosis=Diagnosis(fault="raised", attempts=same))
    known = fail("x", fix="Free the GPU.", owner=Owner.MACHINE, sources=("ps-U10",))
    verdict = complete(known, smoke)
    assert (verdict.fix or "").startswith("Free the GPU.\nTried")
    assert verdict.owner is Owner.MACHINE
    assert "ps-U10" in verdict.sources
    mended = Diagnosis(fault="raised", attempts=(same[0], Attempt(change="math", outcome="mended")))
    verdict = complete(known, record(diagnosis=mended))
    assert "enable_mem_efficient_sdp(False)" in (verdict.fix or "")


def test_a_search_that_ran_out_of_time_names_no_cause() -> None:
    tried = [Attempt(change=name, outcome="same") for name in ("repeat", "math")]
    cut = Attempt(change="eager", outcome="not possible", detail=LEFT_OUT)
    said = sentence(Diagnosis(fault="hung", attempts=(*tried, cut)), record(), own=True)
    assert "the cause was not found" in said
    assert "1 tried" in said
    assert "model's own code" not in said
    whole = sentence(Diagnosis(fault="hung", attempts=tuple(tried)), record(), own=True)
    assert "model's own code is the cause" in whole


@pytest.mark.parametrize(
    ("indices", "said"),
    [
        ([[0, 1, 2, 3, 4]], "positions: 2 of 5 beyond the model's length, it has 3"),
        ([[0, 7, 2, 1, 2]], "tokens: 1 of 5 values outside the vocabulary [0, 3)"),
    ],
)
def test_positions_are_told_from_tokens(indices: list[list[int]], said: str) -> None:
    code = (
        "import sys; sys.path.append('..'); import torch, inspect_step as step\n"
        f"try: step._check_tokens(torch.tensor({indices}), torch.zeros(3, 2), {{}})\n"
        "except step.Spoiled as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "2"],
        cwd=PROBES / "training_side",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == said


def test_nothing_is_added_to_what_is_well_or_was_not_searched() -> None:
    assert complete(fail("x"), record()) == fail("x")
    found = Diagnosis(fault="hung")
    assert complete(ok("x"), record(diagnosis=found)) == ok("x")
    assert sentence(found, record()) == "nothing could be changed to find the cause"
    assert table(found) == []
