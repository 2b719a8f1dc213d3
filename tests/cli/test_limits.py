"""Limits of processes and of the address space: a verdict, or one line that names the limit."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doctor._util.limits import limit_reached

ROOT = Path(__file__).parents[2]
NOBODY = 65534
INTERPRETERS_OWN = ("Exception ignored in", "MemoryError", "object address", "lost sys.")
"""What CPython itself writes about a thread that had no memory even to raise."""
RUN = "-m doctor run --device cpu --no-smoke --quick --no-config -q"


def limited(limit: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    """A run under `ulimit`, whose output must hold no traceback."""
    command = f"cd {ROOT} && ulimit {limit} && exec {sys.executable} {RUN}"
    env = {**os.environ, "HOME": "/", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*prefix, "bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=env,
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce RLIMIT_AS")
@pytest.mark.parametrize("kilobytes", [100_000, 150_000, 200_000, 300_000])
def test_an_address_space_limit_is_a_verdict_or_one_line(kilobytes: int) -> None:
    """Which of them depends on the libraries of this machine."""
    done = limited(f"-v {kilobytes}")
    assert done.returncode in (0, 1, 3)
    if not done.stdout:
        assert done.returncode == 3
        own = [line for line in done.stderr.splitlines() if not line.startswith(INTERPRETERS_OWN)]
        assert len(own) == 1
        assert f"ulimit -v is {kilobytes}" in own[0]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3])
def test_a_process_limit_is_a_verdict_or_one_line(processes: int) -> None:
    """RLIMIT_NPROC does not bind root, who becomes another user here."""
    prefix: list[str] = []
    if os.getuid() == 0:
        user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        reads = ["--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]
        prefix = [shutil.which("setpriv") or "setpriv", *user, *reads, "--"]
        try:
            subprocess.run([*prefix, sys.executable, "-c", ""], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("root is not bound by RLIMIT_NPROC and cannot become another user here")
    done = limited(f"-u {processes}", *prefix)
    assert done.returncode in (0, 1, 3)
    if not done.stdout:
        assert done.returncode == 3
        assert len(done.stderr.splitlines()) == 1
        assert f"ulimit -u is {processes}" in done.stderr


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (RuntimeError("can't start new thread"), "process limit"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "process limit"),
        (MemoryError(), "memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (ImportError("x.so: failed to map segment from shared object"), "memory"),
    ],
)
def test_errors_of_a_limit_are_recognized(error: Exception, named: str) -> None:
    message = limit_reached(error)
    assert message is not None
    assert named in message or "address space" in message


def test_other_errors_are_not_of_a_limit() -> None:
    errors = [RuntimeError("x"), OSError(errno.ENOENT, "x"), ImportError("no module"), ValueError()]
    assert [limit_reached(error) for error in errors] == [None] * 4


@pytest.mark.slow
def test_truncated_bytecode_is_named(tmp_path: Path) -> None:
    """As a full disk leaves it: Python replaces a file by what could be written of it."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    command = [sys.executable, "-P", "-m", "doctor", "init", "--stdout"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    (compiled,) = (tmp_path / "cache").rglob("init_template*.pyc")
    compiled.write_bytes(compiled.read_bytes()[:1024])
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "__pycache__" in done.stderr


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"cd {ROOT} && {script}"],
        capture_output=True, text=True, timeout=240, check=False, env=os.environ,
    )  # fmt: skip


def test_a_limit_of_a_file_s_size_is_no_finding(tmp_path: Path) -> None:
    """Neither the report nor the message can be written."""
    files = f"> '{tmp_path}/out' 2> '{tmp_path}/err'"
    assert (
        shell(f"ulimit -f 0; exec {sys.executable} -m doctor explain NUM003 {files}").returncode
        == 3
    )


def test_without_dev_null_one_line_names_it() -> None:
    hide = "unshare -m bash -c 'mount -t tmpfs none /dev &&"
    if shell(f"{hide} true'").returncode:
        pytest.skip("mounts are not allowed here")
    done = shell(f"{hide} exec {sys.executable} -m doctor --version' 2>&1")
    assert done.returncode == 3
    assert done.stdout.startswith("doctor: /dev/null cannot be opened")
