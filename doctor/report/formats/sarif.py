"""The findings that refer to a file, as SARIF 2.1.0 for code scanning.

fail is an error, warn a warning, unknown an open result. Findings about the machine
refer to no file and are omitted; the other formats contain them.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from doctor import __version__
from doctor.judge import catalog
from doctor.judge.check import Check, Finding, Status
from doctor.judge.sources import SOURCES
from doctor.report.locations import Location, locate
from doctor.report.origin import origin_of
from doctor.report.phrases import remedy
from doctor.report.report import Report

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
TEXT = (".py", ".json", ".toml")
LEVELS = {Status.FAIL: "error", Status.WARN: "warning", Status.UNKNOWN: "none"}


def render(report: Report) -> str:
    """One run, as indented JSON in ASCII."""
    rules = {check.code: number for number, check in enumerate(catalog.CHECKS)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "doctor",
                "semanticVersion": __version__,
                "rules": [_rule(check) for check in catalog.CHECKS],
            }
        },
        "invocations": [_invocation(report)],
        "results": list(_results(report, rules)),
        "columnKind": "unicodeCodePoints",
        "properties": {"verdict": str(report.outcome), "next": report.next_action},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _invocation(report: Report) -> dict[str, Any]:
    origin = origin_of(report.facts)
    known = {
        "startTimeUtc": origin.started,
        "commandLine": origin.command,
        "machine": origin.host,
    }
    machine = {"gpus": list(origin.gpus), "driver": origin.driver, "torch": origin.torch}
    return {
        "executionSuccessful": True,
        "exitCode": report.exit_code,
        **{name: value for name, value in known.items() if value},
        "properties": {**machine, "seconds": round(report.facts.seconds, 3)},
    }


def _rule(check: Check) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": check.code,
        "name": check.slug,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.why},
        "help": {"text": check.fix},
        "defaultConfiguration": {"level": "error" if check.fails else "warning"},
        "properties": {"tags": [catalog.FAMILIES.get(check.family, check.family)]},
    }
    if urls := [SOURCES[id].url for id in check.sources if SOURCES[id].url]:
        rule["helpUri"] = urls[0]
    return rule


def _results(report: Report, rules: dict[str, int]) -> Iterator[dict[str, Any]]:
    for finding in report.findings:
        location = locate(finding, report) if finding.status in LEVELS else None
        if location is not None:
            yield _result(finding, location, report.facts.job.working_dir, rules)


def _result(
    finding: Finding, location: Location, working_dir: str, rules: dict[str, int]
) -> dict[str, Any]:
    code, uri = finding.check.code, address(location.path, working_dir)
    result: dict[str, Any] = {
        "ruleId": code,
        "kind": "open" if finding.status is Status.UNKNOWN else "fail",
        "level": LEVELS[finding.status],
        "message": {"text": "\n".join([finding.verdict.summary, *remedy(finding)])},
        "locations": [{"physicalLocation": _physical(location, uri)}],
        "partialFingerprints": {
            "doctor/v1": hashlib.sha256(f"{code} {uri}".encode()).hexdigest()[:32]
        },
    }
    if finding.ignored:
        accepted = {"kind": "external", "status": "accepted", "justification": finding.ignored}
        result["suppressions"] = [accepted]
    if code in rules:
        result["ruleIndex"] = rules[code]
    return result


def _physical(location: Location, uri: str) -> dict[str, Any]:
    """The line of a text file, the first one where none is known, or the start of another file."""
    text = location.path.endswith(TEXT)
    region = {"startLine": location.line or 1} if text else {"byteOffset": 0, "byteLength": 0}
    return {"artifactLocation": {"uri": uri}, "region": region}


def address(path: str, working_dir: str) -> str:
    """A path as a URI, relative to the job's working directory where it is below it."""
    if "://" in path:
        return quote(path, safe="/:?#[]@!$&'()*+,;=%~")
    full = posixpath.normpath(posixpath.join(working_dir, path))
    if full.startswith(working_dir.rstrip("/") + "/"):
        return quote(posixpath.relpath(full, working_dir))
    return f"file://{quote(full)}" if full.startswith("/") else quote(full)
