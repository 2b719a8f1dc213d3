"""The report as Markdown for a comment, an issue or the summary of a CI step.

Text from the machine is escaped: it cannot become a link, a mention, HTML or a table cell. Fixes
and sources of the catalogue are rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor import __version__
from doctor._util.units import visible
from doctor.judge.check import Finding, Status
from doctor.judge.families import FAMILIES
from doctor.judge.sources import SOURCES, Source, short_section
from doctor.report.conditions import limitations
from doctor.report.header import header_parts
from doctor.report.lines import PLACES
from doctor.report.phrases import needs_attention, one_line, summary
from doctor.report.report import Outcome, Report
from doctor.report.table import Table
from doctor.report.tables import tables_of

MARKS = {
    Status.PASS: "✅ pass",
    Status.NOTE: "ℹ️ note",
    Status.WARN: "⚠️ WARN",
    Status.FAIL: "❌ FAIL",
    Status.SKIP: "➖ skip",
    Status.UNKNOWN: "❔ unknown",
}
OUTCOMES = {Outcome.READY: "✅", Outcome.FIX: "❌", Outcome.RETURN: "⛔", Outcome.UNKNOWN: "❔"}
_BREAK = "&#8203;"
"""A zero-width space: it keeps @name, www. and :// from becoming links."""
_SPECIAL = re.compile(r"[\\`*_\[\]~|#]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}


def render(report: Report) -> str:
    """The verdict, what to do, and a collapsed table of all checks."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"## doctor: {OUTCOMES[report.outcome]} {report.headline}"
    yield ""
    yield f"**{escape(report.next_action)}**"
    yield ""
    for name, text in header_parts(report):
        yield f"- {name}: {escape(text)}"
    yield f"- doctor {__version__}, {_counts(report)}, {report.facts.seconds:.1f} s"
    for table in tables_of(report):
        yield from _data(table)
    if problems := [finding for finding in report.findings if needs_attention(finding)]:
        yield ""
        yield from _table(problems)
        yield from _remedies(problems)
    yield ""
    yield f"<details><summary>All {len(report.findings)} checks</summary>"
    yield ""
    yield from _table(report.findings, annotate=report.annotate)
    yield ""
    yield "</details>"


def _data(table: Table) -> Iterator[str]:
    """A table of the report; its cells are escaped."""
    yield ""
    yield f"**{table.title}**"
    yield ""
    for row in (table.heads, ["---"] * len(table.heads), *table.rows):
        cells = row if row[0] == "---" else map(escape, row)
        yield f"| {' | '.join(cells)} |"


def _counts(report: Report) -> str:
    return ", ".join(f"{count} {word}" for word, count in report.counts.items() if count)


def _table(findings: Iterable[Finding], *, annotate: bool = False) -> Iterator[str]:
    limits = " limitations |" if annotate else ""
    yield f"| | code | check | observed and required |{limits}"
    yield "|---|---|---|---|" + ("---|" if annotate else "")
    for finding in findings:
        check = finding.check
        observed = escape(summary(finding)) + _places(finding)
        cells = [MARKS[finding.status], check.code, check.slug, observed]
        if annotate:
            cells.append(escape(limitations(finding.limits)) if finding.limits else "")
        yield f"| {' | '.join(cells)} |"


def _places(finding: Finding) -> str:
    """The first places, each on a line of its own within the cell."""
    shown = [
        f"<br>{escape(str(place))}" + (f" {escape(place.message)}" if place.message else "")
        for place in finding.places[:PLACES]
    ]
    more = len(finding.places) - len(shown)
    return "".join([*shown, f"<br>and {more} more" if more else ""])


def _remedies(findings: Iterable[Finding]) -> Iterator[str]:
    first_with_fix: dict[str, str] = {}
    for finding in findings:
        if not finding.is_problem:
            continue
        check = finding.check
        family = FAMILIES.get(finding.family, finding.family)
        yield ""
        yield f"### {check.code} {check.slug} ({family})"
        yield ""
        first = first_with_fix.setdefault(finding.fix, check.code)
        if first != check.code:
            yield f"See {first} above."
        else:
            first_line, *more = finding.fix.split("\n")
            yield escape(first_line)
            yield from (f"<br>{escape(line)}" for line in more)
        if finding.commands:
            yield ""
            yield from _fenced(finding.commands)
        yield ""
        yield from (f"- {_cited(SOURCES[id])}" for id in finding.sources)


def _fenced(commands: tuple[str, ...]) -> Iterator[str]:
    """A code block whose fence is longer than any run of backticks in it."""
    lines = [visible(one_line(command)) for command in commands]
    longest = max((len(run) for run in re.findall("`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}sh", *lines, fence)


def _cited(source: Source) -> str:
    if source.url:
        section = f", {escape(source.section)}" if source.section else ""
        return f"[{escape(source.title)}]({source.url}){section}"
    return f"document {escape(source.document)}: {escape(short_section(source))}"


def escape(text: str) -> str:
    """One line that Markdown and GitHub's extensions render literally."""
    line = visible(one_line(text))
    line = re.sub(r"[&<>$]", lambda match: _ENTITIES[match[0]], line)
    line = _SPECIAL.sub(r"\\\g<0>", line)
    line = re.sub(r"^(\d*)(?=[-+=.)])", r"\1\\", line)
    line = re.sub(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", rf"\g<0>{_BREAK}", line)
    line = re.sub(r"(?i)\bwww(?=\.)", rf"\g<0>{_BREAK}", line)
    return re.sub(r":(?=/)", f":{_BREAK}", line)
