"""The last part of the page: all checks, one line per family that opens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from doctor.judge.check import Finding, Status
from doctor.judge.families import FAMILIES
from doctor.report.conditions import conditions, limitations
from doctor.report.formats.html.markup import Markup, el, prose
from doctor.report.formats.html.todo import badge, cited, section
from doctor.report.lines import codes_of
from doctor.report.phrases import summary
from doctor.report.report import Report

ORDER = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.NOTE, Status.PASS, Status.SKIP)
"""Of the counts in a family's line."""


def all_checks(report: Report) -> Markup:
    """A line per family with its counts, and its checks inside."""
    families = [
        _family(name, list(group), report.annotate)
        for name, group in groupby(report.findings, key=lambda finding: finding.family)
    ]
    hint = "Open a line for its checks: what each observed, and when it passes, warns and fails."
    title = f"All {len(report.findings)} checks"
    return section("checks", title, el("p", hint, class_="quiet"), families)


def _family(name: str, findings: list[Finding], annotate: bool) -> Markup:
    counts = Counter(finding.status for finding in findings)
    numbers = [
        el("span", f"{counts[status]} {status}", class_=f"count {status}")
        for status in ORDER
        if counts[status]
    ]
    what = el("span", FAMILIES.get(name, name), class_="what")
    entries = el("div", list(_entries(findings, annotate)), class_="inside")
    return el("details", el("summary", what, " ", numbers), entries, class_="family")


def _entries(findings: list[Finding], annotate: bool) -> Iterator[Markup]:
    """An entry per finding; those with the same status and summary share one."""
    together: dict[tuple[Status, str, str], list[Finding]] = {}
    for each in findings:
        key = (each.status, each.verdict.summary, each.ignored)
        together.setdefault(key, []).append(each)
    for members in together.values():
        if len(members) > 1 and not members[0].is_problem:
            yield _folded(members)
        else:
            yield from (_check(finding, annotate) for finding in members)


def _folded(members: list[Finding]) -> Markup:
    rows = (el("li", f"{f.check.code} {f.check.slug}: {f.check.title}") for f in members)
    name = f"{len(members)} checks" if len(members) > 3 else codes_of(members)
    return el("details", _summary(members[0], name), el("ul", rows, class_="inside"))


def _summary(finding: Finding, name: str) -> Markup:
    what = el("span", name, class_="what")
    return el("summary", badge(finding.status), " ", what, " ", prose(summary(finding)))


def _check(finding: Finding, annotate: bool) -> Markup:
    check = finding.check
    inside = [el("p", el("strong", check.title), ". ", prose(check.why))]
    for heading, bullets in conditions(check):
        inside.append(el("p", el("strong", f"{heading} when:"), class_="condition"))
        inside.append(el("ul", (el("li", prose(bullet)) for bullet in bullets)))
    if annotate and finding.limits:
        inside.append(el("p", el("strong", "Limitations: "), limitations(finding.limits)))
    head = _summary(finding, f"{check.code} {check.slug}")
    return el("details", head, el("div", inside, cited(finding.sources), class_="inside"))
