"""Every report names when, where and with which command the machine was examined."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import command
import preloaded
import pytest
from recorded import machine_file

from doctor.facts.facts import decode, encode
from doctor.facts.host import Host
from doctor.facts.machine import Examination
from doctor.report.formats.table import FORMATS

STARTED = "2026-01-31T09:05:00Z"
SECRET = "hf_" + "a" * 20
WITHOUT_HEADER = ("nagios", "letter", "gitlab")
COMMAND = ("doctor", "run", "--checkpoint", "/home/anna/a b", "--only", "NUM")


@pytest.fixture(scope="module")
def facts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with two kinds of names that identify its owner."""
    facts = decode(machine_file("h100_torch2.15").read_bytes())
    assert isinstance(facts.host, Host)
    examination = Examination(started=STARTED, command=COMMAND, stages={"importing torch": 2.5})
    path = tmp_path_factory.mktemp("facts") / "facts.json"
    path.write_bytes(encode(facts.with_(examination=examination)))
    return path


def rendered(facts_file: Path, format: str, *flags: str) -> str:
    return command.doctor("report", facts_file, "--format", format, *flags).stdout


@pytest.mark.parametrize("format", sorted(set(FORMATS) - {*WITHOUT_HEADER}))
def test_every_format_names_time_gpu_driver_and_torch(format: str, facts_file: Path) -> None:
    text = rendered(facts_file, format).replace("\\", "")
    assert "2026-01-31" in text
    assert "09:05:00" in text
    for part in ("H100", "--only NUM", "~/a b"):
        assert part in text, part
    facts = decode(facts_file.read_bytes())
    for part in (facts.torch.version, facts.driver.version):  # type: ignore[union-attr]
        assert part in text


def test_json_junit_and_sarif_hold_them_in_fields(facts_file: Path) -> None:
    report = json.loads(rendered(facts_file, "json"))
    assert report["started"] == STARTED
    assert report["command"] == "doctor run --checkpoint '~/a b' --only NUM"
    assert report["stages"] == {"importing torch": 2.5}
    assert report["host"] is None
    suite = ET.fromstring(rendered(facts_file, "junit")).find("testsuite")
    assert suite is not None
    assert suite.get("timestamp") == STARTED
    (run,) = json.loads(rendered(facts_file, "sarif"))["runs"]
    assert run["invocations"][0]["startTimeUtc"] == STARTED


def test_verbose_states_where_the_time_went(facts_file: Path) -> None:
    assert "importing torch 2.5 s" in rendered(facts_file, "plain", "--verbose")


def test_facts_without_an_examination_have_none() -> None:
    report = json.loads(rendered(machine_file("h100_torch2.15"), "json"))
    assert (report["started"], report["command"], report["stages"]) == (None, None, {})


@pytest.mark.slow
def test_a_run_records_its_start_and_its_command_without_secrets(tmp_path: Path) -> None:
    address = f"https://anna:{SECRET}@localhost:1/x.safetensors?token={SECRET}"
    flags = ("--device", "cpu", "--no-smoke", "--no-config", "--checkpoint", address)
    outputs = ("--save-facts", "f.json", "--output", "json=r.json", "--no-redact")
    python = ("--python", preloaded.python())
    command.doctor("run", *flags, *python, "--only", "CKP", *outputs, cwd=tmp_path)
    facts = decode((tmp_path / "f.json").read_bytes())
    report = json.loads((tmp_path / "r.json").read_text())
    assert facts.examination is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}Z", facts.examination.started)
    assert facts.examination.command[:3] == ("doctor", "run", "--device")
    assert SECRET not in (tmp_path / "f.json").read_text()
    assert report["host"] == platform.node()
    assert {"importing torch", "waiting for disks"} <= set(report["stages"])
