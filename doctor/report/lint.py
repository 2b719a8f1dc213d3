"""The report of a lint: one entry per place, with the source line and a caret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from doctor._util.secrets import HIDDEN, hide_secrets
from doctor._util.units import counted, shown, visible
from doctor.judge.check import Finding, Status
from doctor.judge.place import Place
from doctor.report.line import STYLES, Detail, Line


class Findings(Protocol):
    """The part of a lint, or of a report, that is shown."""

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def notes(self) -> tuple[str, ...]: ...


NAMES = {
    Status.FAIL: "failure",
    Status.WARN: "warning",
    Status.NOTE: "note",
    Status.UNKNOWN: "undecided",
}
SHOWN = {
    "quiet": (Status.FAIL, Status.WARN),
    "normal": (Status.FAIL, Status.WARN, Status.NOTE),
    "verbose": (Status.FAIL, Status.WARN, Status.NOTE, Status.UNKNOWN),
}
NO_SCRIPT = "no script was read; name a script, or a directory that holds one"
NOT_JUDGED = " is not judged: "
"""In the note on a named file that no rule is for."""
FULL_SIZE = 160
"""Columns of a source line that are shown."""


def entries(report: Findings, detail: Detail) -> list[tuple[Place, Finding]]:
    """Places with their finding: failures first, then in the order of files and lines."""
    results = [
        (place, finding)
        for finding in report.findings
        if finding.status in SHOWN[detail] and (detail == "verbose" or not finding.ignored)
        for place in finding.places
    ]
    return sorted(results, key=lambda pair: _order(*pair))


def _order(place: Place, finding: Finding) -> tuple[int, str, int, int, int, str]:
    rank = list(NAMES).index(finding.status)
    return rank, place.path, place.cell, place.line, place.column, finding.check.code


def lines(report: Findings, files: int, detail: Detail) -> Iterator[Line]:
    """All entries with their source lines, and the counts."""
    explained: set[str] = set()
    for place, finding in entries(report, detail):
        yield from _entry(place, finding, explained)
    for finding in _without_place(report):
        yield Line("", _line_without_place(finding), body_style=STYLES[finding.status])
    yield from summary_lines(report, files)


def _without_place(report: Findings) -> Iterator[Finding]:
    """Problems that are at no line: those of --inject."""
    for finding in report.findings:
        if finding.is_problem and not finding.places and not finding.ignored:
            yield finding


def _line_without_place(finding: Finding) -> str:
    check = finding.check
    return f"{check.code} [{NAMES[finding.status]}] {check.slug}: {shown(finding.verdict.summary)}"


def _entry(place: Place, finding: Finding, explained: set[str]) -> Iterator[Line]:
    check = finding.check
    suppressed = f" (suppressed: {shown(finding.ignored)})" if finding.ignored else ""
    message = f"{check.slug}: {hide_secrets(place.message)}{suppressed}"
    word = NAMES[finding.status]
    yield Line(f"{_at(place)} {check.code} ", f"[{word}] {message}", STYLES[finding.status], hang=4)
    yield from _excerpt(place)
    if finding.fix and (remedy := f"{check.code} {finding.fix}") not in explained:
        explained.add(remedy)
        yield Line("    fix: ", finding.fix, "dim", hang=9)


def _at(place: Place) -> str:
    """The place at the beginning of a line, where `::` and `##` would be commands of a CI."""
    text = shown(str(place), 500)
    return f"./{text}" if text.startswith((":", "#")) else text


def _excerpt(place: Place) -> Iterator[Line]:
    """The line, and carets below what is meant; none where a secret in the line is hidden."""
    text = hide_secrets(place.text).expandtabs(4)
    if not text.strip() or not place.line:
        return
    before = place.text[: max(0, place.column - 1)].expandtabs(4)
    last = len(text.rstrip())
    if place.end_line == place.line and place.end_column > place.column:
        last = min(last, len(place.text[: place.end_column - 1].expandtabs(4)))
    width = max(1, min(last, FULL_SIZE) - len(before))
    span = (len(before), len(before) + width)
    yield Line(f"{place.line} | ", shown(text.rstrip(), FULL_SIZE), "dim", span=span)
    if HIDDEN not in text and len(before) < FULL_SIZE:
        carets = " " * len(before) + "^" * width
        yield Line(f"{'':>{len(str(place.line))}} | ", carets, "dim", "bold", span=span)


def summary_lines(report: Findings, files: int) -> Iterator[Line]:
    """Counts of places, and the verdict of the exit code."""
    counts = place_counts(report)
    parts = [_plural(counts[status], NAMES[status]) for status in NAMES if counts[status]]
    if not files:
        parts.append(f"UNKNOWN: {NO_SCRIPT}")
    if habits := absent_habits(report):
        parts.append(f"{_plural(habits, 'habit')} absent (--habits)")
    text = ", ".join(parts) if parts else _nothing_found(report, files)
    yield Line("", f"{_plural(files, 'file')}: {text}", body_style="bold")
    for note in report.notes:
        yield Line("note ", shown(note, 500))


def _nothing_found(report: Findings, files: int) -> str:
    passed_over = sum(NOT_JUDGED in note for note in report.notes)
    if passed_over >= files:
        return "not judged"
    return "no findings in what is judged" if passed_over else "no findings"


def _plural(count: int, word: str) -> str:
    if word == "undecided":
        return f"{count} undecided (-v)"
    return counted(count, word)


def absent_habits(report: Findings) -> int:
    """Notes without a place: what scripts merely lack."""
    return sum(
        finding.status is Status.NOTE and not finding.places and not finding.ignored
        for finding in report.findings
    )


def place_counts(report: Findings) -> Counter[Status]:
    """Places by status, without suppressed ones."""
    counts: Counter[Status] = Counter()
    for finding in report.findings:
        if not finding.ignored:
            counts[finding.status] += len(finding.places) or finding.is_problem
    return counts


def concise(report: Findings, files: int, detail: Detail) -> str:
    """One line per place: `path:line:column CODE [severity] slug: message`."""
    rows = [f"{_at(place)} {shown(_row(place, f), 1000)}" for place, f in entries(report, detail)]
    rows += map(_line_without_place, _without_place(report))
    return "\n".join([*rows, *(line.prefix + line.body for line in summary_lines(report, files))])


def _row(place: Place, finding: Finding) -> str:
    check = finding.check
    return f"{check.code} [{NAMES[finding.status]}] {check.slug}: {place.message}"


def text(report: Findings, files: int, detail: Detail, format: str) -> str:
    """The report as text without colour."""
    if format == "plain":
        return concise(report, files, detail)
    rows = (visible((line.prefix + line.body).rstrip()) for line in lines(report, files, detail))
    return "\n".join(rows)
