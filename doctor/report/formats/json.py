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
from doctor.job.job import Job
from doctor.judge.check import Finding, Owner, Status
from doctor.judge.described import Described
from doctor.judge.place import Change, Place
from doctor.judge.sources import SOURCES
from doctor.report.actions import Action, actions_of
from doctor.report.formats import json_forms
from doctor.report.formats.json_forms import CHECKS, FINDING, REPORT
from doctor.report.origin import origin_of
from doctor.report.report import Outcome, Report, Tensor

SCHEMA_VERSION: Literal[1] = 1


class SourceRecord(msgspec.Struct, frozen=True):
    """An entry of the bibliography; `correction` applies where the cited text is wrong."""

    id: str
    title: str
    section: str
    url: str
    document: str
    correction: str
    checked: str


class ChangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A replacement of text; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class PlaceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines and columns count from 1 and are absent where unknown; `end_column` is exclusive."""

    path: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    cell: int = 0
    """Of a notebook, from 1; lines count from its start."""
    rank: int | None = None
    text: str = ""
    """The line."""
    message: str = ""
    """What is observed here, absent where that is the finding's summary."""
    edits: tuple[ChangeRecord, ...] = ()
    """The fix of a lint; --fix verifies it further before it writes."""
    edits_are_safe: bool = True
    """false: the fix may change what the script does, and needs --unsafe-fixes."""


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A check and its result. `fix` and `commands` are empty unless it warns or fails."""

    code: str
    slug: str
    family: str
    status: Status
    summary: str
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    sources: tuple[SourceRecord, ...]
    seconds: float
    ignored: str
    causes: tuple[str, ...]
    """Ids of causes of errors that it has or may have; `doctor explain ID` prints one."""
    """The reason why the user ignores it, "" if it counts."""
    limits: str | msgspec.UnsetType = msgspec.UNSET
    """With --annotate: what this pass does not show, "" for any other status."""
    places: tuple[PlaceRecord, ...] = ()
    """Lines of a script or a log."""
    retry: str = ""
    """Of the first cause in a log, what a restart brings. "fix": the same failure, "again": it may
    succeed, "node": it may succeed on another node, "": not known."""
    actions: tuple[Action, ...] = ()
    """What a program may do about it: those of `commands` that have a safe form, and edits."""


class FindingLine(FindingRecord, frozen=True, kw_only=True):
    """A line of --format jsonl: a finding, and the report that it is of."""

    schema: Literal["urn:preflight-doctor:json-v1:finding"]
    doctor: str
    verdict: Outcome
    """Of the report."""
    started: str | None
    command: str | None
    host: str | None
    gpus: tuple[str, ...]
    driver: str | None
    torch: str | None
    path: str | None
    """Of a scan: the checkpoint."""


class Counts(msgspec.Struct, frozen=True, rename={"passed": "pass"}):
    """Findings that count, by status, and those that the user ignores."""

    passed: int
    warn: int
    fail: int
    skip: int
    unknown: int
    ignored: int
    note: int = 0
    """Passed, with something worth reading."""


class FlatJob(Job, frozen=True, kw_only=True):
    """The job, with what later became options and expectations: fields are only ever added."""

    smoke: bool = True
    quick: bool = False
    budget: float | None = None
    left_out: tuple[str, ...] = ()
    expect: Expect | None = None


class TensorRecord(msgspec.Struct, frozen=True):
    """A tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    bytes: int


class ReportRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The report. Findings are in the order of the other formats."""

    schema_version: Literal[1]
    doctor: str
    verdict: Outcome
    exit_code: int
    python: str | None
    """The training interpreter; null where none could be examined."""
    job: dict[str, Any]
    """The job's flags; null where the user gave none."""
    counts: Counts
    findings: tuple[FindingRecord, ...]
    seconds: float
    config: str
    """The job file that was used, "" for none."""
    notes: tuple[str, ...]
    """What was left out or not used, and why."""
    started: str | None
    """When the examination began, in UTC: 2026-01-31T09:05:00Z; null if it is not known."""
    command: str | None
    """The command line of the examination, without secrets."""
    host: str | None
    """The host's name with --no-redact, else null."""
    gpus: tuple[str, ...]
    """The name of each GPU of the job."""
    driver: str | None
    torch: str | None
    stages: dict[str, float]
    """Activity -> seconds."""
    schema: Literal["urn:preflight-doctor:json-v1:report"]
    headline: str
    """The verdict and what to do first, as `console` prints them."""
    path: str | msgspec.UnsetType = msgspec.UNSET
    """Of a scan: the checkpoint."""
    checkpoint: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    """Of a scan: what the checkpoint holds; null where it could not be read."""
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """Of a scan: why the checkpoint could not be read."""
    tensors: tuple[TensorRecord, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of a scan with --tensors: every tensor."""
    fleet: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Of a comparison of nodes: what was observed, as in the facts."""


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
        findings=tuple(_record(finding, report.annotate) for finding in report.findings),
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

    fields: dict[str, Any] = {"path": facts.job.checkpoint or "", "checkpoint": None}
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


def _untagged(data: object) -> Any:
    """Sections without their tags; an Unknown within them is {"reason": ...}."""
    if isinstance(data, dict):
        return {
            key: _untagged(value)
            for key, value in data.items()
            if not (key == "type" and isinstance(value, str))
        }
    return [_untagged(value) for value in data] if isinstance(data, list | tuple) else data


def _job(facts: Facts) -> dict[str, Any]:
    """The job, the run options and the expectations as one object."""
    fields = {name: getattr(facts.job, name) for name in facts.job.__struct_fields__}
    options = facts.options
    flat: dict[str, Any] = msgspec.to_builtins(
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
        record = _record(finding, report.annotate)
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


def schemas() -> dict[str, dict[str, Any]]:
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
    plain: dict[str, Any] = json.loads(_dump(document))  # defaults that are tuples become lists
    return plain


def _record(finding: Finding, annotate: bool = False) -> FindingRecord:
    return FindingRecord(
        code=finding.check.code,
        slug=finding.check.slug,
        family=finding.check.family,
        status=finding.status,
        summary=finding.verdict.summary,
        fix=finding.fix,
        commands=finding.commands,
        owner=finding.owner,
        sources=sources(finding.sources),
        seconds=round(finding.verdict.seconds, 3),
        ignored=finding.ignored,
        causes=finding.verdict.causes,
        limits=finding.limits if annotate else msgspec.UNSET,
        places=tuple(map(_place, finding.places)),
        retry=finding.verdict.retry,
        actions=actions_of(finding),
    )


def _place(place: Place) -> PlaceRecord:
    fields = {name: getattr(place, name) for name in PlaceRecord.__struct_fields__}
    return PlaceRecord(**fields | {"edits": tuple(map(_change, place.edits))})


def _change(change: Change) -> ChangeRecord:
    return ChangeRecord(**{n: getattr(change, n) for n in ChangeRecord.__struct_fields__})


def render_checks(checks: Iterable[Described]) -> str:
    """The content of `doctor explain` as a list of objects."""
    return _dump([_check(check) for check in checks])


class CheckRecord(msgspec.Struct, frozen=True, kw_only=True, rename={"passed": "pass"}):
    """A check of the catalogue; conditions are joined by semicolons."""

    code: str
    slug: str
    title: str
    why: str
    passed: str
    warn: str
    fail: str
    limits: str
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    targets: tuple[str, ...]
    after: tuple[str, ...]
    sources: tuple[SourceRecord, ...]
    note: str = ""
    schema: Literal["urn:preflight-doctor:json-v1:checks"] = CHECKS


class CauseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of errors, as `doctor explain TEXT` names it, with the keys of a check."""

    code: str
    slug: str
    cause: str
    title: str
    why: str
    told_by: str
    """Where several causes have the same message: what distinguishes this one."""
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    sources: tuple[SourceRecord, ...]
    schema: Literal["urn:preflight-doctor:json-v1:checks"] = CHECKS


def render_explained(checks: Iterable[Described], causes: Iterable[Cause]) -> str:
    """The causes of a text with the checks beside them, as a list of objects."""
    return _dump([*map(_cause, causes), *map(_check, checks)])


def _cause(cause: Cause) -> dict[str, object]:
    record = CauseRecord(
        code=cause.code,
        slug=cause.id,
        cause=cause.id,
        title=cause.title,
        why=cause.why,
        told_by=cause.told_by,
        fix=cause.fix,
        commands=cause.commands,
        owner=Owner(cause.owner),
        sources=sources(cause.sources),
    )
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return fields


def _check(check: Described) -> dict[str, object]:
    record = CheckRecord(
        code=check.code,
        slug=check.slug,
        title=check.title,
        why=check.why,
        passed="; ".join(check.passes),
        note="; ".join(check.notes),
        warn="; ".join(check.warns),
        fail="; ".join(check.fails),
        limits=check.limits,
        fix=check.fix,
        commands=check.commands,
        owner=check.owner,
        targets=check.targets,
        after=check.after,
        sources=sources(check.sources),
    )
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return fields


def sources(ids: tuple[str, ...]) -> tuple[SourceRecord, ...]:
    """The entries of the bibliography."""
    return tuple(
        SourceRecord(
            id=source.id,
            title=source.title,
            section=source.section,
            url=source.url,
            document=source.document,
            correction=source.correction,
            checked=source.checked,
        )
        for source in (SOURCES[id] for id in ids)
    )


def _dump(data: object) -> str:
    return json.dumps(data, indent=2)
