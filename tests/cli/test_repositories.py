"""No command starts a program that a repository names, git least of all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command import doctor
from hostile_repositories import REPOSITORIES
from hostile_texts import COLLECT_ENV, SCRIPT
from paths import MACHINES

FACTS = MACHINES / "h200_torch2.11.json"
COMMANDS = {
    "lint": ("lint",),
    "lint of the directory": ("lint", "."),
    "lint --fix": ("lint", "--fix", "--unsafe-fixes", "."),
    "lint --diff": ("lint", "--diff", "train.py"),
    "lint SARIF": ("lint", "--format", "sarif"),
    "triage": ("triage", "."),
    "triage a log": ("triage", "train.log"),
    "scan": ("scan", "."),
    "read": ("read", "environment.txt"),
    "report": ("report", FACTS),
    "run --facts": ("run", "--facts", FACTS, "--script", "train.py"),
    "prescribe": ("prescribe", "--facts", FACTS),
    "run": ("run", "--no-smoke", "--output-dir", "out", "--script", "train.py", "--budget", "60"),
    "guard": ("guard", "--", "python", "-c", "raise SystemExit(3)"),
}
SLOW = ("run", "guard")


@pytest.fixture(params=REPOSITORIES, ids=lambda make: str(make.__name__))
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    root = tmp_path / "repository"
    (root / "out").mkdir(parents=True)
    make: Callable[[Path, Path], None] = request.param
    make(root, tmp_path / "mark")
    (root / "train.py").write_text(SCRIPT)
    (root / "train.log").write_text("RuntimeError: CUDA out of memory\n")
    (root / "environment.txt").write_text(COLLECT_ENV)
    (root / "doctor.toml").write_text('[job]\npython = "./python"\n[lint]\nignore = ["SCR172"]\n')
    for name in ("python", "python3"):
        payload(root / name, tmp_path / "mark")
    return root


def payload(path: Path, mark: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in COMMANDS],
)
def test_nothing_that_a_repository_names_is_started(
    repository: Path, tmp_path: Path, name: str
) -> None:
    for program in ("git", "git-lfs", "hg"):
        payload(tmp_path / "programs" / program, tmp_path / "mark")
    path = f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}"
    for environment in (dict(os.environ), {**os.environ, "PATH": path}):
        result = doctor(*COMMANDS[name], cwd=repository, env=environment)
        assert result.returncode in (0, 1, 3), result.stderr
        assert not (tmp_path / "mark").exists()
