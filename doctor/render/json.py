"""The report as one JSON object; fields are only ever added within a schema version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from doctor import __version__
from doctor.model import Check, Finding
from doctor.report import Report
from doctor.sections import Unknown
from doctor.sources import SOURCES

SCHEMA_VERSION = 1


def render(report: Report) -> str:
    """The report, its findings in the order in which people see them."""
    interpreter = report.facts.interpreter
    job = msgspec.to_builtins(report.facts.job)
    job.pop("type")
    return _dump(
        {
            "schema_version": SCHEMA_VERSION,
            "doctor": __version__,
            "verdict": str(report.outcome),
            "exit_code": report.exit_code,
            "python": None if isinstance(interpreter, Unknown) else interpreter.path,
            "job": job,
            "counts": report.counts,
            "findings": [finding(one) for one in report.findings],
            "seconds": round(report.facts.seconds, 3),
        }
    )


def finding(found: Finding) -> dict[str, Any]:
    """A check and what it said, as an object."""
    return {
        "code": found.check.code,
        "slug": found.check.slug,
        "family": found.check.family,
        "status": str(found.status),
        "summary": found.verdict.summary,
        "fix": found.fix,
        "commands": list(found.commands),
        "owner": str(found.owner),
        "sources": sources(found.sources),
        "seconds": round(found.verdict.seconds, 3),
    }


def render_checks(checks: Iterable[Check]) -> str:
    """What `doctor explain` says, as a list of objects."""
    return _dump([_check(check) for check in checks])


def _check(check: Check) -> dict[str, Any]:
    return {
        "code": check.code,
        "slug": check.slug,
        "title": check.title,
        "why": check.why,
        "pass": check.passes,
        "warn": check.warns,
        "fail": check.fails,
        "fix": check.fix,
        "commands": list(check.commands),
        "owner": str(check.owner),
        "targets": list(check.targets),
        "after": list(check.after),
        "sources": sources(check.sources),
    }


def sources(ids: tuple[str, ...]) -> list[dict[str, str]]:
    """Bibliography entries, with what is true where the cited text is not."""
    return [
        {
            "id": source.id,
            "title": source.title,
            "section": source.section,
            "url": source.url,
            "document": source.document,
            "correction": source.correction,
            "checked": source.checked,
        }
        for source in (SOURCES[id] for id in ids)
    ]


def _dump(data: Any) -> str:
    return json.dumps(data, indent=2)
