"""The report for a step of GitHub Actions: annotations, the step's summary and its outputs.

fail is an error, warn a warning, unknown a notice. GitHub shows at most ten of each per step, so
the tenth lists the codes that were left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.units import visible
from doctor.judge.check import Finding, Status
from doctor.judge.place import Place
from doctor.report.formats import markdown, plain
from doctor.report.locations import results
from doctor.report.phrases import remedy
from doctor.report.report import Outcome, Report

MOST = 10
SUMMARY = 2**20
"""GitHub's limit on a step's summary in bytes; it rejects a larger one entirely."""
CUT = "Truncated: GitHub accepts 1 MiB per step. The files of --output hold the whole report."
COMMANDS = {
    Status.FAIL: "error",
    Status.WARN: "warning",
    Status.UNKNOWN: "notice",
    Status.NOTE: "notice",
}


def render(report: Report) -> str:
    """The plain report, with commands disabled within it, followed by the annotations."""
    token = secrets.token_hex(16)
    lines = [
        "::group::doctor",
        f"::stop-commands::{token}",
        plain.render(report),
        f"::{token}::",
        "::endgroup::",
    ]
    return "\n".join([*lines, *_annotations(report)])


def _annotations(report: Report) -> Iterator[str]:
    if report.outcome is Outcome.UNKNOWN:
        yield _command("notice", "doctor: UNKNOWN", visible(report.next_action), {})
    for status, command in COMMANDS.items():
        entries = [
            (finding, place)
            for finding in report.with_status(status)
            for place in [place for place, _ in results(finding, report)] or (None,)
        ]
        room = MOST - (command == "notice" and report.outcome is Outcome.UNKNOWN)
        annotated = entries if len(entries) <= room else entries[: room - 1]
        for finding, place in annotated:
            yield _annotation(command, finding, place)
        if omitted := entries[len(annotated) :]:
            codes = ", ".join(dict.fromkeys(finding.check.code for finding, _ in omitted))
            yield _command(command, "doctor", f"and {len(omitted)} more: {codes}", {})


def _annotation(command: str, finding: Finding, place: Place | None) -> str:
    summary = (place and place.message) or finding.verdict.summary
    text = "\n".join(map(visible, [summary, *remedy(finding)]))
    return _command(command, f"{finding.check.code} {finding.check.slug}", text, _properties(place))


def _properties(place: Place | None) -> dict[str, str]:
    """What GitHub needs to show an annotation at its line; a notebook has no such lines."""
    if place is None:
        return {}
    line = 1 if place.cell else place.line or 1
    numbers = {"line": line}
    if place.column and not place.cell:
        numbers |= {"col": place.column}
        numbers |= {"endLine": place.end_line} if place.end_line else {}
        numbers |= {"endColumn": place.end_column - 1} if place.end_column else {}
    return {"file": visible(place.path), **{name: str(number) for name, number in numbers.items()}}


def _command(command: str, title: str, text: str, place: Mapping[str, str]) -> str:
    properties = ",".join(f"{k}={escape_property(v)}" for k, v in {**place, "title": title}.items())
    return f"::{command} {properties}::{escape_data(text)}"


def escape_data(text: str) -> str:
    """Escape the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Escape a property of a workflow command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def publish(report: Report, written: Mapping[str, Path], environ: Mapping[str, str]) -> None:
    """Append to the files that GITHUB_STEP_SUMMARY and GITHUB_OUTPUT name, where they are set.

    Outputs: verdict, exit_code, report (the files written by --output, one per line) and, for each
    of them, report_FORMAT. Raises UserError.
    """
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(path, _truncated(markdown.render(report)) + "\n")
    if path := environ.get("GITHUB_OUTPUT"):
        outputs = {
            "verdict": str(report.outcome),
            "exit_code": str(report.exit_code),
            "report": "\n".join(str(file) for file in written.values()),
        }
        outputs |= {f"report_{name}": str(file) for name, file in written.items()}
        _append(path, "".join(_output(name, value) for name, value in outputs.items()))


def _truncated(text: str) -> str:
    """As many whole lines of a summary as GitHub accepts."""
    data = text.encode("utf-8", "replace")
    if len(data) < SUMMARY:
        return text
    lines = data[: SUMMARY - len(CUT) - 2].rpartition(b"\n")[0]
    return f"{lines.decode('utf-8', 'ignore')}\n{CUT}"


def _output(name: str, value: str) -> str:
    end = secrets.token_hex(16)
    return f"{name}<<{end}\n{value}\n{end}\n"


def _append(path: str, text: str) -> None:
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{path}, set by GitHub, cannot be written: {error.strerror}") from None
