"""No process of the doctor's outlives it, however it ends and whatever a driver does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from command import program
from paths import ROOT
from shims import wait_until

pytestmark = [
    pytest.mark.slow,  # starts processes
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]

SIGNALS = (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM)
HOLDS_THE_LOCK = """
import ctypes, json, os, subprocess, sys
open(os.environ["HANGING"], "w").close()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
ctypes.PyDLL(None).sleep(600)
"""
STARTER = """
import sys
from doctor.collect.child import Child
child = Child([sys.executable, *sys.argv[1:]])
child.wait(600)
"""


def processes(mark: str) -> list[int]:
    """Those with the mark in their environment, zombies left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def end_and_look(
    command: list[str],
    environment: dict[str, str],
    number: int,
    began: Callable[[], object],
    afterwards: Callable[[], object] = lambda: None,
) -> None:
    """Wait until something hangs, end the command with a signal; nothing of it may be left."""
    mark = f"DOCTOR_TEST_MARK={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment, name: value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        wait_until(began)
        assert len(processes(mark)) > 1
        process.send_signal(number)
        process.wait()
        afterwards()
        wait_until(lambda: not processes(mark))
    finally:
        process.kill()
        for pid in processes(mark):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetHandleByIndex_v2"])
def test_a_run_that_ends_under_a_hung_driver_leaves_no_process(
    drivers: Path, tmp_path: Path, call: str, number: int
) -> None:
    hanging = tmp_path / "hanging"
    environment = {
        "LD_LIBRARY_PATH": str(drivers / "new"),
        "FAKE_HANG": call,
        "FAKE_HANGING": str(hanging),
    }
    command = [sys.executable, "-P", "-m", "doctor", "run", "--no-smoke", "--no-config"]
    end_and_look(command, environment, number, hanging.exists)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_guard_that_ends_under_a_hung_driver_leaves_no_process(
    drivers: Path, tmp_path: Path, number: int
) -> None:
    """The training itself is not the doctor's: SIGKILL of the guard leaves it alone."""
    hanging = tmp_path / "hanging"
    environment = {
        "LD_LIBRARY_PATH": str(drivers / "new"),
        "FAKE_HANG": "nvmlInitWithFlags",
        "FAKE_HANGING": str(hanging),
    }
    wait = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'end')!r}): time.sleep(0.02)"
    words = [
        "guard",
        "--output-dir",
        str(tmp_path / "records"),
        "--",
        sys.executable,
        "-S",
        "-c",
        wait,
    ]

    command = [*program(), *words]
    end_and_look(command, environment, number, hanging.exists, (tmp_path / "end").touch)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_probe_that_holds_pythons_lock_ends_with_its_parent(tmp_path: Path, number: int) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text(
        "from doctor.probes.parent import end_with_parent\nend_with_parent()\n" + HOLDS_THE_LOCK
    )
    hanging = tmp_path / "hanging"
    command = [sys.executable, "-P", "-c", STARTER, str(probe)]
    end_and_look(command, {"HANGING": str(hanging)}, number, hanging.exists)


def test_a_probe_whose_parent_is_gone_already_ends(tmp_path: Path) -> None:
    code = (
        "import os\nfrom doctor.probes import parent\n"
        "theirs, ours = os.pipe(); os.close(ours); os.environ[parent.VARIABLE] = str(theirs)\n"
        "parent.end_with_parent(); print('still here')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, start_new_session=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


@pytest.mark.parametrize("number", SIGNALS)
def test_the_workers_of_a_lint_end_with_it(tmp_path: Path, number: int) -> None:
    """One of them waits for a file, the others for more work."""
    for index in range(420):
        (tmp_path / f"a{index:03}.py").write_text("x = 1\n")
    stopped = tmp_path / "stopped"
    code = (
        "import os, pathlib, signal, time\n"
        "from doctor.cli.lint import linter, run\n"
        "def slow(self, path, data=None):\n"
        f"    pathlib.Path({str(stopped)!r}).touch()\n"
        "    time.sleep(600)\n"
        "linter.Linter.file = slow\n"
        f"run.run_lint(run.LintOptions(paths=({str(tmp_path)!r},), processes=3))\n"
    )
    end_and_look([sys.executable, "-P", "-c", code], {}, number, stopped.exists)
