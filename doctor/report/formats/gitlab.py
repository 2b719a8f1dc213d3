"""The findings that refer to a file, as a report of code quality for GitLab's merge requests.

fail is critical, warn minor, note and unknown info. Findings about the machine refer to no file and
are omitted, as in SARIF, and so is what the job file ignores: this format has no suppressions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from doctor.judge.check import Status
from doctor.report.locations import fingerprint, relative, results
from doctor.report.report import Report

SEVERITIES = {
    Status.FAIL: "critical",
    Status.WARN: "minor",
    Status.NOTE: "info",
    Status.UNKNOWN: "info",
}


def render(report: Report) -> str:
    """An array, as indented JSON in ASCII."""
    return json.dumps(list(_entries(report)), indent=2)


def _entries(report: Report) -> Iterator[dict[str, object]]:
    """GitLab shows entries of one fingerprint once, so equal lines of a file are numbered."""
    seen: dict[str, int] = {}
    for finding in report.findings:
        if finding.ignored or finding.status not in SEVERITIES:
            continue
        for place, _ in results(finding, report):
            path = relative(place.path, report.facts.job.working_dir)
            same = fingerprint(finding.check.code, path, place)
            seen[same] = seen.get(same, 0) + 1
            unread = "not evaluated: " if finding.status is Status.UNKNOWN else ""
            summary = place.message or finding.verdict.summary
            yield {
                "description": f"{finding.check.code} {finding.check.slug}: {unread}{summary}",
                "check_name": finding.check.code,
                "fingerprint": same if seen[same] == 1 else f"{same}-{seen[same]}",
                "severity": SEVERITIES[finding.status],
                "location": {"path": path, "lines": {"begin": place.line or 1}},
            }
