"""The worked example of CONTRIBUTING.md: its diffs apply, and the tests pass with them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

MOST_FILES = 13
COPIED = ("checks", "doctor", "docs", "schemas", "tests", "README.md", "pyproject.toml", ".ci")
TESTS = (
    "tests/test_generated.py",
    "tests/test_machines.py",
    "tests/judge/test_catalog.py",
    "tests/checks/test_gpu.py::test_power_limit",
    "tests/probes/test_nvml.py::test_healthy_gpus_are_read_in_full",
    "tests/probes/test_nvml.py::test_trouble_is_read_and_judged",
    "tests/probes/test_nvml.py::test_every_query_may_be_refused",
)
GUIDE = ROOT / "CONTRIBUTING.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / "checks").exists() or not GUIDE.exists(), reason="the sources are not at hand"
    ),
    pytest.mark.skipif(not shutil.which("gcc"), reason="gcc builds the fake driver"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def apply(diff: str, folder: Path) -> None:
    """Replace the lines of each hunk, which must occur exactly once."""
    name, *hunks = re.split(r"(?m)^@@\n", diff)
    path = folder / name.removeprefix("+++ ").strip()
    text = path.read_text("utf-8")
    for hunk in hunks:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"{path.name}: {text.count(before)} times\n{before}"
        text = text.replace(before, after)
    path.write_text(text, "utf-8")


def contents(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "cache" not in str(path.relative_to(folder))
    }


def run(folder: Path, *command: str) -> None:
    search = os.pathsep.join([str(folder), str(folder / "tests/support")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_the_example_of_the_guide_works(copy: Path) -> None:
    before = contents(copy)
    for diff in re.findall(r"(?ms)^```diff\n(.*?)^```$", GUIDE.read_text("utf-8")):
        apply(diff, copy)
    python = [sys.executable, "-P"]
    run(copy, *python, "tests/support/generated.py")
    run(copy, *python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    after = contents(copy)
    changed = [path for path in after if after[path] != before.get(path)]
    assert len(changed) <= MOST_FILES, changed
