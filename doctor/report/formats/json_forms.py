"""The numbered forms of JSON: fields are only ever added; any other change is a new number.

Each object names its form in the field `schema`: the `$id` of the schema that describes it.
"""

from __future__ import annotations

from typing import Literal

REPORT: Literal["urn:preflight-doctor:json-v1:report"] = "urn:preflight-doctor:json-v1:report"
FINDING: Literal["urn:preflight-doctor:json-v1:finding"] = "urn:preflight-doctor:json-v1:finding"
PRESCRIPTION: Literal["urn:preflight-doctor:json-v1:prescription"] = (
    "urn:preflight-doctor:json-v1:prescription"
)
