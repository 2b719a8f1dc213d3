"""The JSON report: its schema, and that every report fits it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from reports import about, every_report

from doctor import catalog
from doctor.report.formats import json as as_json


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
