"""The user's own training: real factories and model folders in real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import command
import msgspec
import preloaded
import pytest
from shims import clock_stopped_until

from doctor._util.errors import UserError
from doctor._util.records import Ended, Unknown
from doctor.checks import storage
from doctor.checks.numerics import grad_scaler
from doctor.checks.training import compiled
from doctor.checks.training import own_model as checks
from doctor.collect import own_training
from doctor.collect.children import Children
from doctor.collect.own_names import factory_of, find_directory
from doctor.collect.own_training import collect_in, collect_own
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import decode
from doctor.facts.machine import Place
from doctor.facts.own_model import Compiled, MemoryPoint, OwnModel, Scaler
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.job.job import Chosen, Job, Precision, Target
from doctor.judge.check import Owner, Status, Verdict
from doctor.report import own_model

pytestmark = pytest.mark.slow

NET = """
import os, sys, time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, cut=False):
        super().__init__()
        self.a, self.b, self.cut = nn.Linear(8, 8), nn.Linear(8, 3), cut

    def forward(self, x, labels):
        hidden = self.a(x).relu()
        hidden = hidden.detach() if self.cut else hidden
        return {"loss": nn.functional.cross_entropy(self.b(hidden).float(), labels)}

def batch(**changes):
    torch.manual_seed(0)
    return {"x": torch.randn(4, 8), "labels": torch.tensor([0, 1, 2, 0]), **changes}
"""

SOUND = "def make():\n    return Net(), batch()\n"

Own = Callable[..., OwnModel]


@pytest.fixture(scope="module")
def warm() -> Iterator[TorchChild]:
    """One process for the factories that leave it as it was; a new one after a death."""
    child = TorchChild(Children(), preloaded.python())
    yield child
    child.end()


@pytest.fixture
def own(warm: TorchChild, tmp_path: Path) -> Own:
    """Trains what the source's `make` returns."""

    def train(source: str, precision: str = "fp32", **fields: Any) -> OwnModel:
        directory = Path(tempfile.mkdtemp(dir=tmp_path))  # the process caches modules by path
        job = job_of(directory / "train.py", source, **fields)
        chosen = Chosen(precision, "here")  # type: ignore[arg-type]
        record = collect_in(warm, job, "cpu", chosen, lambda stage: None)
        assert isinstance(record, OwnModel), record
        return record

    return train


@pytest.fixture
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    """The same in a process of its own, in the directory of the file."""
    children = Children()
    monkeypatch.chdir(tmp_path)

    def train(source: str, precision: Precision = "fp32", **fields: Any) -> OwnModel:
        job = job_of(Path("train.py"), source, **fields)
        chosen = Chosen(precision, "here")
        python = preloaded.python()
        record = collect_own(children, python, job, "cpu", chosen, lambda stage: None)
        assert isinstance(record, OwnModel), record
        return record

    yield train
    children.interrupt()


def job_of(file: Path, source: str, **fields: Any) -> Job:
    file.write_text(NET + textwrap.dedent(source), "utf-8")
    return Job(device="cpu", model=f"{file}:make", **fields)


@pytest.fixture
def without_diagnosis(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls of the bisection, which is not run."""
    calls: list[object] = []
    monkeypatch.setattr(own_training, "diagnose", lambda *inputs, **options: calls.append(inputs))
    return calls


def completes(own: OwnModel, small: Any = None) -> Verdict:
    return checks.completes(own, small)


def smoke_of(own: OwnModel) -> Smoke:
    assert own.smoke, own.built
    return own.smoke


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


# What a factory may return


def test_the_example_of_the_contract_trains(own: Own) -> None:
    record = own(own_model.EXAMPLE)
    assert completes(record).status is Status.PASS
    assert checks.weights_move(record, Job()).status is Status.PASS
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
        "{'model': Net(), 'batch': [batch()].__iter__()}",
    ],
)
def test_a_factory_returns_what_the_contract_says(returned: str, own: Own) -> None:
    record = own(f"""
        class Mean(nn.Module):
            def forward(self, x):
                return x.mean()

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

        def make():
            return {returned}
        """)
    assert record.built.ok
    assert record.description.endswith("train.py:make")
    assert completes(record).status is Status.PASS
    assert checks.loss_finite(record, None).status is Status.PASS
    assert checks.gradients_reach_all(record, None, Job()).status is Status.PASS
    assert checks.weights_move(record, Job()).status is Status.PASS
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


# What user's code may do


@pytest.mark.parametrize(
    ("body", "how", "detail"),
    [
        ("os._exit(3)", "error", "exit status 3 and no message inside call the factory"),
        ("import ctypes; ctypes.string_at(0)", "signal", "SIGSEGV inside call the factory"),
        ("os.kill(os.getpid(), 9)", "signal", "SIGKILL inside call the factory"),
        ("os.write(sys.modules['wire']._REPORT, b'x' * 100 + b'\\n')",
         "error", "invalid message"),
    ],
)  # fmt: skip
def test_a_factory_that_dies_is_reported(
    body: str, how: str, detail: str, own_process: Own
) -> None:
    record = own_process(f"def make():\n    {body}\n")
    assert (record.built.how, detail in record.built.detail) == (how, True), record.built
    assert completes(record).status is Status.FAIL


HANG = "(open({file!r}, 'w').close(), time.sleep(600))"
"""`file` exists from then on."""


@pytest.fixture
def hanging(own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], OwnModel]:
    """Trains what hangs at {HANG}; the deadline passes when it hangs."""

    def train(source: str) -> OwnModel:
        file = tmp_path / "hangs"
        monkeypatch.setattr(own_training, "OWN_SECONDS", 0.5)
        with clock_stopped_until(file.exists):
            return own(source.replace("{HANG}", HANG.format(file=str(file))))

    return train


def test_a_factory_that_hangs_is_reported(hanging: Callable[[str], OwnModel]) -> None:
    record = hanging("def make():\n    {HANG}\n")
    assert record.built.how == "timeout"
    assert "inside call the factory" in record.built.detail
    assert completes(record).status is Status.FAIL


def test_a_step_that_hangs_is_reported_with_its_stage(
    own: Own, hanging: Callable[[str], OwnModel], without_diagnosis: list[object]
) -> None:
    small = smoke_of(own(SOUND))
    without_diagnosis.clear()
    record = hanging("def make():\n    return Net(), batch(), lambda module, inputs: {HANG}\n")
    assert record.built.ok
    assert record.settings
    stages = [(stage.name, stage.ended.how) for stage in smoke_of(record).stages]
    assert stages == [("allocate", "ok"), ("forward", "timeout")]
    # The small model trains, so it is the job's own fault
    verdict = completes(record, small)
    assert verdict.owner is Owner.JOB
    assert record.stack[0].startswith("train.py, line ")
    assert record.stack[0] in verdict.summary
    assert record.busy is False
    assert not without_diagnosis  # a hang is not repeated


HARMLESS = (
    "print('{\"answer\": {}}' * 100); sys.stderr.write('noise'); sys.stdout.flush()",
    "os.remove(__file__)",
    "child = os.fork(); child and os.waitpid(child, 0)",
    "sys.stdin.read(); sys.argv.append('--lr')",
    "import argparse; argparse.ArgumentParser().parse_args()",
    "torch.multiprocessing.get_context('spawn').Process(target=print, args=('x',)).start()",
)
LASTING = (
    "torch.set_default_device('cpu'); torch.set_default_dtype(torch.bfloat16); os.chdir('/'); "
    "assert __name__ == 'train'; assert sys.modules[__name__].Net is Net"
)


def factory_after(before: str) -> str:
    returned = "Net().float(), batch(x=torch.ones(4, 8).float())"
    return f"def make():\n    {before}\n    return {returned}\n"


@pytest.mark.parametrize("before", HARMLESS)
def test_a_factory_with_side_effects(before: str, own: Own) -> None:
    assert smoke_of(own(factory_after(before))).completed


def test_a_factory_that_changes_its_process(own_process: Own) -> None:
    assert smoke_of(own_process(factory_after(LASTING))).completed


def test_files_beside_the_factory_are_importable_and_main_is_not_run(
    own_process: Own, tmp_path: Path
) -> None:
    (tmp_path / "helpers.py").write_text("WIDTH = 8\n", "utf-8")
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')", "utf-8")
    record = own_process("""
        from helpers import WIDTH
        def make():
            import torch
            assert torch.__file__ != os.path.join(os.getcwd(), "torch.py")
            return Net(), batch()
        if __name__ == "__main__":
            os._exit(9)
        """)
    assert smoke_of(record).completed


PACKAGED = """
import argparse
from .helpers import WIDTH
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
data = parser.parse_args().data
def make():
    return Net(), batch(x=torch.ones(4, WIDTH))
"""


@pytest.mark.parametrize("given", [("--data", "corpus"), ()])
def test_a_file_of_a_package_gets_its_arguments(
    given: tuple[str, ...], warm: TorchChild, tmp_path: Path
) -> None:
    package = tmp_path / f"package{len(given)}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helpers.py").write_text("WIDTH = 8\n", "utf-8")
    job = job_of(package / "train.py", PACKAGED, arguments=given)
    record = collect_in(warm, job, "cpu", Chosen("fp32", "here"), lambda stage: None)
    assert isinstance(record, OwnModel)
    verdict = completes(record)
    if given:
        assert verdict.status is Status.PASS
    else:
        assert "argparse did not accept the command line; pass the script's" in verdict.summary
        assert "the following arguments are required: --data" in (verdict.fix or "")


def test_a_module_is_named_with_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "train.py").touch()
    assert factory_of("pkg.train:make") == ("src/pkg/train.py", "make")


def test_secrets_are_removed_from_errors(own: Own) -> None:
    record = own("""
        def make():
            os.environ["HF_TOKEN"] = "hf_very_secret_value"
            raise RuntimeError("refused: " + os.environ["HF_TOKEN"])
        """)
    assert "***" in record.built.detail
    assert "hf_very_secret_value" not in str(record)


# What is read


def test_the_switches_that_the_code_set_are_the_settings(own_process: Own) -> None:
    record = own_process("""
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.conv.fp32_precision = "ieee"
        def make():
            return Net(), batch(), loss
        def loss(module, inputs):
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = True
            return module(**inputs)
        """)
    assert record.settings
    assert record.settings.when == "after the model's code"
    assert (record.settings.tf32_matmul, record.settings.tf32_conv) == (True, False)
    assert record.settings.sdp_enabled["cudnn"] is False
    assert record.settings.sdp_enabled["math"] is True
    assert (record.settings.deterministic, record.settings.cudnn_benchmark) == (True, True)


def test_the_batch_and_the_memory_and_the_save_are_measured(own: Own) -> None:
    record = own("""
        class Wide(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x).relu()
                return x.pow(2).mean()
        def make():
            return Wide(), {"x": torch.full((32768, 64), 0.5)}
        """)
    assert [(each.name, each.shape) for each in record.batch] == [("x", (32768, 64))]
    assert (record.batch[0].low, record.batch[0].high, record.batch[0].nonfinite) == (0.5, 0.5, 0)
    if sys.platform != "linux":
        assert isinstance(record.points, Unknown)
        return
    small, large = record.points  # type: ignore[misc]
    assert isinstance(small, MemoryPoint)
    assert (small.batch, large.batch) == (16384, 32768)
    activations = 16384 * 64 * 4 * 4  # at least one output of each of four layers
    assert large.peak_bytes - small.peak_bytes > 0.9 * activations
    weights = 4 * (64 * 64 + 64) * 4
    assert weights < (record.saved_weights or 0) < 1.1 * weights
    assert 2 * weights < (record.saved_optimizer or 0) < 2.2 * weights


def test_a_large_save_is_summed_and_not_serialized(own_process: Own) -> None:
    record = own_process("""
        class Large(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(1 << 8, 1 << 12)
                self.tied = self.table
            def forward(self, x):
                return self.table(x).pow(2).mean()
        def make():
            import wire
            wire.sibling("memory_points").MAX_SERIALIZED = 1 << 20
            return Large(), {"x": torch.arange(64).view(2, 32)}
        """)
    weights = (1 << 20) * 4
    assert record.saved_weights is not None
    assert record.saved_weights == weights
    assert record.saved_optimizer == 2 * weights + 4  # and the count of steps


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("Net(), lambda module: module(**batch())", "no first dimension"),
        ("Net(), batch(), once", "RuntimeError: enough"),
    ],
)
def test_memory_that_cannot_be_measured_is_unknown(make: str, reason: str, own: Own) -> None:
    record = own(f"""
        taken = []
        def once(module, inputs):
            taken.append(1)
            if len(taken) > 3:
                raise RuntimeError("enough")
            return module(**inputs)
        def make():
            return {make}
        """)
    assert smoke_of(record).completed
    assert isinstance(record.points, Unknown)
    assert reason in record.points.reason


def test_a_death_after_the_steps_keeps_their_record(own_process: Own) -> None:
    record = own_process("""
        taken = []
        def loss(module, inputs):
            taken.append(1)
            if len(taken) > 3:
                os._exit(5)
            return module(**inputs)
        def make():
            return Net(), batch(), loss
        """)
    assert smoke_of(record).completed
    assert isinstance(record.points, Unknown)
    assert "exit status 5" in record.points.reason


# Planted faults


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        ("net = Net(); net.a.weight.data[0, 0] = float('nan'); return net, batch()", "SMK006",
         "'loss': nan"),
        ("return Net(), batch(x=torch.full((4, 8), float('nan')))", "SMK006", "'loss': nan"),
        ("return Net(), batch(labels=torch.tensor([0, 1, 7, 0]))", "SMK005", "out of bounds"),
        ("return Net(True), batch()", "SMK007", "a.weight (float32)"),
        ("return Net().bfloat16(), batch(x=torch.ones(4, 8).bfloat16())", "SMK008", "bfloat16"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("without_diagnosis")
def test_a_planted_fault_is_found_by_its_check(make: str, code: str, text: str, own: Own) -> None:
    source = f"def make():\n    {make}\n"
    if code == "SMK008":
        source = NORM
    record = own(source)
    verdicts = {check.code: judged(check, record) for check in checks.CHECKS}
    assert verdicts[code].status is Status.FAIL
    assert text in verdicts[code].summary, verdicts[code].summary
    broken = [name for name, verdict in verdicts.items() if verdict.status is Status.FAIL]
    assert broken[0] == code


NORM = """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
    def forward(self, x):
        return self.norm(self.inner(x)).pow(3).mean()
def make():
    return Normed().bfloat16(), {"x": torch.randn(4, 8).bfloat16()}
"""


def judged(check: Any, record: OwnModel, job: Job | None = None) -> Verdict:
    names = signature(check.judge).parameters
    inputs = {"own": record, "smoke": None, "job": job or Job()}
    verdict = check.judge(**{name: inputs[name] for name in names})
    assert isinstance(verdict, Verdict)
    return verdict


def test_what_is_detached_on_purpose_is_named_with_a_pattern(own: Own) -> None:
    record = own("def make():\n    return Net(True), batch()\n", expect_no_grad=("a.*",))
    job = Job(expect_no_grad=("a.*",))
    for check in checks.CHECKS:
        assert judged(check, record, job).status is Status.PASS
    assert (
        "2 omitted by --expect-no-grad" in judged(checks.GRADIENTS_REACH_ALL, record, job).summary
    )
    typo = judged(checks.GRADIENTS_REACH_ALL, record, Job(expect_no_grad=("a.*", "c.*")))
    assert "no parameter matches --expect-no-grad c.*" in typo.summary
    every = Job(expect_no_grad=("*",))
    assert "all 4 parameters match" in judged(checks.GRADIENTS_REACH_ALL, record, every).summary
    assert judged(checks.GRADIENTS_REACH_ALL, record).status is Status.FAIL


def test_a_pure_bf16_run_trains_in_bf16(own: Own) -> None:
    record = own(
        "def make():\n    return Net(), batch(), lambda m, b: m(b['x'].bfloat16(), b['labels'])\n",
        precision="bf16",
        recipe="pure-bf16",
    )
    assert {each.dtype for each in smoke_of(record).parameters} == {"bfloat16"}


# The GradScaler


@pytest.mark.parametrize(
    ("dtype", "status", "text"),
    [
        ("float32", Status.PASS, "trainable weights are float32"),
        ("float16", Status.FAIL, "Attempting to unscale FP16 gradients"),
        ("bfloat16", Status.WARN, "raises on CUDA up to torch 2.15"),
    ],
)
@pytest.mark.usefixtures("without_diagnosis")
def test_the_scaler_is_tried_on_the_weights_that_train(
    dtype: str, status: Status, text: str, own: Own
) -> None:
    record = own(f"def make():\n    return Net().to(torch.{dtype}), batch()\n", precision="fp16")
    verdict = grad_scaler.scaler_fits_weights(
        record, Chosen("fp16", "--precision fp16"), Target("cpu", "--device cpu")
    )
    assert (verdict.status, text in verdict.summary) == (status, True), verdict.summary
    assert (completes(record).status is Status.FAIL) == (dtype == "float16")


def test_the_scaler_on_cuda_is_told_by_its_real_cause() -> None:
    text = 'NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented'
    ended = Ended(how="error", detail=text)
    tried = Scaler(dtype="bfloat16", of="from_pretrained", ended=ended)
    fine = Scaler(dtype="float32", of="the model", ended=Ended(how="ok"))
    target, chosen = Target("nvidia", ""), Chosen("fp16", "")
    both = Well().with_fields(scalers=(fine, tried))
    verdict = grad_scaler.scaler_fits_weights(both.own, chosen, target)
    assert verdict.status is Status.WARN
    assert text in verdict.summary
    bf16 = grad_scaler.scaler_fits_weights(both.own, Chosen("bf16", ""), target)
    assert bf16.status is Status.SKIP
    none = grad_scaler.scaler_fits_weights(Well().own, chosen, target)
    assert none.status is Status.UNKNOWN


# torch.compile


class Well:
    """A training without a fault, and the same with some fields changed."""

    def __init__(self, **fields: Any) -> None:
        ok = Ended(how="ok", seconds=0.1)
        smoke = Smoke(
            device="cpu",
            precision="fp32",
            recipe="amp",
            lr=3e-4,
            stages=(Stage(name="forward", ended=ok),),
            steps=(Step(loss=2.0, grad_norm=1.0, lr=3e-4),),
            parameters=(
                Parameter(
                    name="w", dtype="float32", size=4, had_gradient=True, finite=True, moved=True
                ),
            ),
        )
        self.own = OwnModel(
            **{"description": "train.py:make", "built": ok, "smoke": smoke} | fields
        )

    def with_fields(self, **fields: Any) -> Well:
        return Well(**fields)


def step(loss: Any) -> Step:
    return Step(loss=loss, grad_norm=1.0, lr=0.0)


@pytest.mark.parametrize(
    ("made", "status", "text"),
    [
        (None, Status.UNKNOWN, "not tried"),
        (Compiled(ended=Ended(how="timeout", detail="no answer in 180 s")), Status.WARN, "180 s"),
        (Compiled(ended=Ended(how="signal", detail="SIGSEGV")), Status.FAIL, "SIGSEGV"),
        (Compiled(ended=Ended(how="error", detail="InvalidCxxCompiler: No working C++ compiler")),
         Status.FAIL, "C++"),
        (Compiled(ended=Ended(how="error", detail="GPUTooOldForTriton: Found Tesla P40 which is "
                              "too old to be supported by the triton GPU compiler")),
         Status.FAIL, "P40"),
        (Compiled(ended=Ended(how="ok")), Status.UNKNOWN, "not compared"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step(2.0), error=1e-4),
         Status.PASS, "gradients 0.0001"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step(2.0), error=0.5),
         Status.FAIL, "<= 0.001 required"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step(2.5), error=0.0),
         Status.FAIL, "loss 2.5 compiled, 2 eager"),
        (Compiled(ended=Ended(how="ok"), eager=step(2.0), compiled=step("nan"), error="nan"),
         Status.FAIL, "nan"),
        (Compiled(ended=Ended(how="ok"), eager=step("nan"), compiled=step("nan"), error="nan"),
         Status.UNKNOWN, "SMK006"),
    ],
)  # fmt: skip
def test_compiled_and_eager_are_compared(made: Any, status: Status, text: str) -> None:
    record = Well(compiled=made).own
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen("fp32", ""))
    assert (verdict.status, text in verdict.summary) == (status, True), verdict.summary
    if text == "P40":
        assert "capability 7.0" in (verdict.fix or "")
    left_out = compiled.compiled_agrees(record, Job(), Chosen("fp32", ""))
    assert left_out.status is Status.SKIP


@pytest.mark.parametrize(
    ("eager_error", "compiled_error", "status"),
    [(0.2, 0.25, Status.PASS), (0.0025, 0.055, Status.FAIL), (None, None, Status.FAIL),
     (0.2, "nan", Status.FAIL)],
)  # fmt: skip
def test_a_difference_that_rounding_explains_is_no_failure(
    eager_error: Any, compiled_error: Any, status: Status
) -> None:
    """Two correct bf16 steps may be further apart than either is from fp32."""
    errors = {"eager_error": eager_error, "compiled_error": compiled_error}
    ended = Ended(how="ok")
    made = Compiled(ended=ended, eager=step(2.0), compiled=step(2.0), error=0.27, **errors,
                    differs_most="layers.0.q")  # fmt: skip
    verdict = compiled.compiled_agrees(
        Well(compiled=made).own, Job(compile=True), Chosen("bf16", "")
    )
    assert verdict.status is status
    assert ("layers.0.q" in verdict.summary) is (status is Status.FAIL)
    wrong_loss = msgspec.structs.replace(made, compiled=step(2.5))
    assert _agreement(Well(compiled=wrong_loss).own) is Status.FAIL


def _agreement(own: OwnModel) -> Status:
    return compiled.compiled_agrees(own, Job(compile=True), Chosen("bf16", "")).status


def test_a_compiled_step_agrees(
    own_process: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    record = own_process(
        """
        import torch._inductor.config
        torch._inductor.config.cpp.vec_isa_ok = False  # the headers of vectors take 7 s to compile
        class Small(nn.Linear):
            def forward(self, x):
                return super().forward(x).pow(2).mean()
        def make():
            return Small(4, 2, bias=False), {"x": torch.ones(3, 4)}
        """,
        compile=True,
    )
    assert record.compiled
    if not record.compiled.ended.ok:
        pytest.skip(f"nothing compiles here: {record.compiled.ended.detail}")
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen("fp32", ""))
    assert verdict.status is Status.PASS, verdict.summary
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("precision", "factor"), [("fp32", 1.01), ("bf16", 1.2)])
def test_a_wrongly_compiled_step_does_not_agree(
    own: Own, precision: Precision, factor: float
) -> None:
    source = """
        class Wrong(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, **inputs):
                return {"loss": self.inner(**inputs)["loss"] * FACTOR}
        def wrong(module, plain=torch.compile):
            torch.compile = plain
            return Wrong(module)
        torch.compile = wrong
        def make():
            return Net(), batch()
        """
    record = own(source.replace("FACTOR", str(factor)), precision, compile=True)
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen(precision, ""))
    assert verdict.status is Status.FAIL
    result = record.compiled
    assert result
    assert result.error is not None
    assert abs(float(result.error) - (factor - 1)) < (factor - 1) / 10
    assert result.differs_most in ("a.weight", "a.bias", "b.weight", "b.bias")
    if precision == "bf16":
        assert float(result.eager_error or 1.0) < 0.02 < float(result.compiled_error or 0.0)
    else:
        assert result.eager_error is None


def test_a_model_that_does_not_compile(own: Own) -> None:
    record = own(
        """
        def broken(module, plain=torch.compile):
            torch.compile = plain
            raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found")
        torch.compile = broken
        def make():
            return Net(), batch()
        """,
        compile=True,
    )
    verdict = compiled.compiled_agrees(record, Job(compile=True), Chosen("fp32", ""))
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.ENVIRONMENT)
    assert "g++" in (verdict.fix or "")


# The verdicts


def test_a_trained_small_model_shows_a_sound_environment() -> None:
    failed = Well(built=Ended(how="error", detail="ValueError: no"), smoke=None).own
    trained = Well().own.smoke
    assert "the environment is sound" in completes(failed, trained).summary
    assert "the environment is sound" not in completes(failed, None).summary
    assert "the environment is sound" not in completes(failed, Unknown(reason="no GPU")).summary


def test_what_was_not_recorded_is_unknown() -> None:
    nothing = Well(smoke=None).own
    for check in checks.CHECKS:
        assert judged(check, nothing).status is Status.UNKNOWN
    unsupported = Well(
        built=Ended(how="error", detail="no vocab_size"), unsupported=True, smoke=None
    ).own
    assert completes(unsupported).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("detail", "owner", "fix"),
    [
        ("peft is not installed in this interpreter", Owner.ENVIRONMENT, "Install it"),
        ("OutOfMemoryError: CUDA out of memory.", Owner.JOB, "smaller batch"),
        ("IndexError: index out of range in self", Owner.JOB, "beyond the rows"),
    ],
)
def test_known_errors_of_own_models_have_their_remedy(detail: str, owner: Owner, fix: str) -> None:
    verdict = completes(Well(built=Ended(how="error", detail=detail), smoke=None).own)
    assert (verdict.owner, fix in (verdict.fix or "")) == (owner, True)


# What a first save takes, against the disk


def room(own: Any, free: int, **job: Any) -> Verdict:
    looked = Ended(how="ok")
    place = Place(role="output", path="/data", looked=looked, free=free, exists=True)
    verdict = storage.room_for_checkpoints(Job(**job), (place,), None, own)
    assert isinstance(verdict, Verdict)
    return verdict


def test_a_save_that_was_tried_is_the_size_of_a_checkpoint() -> None:
    tried = {"saved_weights": 10**9, "saved_optimizer": 2 * 10**9}
    own = Well(**tried).own
    fits = room(own, 8 * 10**9)
    assert fits.status is Status.PASS
    assert "2 checkpoints of 3.0 GB (trial save: weights 1.0 GB" in fits.summary
    assert room(own, 7 * 10**9).status is Status.WARN
    assert room(own, 5 * 10**9).status is Status.FAIL
    for elsewhere in (Well(**tried, whole=False).own, Unknown(reason="no GPU"), None):
        assert "the size of a checkpoint is not known" in room(elsewhere, 10**12).summary
    assert "10M parameters" in room(own, 10**12, params=10**7).summary


# Flags, and the probes' files


@pytest.mark.parametrize("asked", ["train.py", "train.py:", "train.py:1a", "absent.py:make", "a:b"])
def test_a_factory_that_is_not_there_is_an_error_of_usage(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    with pytest.raises(UserError, match="--model"):
        factory_of(asked)
    assert factory_of("train.py:make") == ("train.py", "make")


def test_a_folder_that_is_no_model_is_an_error_of_usage(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UserError, match="--hf"):
            find_directory(str(folder))
    with pytest.raises(UserError, match="not downloaded"):
        find_directory("meta-llama/Llama-3.2-1B")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--model", "absent.py:make"), "no such Python file: absent.py"),
        (("--hf", "absent"), "--hf absent"),
        (("--lora", "4"), "--lora"),
        (("--compile",), "--compile"),
        (("--model", "a.py:b", "--no-smoke"), "--no-smoke"),
    ],
)
def test_flags_that_make_no_sense_exit_2(
    arguments: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    done = doctor(tmp_path, *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_factory_is_judged_through_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        NET + "print('noise')\ndef make():\n    return Net(True), batch()\n", "utf-8"
    )
    done = doctor(
        tmp_path, "--model", "train.py:make", "--save-facts", "facts.json", "--format", "json"
    )
    report = json.loads(done.stdout)
    statuses = {finding["code"]: finding for finding in report["findings"]}
    assert done.returncode == 1
    assert statuses["SMK001"]["status"] == "pass"
    assert statuses["SMK007"]["status"] == "fail"
    assert statuses["SMK007"]["owner"] == "job"
    assert "the environment is sound" in statuses["SMK007"]["summary"]
    facts = decode((tmp_path / "facts.json").read_bytes())
    assert isinstance(facts.own, OwnModel)
    assert facts.settings == facts.own.settings


def doctor(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    training = ("--device", "cpu", "--python", preloaded.python())
    return command.doctor("run", *training, *arguments, cwd=folder)


# Errors: what is observed where they are raised


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
    assert raised_by(record).observed["unequal"] == "'ids' of the samples: [3], [4], [5], [6]"
    assert "collate_fn" in (completes(record).fix or "")


OBSERVED = {
    "NameError": (
        "optmizer = torch.optim.SGD(Net().parameters(), 1); return Net(), optimizer",
        "similar",
        "optmizer",
    ),
    "KeyError": ("inputs = batch(); return Net(), inputs['label']", "keys", "x, labels"),
    "AttributeError": ("return Net().c, batch()", "members", "a, b"),
    "ValueError": ("model, inputs = Net(), batch(), None", "values", ""),
    "TypeError": ("return torch.optim.AdamW(Net().parameters(), rate=1)", "accepts", "params, lr"),
}


@pytest.mark.parametrize("error", OBSERVED)
def test_names_are_observed_where_the_factory_raised(error: str, own: Own) -> None:
    code, kind, text = OBSERVED[error]
    raised = raised_by(own(f"def make():\n    {code}\n"))
    assert raised.error == error
    assert text in raised.observed.get(kind, "")


def test_secrets_are_not_shown_in_arguments(own: Own) -> None:
    source = """
    def make():
        api_key, table = "a-very-secret-value", {}
        return torch.optim.AdamW(Net().parameters(), lr=table[api_key])
    """
    raised = raised_by(own(source))
    assert "api_key is ***" in raised.observed["values"]
    assert all("secret-value" not in each for each in raised.observed.values())


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
