"""The JSON report: its schema, and that every report fits it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import jsonschema
import pytest
from paths import ROOT
from recorded import machines
from reports import about, every_report, judged

from doctor import catalog
from doctor._util.units import visible
from doctor.judge.check import Check
from doctor.prescribe.forms import Form
from doctor.prescribe.rules import prescribe
from doctor.report import prescription_json
from doctor.report.formats import json as as_json
from doctor.report.formats import plain

SCHEMAS = as_json.schemas() | {"prescription": prescription_json.schema()}


def strict(schema: Any) -> Any:
    """The schema with nothing allowed that it does not describe."""
    if isinstance(schema, dict):
        closed = {"additionalProperties": False} if "properties" in schema else {}
        return {key: strict(value) for key, value in schema.items()} | closed
    return [strict(value) for value in schema] if isinstance(schema, list) else schema


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(as_json.schema())


def test_a_json_report_contains_what_the_schema_describes_and_nothing_else() -> None:
    validator = jsonschema.Draft202012Validator(strict(as_json.schema()))
    for name, report in every_report().items():
        with about(name):
            plain, annotated = (
                json.loads(as_json.render(replace(report, annotate=annotate)))
                for annotate in (False, True)
            )
            validator.validate(annotated)
            for finding in annotated["findings"]:
                del finding["limits"]
            assert plain == annotated
    validator.validate(plain)


def test_the_schema_refuses_other_objects() -> None:
    checked = jsonschema.Draft202012Validator(as_json.schema())
    data = json.loads(as_json.render(every_report()["cpu_only"]))
    for wrong in ({"verdict": "fine"}, {"schema_version": 2}, {"findings": [{}]}, {"counts": {}}):
        with pytest.raises(jsonschema.ValidationError):
            checked.validate(data | wrong)


def test_fields_keep_their_order() -> None:
    data = json.loads(as_json.render(every_report()["cpu_only"]))
    assert list(data)[:4] == ["schema_version", "doctor", "verdict", "exit_code"]
    assert list(data["findings"][0])[:5] == ["code", "slug", "family", "status", "summary"]
    codes = [each["code"] for each in data["findings"]]
    assert codes == [each.code for each in catalog.MACHINE_CHECKS]


def test_each_form_has_a_number_and_names_its_schema() -> None:
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"urn:preflight-doctor:json-v1:{name}"
        stored = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
        assert stored == schema


def test_a_line_of_jsonl_is_a_finding_with_its_reports_verdict() -> None:
    validator = jsonschema.Draft202012Validator(strict(SCHEMAS["finding"]))
    for name, report in every_report().items():
        with about(name):
            whole = json.loads(as_json.render(report))
            lines = [json.loads(line) for line in as_json.render_lines(report).splitlines()]
            assert len(lines) == len(whole["findings"])
            for line, finding in zip(lines, whole["findings"], strict=True):
                validator.validate(line)
                assert {key: line[key] for key in finding} == finding
                assert line["verdict"] == whole["verdict"]


def test_the_headline_is_the_consoles_last_line() -> None:
    for name, report in every_report().items():
        with about(name):
            headline = json.loads(as_json.render(report))["headline"]
            assert plain.render(report).splitlines()[-1] == visible(headline)


@pytest.mark.parametrize("checks", [catalog.CHECKS, catalog.lookup("NUM003")])
def test_checks_are_as_their_schema_says(checks: tuple[Check, ...]) -> None:
    validator = jsonschema.Draft202012Validator(strict(SCHEMAS["checks"]))
    validator.validate(json.loads(as_json.render_checks(checks)))


@pytest.mark.parametrize("form", get_args(Form))
def test_a_prescription_is_as_its_schema_says(form: Form) -> None:
    for facts in machines().values():
        report = judged(facts)
        settings = prescribe(report.facts, report.findings)
        document = json.loads(prescription_json.render(report, settings, "stable", form))
        jsonschema.Draft202012Validator(strict(SCHEMAS["prescription"])).validate(document)
