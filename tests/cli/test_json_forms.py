"""Every command's JSON, as a real process prints it, is what the schema that it names says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import doctor
from paths import ROOT
from recorded import machine_file

from doctor import __version__

pytestmark = pytest.mark.slow  # real processes

SCHEMAS = {
    schema["$id"]: schema
    for path in (ROOT / "schemas").glob("*.schema.json")
    if "$id" in (schema := json.loads(path.read_text()))
}
FACTS = machine_file("row_remap_failed")
PASTED = "Failed to initialize NVML: Driver/library version mismatch\n"
LOG = "step 1 loss 2.0\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
SCRIPT = """import torch
import torch.nn.functional as F
for x in loader:
    torch.log(F.softmax(x, dim=1)).mean().backward()
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "issue.txt").write_text(PASTED)
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "weights.pkl").write_bytes(b"not a pickle")
    return tmp_path


def validated(document: Any) -> Any:
    """The document, after its schema has been looked up by the name that it gives."""
    first = document[0] if isinstance(document, list) else document
    validator = jsonschema.Draft202012Validator(SCHEMAS[first["schema"]])
    validator.validate(document)
    return document


REPORTS = {
    "run": ("run", "--no-config", "--facts", FACTS),
    "report": ("report", FACTS, "--no-config"),
    "read": ("read", "issue.txt"),
    "triage": ("triage", "train.log", "--no-config"),
    "lint": ("lint", "train.py", "--no-config"),
    "scan": ("scan", "weights.pkl", "--no-config"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report(name: str, here: Path) -> None:
    done = doctor(*REPORTS[name], "--format", "json", cwd=here)
    report = validated(json.loads(done.stdout))
    assert report["schema"].endswith(":report")
    assert report["exit_code"] == done.returncode
    text = doctor(*REPORTS[name], "-q", cwd=here).stdout.splitlines()
    if name != "lint":  # it ends with counts
        assert text[-1] == report["headline"]
    lines = doctor(*REPORTS[name], "--format", "jsonl", cwd=here).stdout.splitlines()
    assert [validated(json.loads(line))["code"] for line in lines] == [
        finding["code"] for finding in report["findings"]
    ]


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


@pytest.mark.parametrize("name", ["run", "read", "triage", "scan"])
def test_every_header_says_when_and_by_which_command(name: str, here: Path) -> None:
    for format in ("console", "plain"):
        lines = doctor(*REPORTS[name], "--format", format, cwd=here).stdout.splitlines()
        header = lines[1 if lines[0].startswith(("FIX: ", "RETURN: ", "UNKNOWN: ")) else 0]
        assert header.startswith(f"doctor {__version__}")  # a verdict that is not READY comes first
        if name == "run":  # of the facts
            continue
        (examined,) = [line for line in lines if line.startswith("  examined ")]
        assert " UTC, in " in examined
        (ran,) = [line for line in lines if line.startswith("  command ")]
        assert f"doctor {name} " in ran
