"""The findings that refer to a file, as SARIF 2.1.0 for code scanning.

fail is an error, warn a warning, unknown an open result. Findings about the machine
refer to no file and are omitted; the other formats contain them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from doctor import __version__, catalog
from doctor.judge.check import Check, Finding, Status
from doctor.judge.families import FAMILIES
from doctor.judge.place import Place
from doctor.judge.sources import SOURCES
from doctor.report.locations import fingerprint, relative, results
from doctor.report.origin import origin_of
from doctor.report.phrases import remedy
from doctor.report.report import Report

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
HOME = "urn:preflight-doctor"
"""The tool; it has no public address yet."""
OWN = ("JOB",)
"""Families that compare with what the user wrote: no page of others describes these rules."""
TEXT = (".py", ".json", ".toml")
LEVELS = {Status.FAIL: "error", Status.WARN: "warning", Status.NOTE: "note", Status.UNKNOWN: "none"}


def render(report: Report) -> str:
    """One run, as indented JSON in ASCII."""
    families = {finding.family for finding in report.findings}
    checks = catalog.of_families(*families)
    rules = {check.code: number for number, check in enumerate(checks)}
    run: dict[str, object] = {
        "tool": {
            "driver": {
                "name": "doctor",
                "fullName": f"preflight-doctor {__version__}",
                "informationUri": HOME,
                "semanticVersion": __version__,
                "rules": [_rule(check) for check in checks],
            }
        },
        "automationDetails": {"id": f"preflight-doctor/{_command(report)}/"},
        "invocations": [_invocation(report)],
        "results": list(_results(report, rules)),
        "columnKind": "unicodeCodePoints",
        "properties": {"verdict": str(report.outcome), "next": report.next_action},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _command(report: Report) -> str:
    """The command's word. Code scanning keeps the results of each apart: it is their category."""
    words = (origin_of(report.facts).command or "").split()
    return next((word for word in words[1:] if word.isalpha()), "report")


def _invocation(report: Report) -> dict[str, object]:
    origin = origin_of(report.facts)
    known = {"startTimeUtc": origin.started, "commandLine": origin.command, "machine": origin.host}
    machine = {"gpus": list(origin.gpus), "driver": origin.driver, "torch": origin.torch}
    return {
        "executionSuccessful": True,
        "exitCode": report.exit_code,
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": note}} for note in report.notes
        ],
        **{name: value for name, value in known.items() if value},
        "properties": {**machine, "seconds": round(report.facts.seconds, 3)},
    }


def _rule(check: Check) -> dict[str, object]:
    rule: dict[str, object] = {
        "id": check.code,
        "name": check.slug,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": check.why},
        "help": {"text": check.fix},
        "defaultConfiguration": {"level": "error" if check.fails else "warning"},
        "properties": {"tags": [FAMILIES.get(check.family, check.family)]},
    }
    if check.family in OWN:
        return rule
    if urls := [SOURCES[id].url for id in check.sources if SOURCES[id].url]:
        rule["helpUri"] = urls[0]
    return rule


def _results(report: Report, rules: dict[str, int]) -> Iterator[dict[str, object]]:
    working_dir = report.facts.job.working_dir
    for finding in report.findings:
        if finding.status in LEVELS:
            for place, followed in results(finding, report):
                related = [_related(each, working_dir) for each in followed]
                result = _result(finding, place, working_dir, rules)
                yield result | ({"relatedLocations": related} if related else {})


def _related(place: Place, working_dir: str) -> dict[str, object]:
    location: dict[str, object] = {
        "physicalLocation": _physical(place, address(place.path, working_dir))
    }
    return location | ({"message": {"text": place.message}} if place.message else {})


def _result(
    finding: Finding, place: Place, working_dir: str, rules: dict[str, int]
) -> dict[str, object]:
    code, uri = finding.check.code, address(place.path, working_dir)
    result: dict[str, object] = {
        "ruleId": code,
        "kind": "open" if finding.status is Status.UNKNOWN else "fail",
        "level": LEVELS[finding.status],
        "message": {
            "text": "\n".join([place.message or finding.verdict.summary, *remedy(finding)])
        },
        "locations": [{"physicalLocation": _physical(place, uri)}],
        "partialFingerprints": {"doctor/v1": fingerprint(code, uri, place)},
    }
    if place.edits:
        result["fixes"] = [_fix(finding, place, uri)]
    if finding.ignored:
        accepted = {"kind": "external", "status": "accepted", "justification": finding.ignored}
        result["suppressions"] = [accepted]
    if code in rules:
        result["ruleIndex"] = rules[code]
    return result


def _fix(finding: Finding, place: Place, uri: str) -> dict[str, object]:
    replacements = [
        {
            "deletedRegion": {
                "startLine": change.line,
                "startColumn": change.column,
                "endLine": change.end_line,
                "endColumn": change.end_column,
            },
            "insertedContent": {"text": change.text},
        }
        for change in place.edits
    ]
    change = {"artifactLocation": {"uri": uri}, "replacements": replacements}
    return {"description": {"text": finding.fix}, "artifactChanges": [change]}


def _physical(place: Place, uri: str) -> dict[str, object]:
    """The line of a text file, the first one where none is known, or the start of another file."""
    location: dict[str, object] = {"artifactLocation": {"uri": uri}}
    if not (place.line or place.path.endswith(TEXT)):
        return location | {"region": {"byteOffset": 0, "byteLength": 0}}
    region = {
        "startLine": place.line or 1,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return location | {"region": {name: number for name, number in region.items() if number}}


def address(path: str, working_dir: str) -> str:
    """A path as a URI, relative to the job's working directory where it is below it."""
    if "://" in path:
        return quote(path, safe="/:?#[]@!$&'()*+,;=%~")
    found = relative(path, working_dir)
    return f"file://{quote(found)}" if found.startswith("/") else quote(found)
