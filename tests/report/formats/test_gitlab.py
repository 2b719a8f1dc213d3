"""GitLab's report of code quality: the properties that its documentation demands."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from paths import TESTS
from reports import about, every_report, finding, hostile, report

from doctor.judge.check import Status
from doctor.judge.place import Place
from doctor.report.formats import gitlab
from doctor.report.report import Report

SCHEMA = json.loads((TESTS / "schemas" / "gitlab-codequality.schema.json").read_text())


def entries(judged: Report) -> list[dict[str, Any]]:
    text = gitlab.render(judged)
    assert text.startswith("[")  # a byte order mark is refused
    found: list[dict[str, Any]] = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def test_every_report_is_one_of_code_quality() -> None:
    for name, judged in {**every_report(), "hostile": hostile(), "empty": report()}.items():
        with about(name):
            found = entries(judged)
            assert len({each["fingerprint"] for each in found}) == len(found)


SEVERITIES = [
    (Status.FAIL, "critical", "SCR101"),
    (Status.WARN, "minor", "SCR101"),
    (Status.NOTE, "info", "SCR101"),
    (Status.UNKNOWN, "info", "not evaluated"),
]


@pytest.mark.parametrize(("status", "severity", "word"), SEVERITIES)
def test_severities(status: Status, severity: str, word: str) -> None:
    place = Place(path="./src/a b.py", line=7, text="x = 1")
    made = finding("SCR101", status)
    made = replace(made, verdict=replace(made.verdict, places=(place, place)))
    first, second = entries(report(made))
    assert (first["severity"], first["check_name"]) == (severity, "SCR101")
    assert word in first["description"]
    assert first["location"] == {"path": "src/a b.py", "lines": {"begin": 7}}
    assert second["fingerprint"] == f"{first['fingerprint']}-2"


def test_what_is_ignored_or_about_the_machine_is_omitted() -> None:
    checkpoint = {"checkpoint": "model.safetensors"}
    ignored = finding("CKP001", Status.FAIL, ignored="known")
    judged = report(ignored, finding("GPU003", Status.FAIL), job=checkpoint)
    assert entries(judged) == []
