"""`doctor guard -- COMMAND`: real programs, their streams, signals and exit codes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from command import TIMEOUT, doctor, program

from doctor.collect.guarded_command import bootstrap

TRAINING = """
import math, sys, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows = [torch.randn(4) for _ in range(48)]
loader = torch.utils.data.DataLoader(rows, batch_size=2, num_workers=int(sys.argv[1]))
for step, x in enumerate(loader, 1):
    loss = model(x).pow(2).mean() * (math.nan if step == int(sys.argv[2]) else 1)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step > 24:
        break
print("last loss", loss.item())
"""


def guard(*words: object, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return doctor("guard", *words, cwd=cwd, **options)


def python(code: str) -> tuple[str, ...]:
    return "--", sys.executable, "-c", code


@pytest.mark.parametrize("code", [0, 1, 7])
def test_the_program_decides_the_exit_code_unless_it_is_0(code: int, tmp_path: Path) -> None:
    ended = guard(*python(f"print('out'); raise SystemExit({code})"), cwd=tmp_path)
    assert ended.returncode == (code or 3)
    assert ended.stdout == "out\n"
    assert "no training step was observed" in ended.stderr


def test_a_program_that_is_killed_ends_with_128_and_the_signal(tmp_path: Path) -> None:
    ended = guard(*python("import os; os.kill(os.getpid(), 9)"), cwd=tmp_path)
    assert ended.returncode == 128 + signal.SIGKILL


def test_a_program_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    ended = guard("--", "no-such-program", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert guard(cwd=tmp_path).returncode == 2


def test_the_report_is_wrapped_on_a_terminal(tmp_path: Path) -> None:
    """stdout, which is the program's, goes elsewhere."""
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [*program(), "guard", *python("print('x' * 100)")]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writing, env=env | {"NO_COLOR": "1"}
    ) as process:
        os.close(writing)
        output = b""
        with contextlib.suppress(OSError):  # Linux: the other side is closed
            while chunk := os.read(reading, 65536):
                output += chunk
        assert process.communicate()[0] == b"x" * 100 + b"\n"
    os.close(reading)
    lines = output.decode().splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 80
    assert "no training step was observed" in " ".join(line.strip() for line in lines)


def test_records_of_an_earlier_run_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "rank0-1.jsonl").write_text("")
    ended = guard("--output-dir", "old", *python("pass"), cwd=tmp_path)
    assert ended.returncode == 2
    assert "earlier run" in ended.stderr


@pytest.mark.skipif(not Path("/proc/sys").is_dir(), reason="no directory that nobody writes to")
def test_where_nothing_can_be_written_the_records_are_elsewhere() -> None:
    ended = guard(*python("print('out')"), cwd=Path("/proc/sys"))
    assert ended.returncode == 3
    assert ended.stdout == "out\n"
    elsewhere = re.search("cannot be written; records are in (.*)", ended.stderr)
    assert elsewhere is not None
    assert "no training step was observed" in ended.stderr
    shutil.rmtree(elsewhere[1])
    refused = guard("--output-dir", "/proc/sys/out", *python("print('out')"), cwd=Path("/"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--output-dir /proc/sys/out cannot be written" in refused.stderr


@pytest.mark.slow
def test_stdin_and_the_arguments_of_the_program_are_its_own(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    command = [sys.executable, "-P", "-m", "doctor", "guard", *python(code), "--output-dir", "-q"]
    ended = subprocess.run(
        command, cwd=tmp_path, input="given", capture_output=True, text=True, timeout=TIMEOUT
    )
    assert ended.stdout == "['--output-dir', '-q'] given\n"


def under(code: str, tmp_path: Path, *options: str, path: str = "") -> str:
    """What a program prints under the bootstrap alone."""
    paths = os.pathsep.join(filter(None, [str(bootstrap()), path]))
    settings = json.dumps({"out": str(tmp_path / "out"), "parent": True})
    environ = {**os.environ, "PYTHONPATH": paths, "DOCTOR_GUARD": settings}
    ended = subprocess.run(
        [sys.executable, *options, "-c", code], env=environ, capture_output=True, text=True,
        timeout=TIMEOUT, check=True,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.slow
def test_the_users_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = __name__")
    code = "import sitecustomize; print(mine, sitecustomize.__file__)"
    assert under(code, tmp_path, path=str(tmp_path)) == (
        f"sitecustomize {tmp_path}/sitecustomize.py\n"
    )


@pytest.mark.slow
def test_nothing_is_imported_before_the_program_imports_torch(tmp_path: Path) -> None:
    code = "import sys; print(*sorted(sys.modules))"
    plain = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    ).stdout.split()  # fmt: skip
    more = set(under(code, tmp_path).split()) - set(plain)
    assert not {name for name in more if name.partition(".")[0] in ("torch", "doctor", "json")}
    assert not (tmp_path / "out").exists()


def test_python_that_ignores_the_environment_runs_as_ever(tmp_path: Path) -> None:
    assert under("print('ran')", tmp_path, "-I") == "ran\n"


def test_a_program_without_torch_gets_its_import_error(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
        "try:\n    import torch\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    assert under(code, tmp_path) == "No module named 'torch'\n"


def test_a_false_torch_in_the_users_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("x = 1")
    ended = guard(*python("import torch; print(torch.x)"), cwd=tmp_path)
    assert ended.stdout == "1\n"
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_signal_reaches_the_program(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *a: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-P", "-m", "doctor", "guard", *python(code)]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 5


def test_stop_ends_the_program(tmp_path: Path) -> None:
    """Whoever writes the file."""
    out = tmp_path / "out"
    code = (
        f"import os, time; os.makedirs({str(out)!r}); open({str(out / 'stop')!r}, 'w').close(); "
        "time.sleep(600)"
    )
    began = time.monotonic()
    ended = guard("--stop", "--output-dir", out, *python(code), cwd=tmp_path)
    assert time.monotonic() - began < 300
    assert ended.returncode == 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One healthy training with DataLoader workers, and one that is stopped, both real."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(TRAINING)
    healthy = guard("--output-dir", "ok", "--", sys.executable, "train.py", 1, 0, cwd=folder)
    faulty = guard(
        "--output-dir", "bad", "--output", "json=bad.json", "--output", "html=bad.html", "--",
        sys.executable, "train.py", 0, 9, cwd=folder,
    )  # fmt: skip
    return {"folder": folder, "healthy": healthy, "faulty": faulty}


@pytest.mark.slow
def test_a_killed_training_with_two_guards_has_records(tmp_path: Path) -> None:
    code = TRAINING.replace("import math", "import math, os, doctor.guard").replace(
        "    if step > 24:\n        break\n",
        "    if step == 1:\n        doctor.guard.watch(out='second')\n"
        "    if step == 12:\n        os.kill(os.getpid(), 9)\n",
    )
    (tmp_path / "train.py").write_text(code)
    ended = guard("--output-dir", "first", "--", sys.executable, "train.py", 0, 9, cwd=tmp_path)
    assert ended.returncode == 128 + signal.SIGKILL
    assert "GRD001 fail at step 9" in ended.stderr
    assert "killed before its end, the records stop early: rank 0" in ended.stderr
    assert not (tmp_path / "second").exists()


@pytest.mark.slow
def test_a_guard_under_a_guard_watches_once(tmp_path: Path) -> None:
    inner = ["--", sys.executable, "-P", "-m", "doctor", "guard", *python("print('ran')")]
    ended = guard(*inner, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (3, "ran\n")
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_healthy_training_is_ready(runs: dict[str, Any]) -> None:
    ended = runs["healthy"]
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("last loss 0.")
    assert "24 losses are finite" in ended.stderr
    assert "READY" in ended.stderr
    assert len(list((runs["folder"] / "ok").glob("rank*.jsonl"))) == 1  # none of the worker


@pytest.mark.slow
def test_a_faulty_training_exits_0_and_the_guard_with_1(runs: dict[str, Any]) -> None:
    ended = runs["faulty"]
    assert ended.returncode == 1
    assert ended.stdout == "last loss nan\n"
    assert "GRD001 fail at step 9" in ended.stderr
    report = json.loads((runs["folder"] / "bad.json").read_text())
    failed = [f["code"] for f in report["findings"] if f["status"] == "fail"]
    assert failed == ["GRD001", "GRD002"]


@pytest.mark.slow
def test_the_html_report_has_curves(runs: dict[str, Any]) -> None:
    page = (runs["folder"] / "bad.html").read_text()
    assert "Curves of the training" in page
    assert page.count("<polyline") >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "format", ["plain", "json", "junit", "github", "markdown", "sarif", "html"]
)
def test_the_directory_is_reported_in_every_format(runs: dict[str, Any], format: str) -> None:
    ended = doctor("report", runs["folder"] / "bad", "--format", format, cwd=runs["folder"])
    assert ended.returncode == 1
    assert "GRD001" in ended.stdout
    assert doctor("report", runs["folder"] / "ok", "--format", format).returncode == 0


@pytest.mark.slow
def test_the_error_that_ended_the_program_is_reported_with_its_cause(tmp_path: Path) -> None:
    token = "hf_" + "a1B2" * 9
    code = (
        "import torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.ones(1, 2)).sum().backward()\n"
        "optimizer.step()\n"
        f"raise ValueError('optimizer got an empty parameter list {token}')\n"
    )
    ended = guard("--output-dir", tmp_path / "out", *python(code), cwd=tmp_path)
    assert ended.returncode == 1
    assert "ValueError: optimizer got an empty parameter list" in ended.stderr
    (file,) = (tmp_path / "out").glob("rank*.jsonl")
    assert token not in file.read_text()
    text = doctor("report", tmp_path / "out", "--format", "json").stdout
    (found,) = [each for each in json.loads(text)["findings"] if each["code"] == "GRD022"]
    assert found["causes"][0] == "empty-parameter-list"


@pytest.mark.slow
def test_selected_checks_and_ignores_of_the_report(runs: dict[str, Any]) -> None:
    bad = runs["folder"] / "bad"
    assert doctor("report", bad, "--skip", "GRD001", "--skip", "GRD002").returncode == 0
    assert doctor("report", bad, "--only", "GRD006").returncode == 0
    assert doctor("report", bad, "--only", "GPU003").returncode == 2


@pytest.mark.slow
def test_a_program_that_dies_before_its_first_step_is_named_by_its_exit_code(
    tmp_path: Path,
) -> None:
    ended = guard(
        "--output-dir", tmp_path / "out", *python("import torch, sys; sys.exit(7)"), cwd=tmp_path
    )
    assert ended.returncode == 7
    assert "GRD022" in ended.stderr
    assert "exit code 7 after 0 steps" in ended.stderr
    assert "PYTHONPATH" not in ended.stderr


@pytest.mark.slow
def test_the_checkpoint_before_a_failure_is_one_that_this_training_wrote(tmp_path: Path) -> None:
    foreign = tmp_path / "model.pt"
    foreign.write_bytes(b"of another program")
    code = (
        "import torch\n"
        "m = torch.nn.Linear(8, 8); o = torch.optim.AdamW(m.parameters(), lr=1e-3)\n"
        "for n in range(1, 31):\n"
        "    loss = m(torch.ones(2, 8)).square().sum() * (float('nan') if n > 20 else 1.0)\n"
        "    loss.backward(); o.step(); o.zero_grad()\n"
        "    if n in (5, 15, 25): torch.save(m.state_dict(), f'w/ck{n}.pt')\n"
    )
    (tmp_path / "w").mkdir()
    ended = guard("--output-dir", tmp_path / "out", *python(code), cwd=tmp_path)
    assert ended.returncode == 1
    assert "ck15.pt, after step 15" in " ".join(ended.stderr.split())
    assert "model.pt" not in ended.stderr


@pytest.mark.slow
def test_an_exception_of_the_programs_signal_handler_is_not_swallowed(tmp_path: Path) -> None:
    code = (
        "import os, signal, torch\n"
        "class Preempted(Exception): pass\n"
        "def handler(number, frame): raise Preempted\n"
        "signal.signal(signal.SIGUSR1, handler)\n"
        "from doctor.guard.watch import Watch\n"
        "step_begins = Watch.step_begins\n"
        "def at_step_begin(self, *args):\n"
        "    if self.judging.tally.steps == 3: os.kill(os.getpid(), signal.SIGUSR1)\n"
        "    return step_begins(self, *args)\n"
        "Watch.step_begins = at_step_begin\n"
        "m = torch.nn.Linear(8, 8); o = torch.optim.AdamW(m.parameters(), lr=1e-3)\n"
        "import doctor.guard; doctor.guard.watch(out='out')\n"
        "try:\n"
        "    for n in range(9):\n"
        "        m(torch.ones(2, 8)).sum().backward(); o.step(); o.zero_grad()\n"
        "except Preempted: print('saved before the end', n)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "saved before the end 3\n"
    assert "switched itself off" not in ended.stderr


@pytest.mark.slow
def test_a_warning_of_torch_has_the_line_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
        "schedule.step()\n"
        "torch.nn.functional.mse_loss(model(torch.ones(3, 2)), torch.ones(3))\n"
    )
    ended = guard("--", sys.executable, "warns.py", cwd=tmp_path)
    for line, text in ((5, "Detected call of `lr_scheduler.step()`"), (6, "Using a target size")):
        assert f"warns.py:{line}: UserWarning: {text}" in ended.stderr
