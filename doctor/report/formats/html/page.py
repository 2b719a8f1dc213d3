"""The report as one HTML page that needs nothing else: no script, no request, no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import groupby

from doctor import __version__
from doctor.checkpoint.records import Checkpoint
from doctor.facts.guard import Guarded
from doctor.facts.load import Attention
from doctor.facts.log import Log
from doctor.facts.machine import Torch
from doctor.judge.check import Finding, Status
from doctor.judge.families import FAMILIES
from doctor.judge.sources import SOURCES, Source, short_section
from doctor.report.conditions import conditions, limitations
from doctor.report.formats.html import charts
from doctor.report.formats.html.curves import curves, logged_curves
from doctor.report.formats.html.markup import Child, Markup, el, joined
from doctor.report.formats.html.markup import lines as preformatted
from doctor.report.header import header_parts
from doctor.report.lines import codes_of, group_key
from doctor.report.phrases import fix_owner, summary
from doctor.report.report import Outcome, Report
from doctor.report.tables import Table, tables_of

MEANINGS = {
    Outcome.READY: ("✓", "ready", ""),
    Outcome.FIX: ("✗", "fix", "Fix the code or the environment before training"),
    Outcome.RETURN: ("✗", "return", "The machine is at fault: return it"),
    Outcome.UNKNOWN: ("?", "unsure", "A required check could not be evaluated"),
}
"""Mark, CSS class and meaning of a verdict."""
WARNED = ("✓", "warned", "Nothing stops the training; read the warnings first")


def render(report: Report) -> str:
    """The page, in ASCII."""
    style = files("doctor.report.formats.html").joinpath("report.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = el(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        el("title", f"doctor: {report.headline}"),
        Markup(f"<style>{style}</style>"),
    )
    page = Markup("<!doctype html>\n") + el("html", head, Markup("\n"), _body(report), lang="en")
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _body(report: Report) -> Markup:
    return el(
        "body",
        el("a", "Skip to all checks", href="#checks", class_="away"),
        _verdict(report),
        el(
            "main",
            _todo(report),
            _prescription(report),
            _pictures(report),
            _checks(report),
            _timings(report),
        ),
        el("footer", el("p", _origin(report), class_="quiet")),
    )


def _verdict(report: Report) -> Markup:
    warned = report.outcome is Outcome.READY and report.with_status(Status.WARN)
    mark, css, meaning = WARNED if warned else MEANINGS[report.outcome]
    rows = [[el("dt", name), el("dd", text)] for name, text in header_parts(report) if text]
    counts = ", ".join(f"{number} {word}" for word, number in report.counts.items() if number)
    rows.append([el("dt", "checks"), el("dd", f"{counts}; {report.facts.seconds:.1f} s")])
    return el(
        "header",
        el("h1", el("span", mark, aria_hidden="true"), f" {report.headline}"),
        el("p", meaning, class_="quiet") if meaning else "",
        el("p", report.next_action, class_="next"),
        el("dl", rows),
        class_=css,
    )


def _todo(report: Report) -> Markup:
    problems = [f for f in report.findings if f.is_problem and not f.ignored]
    order = (Status.FAIL, Status.WARN)
    items = [
        _remedy(finding, report)
        for finding in sorted(problems, key=lambda finding: order.index(finding.status))
    ]
    todo = el("ol", items, class_="todo") if items else el("p", "No warnings or failures.")
    return _section("todo", "What to do now", todo, _not_evaluated(report))


def _not_evaluated(report: Report) -> Iterator[Markup]:
    """Unknown checks by reason."""
    reasons: dict[str, list[str]] = {}
    for finding in report.with_status(Status.UNKNOWN):
        reasons.setdefault(finding.verdict.summary, []).append(finding.check.code)
    if reasons:
        yield el("h3", "Not evaluated")
    for reason, codes in reasons.items():
        yield el("p", _badge(Status.UNKNOWN), " ", el("strong", ", ".join(codes)), f" {reason}")


def _remedy(finding: Finding, report: Report) -> Markup:
    check = finding.check
    first = next(f.check.code for f in report.findings if f.fix == finding.fix)
    lines = finding.fix.split("\n") if first == check.code else [f"See {first}."]
    return el(
        "li",
        el("h3", _badge(finding.status), f" {check.code} {check.slug}"),
        el("p", finding.verdict.summary),
        el("p", el("strong", "Fix: "), lines[0], class_="fixes"),
        _more(lines[1:]),
        el("pre", el("code", preformatted(finding.commands))) if finding.commands else "",
        el("p", fix_owner(finding), class_="quiet"),
        el("details", el("summary", "Why, and sources"), _reasons(finding), class_="why"),
        class_=f"is-{finding.status}",
    )


def _more(lines: Sequence[str]) -> Iterator[Markup]:
    """The remedy's further lines: indented ones are a table, whose columns are kept."""
    for indented, run in groupby(lines, key=lambda line: line.startswith("  ")):
        if indented:
            yield el("pre", preformatted(line[2:] for line in run))
        else:
            yield from (el("p", line) for line in run)


def _reasons(finding: Finding) -> Markup:
    return el("div", el("p", finding.check.why), _cited(finding.sources), class_="inside")


def _cited(ids: tuple[str, ...]) -> Markup:
    return el("ul", (el("li", _source(SOURCES[id])) for id in ids), class_="sources")


def _source(source: Source) -> Markup:
    if not source.url:
        return joined([f"document {source.document}: {short_section(source)}"])
    section = f", {source.section}" if source.section else ""
    return joined([el("a", source.title, href=source.url, rel="noreferrer"), section])


def _prescription(report: Report) -> Markup | str:
    """The settings, each with the code that caused it."""
    if not report.settings or isinstance(report.facts.guard, Guarded):
        return ""  # a training's records say nothing of the machine
    rows = [
        (
            el("dt", setting.name),
            el("dd", el("strong", setting.value), el("br"), f"{setting.code}: {setting.why}"),
        )
        for setting in report.settings
    ]
    hint = "Settings to start with on this machine; doctor prescribe prints them ready to paste."
    return _section(
        "settings", "Prescription", el("p", hint, class_="quiet"), el("dl", rows, class_="settings")
    )


def _pictures(report: Report) -> Iterator[Markup]:
    facts = report.facts
    if isinstance(facts.guard, Guarded) and (lines := curves(facts.guard)):
        yield _section("curves", "Curves of the training", *lines)
    if isinstance(facts.log, Log) and (lines := _logged_curves(report, facts.log)):
        yield _section("curves", "Curves of the training", *lines)
    if bar := charts.memory(facts):
        yield _section("memory", "Memory of a GPU", bar)
    if isinstance(facts.attention, Attention):
        yield _section(
            "attention", "Attention trial", charts.trial(facts.attention, _torch(report))
        )
    if isinstance(facts.checkpoint, Checkpoint) and (chart := charts.dtypes(facts.checkpoint)):
        yield _section("dtypes", "The checkpoint's dtypes", chart)
    for table in tables_of(report):
        yield _section(table.title.split()[0].lower(), table.title, _table(table))


def _table(table: Table) -> Markup:
    heads = [el("th", name, scope="col") for name in table.heads if name]
    rows = [el("tr", [el("td", cell) for cell in row]) for row in table.rows]
    return charts.table(table.title, heads, rows)


def _logged_curves(report: Report, log: Log) -> list[Markup]:
    """The curves of the log, with the place of the first failure marked, else of a warning."""
    located = [finding for finding in report.findings if finding.is_problem and finding.places]
    first = min(located, key=lambda finding: finding.status is not Status.FAIL, default=None)
    if first is None:
        return logged_curves(log, "", None)
    return logged_curves(log, first.check.code, first.places[0])


def _torch(report: Report) -> str:
    return report.facts.torch.version if isinstance(report.facts.torch, Torch) else ""


def _timings(report: Report) -> Markup | str:
    tables = charts.timings(report)
    return _section("timings", "Where the time went", *tables) if tables else ""


def _checks(report: Report) -> Markup:
    families = [
        el(
            "section",
            el("h3", FAMILIES.get(name, name), id=f"family-{name}"),
            _family(list(group), report.annotate),
            aria_labelledby=f"family-{name}",
        )
        for name, group in groupby(report.findings, key=lambda finding: finding.family)
    ]
    return _section("checks", f"All {len(report.findings)} checks", *families)


def _family(findings: list[Finding], annotate: bool) -> Iterator[Markup]:
    """One entry per finding; neighbours with the same reason share one."""
    for key, group in groupby(findings, key=group_key):
        members = list(group)
        if key and len(members) > 1:
            yield _folded(members)
        else:
            yield from (_check(finding, annotate) for finding in members)


def _folded(members: list[Finding]) -> Markup:
    first = members[0]
    rows = (el("li", f"{f.check.code} {f.check.slug}: {f.check.title}") for f in members)
    return el(
        "details",
        _summary(first, codes_of(members)),
        el("ul", rows, class_="inside"),
        class_=_css(first),
    )


def _css(finding: Finding) -> str:
    """Details of checks that passed or were skipped stay closed on paper."""
    return "done" if finding.status in (Status.PASS, Status.NOTE, Status.SKIP) else "open"


def _summary(finding: Finding, name: str) -> Markup:
    return el(
        "summary",
        _badge(finding.status),
        " ",
        el("span", name, class_="what"),
        f" {summary(finding)}",
    )


def _check(finding: Finding, annotate: bool) -> Markup:
    check = finding.check
    inside = [el("p", el("strong", check.title), f". {check.why}")]
    for heading, bullets in conditions(check):
        inside.append(el("p", el("strong", f"{heading} when:"), class_="condition"))
        inside.append(el("ul", (el("li", bullet) for bullet in bullets)))
    if annotate and finding.limits:
        inside.append(el("p", el("strong", "Limitations: "), limitations(finding.limits)))
    head = _summary(finding, f"{check.code} {check.slug}")
    content = el("div", inside, _cited(finding.sources), class_="inside")
    return el("details", head, content, class_=_css(finding))


def _badge(status: Status) -> Markup:
    return el("span", str(status), class_=f"badge {status}")


def _section(id: str, title: str, *children: Child) -> Markup:
    return el("section", el("h2", title, id=id), children, aria_labelledby=id)


def _origin(report: Report) -> str:
    replayed = f", judging {report.replayed} ({report.facts.origin})" if report.replayed else ""
    return f"doctor {__version__}{replayed}. doctor explain CODE describes each check."
