"""The report as markdown for a comment, an issue or the summary of a step.

Nothing that comes from the machine is live in it: no link, no mention, no HTML, no table cell of
its own. Remedies and sources of the catalogue are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from doctor import __version__
from doctor._util.units import visible
from doctor.judge.catalog import FAMILIES
from doctor.judge.check import Finding, Status
from doctor.judge.sources import SOURCES, Source, short_section
from doctor.report.lines import header_parts
from doctor.report.phrases import loud, one_line, said
from doctor.report.report import Outcome, Report

MARKS = {
    Status.PASS: "✅ pass",
    Status.WARN: "⚠️ WARN",
    Status.FAIL: "❌ FAIL",
    Status.SKIP: "➖ skip",
    Status.UNKNOWN: "❔ unknown",
}
OUTCOMES = {
    Outcome.READY: "✅ READY",
    Outcome.FIX: "❌ FIX",
    Outcome.RETURN: "⛔ RETURN",
    Outcome.UNKNOWN: "❔ UNKNOWN",
}
_APART = "&#8203;"
"""An entity that shows nothing and keeps @name, www. and :// from becoming links."""
_LIVE = re.compile(r"[\\`*_\[\]~|#]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}


def render(report: Report) -> str:
    """The verdict, what to do, and all checks folded away."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"## doctor: {OUTCOMES[report.outcome]}"
    yield ""
    yield f"**{escape(report.next_action)}**"
    yield ""
    for name, text in header_parts(report):
        yield f"- {name}: {escape(text)}"
    yield f"- doctor {__version__}, {_counted(report)}, {report.facts.seconds:.1f} s"
    if complaints := [finding for finding in report.findings if loud(finding)]:
        yield ""
        yield from _table(complaints)
        yield from _remedies(complaints)
    yield ""
    yield f"<details><summary>All {len(report.findings)} checks</summary>"
    yield ""
    yield from _table(report.findings, annotate=report.annotate)
    yield ""
    yield "</details>"


def _counted(report: Report) -> str:
    return ", ".join(f"{count} {word}" for word, count in report.counts.items() if count)


def _table(findings: Iterable[Finding], *, annotate: bool = False) -> Iterator[str]:
    more = " a pass is no proof |" if annotate else ""
    yield f"| | code | check | observed and required |{more}"
    yield "|---|---|---|---|" + ("---|" if annotate else "")
    for finding in findings:
        check = finding.check
        cells = [MARKS[finding.status], check.code, check.slug, escape(said(finding))]
        if annotate:
            cells.append(escape(finding.limits))
        yield f"| {' | '.join(cells)} |"


def _remedies(findings: Iterable[Finding]) -> Iterator[str]:
    told: dict[str, str] = {}
    for finding in findings:
        if not finding.complains:
            continue
        check = finding.check
        family = FAMILIES.get(finding.family, finding.family)
        yield ""
        yield f"### {check.code} {check.slug} ({family})"
        yield ""
        first = told.setdefault(finding.fix, check.code)
        if first != check.code:
            yield f"As {first} above."
        else:
            for line in finding.fix.splitlines():
                yield f"{escape(line)}<br>"
        if finding.commands:
            yield ""
            yield from _fenced(finding.commands)
        yield ""
        yield from (f"- {_cited(SOURCES[id])}" for id in finding.sources)


def _fenced(commands: tuple[str, ...]) -> Iterator[str]:
    """A fence longer than any row of backticks within."""
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
    """One line that markdown and GitHub's additions show as it is written."""
    line = visible(one_line(text))
    line = re.sub(r"[&<>$]", lambda found: _ENTITIES[found[0]], line)
    line = _LIVE.sub(r"\\\g<0>", line)
    line = re.sub(r"^(\d*)(?=[-+=.)])", r"\1\\", line)
    line = re.sub(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", rf"\g<0>{_APART}", line)
    line = re.sub(r"(?i)\bwww(?=\.)", rf"\g<0>{_APART}", line)
    return re.sub(r":(?=/)", f":{_APART}", line)
