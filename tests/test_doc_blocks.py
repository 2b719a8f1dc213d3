"""Blocks of Python, TOML and YAML of README and of the pages work, or are marked with a reason."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from doctor.job.file.config import load

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("users/*.md"))]
BLOCK = re.compile(r"(?ms)^ *```(python|toml|yaml)\n(.*?)^ *```")
BLOCKS = [
    (page.name, kind, text)
    for page in PAGES
    if page.name != "documents.md"
    for kind, text in BLOCK.findall(page.read_text("utf-8"))
]
NOT_HERE = {
    'scan("runs/llama': "a checkpoint of the reader; tests/test_python.py calls the functions",
    "preflight_doctor.run(params": "it judges the reader's GPUs; tests/test_python.py",
    "def test_throughput": "it needs a GPU; tests/test_python.py has the fixture",
    "PreflightCallback": "a Trainer of the reader; tests/test_python.py",
    "replay.batch": "records of the reader; tests/guard/test_replay.py",
    "loss.backward()  #": "one line of a script; tests/script has the comment",
    "from hydra": "hydra is not installed",
}
"""Part of a block -> why no test runs it as it stands."""
RUN = [
    pytest.param(text, id=f"{name}-{number}")
    for number, (name, kind, text) in enumerate(BLOCKS)
    if kind == "python" and not any(part in text for part in NOT_HERE)
]
TEXTS = {kind: [text for _, each, text in BLOCKS if each == kind] for kind in ("toml", "yaml")}

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documents are not at hand")


def test_what_is_not_run_has_a_reason_that_is_needed() -> None:
    python = [text for _, kind, text in BLOCKS if kind == "python"]
    assert len(RUN) >= 4
    assert {part for part in NOT_HERE if not any(part in text for text in python)} == set()
    for text in python:
        compile(text, "block", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("text", RUN)
def test_a_block_of_python_runs(text: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text("import pytest\n" * ("@pytest" in text) + text)
    search = os.pathsep.join([str(ROOT), str(tmp_path)])
    calls = "; block.make()" if "def make" in text else ""
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import block{calls}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", TEXTS["toml"])
def test_a_block_of_toml_is_a_job_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "doctor.toml").write_text(text)
    assert load(tmp_path / "doctor.toml", {}, None).path


@pytest.mark.parametrize("text", TEXTS["yaml"])
def test_a_block_of_yaml_is_for_its_reader(text: str) -> None:
    import yaml

    read = yaml.safe_load(text)
    if "repos" in read:
        hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
        named = {hook["id"] for repo in read["repos"] for hook in repo["hooks"]}
        assert named <= {hook["id"] for hook in hooks}
    elif "steps" in read:
        actions = [step["uses"] for step in read["steps"] if "uses" in step]
        assert all(re.search(r"@[0-9a-f]{40}$", each) for each in actions)
    else:
        (job,) = read.values()
        (line,) = job["script"]
        assert job["artifacts"]["reports"]["codequality"] in line
