"""The report for a step of GitHub Actions: annotations, the step's summary and its outputs.

fail is an error, warn a warning, unknown a notice; ten of each at most are shown by a step, so the
tenth tells how many are left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from doctor._util.errors import UserError
from doctor.judge.check import Finding, Status
from doctor.report.formats import markdown, plain
from doctor.report.locations import locate
from doctor.report.phrases import remedy
from doctor.report.report import Outcome, Report

MOST = 10
SUMMARY = 2**20
"""Bytes of a step's summary that GitHub takes; it refuses a larger one whole."""
CUT = "Cut here: GitHub takes 1 MiB of a step. The whole report is in the files of --output."
COMMANDS = {Status.FAIL: "error", Status.WARN: "warning", Status.UNKNOWN: "notice"}


def render(report: Report) -> str:
    """The plain report, in which no line is a command, and the annotations after it."""
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
        yield _command("notice", "doctor: UNKNOWN", report.next_action, {})
    for status, command in COMMANDS.items():
        found = report.with_status(status)
        room = MOST - (command == "notice" and report.outcome is Outcome.UNKNOWN)
        if len(found) > room:
            left = f"and {len(found) - room + 1} more: " + ", ".join(
                finding.check.code for finding in found[room - 1 :]
            )
            found = found[: room - 1]
        else:
            left = ""
        for finding in found:
            yield _annotation(command, finding, report)
        if left:
            yield _command(command, "doctor", left, {})


def _annotation(command: str, finding: Finding, report: Report) -> str:
    place = locate(finding, report)
    at = {"file": place.path, "line": str(place.line or 1)} if place else {}
    text = "\n".join([finding.verdict.summary, *remedy(finding)])
    return _command(command, f"{finding.check.code} {finding.check.slug}", text, at)


def _command(command: str, title: str, text: str, at: Mapping[str, str]) -> str:
    properties = ",".join(f"{k}={escape_property(v)}" for k, v in {**at, "title": title}.items())
    return f"::{command} {properties}::{escape_data(text)}"


def escape_data(text: str) -> str:
    """A message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A property of a workflow command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def publish(report: Report, written: Mapping[str, Path], environ: Mapping[str, str]) -> None:
    """Append to the step's summary and outputs, where there are any.

    Outputs: verdict, exit_code, report (the files written by --output, one a line) and, for each
    of them, report_FORMAT. Raises UserError.
    """
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(path, _fitting(markdown.render(report)) + "\n")
    if path := environ.get("GITHUB_OUTPUT"):
        outputs = {
            "verdict": str(report.outcome),
            "exit_code": str(report.exit_code),
            "report": "\n".join(str(file) for file in written.values()),
        }
        outputs |= {f"report_{name}": str(file) for name, file in written.items()}
        _append(path, "".join(_output(name, value) for name, value in outputs.items()))


def _fitting(text: str) -> str:
    """As much of a summary as GitHub takes of a step, in whole lines."""
    data = text.encode("utf-8", "replace")
    if len(data) < SUMMARY:
        return text
    kept = data[: SUMMARY - len(CUT) - 2].rpartition(b"\n")[0]
    return f"{kept.decode('utf-8', 'ignore')}\n{CUT}"


def _output(name: str, value: str) -> str:
    end = secrets.token_hex(16)
    return f"{name}<<{end}\n{value}\n{end}\n"


def _append(path: str, text: str) -> None:
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; it stands in the environment") from None
