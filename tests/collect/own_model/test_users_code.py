"""What the user's code may do: die, hang, change its process, import files beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from own_code import Own, completes, job_of, smoke_of
from shims import clock_stopped_until

from doctor.collect import extra_time, own_training
from doctor.collect.children import Children
from doctor.collect.own_names import factory_of
from doctor.collect.own_training import collect_in, collect_own
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen
from doctor.judge.check import Owner, Status

pytestmark = pytest.mark.slow

SOUND = "def make():\n    return Net(), batch()\n"


@pytest.mark.parametrize(
    ("body", "how", "detail"),
    [
        ("os._exit(3)", "error", "exit status 3 and no message inside call the factory"),
        ("import ctypes; ctypes.string_at(0)", "signal", "SIGSEGV inside call the factory"),
        ("os.kill(os.getpid(), 9)", "signal", "SIGKILL inside call the factory"),
        ("os.write(sys.modules['_doctor_probes.wire']._report, b'x' * 100 + b'\\n')",
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
    """Trains what hangs at {HANG}; the deadline begins when it hangs."""

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


LARGE = """
class Large(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(320, 8, 1280, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
    def forward(self, x):
        for _ in range(10_000):
            loss = self.layers(x).pow(2).mean()
        return loss

def make():
    assert sum(each.numel() for each in Large().parameters()) > 9_000_000
    return Large(), torch.randn(8, 128, 320)
"""
LOOPS = 8


def test_a_large_model_on_a_busy_machine_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not extra_time.load_of(os.getsid(0)).runnable:
        pytest.skip("this kernel does not tell how long threads wait for a processor")
    monkeypatch.setattr(own_training, "OWN_SECONDS", 4.0)
    monkeypatch.setattr(own_training, "BUSY_SECONDS", 1.0)
    job, children = job_of(tmp_path / "train.py", LARGE), Children()
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    try:
        record = collect_own(
            children, sys.executable, job, "cpu", Chosen("fp32", ""), lambda stage: None
        )
    finally:
        children.interrupt()
        for each in loops:
            each.kill()
            each.wait()
    assert isinstance(record, OwnModel)
    assert record.busy is True
    assert completes(record).status is Status.UNKNOWN


HARMLESS = (
    "print('{\"answer\": {}}' * 100); sys.stderr.write('noise'); sys.stdout.flush()",
    "os.remove(__file__)",
    "child = os.fork(); child and os.waitpid(child, 0)",
    "sys.stdin.read(); sys.argv.append('--lr')",
    "import argparse; argparse.ArgumentParser().parse_args()",
    "spawned = torch.multiprocessing.get_context('spawn').Process(target=print, args=('x',)); "
    "spawned.start(); spawned.join(); assert spawned.exitcode == 0",
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
    assert "[redacted]" in record.built.detail
    assert "hf_very_secret_value" not in str(record)
