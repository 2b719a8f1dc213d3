"""The report as one JSON object; fields are only ever added within a schema version.

`schemas/report.schema.json` is what `schema()` says; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from doctor import __version__
from doctor._util.records import Unknown
from doctor.facts.facts import Facts
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.judge.check import Check, Finding, Owner, Status
from doctor.judge.sources import SOURCES
from doctor.report.report import Outcome, Report

SCHEMA_VERSION: Literal[1] = 1


class Cited(msgspec.Struct, frozen=True):
    """An entry of the bibliography; `correction` is what is true where the cited text is not."""

    id: str
    title: str
    section: str
    url: str
    document: str
    correction: str
    checked: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A check and what it said. `fix` and `commands` are empty where nothing is to be mended."""

    code: str
    slug: str
    family: str
    status: Status
    summary: str
    fix: str
    commands: tuple[str, ...]
    owner: Owner
    sources: tuple[Cited, ...]
    seconds: float
    ignored: str
    """Why the user accepts it, "" if it counts."""
    limits: str | msgspec.UnsetType = msgspec.UNSET
    """With --annotate: what this pass does not prove, "" where that does not matter."""


class Counts(msgspec.Struct, frozen=True, rename={"passed": "pass"}):
    """Findings that count, by status, and those that the user ignores."""

    passed: int
    warn: int
    fail: int
    skip: int
    unknown: int
    ignored: int


class FlatJob(Job, frozen=True, kw_only=True):
    """The job, with what later became options and expectations: fields are only ever added."""

    smoke: bool = True
    quick: bool = False
    budget: float | None = None
    left_out: tuple[str, ...] = ()
    expect: Expect | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The report. Findings stand in the order in which people see them."""

    schema_version: Literal[1]
    doctor: str
    verdict: Outcome
    exit_code: int
    python: str | None
    """The training interpreter; null where none could be examined."""
    job: dict[str, Any]
    """The job as its flags spell it; null means that the user did not say."""
    counts: Counts
    findings: tuple[Found, ...]
    seconds: float
    config: str
    """The job file that was used, "" for none."""
    notes: tuple[str, ...]
    """What was left out or not used, and why."""


def render(report: Report) -> str:
    """The report as indented JSON in ASCII."""
    interpreter = report.facts.interpreter
    job = _job(report.facts)
    told = Told(
        schema_version=SCHEMA_VERSION,
        doctor=__version__,
        verdict=report.outcome,
        exit_code=report.exit_code,
        python=None if isinstance(interpreter, Unknown) else interpreter.path,
        job=job,
        counts=msgspec.convert(report.counts, Counts),
        findings=tuple(_found(one, report.annotate) for one in report.findings),
        seconds=round(report.facts.seconds, 3),
        config=report.config,
        notes=report.notes,
    )
    return _dump(msgspec.to_builtins(told))


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


def schema() -> dict[str, Any]:
    """JSON Schema of what `render` returns."""
    (_, job), parts = msgspec.json.schema_components((Told, FlatJob), ref_template="#/$defs/{name}")
    told = parts.pop("Told")
    told["properties"]["job"] |= {"$ref": job["$ref"]}
    told["properties"]["job"].pop("type")
    flags = parts["FlatJob"]
    flags["properties"].pop("type")
    flags["required"] = [name for name in flags["required"] if name != "type"]
    flags.pop("additionalProperties", None)
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **told,
        "title": "The report of doctor run --format json",
        "$defs": dict(sorted(parts.items())),
    }
    made: dict[str, Any] = json.loads(_dump(whole))  # defaults that are tuples become lists
    return made


def finding(found: Finding) -> dict[str, Any]:
    """A check and what it said, as an object."""
    said: dict[str, Any] = msgspec.to_builtins(_found(found))
    return said


def _found(found: Finding, annotate: bool = False) -> Found:
    return Found(
        code=found.check.code,
        slug=found.check.slug,
        family=found.check.family,
        status=found.status,
        summary=found.verdict.summary,
        fix=found.fix,
        commands=found.commands,
        owner=found.owner,
        sources=_sources(found.sources),
        seconds=round(found.verdict.seconds, 3),
        ignored=found.ignored,
        limits=found.limits if annotate else msgspec.UNSET,
    )


def render_checks(checks: Iterable[Check]) -> str:
    """What `doctor explain` says, as a list of objects."""
    return _dump([_check(check) for check in checks])


def _check(check: Check) -> dict[str, Any]:
    return {
        "code": check.code,
        "slug": check.slug,
        "title": check.title,
        "why": check.why,
        "pass": "; ".join(check.passes),
        "warn": "; ".join(check.warns),
        "fail": "; ".join(check.fails),
        "limits": check.limits,
        "fix": check.fix,
        "commands": list(check.commands),
        "owner": str(check.owner),
        "targets": list(check.targets),
        "after": list(check.after),
        "sources": msgspec.to_builtins(_sources(check.sources)),
    }


def _sources(ids: tuple[str, ...]) -> tuple[Cited, ...]:
    return tuple(
        Cited(
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


def _dump(data: Any) -> str:
    return json.dumps(data, indent=2)
