"""The report as lines for people: what the terminal and the plain format share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from doctor._util.units import shown
from doctor.judge.check import Finding, Status
from doctor.judge.sources import SOURCES, cite, short_section
from doctor.report import lint
from doctor.report.conditions import limitations
from doctor.report.footer import footer_lines, verdict_line
from doctor.report.header import header_lines, note_lines, time_lines
from doctor.report.line import DEEP, HANG, STYLES, WORDS, Detail, Line
from doctor.report.remedy import fix_lines
from doctor.report.report import Outcome, Report
from doctor.report.shown import shown_lines
from doctor.report.table import Table
from doctor.report.tables import tables_of
from doctor.report.triage import triage_lines

SECONDS_SHOWN = 1.0
BEGINNING = 10
"""Lines that `head`, a preview or a mail shows."""
TOO_FEW = re.compile(r"at least [\d,]+ required$|from \d+ on$")
"""At the end of what an unknown says that needs more steps."""
SHORT = "too few steps; without -q each says how many it needs"
MOST_SKIPS = 6
"""Lines of skips in a family, beyond which one line has them all unless verbose."""
PLACES = 5
"""Places of a finding that are shown unless verbose."""


def report_lines(report: Report, detail: Detail = "normal") -> Iterator[Line]:
    """The whole report; quiet omits what passed, verbose adds the sources of every check.

    A verdict other than READY is also its first line, unless the report is so short that a reader
    of its beginning sees the last one.
    """
    if report.facts.subject == "scripts":
        yield from lint.lines(report, report.files, detail)
        return
    lines = list(_lines(report, detail))
    if report.outcome is not Outcome.READY and len(lines) > BEGINNING:
        yield verdict_line(report)
    yield from lines


def _lines(report: Report, detail: Detail) -> Iterator[Line]:
    if report.facts.log is not None:
        yield from triage_lines(report, detail)
        return
    if detail != "quiet":
        yield from header_lines(report)
        yield from time_lines(report) if detail == "verbose" else ()
        for table in tables_of(report):
            yield from table_lines(table)
    else:
        yield from note_lines(report)
    for family, findings in groupby(report.findings, key=lambda finding: finding.check.family):
        yield from family_lines(family, list(findings), detail, annotate=report.annotate)
    yield from shown_lines(report, quiet=detail == "quiet")
    yield from footer_lines(report)


def table_lines(table: Table) -> Iterator[Line]:
    """The table below its heads, or below its title where it has no heads; never wrapped."""
    yield Line()
    title = [] if any(table.heads) else [f"  {table.title.lower()}"]
    first, *rows = [*title, *table.lines()]
    yield Line(first, "", "bold")
    yield from map(Line, rows)


def family_lines(
    family: str, findings: list[Finding], detail: Detail, *, annotate: bool = False
) -> Iterator[Line]:
    """The findings of one family below its name."""
    from doctor.judge.families import FAMILIES

    findings = _displayed(family, findings, detail)
    if not findings:
        return
    yield Line()
    yield Line(FAMILIES.get(family, family), "", "bold")
    skipped = _many_skips(findings) if detail != "verbose" else []
    findings = [finding for finding in findings if finding not in skipped]
    first_with_fix: dict[str, str] = {}
    for key, group in groupby(findings, key=partial(group_key, detail=detail)):
        members = list(group)
        if key and len(members) > 1 and detail != "verbose":
            yield _folded(members, key[1])
            continue
        for finding in members:
            first = first_with_fix.setdefault(finding.fix, finding.check.code)
            yield from _finding(finding, detail, first)
            yield from _limits(finding) if annotate else ()
    if skipped:
        yield _folded(skipped, "not applicable here, or not asked for: --verbose gives each reason")


def _many_skips(findings: list[Finding]) -> list[Finding]:
    """The skips of a family, if their reasons would hide the rest of it."""
    reasons = [key for key, _ in groupby(findings, key=group_key) if key and key[0] is Status.SKIP]
    if len(reasons) <= MOST_SKIPS:
        return []
    return [each for each in findings if each.status is Status.SKIP and not each.ignored]


def _limits(finding: Finding) -> Iterator[Line]:
    if finding.limits:
        yield Line(f"{DEEP}limitations: ", limitations(finding.limits), "dim", "dim", hang=HANG)


def _displayed(family: str, findings: list[Finding], detail: Detail) -> list[Finding]:
    """All if verbose; else without ignored findings, and without JOB where nothing is expected."""
    if detail == "verbose":
        return findings
    if detail == "quiet":
        findings = [f for f in findings if f.is_problem or f.status is Status.UNKNOWN]
    displayed = [finding for finding in findings if not finding.ignored]
    if family == "JOB" and all(f.status is Status.SKIP for f in displayed):
        return []
    return displayed


def group_key(finding: Finding, detail: Detail = "normal") -> tuple[Status, str] | None:
    """Neighbouring skips or unknowns with an equal key are shown as one; None: never grouped."""
    if finding.status in (Status.SKIP, Status.UNKNOWN) and not finding.ignored:
        summary = finding.verdict.summary
        short = detail == "quiet" and finding.family == "GRD" and TOO_FEW.search(summary)
        return finding.status, SHORT if short else summary
    return None


def _folded(members: list[Finding], summary: str) -> Line:
    status = members[0].status
    head = f"  {WORDS[status]} {codes_of(members)}  "
    return Line(head, summary, STYLES[status])


def codes_of(members: Sequence[Finding]) -> str:
    """ "GRD005-007", or "GRD005, GRD007" where the one between is not a member."""
    codes = [member.check.code for member in members]
    # In a row of successive codes, number less position is the same.
    runs = groupby(enumerate(codes), key=lambda pair: int(pair[1][3:]) - pair[0])
    rows = [[code for _, code in run] for _, run in runs]
    return ", ".join(f"{row[0]}-{row[-1][3:]}" if row[1:] else row[0] for row in rows)


def _finding(finding: Finding, detail: Detail, first: str) -> Iterator[Line]:
    """One finding; `first` is the first code with the same fix, possibly its own."""
    status, check = finding.status, finding.check
    seconds = finding.verdict.seconds
    included = f"{seconds:.0f} s" in finding.verdict.summary
    duration = f" ({seconds:.1f} s)" if seconds >= SECONDS_SHOWN and not included else ""
    head = f"  {WORDS[status]} {check.code} {check.slug}  "
    yield Line(head, f"{finding.verdict.summary}{duration}", STYLES[status], hang=HANG)
    yield from _places(finding, detail)
    if finding.ignored:
        yield Line(f"{DEEP}ignored: ", shown(finding.ignored, 300), "dim")
    elif finding.fix:
        fix = [f"see {first} above"] if first != check.code else finding.fix.split("\n")
        yield from fix_lines(finding, fix)
    if finding.is_problem or detail == "verbose":
        yield from _sources(finding, detail)


def _places(finding: Finding, detail: Detail) -> Iterator[Line]:
    """The first places, unless verbose: then all."""
    places = finding.places if detail == "verbose" else finding.places[:PLACES]
    for place in places:
        message = f"  {shown(place.message, 300)}" if place.message else ""
        yield Line(f"{DEEP}at: ", f"{shown(str(place), 500)}{message}", "dim")
    if omitted := len(finding.places) - len(places):
        yield Line(f"{DEEP}at: ", f"and {omitted} more; --verbose lists them", "dim")


def _sources(finding: Finding, detail: Detail) -> Iterator[Line]:
    """Sections of one document in one line, then the addresses; corrections only if verbose."""
    cited = [SOURCES[id] for id in finding.sources]
    for document, group in groupby(
        (source for source in cited if source.document), key=lambda source: source.document
    ):
        sections = "; ".join(short_section(source) for source in group)
        yield Line(f"{DEEP}see: ", f"document {document}: {sections}", "dim", "dim")
    for source in cited:
        if source.url:
            yield Line(f"{DEEP}see: ", cite(source), "dim", "dim")
    corrected = [source for source in cited if source.correction]
    if corrected and detail != "verbose":
        hint = f"parts of these documents are wrong: doctor explain {finding.check.code}"
        yield Line(f"{DEEP}but: ", hint, "dim", "dim")
        return
    for source in corrected:
        yield Line(f"{DEEP}but: ", source.correction, "dim", "dim")
