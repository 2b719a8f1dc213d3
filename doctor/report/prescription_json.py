"""A prescription as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from doctor import __version__
from doctor.prescribe.context import Mode, Setting
from doctor.prescribe.forms import Form
from doctor.prescribe.rules import subject
from doctor.report.formats.json_forms import PRESCRIPTION, schema_of
from doctor.report.formats.json_records import SourceRecord, source_records
from doctor.report.prescription import render as render_text
from doctor.report.report import Outcome, Report


class SettingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, and how it is made in each place that has it."""

    name: str
    value: str
    code: str
    """The check that it follows from."""
    why: str
    sources: tuple[SourceRecord, ...]
    python: tuple[str, ...]
    """Statements that need only torch."""
    prepare: tuple[str, ...]
    """Statements about `model`, before its optimizer is created."""
    env: tuple[str, ...]
    """ "NAME=value", to be set before Python starts."""
    load: dict[str, str]
    """Arguments of from_pretrained, as Python source."""
    trainer: dict[str, Any]
    """Arguments of transformers.TrainingArguments."""
    accelerate: dict[str, Any]
    """Keys of an accelerate configuration."""


class PrescriptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for a machine."""

    schema: Literal["urn:preflight-doctor:json-v1:prescription"]
    doctor: str
    subject: str
    """The device that they are for."""
    mode: Mode
    verdict: Outcome
    exit_code: int
    settings: tuple[SettingRecord, ...]
    text: str
    """What --for prints."""


def render(report: Report, settings: Iterable[Setting], mode: Mode, form: Form) -> str:
    """The settings as indented JSON in ASCII."""
    settings = tuple(settings)
    record = PrescriptionRecord(
        schema=PRESCRIPTION,
        doctor=__version__,
        subject=subject(report.facts),
        mode=mode,
        verdict=report.outcome,
        exit_code=report.exit_code,
        settings=tuple(map(_setting, settings)),
        text=render_text(report, settings, mode, form),
    )
    return json.dumps(msgspec.to_builtins(record), indent=2)


def schema() -> dict[str, object]:
    """JSON Schema of what `render` returns."""
    return schema_of(PrescriptionRecord, PRESCRIPTION, "doctor prescribe --format json")


def _setting(setting: Setting) -> SettingRecord:
    fields = {name: getattr(setting, name) for name in SettingRecord.__struct_fields__}
    return msgspec.convert(fields | {"sources": source_records(setting.sources)}, SettingRecord)
