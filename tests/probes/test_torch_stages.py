"""The torch child: real processes, real torch, and every way of dying."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
from probe_code import REGISTERED, RUN
from shims import clock_stopped_until

from doctor._util.records import Ended
from doctor.checks.training import smoke as judged
from doctor.collect.child import Child, environment, probe_command
from doctor.collect.child_messages import Answer
from doctor.facts.interpreter import Cuda, Libraries, Torch
from doctor.facts.training import Smoke
from doctor.judge.check import Owner, Status

pytestmark = pytest.mark.slow

SECONDS = 120.0
SMOKE = {"stage": "smoke", "device": "cpu", "precision": "bf16", "recipe": "amp"}
STAGES = ("allocate", "forward", "loss", "backward", "optimizer", "compare")
completes, loss_finite, gradients_reach_all, weights_move = (c.judge for c in judged.CHECKS)

Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the probe, with `prelude` run before it in the same process; all die in the end."""
    children: list[Child] = []

    def begin(prelude: str = "", python: str = "", **env: str) -> Child:
        python = python or preloaded.python()
        command = probe_command(python, "training_side.stages.torch_stages")
        if prelude:
            script = tmp_path / "wrapped.py"
            script.write_text(REGISTERED + textwrap.dedent(prelude) + RUN, "utf-8")
            command[1] = str(script)
        children.append(Child(command, environment() | env))
        return children[-1]

    yield begin
    for child in children:
        child.kill()


def _ask(child: Child, seconds: float = SECONDS, **request: Any) -> Answer:
    child.send(request)
    return child.wait(seconds)


@pytest.fixture(scope="module")
def shared() -> Iterator[Child]:
    """One process for requests that leave it as it was; its import is done."""
    child = Child(
        probe_command(preloaded.python(), "training_side.stages.torch_stages"), environment()
    )
    assert child.wait(SECONDS).ended.ok
    yield child
    child.kill()


def test_garbage_is_collected_again_once_torch_is_imported(start: Start, tmp_path: Path) -> None:
    """And what the import made is in the oldest generation, not frozen."""
    seen = tmp_path / "seen"
    child = start(
        f"""
        import gc, pathlib
        from _doctor_probes.training_side.stages import torch_stages
        imported = torch_stages.import_torch
        def noted():
            torch = imported()
            state = gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects(2)) > 10_000
            pathlib.Path({str(seen)!r}).write_text(repr(state))
            return torch
        torch_stages.import_torch = noted
        """,
        sys.executable,
    )
    assert child.wait(SECONDS).ended.ok
    assert seen.read_text() == "(True, 0, True)"


def _smoke(child: Child, **changes: str) -> Smoke:
    assert child.wait(SECONDS).ended.ok
    answer = _ask(child, **(SMOKE | changes))
    assert answer.answer, answer.ended
    return msgspec.convert(answer.answer["smoke"], Smoke)


# The import


def test_import_describes_torch(start: Start) -> None:
    answer = start(python=sys.executable).wait(SECONDS)
    assert answer.ended.ok
    assert answer.answer
    (interpreter,) = answer.notes
    assert interpreter["version"] == ".".join(map(str, sys.version_info[:3]))
    assert isinstance(interpreter["pip"], bool)
    torch = msgspec.convert(answer.answer["torch"], Torch)
    assert torch.version[0].isdigit()
    assert torch.tf32_matmul is False
    assert torch.sdp_enabled["math"]
    assert torch.cudnn is None
    assert [name for name, _ in answer.stages] == ["import torch"]


@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": ""}])
def test_working_directory_does_not_shadow_torch(
    env: dict[str, str], start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    for name in ("torch/__init__.py", "json.py", "doctor.py", "wire.py", "subject.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong one')", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert _smoke(start(python=sys.executable, **env)).completed


def test_torch_file_in_the_working_directory_is_not_imported(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')", "utf-8")
    monkeypatch.chdir(tmp_path)
    for path in ("", "."):
        assert start(python=sys.executable, PYTHONPATH=path).wait(SECONDS).ended.ok


def test_interpreter_without_torch(start: Start, tmp_path: Path) -> None:
    venv.EnvBuilder(symlinks=True).create(tmp_path / "bare")
    child = start(python=str(tmp_path / "bare" / "bin" / "python"))
    ended = child.wait(SECONDS).ended
    assert (ended.how, ended.detail) == ("error", "ModuleNotFoundError: No module named 'torch'")


@pytest.mark.parametrize(
    ("source", "how", "detail"),
    [
        ("raise ImportError('libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4')",
         "error", "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4"),
        ("raise OSError('libcudart.so.13: cannot open shared object file\\nmore')",
         "error", "OSError: libcudart.so.13: cannot open shared object file"),
        ("import sys; sys.exit('goodbye')", "error", "SystemExit: goodbye"),
        ("import os; os.abort()", "signal", "SIGABRT inside import torch"),
        ("import os, sys; os.write(int(sys.argv[1]), b'garbage\\n')",
         "error", "the probe wrote an invalid message"),
        ("import os; os._exit(0)", "error", "exit status 0 and no message"),
        ("print('{\"answer\": {}}'); raise ImportError('noise on stdout')",
         "error", "ImportError: noise on stdout"),
    ],
)  # fmt: skip
def test_broken_imports_are_distinguished(
    source: str, how: str, detail: str, start: Start, tmp_path: Path
) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(source, "utf-8")
    (package / "version.py").touch()
    answer = start(python=sys.executable, PYTHONPATH=str(tmp_path)).wait(SECONDS)
    assert (answer.ended.how, answer.ended.detail) == (how, detail)
    assert answer.stages[-1][0] == "import torch"
    assert not answer.stages[-1][1].ok


@pytest.mark.parametrize(
    ("file", "source", "first"),
    [
        ("torch.py", "x = 1", "ImportError: {file} is not an installed PyTorch"),
        ("torch.py", "import torch.nn", "ModuleNotFoundError: No module named 'torch.nn'"),
        ("torch/__init__.py", "from torch._C import *", "ModuleNotFoundError: No module named"),
    ],
)
def test_a_file_called_torch_is_named(
    file: str, source: str, first: str, start: Start, tmp_path: Path
) -> None:
    stray = tmp_path / file
    stray.parent.mkdir(exist_ok=True)
    stray.write_text(source, "utf-8")
    ended = start(python=sys.executable, PYTHONPATH=str(tmp_path)).wait(SECONDS).ended
    assert ended.how == "error"
    assert ended.detail.startswith(first.format(file=stray))
    assert ended.detail.endswith(f"{stray} is not an installed PyTorch")


def test_a_directory_called_torch_is_no_torch(start: Start, tmp_path: Path) -> None:
    """A package of that name elsewhere on the path would be imported instead of it."""
    (tmp_path / "torch").mkdir()
    bare = tmp_path / "python"  # without site-packages
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    ended = start(python=str(bare), PYTHONPATH=str(tmp_path)).wait(SECONDS).ended
    assert ended.detail.startswith("ImportError: No module named 'torch'")
    assert str(tmp_path / "torch") in ended.detail


# The CUDA stages, without CUDA


def _without_cuda() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has an NVIDIA GPU")


def test_stages_without_a_gpu_answer_why(start: Start) -> None:
    _without_cuda()
    child = start()
    child.wait(SECONDS)
    devices = _ask(child, stage="devices")
    assert devices.answer
    cuda = msgspec.convert(devices.answer["cuda"], Cuda)
    assert cuda.started.how == "error"
    assert cuda.started.detail
    assert not cuda.gpus
    assert [name for name, _ in devices.stages] == ["torch.cuda.init"]

    answer = _ask(child, stage="libraries")
    assert answer.answer
    libraries = msgspec.convert(answer.answer["libraries"], Libraries)
    assert libraries.used is not None
    assert not libraries.used.ok
    assert answer.answer["sdp_priority"] is None


def test_process_ends_after_a_failed_kernel(start: Start) -> None:
    _without_cuda()
    child = start()
    child.wait(SECONDS)
    answer = _ask(child, stage="kernel", index=0)
    assert answer.answer
    assert msgspec.convert(answer.answer["kernel"], Ended).how == "error"
    assert [name for name, _ in answer.stages] == ["kernel on cuda:0"]
    assert not child.wait(SECONDS).ended.ok
    assert not child.alive


def test_libraries_that_the_environment_offers(start: Start, tmp_path: Path) -> None:
    real, directory, other = tmp_path / "real", tmp_path / "directory", tmp_path / "other"
    for each in (real, directory, other):
        each.mkdir()
    (real / "libcudnn_graph.so.9").touch()
    (directory / "libcudnn_graph.so.9").symlink_to(real / "libcudnn_graph.so.9")
    for name in ("libcublasLt.so.12", "libnccl-net.so", "libcublasmp.so.0", "mylibcudnn.so"):
        (directory / name).touch()
    child = start(LD_LIBRARY_PATH=f"{directory}:{tmp_path / 'absent'}", LD_PRELOAD=" ")
    child.wait(SECONDS)
    answer = _ask(child, stage="libraries")
    assert answer.answer
    offered = msgspec.convert(answer.answer["libraries"], Libraries).offered
    names = [str(directory / "libcublasLt.so.12"), str(real / "libcudnn_graph.so.9")]
    assert offered == tuple(sorted(names))


def test_unknown_request_is_an_error_and_the_process_goes_on(start: Start) -> None:
    child = start()
    child.wait(SECONDS)
    assert _ask(child, stage="dance").ended.detail == "KeyError: 'dance'"
    assert _ask(child, stage="smoke", device="cpu").ended.how == "error"
    assert child.alive


# The smoke step


def test_another_signature_of_the_functional_optimizer_is_no_error(start: Start) -> None:
    """The class is used, which passes what its own function needs."""
    prelude = """
        import torch.optim.adamw as module
        real = module.adamw
        def adamw(*tensors, foreach, **settings):
            real(*tensors, foreach=foreach, **settings)
        module.adamw = adamw
    """
    assert _smoke(start(prelude)).completed


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
def test_smoke_step_changes_everything(precision: str, shared: Child) -> None:
    entered: list[str] = []
    shared.send(SMOKE | {"precision": precision})
    answer = shared.wait(SECONDS, entered.append)
    assert answer.answer
    smoke = msgspec.convert(answer.answer["smoke"], Smoke)
    assert smoke.completed
    assert tuple(stage.name for stage in smoke.stages) == STAGES
    assert entered == ["allocate", *(STAGES[1:5] * len(smoke.steps)), "compare"]
    assert [note["step"] for note in answer.notes] == answer.answer["smoke"]["steps"]
    assert sum(not step.skipped for step in smoke.steps) == 3
    assert float(smoke.steps[-1].loss) < float(smoke.steps[0].loss)
    assert (smoke.steps[0].scale is not None) == (precision == "fp16")
    assert {parameter.dtype for parameter in smoke.parameters} == {"float32"}
    assert smoke.peak_bytes is None
    for judge in (completes, loss_finite, gradients_reach_all, weights_move):
        assert judge(smoke=smoke).status is Status.PASS, judge


def test_pure_bf16_leaves_the_norms_unchanged(shared: Child) -> None:
    answer = _ask(shared, **(SMOKE | {"recipe": "pure-bf16"}))
    assert answer.answer, answer.ended
    smoke = msgspec.convert(answer.answer["smoke"], Smoke)
    unchanged = [parameter.name for parameter in smoke.parameters if not parameter.moved]
    assert len(unchanged) == 5
    assert all("norm" in name for name in unchanged)
    for judge in (completes, loss_finite, gradients_reach_all):
        assert judge(smoke=smoke).status is Status.PASS, judge
    verdict = weights_move(smoke=smoke)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.JOB)


@pytest.mark.parametrize(("exponent", "status"), [(24, Status.PASS), (60, Status.FAIL)])
def test_scaler_that_starts_too_high(exponent: int, status: Status, start: Start) -> None:
    prelude = f"""
        import functools, torch
        torch.amp.GradScaler = functools.partial(torch.amp.GradScaler, init_scale=2.0**{exponent})
    """
    smoke = _smoke(start(prelude), precision="fp16")
    assert any(step.skipped for step in smoke.steps)
    assert len(smoke.steps) <= 13
    verdict = loss_finite(smoke=smoke)
    assert verdict.status is status
    assert "skipped" in verdict.summary


FINGERPRINTS = """
import torch
training = probe("subject.fingerprints")
dtypes = (torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.complex128)
for dtype in dtypes:
    for size in (3, 1 << 16, (1 << 16) + 1, (1 << 22) + 5, 1 << 23):
        if size == 1 << 23 and dtype != torch.float32:
            continue
        value = torch.linspace(-1, 1, size, dtype=dtype)
        before = training.fingerprint(value)
        assert (training.fingerprint(value) == before).all()
        assert before.numel() <= max(1 << 17, size >> 15)
        for at in (0, size // 2, size - 1):
            other = value.clone()
            other[at] += 1
            assert (training.fingerprint(other) != before).any(), (dtype, size, at)
        swapped = value.clone()
        bits = swapped.view(torch.int16 if dtype == torch.bfloat16 else torch.int32)
        bits[0] += 1
        bits[-1] -= 1
        assert size < 70000 or (training.fingerprint(swapped) != before).any(), (dtype, size)
square = torch.arange(1 << 18, dtype=torch.float32).view(512, 512).t()
assert (training.fingerprint(square) == training.fingerprint(square.contiguous())).all()
"""


def test_a_change_of_a_large_parameter_is_seen_without_a_copy_of_it() -> None:
    done = subprocess.run(
        [preloaded.python(), "-c", REGISTERED + FINGERPRINTS, "2"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr


def test_loss_that_is_nan(start: Start) -> None:
    prelude = """
        import torch
        real = torch.nn.functional.cross_entropy
        torch.nn.functional.cross_entropy = lambda *given: real(*given) * float("nan")
    """
    verdict = loss_finite(smoke=_smoke(start(prelude)))
    assert verdict.status is Status.FAIL
    assert "'loss': nan" in verdict.summary


def test_parameter_that_no_gradient_reaches(start: Start) -> None:
    prelude = """
        import torch
        real = torch.nn.functional.silu
        torch.nn.functional.silu = lambda x: real(x.detach())
    """
    smoke = _smoke(start(prelude))
    verdict = gradients_reach_all(smoke=smoke)
    assert verdict.status is Status.FAIL
    assert "layers.0.mlp.up.weight" in verdict.summary
    assert weights_move(smoke=smoke).status is Status.FAIL


def test_exception_names_its_stage_and_the_process_goes_on(start: Start) -> None:
    prelude = """
        import torch
        real, calls = torch.Tensor.backward, []
        def backward(self):
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("element 0 of tensors does not require grad\\nand more")
            real(self)
        torch.Tensor.backward = backward
    """
    child = start(prelude)
    child.wait(SECONDS)
    answer = _ask(child, **SMOKE)
    message = "backward: RuntimeError: element 0 of tensors does not require grad"
    assert (answer.ended.how, answer.ended.detail) == ("error", message)
    assert [name for name, _ in answer.stages][-1] == "backward"
    assert [ended.ok for _, ended in answer.stages] == [True] * 4 + [False]
    assert len(answer.notes) == 1
    assert _ask(child, **SMOKE).ended.ok


STOP_SECONDS = 0.5
"""From when a child stops."""


@pytest.mark.parametrize(
    ("number", "stage"),
    [
        *((signal.SIGKILL, stage) for stage in ("import torch", *STAGES)),
        (signal.SIGSEGV, "forward"),
        (signal.SIGSTOP, "import torch"),
        (signal.SIGSTOP, "backward"),
    ],
)
def test_child_that_dies_in_a_stage_says_which(
    number: signal.Signals, stage: str, start: Start, tmp_path: Path
) -> None:
    reached = tmp_path / "reached"
    prelude = f"""
        import contextlib, os
        whole = wire.stage

        @contextlib.contextmanager
        def stage(name):
            with whole(name):
                if name == {stage!r}:
                    open({str(reached)!r}, "w").close()
                    os.kill(os.getpid(), {int(number)})
                yield

        wire.stage = stage
    """
    child = start(prelude)
    stopped = number is signal.SIGSTOP
    if stage != "import torch":
        assert child.wait(SECONDS).ended.ok
        child.send(SMOKE)
    with clock_stopped_until(reached.exists):
        answer = child.wait(STOP_SECONDS if stopped else SECONDS)
    assert answer.ended.how == ("timeout" if stopped else "signal")
    assert f"inside {stage}" in answer.ended.detail
    assert stopped or number.name in answer.ended.detail
    name, ended = answer.stages[-1]
    assert (name, ended.how) == (stage, answer.ended.how)
    assert all(before.ok for _, before in answer.stages[:-1])
    steps = [note for note in answer.notes if "step" in note]
    assert len(steps) == (3 if stage == "compare" else 0)
    assert not child.alive


# The files themselves


def test_smoke_step_does_not_import_dynamo() -> None:
    code = (
        REGISTERED + "import torch\n"
        "step, small = probe('subject.training_step'), probe('subject.small_model')\n"
        "device = torch.device('cpu')\n"
        "make = lambda: small.subject(device, 'amp')\n"
        "step.run(probe('subject.timed').Timed(device), make, device, 'bf16', 'amp')\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [preloaded.python(preloaded.BARE), "-c", code, "2"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stdout.strip() == "[]", done.stderr


# The driver's UUIDs, through a real library that stands in for libcuda.so.1

DRIVER = """
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 7; return ordinal > 1 ? 101 : 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i * 16 + device);
    return 0;
}
"""
UUIDS = """
import types
cuda_stages = probe("stages.cuda_stages")
name, index, hip = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "hip"
seen = types.SimpleNamespace(name=name, **dict(part.split("=") for part in sys.argv[5:]))
print(cuda_stages._uuid(seen, index, hip))
"""
FIRST = "07172737-4757-6777-8797-a7b7c7d7e7f7"


@pytest.mark.parametrize(
    ("library", "arguments", "uuid"),
    [
        (DRIVER, ("NVIDIA H200", "0", "cuda", "uuid=other"), f"GPU-{FIRST}"),
        (DRIVER, ("NVIDIA A100 MIG 1g.5gb", "0", "cuda"), f"MIG-{FIRST}"),
        (DRIVER, ("NVIDIA H200", "2", "cuda", "uuid=of-torch"), "GPU-of-torch"),
        ("int nothing;", ("NVIDIA H200", "0", "cuda", "uuid=of-torch"), "GPU-of-torch"),
        ("int nothing;", ("NVIDIA H200", "0", "cuda"), "None"),
        (DRIVER, ("AMD Instinct MI300X", "0", "hip", "uuid=of-torch"), "GPU-of-torch"),
        (DRIVER, ("AMD Instinct MI300X", "0", "hip"), "None"),
    ],
)  # fmt: skip
def test_uuids(library: str, arguments: tuple[str, ...], uuid: str, tmp_path: Path) -> None:
    (tmp_path / "cuda.c").write_text(library, "utf-8")
    made = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, tmp_path / "cuda.c"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED + UUIDS, "2", *arguments],
        env=environment() | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stdout.strip() == uuid, done.stderr


# On a real GPU


@pytest.mark.gpu
def test_all_stages_on_a_gpu(start: Start) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU here")
    child = start()
    child.wait(SECONDS)
    answer = _ask(child, stage="devices").answer
    assert answer
    cuda = msgspec.convert(answer["cuda"], Cuda)
    assert cuda.started.ok
    for gpu in cuda.gpus:
        answer = _ask(child, stage="kernel", index=gpu.index).answer
        assert answer
        assert msgspec.convert(answer["kernel"], Ended).ok
    answer = _ask(child, stage="libraries").answer
    assert answer
    assert answer["sdp_priority"]
    used = msgspec.convert(answer["libraries"], Libraries).used
    assert used is not None
    assert used.ok, used
    for precision in ("bf16", "fp16", "fp32"):
        child.send(SMOKE | {"device": "cuda:0", "precision": precision})
        smoked = child.wait(SECONDS)
        assert smoked.answer, smoked.ended
        smoke = msgspec.convert(smoked.answer["smoke"], Smoke)
        assert smoke.peak_bytes
        for judge in (completes, loss_finite, gradients_reach_all, weights_move):
            assert judge(smoke=smoke).status is Status.PASS, judge
