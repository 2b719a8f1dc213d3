"""doctor read: exit codes, stdin, formats and saved facts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import doctor

from doctor.cli.plain_arguments import parse
from doctor.cli.read_arguments import READ

pytestmark = pytest.mark.slow  # real processes

HEALTHY = """PyTorch version: 2.9.1+cu128
CUDA used to build PyTorch: 12.8
OS: Ubuntu 24.04.2 LTS (x86_64)
Python version: 3.12.3 (64-bit runtime)
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA A100-SXM4-80GB
Nvidia driver version: 570.86.15
"""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


def test_a_healthy_report_is_unknown_for_what_it_does_not_tell() -> None:
    run = doctor("read", "-", input=HEALTHY)
    assert run.returncode == 3
    assert "DRV002" in run.stdout
    assert "UNKNOWN: no fault in what the report shows" in run.stdout


def test_a_fault_fails_in_json_and_in_the_saved_facts(tmp_path: Path) -> None:
    pasted, saved = tmp_path / "issue.md", tmp_path / "facts.json"
    pasted.write_text(f"It does not start:\n```\n{MISMATCH}```\n")
    run = doctor("read", str(pasted), "--format", "json", "--save-facts", str(saved))
    assert run.returncode == 1
    first = json.loads(run.stdout)
    again = json.loads(doctor("report", str(saved), "--format", "json").stdout)
    statuses = [[(f["code"], f["status"]) for f in each["findings"]] for each in (first, again)]
    assert statuses[0] == statuses[1]
    assert ("DRV001", "fail") in statuses[0]


@pytest.mark.parametrize("text", ["", "loss 0.5\n", "\x00" * 100], ids=range(3))
def test_a_text_without_a_report_is_a_usage_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(text)
    run = doctor("read", str(path))
    assert run.returncode == 2
    assert "contains no report" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_missing_file_and_a_directory_are_usage_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        run = doctor("read", str(path))
        assert run.returncode == 2
        assert len(run.stderr.splitlines()) == 1


def test_a_job_file_is_read_where_it_is_named_and_checks_are_selected(tmp_path: Path) -> None:
    (tmp_path / "issue.txt").write_text(HEALTHY)
    (tmp_path / "doctor.toml").write_text('[expect]\ngpu = "H100"\n')
    line = ("read", "issue.txt", "--only", "JOB", "--format", "json")
    unnamed = json.loads(doctor(*line, cwd=tmp_path).stdout)
    assert {finding["family"] for finding in unnamed["findings"]} == {"JOB"}
    assert {finding["status"] for finding in unnamed["findings"]} == {"skip"}
    named = doctor(*line, "--config", "doctor.toml", cwd=tmp_path)
    assert named.returncode == 1
    failed = {f["code"] for f in json.loads(named.stdout)["findings"] if f["status"] == "fail"}
    assert "JOB001" in failed


@pytest.mark.parametrize("flags", [[], ["--format=json"], ["-v", "--only", "TOR"], ["--no-config"]])
def test_a_plain_command_line_says_the_same_without_the_parser(
    flags: list[str], tmp_path: Path
) -> None:
    (tmp_path / "issue.md").write_text(HEALTHY)
    plain = doctor("read", "issue.md", *flags, cwd=tmp_path)
    with_parser = doctor("read", "issue.md", *flags, "--save-facts", "f.json", cwd=tmp_path)
    lines = [each.splitlines() for each in (plain.stdout, with_parser.stdout)]
    kept = [[each for each in text if "doctor read" not in each] for text in lines]
    seconds = re.compile(r"\d+\.\d+( s|,|$)|T\d\d:\d\d:\d\dZ|\d\d:\d\d:\d\d UTC")
    without_time = [[seconds.sub("", each) for each in text] for text in kept]
    assert without_time[0] == without_time[1]
    assert plain.returncode == with_parser.returncode


def test_another_command_line_is_left_to_the_parser() -> None:
    for words in (["--unknown"], ["--help"], ["--format", "xlsx"], ["--save-facts", "x"]):
        assert parse(["issue.md", *words], READ) is None


def test_a_plain_read_imports_neither_the_parser_nor_checks_that_no_report_answers(
    tmp_path: Path,
) -> None:
    (tmp_path / "issue.md").write_text(HEALTHY)
    code = (
        "import sys\n"
        "from doctor.cli.read_arguments import read\n"
        f"read([{str(tmp_path / 'issue.md')!r}])\n"
        "heavy = {'typer', 'pydantic', 'doctor.checks.training', 'doctor.prescribe',\n"
        "         'doctor.errors.causes', 'doctor.collect.children'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"
