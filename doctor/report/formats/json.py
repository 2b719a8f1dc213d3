"""The report as one JSON object; fields are only ever added within a schema version.

`schemas/report.schema.json` holds `schema()`; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from doctor import __version__
from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.errors.cause import Cause
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet
from doctor.job.expect import Expect
from doctor.judge.described import Described
from doctor.report.formats import json_forms
from doctor.report.formats.json_forms import CHECKS, FINDING, REPORT
from doctor.report.formats.json_records import (
    CauseRecord,
    CheckRecord,
    Counts,
    FindingLine,
    FindingRecord,
    FlatJob,
    ReportRecord,
    TensorRecord,
    cause_record,
    check_record,
    finding_record,
)
from doctor.report.origin import origin_of
from doctor.report.report import Report, Tensor

SCHEMA_VERSION: Literal[1] = 1


def render(report: Report) -> str:
    """The report as indented JSON in ASCII."""
    interpreter = report.facts.interpreter
    job = _job(report.facts)
    origin, examination = origin_of(report.facts), report.facts.examination
    record = ReportRecord(
        schema=REPORT,
        schema_version=SCHEMA_VERSION,
        doctor=__version__,
        verdict=report.outcome,
        headline=report.verdict_line,
        exit_code=report.exit_code,
        python=None if isinstance(interpreter, Unknown) else interpreter.path,
        job=job,
        counts=msgspec.convert(report.counts, Counts),
        findings=tuple(finding_record(finding, report.annotate) for finding in report.findings),
        seconds=round(report.facts.seconds, 3),
        config=report.config,
        notes=report.notes,
        started=origin.started,
        command=origin.command,
        host=origin.host,
        gpus=origin.gpus,
        driver=origin.driver,
        torch=origin.torch,
        stages=examination.stages if examination else {},
        **_scanned(report),
    )
    return _dump(msgspec.to_builtins(record))


def _scanned(report: Report) -> dict[str, Any]:
    """The fields that a scan or a comparison of nodes has."""
    facts = report.facts
    if isinstance(facts.fleet, Fleet):
        return {"fleet": _untagged(msgspec.to_builtins(facts.fleet))}
    if facts.subject != "checkpoint":
        return {}
    from doctor.checkpoint.flat_form import to_flat

    fields: dict[str, object] = {"path": facts.job.checkpoint or "", "checkpoint": None}
    if isinstance(facts.checkpoint, Checkpoint):
        fields["checkpoint"] = _untagged(to_flat(msgspec.to_builtins(facts.checkpoint)))
    elif isinstance(facts.checkpoint, Unknown):
        fields["reason"] = facts.checkpoint.reason
    if report.tensors is not None:
        fields["tensors"] = tuple(_tensor(row) for row in report.tensors)
    return fields


def _tensor(row: Tensor) -> TensorRecord:
    name, dtype, shape, file, size = row
    return TensorRecord(name, dtype, tuple(shape), file, size)


def _untagged(data: object) -> object:
    """Sections without their tags; an Unknown within them is {"reason": ...}."""
    if isinstance(data, dict):
        return {
            key: _untagged(value)
            for key, value in data.items()
            if not (key == "type" and isinstance(value, str))
        }
    return [_untagged(value) for value in data] if isinstance(data, list | tuple) else data


def _job(facts: Facts) -> dict[str, object]:
    """The job, the run options and the expectations as one object."""
    fields = {name: getattr(facts.job, name) for name in facts.job.__struct_fields__}
    options = facts.options
    flat: dict[str, object] = msgspec.to_builtins(
        FlatJob(
            **fields,
            smoke=options.smoke,
            quick=options.quick,
            budget=options.budget,
            left_out=options.omitted,
            expect=None if facts.expect == Expect() else facts.expect,
        )
    )
    flat.pop("type")
    return flat


def render_lines(report: Report) -> str:
    """One finding per line, as JSON in ASCII."""
    origin = origin_of(report.facts)
    lines = []
    for finding in report.findings:
        record = finding_record(finding, report.annotate)
        fields = {name: getattr(record, name) for name in FindingRecord.__struct_fields__}
        line = FindingLine(
            **fields,
            schema=FINDING,
            doctor=__version__,
            verdict=report.outcome,
            **asdict(origin),
            path=_path(report.facts),
        )
        lines.append(json.dumps(msgspec.to_builtins(line)))
    return "\n".join(lines)


def _path(facts: Facts) -> str | None:
    return facts.job.checkpoint if facts.subject == "checkpoint" else None


def schemas() -> dict[str, dict[str, object]]:
    """JSON Schema of each form that this module writes, by the last word of its `$id`."""
    checks = json_forms.schema_of_list((CheckRecord, CauseRecord), CHECKS, "doctor explain, list")
    finding = json_forms.schema_of(FindingLine, FINDING, "A line of --format jsonl")
    return {"report": schema(), "finding": finding, "checks": checks}


def schema() -> dict[str, object]:
    """JSON Schema of what `render` returns."""
    types = (ReportRecord, FlatJob)
    (_, job), parts = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    record = parts.pop("ReportRecord")
    record["properties"]["job"] |= {"$ref": job["$ref"]}
    record["properties"]["job"].pop("type")
    flags = parts["FlatJob"]
    flags["properties"].pop("type")
    flags["required"] = [name for name in flags["required"] if name != "type"]
    flags.pop("additionalProperties", None)
    document = {
        "$schema": json_forms.DRAFT,
        "$id": REPORT,
        **record,
        "title": "The report of doctor run --format json",
        "$defs": dict(sorted(parts.items())),
    }
    plain: dict[str, object] = json.loads(_dump(document))  # defaults that are tuples become lists
    return plain


def render_checks(checks: Iterable[Described]) -> str:
    """The content of `doctor explain` as a list of objects."""
    return _dump([msgspec.to_builtins(check_record(check)) for check in checks])


def render_explained(checks: Iterable[Described], causes: Iterable[Cause]) -> str:
    """The causes of a text with the checks beside them, as a list of objects."""
    records = [*map(cause_record, causes), *map(check_record, checks)]
    return _dump([msgspec.to_builtins(record) for record in records])


def _dump(data: object) -> str:
    return json.dumps(data, indent=2)
