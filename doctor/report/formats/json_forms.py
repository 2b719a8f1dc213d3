"""The numbered forms of JSON: fields are only ever added; any other change is a new number.

Each object names its form in the field `schema`: the `$id` of the schema that describes it.
"""

from __future__ import annotations

import json
from typing import Literal

import msgspec

DRAFT = "https://json-schema.org/draft/2020-12/schema"

REPORT: Literal["urn:preflight-doctor:json-v1:report"] = "urn:preflight-doctor:json-v1:report"
FINDING: Literal["urn:preflight-doctor:json-v1:finding"] = "urn:preflight-doctor:json-v1:finding"
PRESCRIPTION: Literal["urn:preflight-doctor:json-v1:prescription"] = (
    "urn:preflight-doctor:json-v1:prescription"
)
CHECKS: Literal["urn:preflight-doctor:json-v1:checks"] = "urn:preflight-doctor:json-v1:checks"
EXPLANATION: Literal["urn:preflight-doctor:json-v1:explanation"] = (
    "urn:preflight-doctor:json-v1:explanation"
)
LEDGER: Literal["urn:preflight-doctor:json-v1:ledger"] = "urn:preflight-doctor:json-v1:ledger"


def schema_of(kind: object, id: str, title: str) -> dict[str, object]:
    """JSON Schema of a type whose values are of this form."""
    (form,), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    return _document(form, parts, id, title)


def schema_of_one(kinds: tuple[object, ...], id: str, title: str) -> dict[str, object]:
    """JSON Schema of an object that is of one of these types."""
    forms, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return _document({"anyOf": list(forms)}, parts, id, title)


def schema_of_list(kinds: tuple[object, ...], id: str, title: str) -> dict[str, object]:
    """JSON Schema of an array whose entries are of these types."""
    forms, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    return _document({"type": "array", "items": {"anyOf": list(forms)}}, parts, id, title)


def _document(
    form: dict[str, object], parts: dict[str, object], id: str, title: str
) -> dict[str, object]:
    document = {"$schema": DRAFT, "$id": id, **form, "title": title, "$defs": parts}
    plain: dict[str, object] = json.loads(json.dumps(document))  # defaults that are tuples: lists
    return plain
