"""Hostile names and values on a command line and in facts files, for every command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import doctor
from recorded import machines

from doctor.facts.facts import decode, encode
from doctor.report.formats.table import FORMATS

HOSTILE = "no\x1b[31m\n::error file=x::pwned\nREADY: forged\u202e"
USAGE = (
    ("triage", HOSTILE),
    ("scan", HOSTILE),
    ("read", HOSTILE),
    ("report", HOSTILE),
    ("run", "--facts", HOSTILE),
    ("run", "--only", HOSTILE),
    ("run", "--config", HOSTILE),
    ("run", "--model", HOSTILE),
    ("run", "--output", f"html={HOSTILE}/x"),
    ("run", f"--{HOSTILE}"),
    ("lint", HOSTILE),
    ("lint", "--format", HOSTILE),
    ("guard", "--", HOSTILE),
    ("prescribe", "--facts", HOSTILE),
    ("explain", HOSTILE),
    ("list", HOSTILE),
    (HOSTILE,),
)


def assert_clean(ended: subprocess.CompletedProcess[str]) -> None:
    for stream in (ended.stdout, ended.stderr):
        assert "\x1b" not in stream
        assert "\u202e" not in stream
        starts = [line.lstrip() for line in stream.split("\n")]
        assert not [line for line in starts if line.startswith(("::error file=x", "READY: forged"))]


@pytest.mark.parametrize("words", USAGE, ids=lambda words: " ".join(words)[:14])
def test_a_usage_error_has_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = doctor(*words, cwd=tmp_path)
    assert_clean(ended)
    if ended.returncode == 2:
        assert ended.stderr.count("\n") == 1


def facts_with(**texts: Any) -> bytes:
    """Facts of a machine, whose sections have these fields."""
    raw = json.loads(encode(machines()["h100_torch2.15"]))
    for path, value in texts.items():
        section, _, field = path.partition("__")
        target = raw[section][0] if isinstance(raw[section], list) else raw[section]
        target[field] = value
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    "field",
    [
        *("host__name", "driver__version", "gpus__name", "gpus__uuid", "torch__version"),
        *("torch__cuda", "interpreter__path", "interpreter__version"),
    ],
)
def test_a_name_with_control_characters_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"control characters in the name 'no.x1b"):
        decode(facts_with(**{field: HOSTILE}))
    (tmp_path / "f.json").write_bytes(facts_with(**{field: HOSTILE}))
    ended = doctor("report", "f.json", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("format", FORMATS)
def test_a_text_of_a_facts_file_forges_no_line(format: str, tmp_path: Path) -> None:
    texts = {"interpreter__chosen": HOSTILE, "driver__nvml": ended(HOSTILE), "job__model": HOSTILE}
    (tmp_path / "f.json").write_bytes(facts_with(**texts))
    for command in (("report", "f.json"), ("run", "--facts", "f.json", "--inject", "GPU001")):
        assert_clean(doctor(*command, "--format", format, cwd=tmp_path))


def ended(detail: str) -> dict[str, Any]:
    return {"type": "Ended", "how": "error", "detail": detail}


@pytest.mark.parametrize(
    ("version", "is_read"),
    [
        ("2.9.0a0+gitabc123", True),
        ("2.1.0-nv23.06-dirty", True),
        ("2.11.0+cu130 ::error::pwned", False),
        ("pwned", False),
    ],
)
def test_a_version_that_is_none_does_not_pass(version: str, is_read: bool, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(facts_with(torch__version=version))
    report = json.loads(doctor("report", "f.json", "--format", "json", cwd=tmp_path).stdout)
    status = {each["code"]: each["status"] for each in report["findings"]}
    expected = "pass" if is_read else "unknown"
    assert [status[code] for code in ("TOR001", "TOR002", "DRV002")] == [expected] * 3
    assert (report["verdict"] == "ready") is is_read


@pytest.mark.parametrize("form", ["text", "python", "loop", "env", "trainer", "accelerate"])
def test_a_prescription_has_lines_of_its_own_only(form: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(facts_with(interpreter__chosen=HOSTILE, job__model=HOSTILE))
    assert_clean(doctor("prescribe", "--facts", "f.json", "--format", form, cwd=tmp_path))


@pytest.mark.parametrize("format", ["console", "plain", "concise", "markdown", "github"])
def test_the_name_of_a_script_is_no_command(format: str, tmp_path: Path) -> None:
    script = "import torch\nfor x in loader:\n    scaler.scale(model(x)).backward()\n"
    (tmp_path / "::error file=x::pwned.py").write_text(script + "    scaler.step(optimizer)\n")
    ended = doctor("lint", "--format", format, cwd=tmp_path)
    assert "SCR" in ended.stdout, ended.stderr
    assert_clean(ended)
