"""JSON of commands that print no report, and edits as actions, by real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import doctor
from every_command import FACTS, plant, validated

pytestmark = pytest.mark.slow  # real processes


@pytest.fixture
def here(tmp_path: Path) -> Path:
    plant(tmp_path)
    return tmp_path


def test_the_report_of_a_training_is_on_stderr(here: Path) -> None:
    line = ("guard", "--no-config", "--format", "json", "--", "python3", "-c", "print('hello')")
    done = doctor(*line, cwd=here)
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert validated(json.loads(done.stderr))["verdict"] == "unknown"
    refused = doctor("guard", "--output", "json=-", "--", "true", cwd=here)
    assert refused.returncode == 2
    assert "--format json prints it on stderr" in refused.stderr


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (("prescribe", "--no-config", "--facts", FACTS), "prescription"),
        (("list", "GPU"), "checks"),
        (("explain", "NUM003", "vram-fits"), "checks"),
        (("explain", "RuntimeError: CUDA out of memory. Tried to allocate"), "checks"),
        (("explain", "mat1 and mat2 shapes cannot be multiplied (96x32 and 1024x10)"), "checks"),
        (("explain", "P10"), ""),
        (("explain", "model"), "explanation"),
    ],
)
def test_what_is_not_a_report(words: tuple[str, ...], form: str, here: Path) -> None:
    document = validated(json.loads(doctor(*words, "--format", "json", cwd=here).stdout))
    first = document[0] if isinstance(document, list) else document
    assert form in first["schema"]


def test_a_fix_is_an_edit_and_an_action(here: Path) -> None:
    line = ("lint", "train.py", "--no-config", "--format", "json")
    report = json.loads(doctor(*line, cwd=here).stdout)
    (finding,) = [f for f in report["findings"] if any("edits" in p for p in f["places"])]
    (edit,) = finding["places"][0]["edits"]
    assert (edit["line"], edit["text"]) == (4, "F.log_softmax(x, dim=1)")
    (action,) = finding["actions"]
    assert doctor(*action["argv"][1:], cwd=here).returncode in (0, 1)
    assert "log_softmax" in (here / "train.py").read_text()
