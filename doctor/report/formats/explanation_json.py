"""What `doctor explain` prints as JSON of sections of the documents and of subjects: its schema."""

from __future__ import annotations

from typing import Literal

import msgspec

from doctor.report.formats import json_forms
from doctor.report.formats.json_forms import EXPLANATION


class SectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a source document."""

    id: str
    document: str
    section: str
    alias: str
    correction: str
    advice: str
    checks: tuple[str, ...]
    """Codes of the checks that cite it."""
    remedies: tuple[str, ...]
    settings: tuple[str, ...]
    not_detectable: str


class SectionsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `doctor explain P10` prints."""

    sections: tuple[SectionRecord, ...]
    schema: Literal["urn:preflight-doctor:json-v1:explanation"]


class FormRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of value that a factory may return."""

    returns: str
    loss: str


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a subject."""

    heading: str
    paragraphs: tuple[str, ...]
    forms: tuple[FormRecord, ...]
    example: str


class TopicRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A subject, such as model."""

    name: str
    parts: tuple[PartRecord, ...]


class TopicsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `doctor explain model` prints."""

    topics: tuple[TopicRecord, ...]
    schema: Literal["urn:preflight-doctor:json-v1:explanation"]


def schema() -> dict[str, object]:
    """JSON Schema of sections and subjects; checks and causes have their own."""
    kinds = (SectionsRecord, TopicsRecord)
    return json_forms.schema_of_one(kinds, EXPLANATION, "doctor explain of a section or a subject")
