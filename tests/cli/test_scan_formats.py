"""A scan is a report like every other: its formats, gates, job file and saved facts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import command
import jsonschema
import pytest
from paths import ROOT, TESTS

from doctor.report.formats.table import FORMATS

pytestmark = pytest.mark.slow
SCHEMA = json.loads((ROOT / "schemas" / "report.schema.json").read_text())
OASIS = json.loads((TESTS / "schemas" / "sarif-2.1.0-rtm.5.schema.json").read_text())


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the checkpoint "ck", whose norms are all 1.0 after 500 steps: CKP004
    warns."""
    import torch
    from safetensors.torch import save_file

    root = tmp_path_factory.mktemp("frozen")
    weights = {f"layers.{n}.input_layernorm.weight": torch.ones(32) for n in range(4)}
    (root / "ck").mkdir()
    save_file(
        {**weights, "lm_head.weight": torch.randn(8, 32)}, str(root / "ck" / "model.safetensors")
    )
    (root / "ck" / "trainer_state.json").write_text('{"global_step": 500}')
    return root


def scan(folder: Path, *arguments: object) -> tuple[int, str]:
    done = command.doctor("scan", "ck", *arguments, cwd=folder)
    assert done.stderr == ""
    return done.returncode, done.stdout


def as_json(folder: Path, *arguments: object) -> dict[str, Any]:
    _, text = scan(folder, "--format", "json", *arguments)
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_names_the_warning(frozen: Path, format: str) -> None:
    code, text = scan(frozen, "--format", format)
    assert code == (1 if format == "nagios" else 0)
    assert "CKP004" in text


@pytest.mark.parametrize("format", ["console", "plain", "html", "markdown", "github"])
def test_the_tables_are_sections_of_it(frozen: Path, format: str) -> None:
    _, text = scan(frozen, "--format", format, "--tensors")
    for words in (
        "one safetensors file",
        "parameters",
        "lm_head.weight",
        "layers.3.input_layernorm",
    ):
        assert words in text.replace("\\_", "_")


def test_a_quiet_scan_has_no_tables(frozen: Path) -> None:
    assert "lm_head" not in scan(frozen, "-q", "--tensors")[1]


def test_a_warning_closes_the_gate_only_if_asked_to(frozen: Path) -> None:
    assert scan(frozen)[0] == 0
    code, text = scan(frozen, "--fail-on", "warn", "-q")
    assert code == 1
    assert "READY with warnings: CKP004 norms-changed: all 4 norms" in text
    assert text.rstrip().endswith("(exit code 1: --fail-on warn)")
    assert "pass CKP001" not in text


def test_files_of_several_formats(frozen: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / f"x.{name}" for name in ("json", "sarif", "junit", "html")}
    scan(frozen, *(f"--output={name}={path}" for name, path in files.items()))
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(files["json"].read_text()))
    log = json.loads(files["sarif"].read_text())
    jsonschema.Draft4Validator(OASIS).validate(log)
    (result,) = [r for r in log["runs"][0]["results"] if r["ruleId"] == "CKP004"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "ck"}


@pytest.mark.parametrize("flags", [("--only", "CKP004"), ("--skip", "CKP001,CKP003")])
def test_checks_are_selected(frozen: Path, flags: tuple[str, ...]) -> None:
    codes = {finding["code"] for finding in as_json(frozen, *flags)["findings"]}
    assert "CKP004" in codes
    assert "CKP001" not in codes


def test_a_gate_is_tested_by_an_injected_failure(frozen: Path) -> None:
    report = as_json(frozen, "--inject", "CKP001")
    assert (report["verdict"], report["exit_code"]) == ("fix", 1)
    done = command.doctor("scan", "ck", "--inject", "GPU001", cwd=frozen)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_the_job_file_ignores_a_finding(frozen: Path, tmp_path: Path) -> None:
    file = tmp_path / "doctor.toml"
    file.write_text('[[ignore]]\ncode = "CKP004"\nreason = "not trained yet"\n')
    assert _warned(as_json(frozen, "--config", file)) == {"CKP004": "not trained yet"}
    assert _warned(as_json(frozen, "--config", file, "--no-ignores")) == {"CKP004": ""}
    assert scan(frozen, "--config", file, "--fail-on", "warn")[0] == 0


def _warned(report: Mapping[str, Any]) -> dict[str, str]:
    return {f["code"]: f["ignored"] for f in report["findings"] if f["status"] == "warn"}


def test_saved_facts_are_judged_again(frozen: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    first = as_json(frozen, "--save-facts", facts)
    done = command.doctor("report", facts, "--format", "json", cwd=frozen)
    again = json.loads(done.stdout)
    for name in ("verdict", "checkpoint", "path", "started", "command"):
        assert first[name] == again[name]
    assert [f["summary"] for f in first["findings"]] == [f["summary"] for f in again["findings"]]


def test_the_older_name_of_tensors_is_accepted_and_not_listed(frozen: Path) -> None:
    assert len(as_json(frozen, "--all")["tensors"]) == 5
    assert "tensors" not in as_json(frozen)
    help = command.doctor("scan", "--help").stdout
    assert "--tensors" in help
    assert "--all" not in help
