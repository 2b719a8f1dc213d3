"""`doctor data` on real loaders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import doctor
from paths import ROOT

CASES = ROOT / "tests" / "corpus" / "data"

pytestmark = pytest.mark.slow


def examined(tmp_path: Path, case: str, *flags: str, code: int = 0) -> dict[str, str]:
    """Code of the check -> status."""
    report = reported(tmp_path, case, *flags, code=code)
    return {finding["code"]: finding["status"] for finding in report["findings"]}


def reported(tmp_path: Path, case: str, *flags: str, code: int = 0) -> dict[str, Any]:
    for file in CASES.glob("*.py"):
        shutil.copy(file, tmp_path)
    done = doctor("data", case, "--format", "json", *flags, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_healthy_loader_passes(tmp_path: Path) -> None:
    statuses = examined(tmp_path, "chats.py:healthy")
    assert not {"warn", "fail"} & set(statuses.values())
    assert [statuses[f"DAT00{n}"] for n in (1, 2, 3, 4, 5, 6)] == ["pass"] * 6


def test_the_text_of_an_exception_is_not_reported(tmp_path: Path) -> None:
    report = reported(tmp_path, "chats.py:raises", code=1)
    assert "KeyError at chats.py:" in json.dumps(report)
    assert "the secret of a row" not in json.dumps(report)


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("nothing.py:make", "no such Python file"),
        ("chats.py", "name a function"),
        ("nothing", "no such file"),
    ],
)
def test_a_target_that_does_not_exist_is_one_line(tmp_path: Path, target: str, word: str) -> None:
    shutil.copy(CASES / "chats.py", tmp_path)
    done = doctor("data", target, cwd=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr
    assert done.stderr.count("\n") == 1
