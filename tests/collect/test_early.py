"""The process that imports torch before the command line is parsed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import preloaded
import pytest
from command import doctor

from doctor.collect import early


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The active environment; its python notes each start, and becomes a real one."""
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\necho $$ >> {tmp_path}/started\nexec {preloaded.python()} "$@"\n', "utf-8"
    )
    python.chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "environment"))
    return python


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    early.end()


def started(folder: Path) -> list[int]:
    """Processes that the environment's python was started as."""
    file = folder / "started"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    "words",
    [
        ("--python", "/bin/false"),
        ("--python=/bin/false",),
        ("--config", "doctor.toml"),
        ("--facts", "machine.json"),
        ("--facts=-",),
        ("--device", "cpu", "--help"),
        ("-h",),
    ],
    ids=" ".join,
)
def test_words_that_name_another_interpreter_or_need_none_start_nothing(
    words: tuple[str, ...], environment: Path
) -> None:
    early.start(words)
    assert early.take(str(environment)) is None


@pytest.mark.parametrize("name", early.VARIABLES)
def test_variables_that_name_another_interpreter_start_nothing(
    name: str, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/bin/false")
    early.start(())
    assert early.take(str(environment)) is None


def test_an_environment_without_python_that_runs_starts_nothing(environment: Path) -> None:
    environment.chmod(0o644)
    early.start(())
    assert early.take(str(environment)) is None


@pytest.mark.slow
def test_the_process_is_taken_once_and_imports_torch(environment: Path) -> None:
    early.start(("--device", "cpu"))
    child = early.take(str(environment))
    assert child
    assert early.take(str(environment)) is None
    answer = child.wait(120)
    child.kill()
    assert answer.ended.ok, answer
    assert answer.answer
    assert "torch" in answer.answer


@pytest.mark.slow
def test_a_process_of_another_interpreter_is_killed(environment: Path) -> None:
    early.start(())
    (waiting,) = early._waiting.values()
    assert waiting.alive
    assert early.take(sys.executable) is None
    assert not waiting.alive


@pytest.mark.slow
def test_a_run_uses_the_process_and_starts_no_other(environment: Path, tmp_path: Path) -> None:
    done = doctor("run", "--device", "cpu", "--no-smoke", cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(environment) in done.stdout
    assert len(started(tmp_path)) == 1


@pytest.mark.slow
def test_a_run_that_is_refused_leaves_no_process(environment: Path, tmp_path: Path) -> None:
    done = doctor("run", "--gpus", "many", cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 2, done.stderr
    for number in started(tmp_path):
        assert not Path(f"/proc/{number}/cmdline").exists()
