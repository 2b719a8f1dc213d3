"""The interpreter that --python names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from doctor.collect.interpreter import choose, program


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment whose python is a link, as virtual environments have it."""
    folder = tmp_path / "environment" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    (folder / "python3.99").symlink_to(sys.executable)
    return folder.parent


@pytest.fixture
def other_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another interpreter called python, alone on PATH."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "python"


@pytest.mark.parametrize("name", ["./python", "../bin/python", "../bin", "..", "."])
def test_a_path_is_that_very_file(
    name: str, environment: Path, other_on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(environment / "bin")
    chosen = Path(choose(name, os.environ)[0])
    assert chosen.is_absolute()
    assert chosen.is_symlink()  # not resolved: a link of an environment is not its target
    assert chosen.parent.resolve() == environment / "bin"


def test_a_name_without_a_slash_is_looked_up_on_path(
    environment: Path, other_on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(environment / "bin")
    assert program("python") == other_on_path
    assert program("python3.99") == environment / "bin" / "python3.99"  # not on PATH
    monkeypatch.chdir(environment.parent)
    assert program("environment") == environment / "bin" / "python"


def test_a_directory_without_an_interpreter_is_not_one(tmp_path: Path) -> None:
    assert program(str(tmp_path)) == tmp_path / "bin" / "python"
