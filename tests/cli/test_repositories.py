"""No command starts a program that a repository names, git least of all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import doctor
from every_command import ALONE, ROWS
from hostile_repositories import REPOSITORIES
from hostile_texts import COLLECT_ENV, SCRIPT
from node_summaries import node_facts
from paths import MACHINES

from doctor.cli.ledger import KEY_BYTES
from doctor.facts.facts import encode
from doctor.fleet.ledger import Pseudonyms

KEY = b"k" * KEY_BYTES
KEY_ID = Pseudonyms(KEY).key_id
SEEN = {"kind": "gpu", "key": "gpu-1", "time": "2026-10-02T00:00:00Z", "codes": ["GPU003"]}
FACTS = MACHINES / "h200_torch2.11.json"
RECORD = json.dumps({"key_id": KEY_ID, "sightings": [SEEN]})
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
    "compare": ("compare", FACTS, "node.json", "--ledger", "ledger"),
    "data": ("data", "rows.jsonl"),
    "rehearse": ("rehearse", "--", "sh", "-c", "echo x > {output}/x; exit 3"),
    "fleet scan": ("fleet", "scan", ".", "--deep", *ALONE),
    "fleet triage": ("fleet", "triage", ".", *ALONE),
    "ledger list": ("ledger", "list", "ledger", "--format", "json"),
    "ledger show": ("ledger", "show", "ledger", "gpu-1"),
    "ledger forget": ("ledger", "forget", "ledger", "gpu-1"),
    "init": ("init", "--stdout"),
    "init of a factory": ("init", "--factory-for", "train.py", "--stdout"),
}
SLOW = ("run", "guard", "data", "rehearse", "fleet scan", "fleet triage")


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
    (root / "rows.jsonl").write_text(ROWS)
    (root / "node.json").write_bytes(encode(node_facts(1)))
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
    (tmp_path / "key").write_bytes(KEY)
    key = {"DOCTOR_LEDGER_KEY_FILE": str(tmp_path / "key")}
    for environment in ({**os.environ, **key}, {**os.environ, **key, "PATH": path}):
        shutil.rmtree(repository / "ledger", ignore_errors=True)
        (repository / "ledger").mkdir()
        (repository / "ledger/1.doctor.json").write_text(RECORD)  # forget and compare write to it
        result = doctor(*COMMANDS[name], cwd=repository, env=environment)
        assert result.returncode in (0, 1, 3), result.stderr
        assert not (tmp_path / "mark").exists()
