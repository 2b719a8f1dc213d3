"""Whole runs on this machine, and on one whose parts hang, crash or lie."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import command
import hanging
import preloaded
import pytest
import shims

from doctor._util.records import Unknown
from doctor.collect.driver import PATIENCE_SECONDS, driver_seconds, wait_for
from doctor.facts.facts import decode
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Torch
from doctor.facts.machine import Driver
from doctor.facts.training import Smoke
from doctor.facts.views import JobGpus

pytestmark = pytest.mark.slow

DOCTOR = [sys.executable, "-m", "doctor", "run"]


@pytest.fixture
def mark() -> Iterator[dict[str, str]]:
    """An environment whose processes can be found again; none may be left."""
    name = f"DOCTOR_TEST_{uuid.uuid4().hex}"
    yield {**os.environ, name: "1"}
    assert shims.left(name) == []


def run(
    env: dict[str, str], *flags: str, program: list[str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Exit code and report of a run, in a fork or in a process of its own with `program`."""
    if program:
        done = subprocess.run(
            [*program, "--format", "json", *flags],
            capture_output=True,
            text=True,
            env=env,
            timeout=200,
            check=False,
        )
    else:
        done = command.doctor("run", "--format", "json", *flags, env=env)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def status(report: dict[str, Any], code: str) -> str:
    return next(str(f["status"]) for f in report["findings"] if f["code"] == code)


def summary(report: dict[str, Any], code: str) -> str:
    return next(str(f["summary"]) for f in report["findings"] if f["code"] == code)


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_a_machine_without_a_gpu_is_ready_for_a_job_on_the_cpu(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    facts_file = tmp_path / "facts.json"
    code, report = run(mark, "--device", "cpu", "--save-facts", str(facts_file), program=DOCTOR)
    assert (code, report["verdict"]) == (0, "ready")
    for wanted in ("TOR001", "NUM001", "SMK001", "SMK002", "SMK003", "SMK004"):
        assert status(report, wanted) == "pass"
    facts = decode(facts_file.read_bytes())
    assert isinstance(facts.smoke, Smoke)
    assert isinstance(facts.torch, Torch)
    assert facts.torch.version == report_version()
    assert facts.driver is None


def report_version() -> str:
    """torch's version as its own metadata tells it, without importing it here."""
    from importlib.metadata import version

    return version("torch")


def test_saved_facts_get_the_same_findings_again(tmp_path: Path, mark: dict[str, str]) -> None:
    facts_file = tmp_path / "facts.json"
    run_here = ("--device", "cpu", "--no-smoke", "--python", preloaded.python())
    _, live = run(mark, *run_here, "--save-facts", str(facts_file))
    _, again = run(mark, "--facts", str(facts_file))
    assert again["findings"] == live["findings"]


def test_a_run_changes_nothing_in_the_working_directory(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "doctor.py").write_text("raise SystemExit('shadowed')")
    before = sorted(tmp_path.rglob("*"))
    program = shutil.which("doctor", path=os.path.dirname(sys.executable))
    assert program
    done = subprocess.run(
        [program, "run", "--device", "cpu", "--no-smoke", "--format", "json"],
        capture_output=True,
        text=True,
        env=mark,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert status(json.loads(done.stdout), "TOR001") == "pass"
    assert sorted(tmp_path.rglob("*")) == before


def test_secrets_of_the_environment_reach_neither_report_nor_facts(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    facts_file = tmp_path / "facts.json"
    secret = "hf_thisIsASecretOfTheUser"
    env = {**mark, "HF_TOKEN": secret, "WANDB_API_KEY": secret, "AWS_SECRET_ACCESS_KEY": secret}
    run_here = ("--device", "cpu", "--no-smoke", "-v", "--python", preloaded.python())
    _, report = run(env, *run_here, "--save-facts", str(facts_file))
    assert secret not in json.dumps(report)
    assert secret not in facts_file.read_text()


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the libraries that hang")
@pytest.mark.parametrize(
    ("hung", "kernel"),
    [
        (("cuda",), {}),
        (("nvidia-ml",), {"HANGS_IN_KERNEL": "1"}),
        (("cuda", "nvidia-ml"), {}),
        (("cuda", "nvidia-ml"), {"HANGS_IN_KERNEL": "1"}),
    ],
)
def test_a_driver_that_hangs_is_named(
    hung: tuple[str, ...], kernel: dict[str, str], tmp_path: Path, mark: dict[str, str]
) -> None:
    saved = tmp_path / "facts.json"
    env = {**mark, **hanging.build(tmp_path, *hung), **kernel}
    python = script(
        tmp_path / "python",
        f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {preloaded.python()} "$@"\n',
    )
    program = [*hanging.PROGRAM, "run"]
    code, report = run(env, "--python", python, "--save-facts", str(saved), program=program)
    assert (code, report["verdict"]) == (1, "return")
    driver = decode(saved.read_bytes()).driver
    assert isinstance(driver, Driver)
    assert driver.blocked == ("in the kernel" if kernel else "twice")
    assert (driver.cuda.how == "timeout") is ("cuda" in hung)
    assert (driver.nvml.how == "timeout") is ("nvidia-ml" in hung)
    assert status(report, "DRV001") == "fail"
    named = "libcuda" if hung == ("cuda",) else "nvmlInit"
    assert named in summary(report, "DRV001")
    assert status(report, "TOR001") == "pass"
    assert status(report, "SMK001") == "unknown"


@pytest.mark.parametrize(("gpus", "seconds"), [(0, 30), (1, 30), (2, 35), (8, 65), (64, 65)])
def test_a_driver_that_has_more_gpus_to_start_gets_longer(gpus: int, seconds: float) -> None:
    assert driver_seconds(Host(system="Linux", nvidia_devices=gpus)) == seconds


def test_a_driver_that_starts_slowly_is_waited_for_and_reported() -> None:
    starting: Future[Any] = Future()
    reported = []

    def report_progress(stage: str) -> None:
        reported.append(stage)
        if len(reported) == 2:  # now the user knows that it is slow
            starting.set_result(("driver", "gpus"))

    before = time.monotonic() - PATIENCE_SECONDS
    assert wait_for(starting, 35.0, before, report_progress) == ("driver", "gpus")
    assert "35 s" in reported[1]


def test_an_interpreter_without_torch_is_named_by_its_path(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    code, report = run(mark, "--device", "cpu", "--python", str(tmp_path / "bare"))
    assert code == 1
    assert report["python"] == str(tmp_path / "bare" / "bin" / "python")
    assert status(report, "TOR001") == "fail"
    assert str(tmp_path / "bare") in summary(report, "TOR001")
    (finding,) = (each for each in report["findings"] if each["code"] == "TOR001")
    (line,) = finding["commands"]
    bare = tmp_path / "bare" / "bin" / "python"
    with_uv = f"uv pip install --python {bare} torch"
    without = f"{bare} -m ensurepip && {bare} -m pip install torch"
    assert line == (with_uv if shutil.which("uv") else without)
    assert status(report, "SMK001") == "unknown"


def test_a_python_that_is_too_old_is_named(tmp_path: Path, mark: dict[str, str]) -> None:
    """It reads the first probe file alone, which has the syntax of Python 2."""
    pretend = "import runpy, sys; sys.version_info = (3, 6, 15, 'final', 0); del sys.argv[0]"
    run_path = "runpy.run_path(sys.argv[0], run_name='__main__')"
    old = script(
        tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -c "{pretend}; {run_path}" "$@"\n'
    )
    code, report = run(mark, "--device", "cpu", "--python", old)
    assert (code, status(report, "TOR001")) == (1, "fail")
    assert "Python 3.6.15" in summary(report, "TOR001")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\nexit 3\n", "exit status 3"),
        ("#!/bin/sh\necho no such base >&2; exit 1\n", "no such base"),
        ("neither a script nor a program", "Exec format error"),
    ],
)
def test_a_program_that_is_no_python_is_said_to_be_none(
    text: str, said: str, tmp_path: Path, mark: dict[str, str]
) -> None:
    code, report = run(mark, "--device", "cpu", "--python", script(tmp_path / "python", text))
    assert (code, status(report, "TOR001")) == (1, "fail")
    assert "did not start as Python" in summary(report, "TOR001")
    assert said in summary(report, "TOR001")
    (finding,) = (each for each in report["findings"] if each["code"] == "TOR001")
    assert finding["commands"] == [f"{tmp_path / 'python'} --version"]


@pytest.mark.parametrize(
    "behaviour",
    [
        "echo '{\"answer\": 7}' >&$2",
        "head -c 100000 /dev/urandom >&$2",
        'echo \'{"answer": {"version": [], "torch": {"version": 1}}}\' >&$2; sleep 1',
        "yes garbage | head -c 5000000",
        "kill -SEGV $$",
        "exit 0",
    ],
)
def test_an_interpreter_that_lies_gets_a_finding(
    behaviour: str, tmp_path: Path, mark: dict[str, str]
) -> None:
    liar = script(tmp_path / "python", f"#!/bin/bash\n{behaviour}\n")
    code, report = run(mark, "--device", "cpu", "--python", liar)
    assert code in (1, 3)
    assert report["verdict"] in ("fix", "unknown")
    assert status(report, "SMK001") == "unknown"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_child_and_is_the_exit_code(
    number: signal.Signals, tmp_path: Path, mark: dict[str, str]
) -> None:
    started = tmp_path / "started"
    slow = script(tmp_path / "python", f"#!/bin/bash\ntouch {started}\nsleep 300 & wait\n")
    child = subprocess.Popen(
        [*DOCTOR, "--device", "cpu", "--python", slow],
        env=mark,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    shims.wait_until(started.exists)
    child.send_signal(number)
    out, err = child.communicate(timeout=100)
    assert child.returncode == 128 + number
    assert "Traceback" not in err
    assert out == ""


def test_a_doctor_that_is_killed_leaves_no_child_for_long(
    tmp_path: Path, mark: dict[str, str]
) -> None:
    child = subprocess.Popen(
        [*DOCTOR, "--device", "cpu"],
        env=mark,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (name,) = mark.keys() - os.environ.keys()
    shims.wait_until(lambda: any("torch_stages" in line for line in shims.marked(name)))
    child.kill()
    child.wait(100)


@pytest.mark.parametrize(
    ("stage", "number"),
    [("forward", signal.SIGKILL), ("backward", signal.SIGSEGV)],  # a crash is bisected
)
def test_a_training_step_that_dies_names_its_stage(
    stage: str, number: signal.Signals, tmp_path: Path, mark: dict[str, str]
) -> None:
    entered = f"def entered(stage):\n    if stage == {stage!r}: os.kill(os.getpid(), {int(number)})"
    python = shims.python(tmp_path, entered)
    code, report = run(mark, "--device", "cpu", "--python", python)
    assert (code, report["verdict"]) == (1, "fix")
    assert status(report, "SMK001") == "fail"
    assert number.name in summary(report, "SMK001")
    assert stage in summary(report, "SMK001")
    assert status(report, "SMK002") == "unknown"
    assert status(report, "TOR001") == "pass"


@pytest.mark.gpu
def test_a_real_gpu_is_examined_whole(tmp_path: Path, mark: dict[str, str]) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU here: /dev/nvidiactl is missing")
    facts_file = tmp_path / "facts.json"
    _, report = run(mark, "--save-facts", str(facts_file))
    for code in ("DRV001", "TOR001", "TOR002", "TOR003", "GPU001", "SMK001", "SMK002", "SMK004"):
        assert status(report, code) == "pass", summary(report, code)
    facts = decode(facts_file.read_bytes())
    assert isinstance(facts.cuda, Cuda)
    assert all(gpu.kernel and gpu.kernel.ok for gpu in facts.cuda.gpus)
    assert isinstance(facts.job_gpus, JobGpus)
    assert all(gpu.nvml and gpu.torch for gpu in facts.job_gpus.gpus)
    assert isinstance(facts.interpreter, Interpreter)
    assert not isinstance(facts.smoke, Unknown)
