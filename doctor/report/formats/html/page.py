"""The report as one HTML page that needs nothing else: no request, no other file.

Its one script adds buttons that copy commands; without scripts the page has no buttons and lacks
nothing. The policy of the page admits that script and its style by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby

from doctor import __version__
from doctor.checkpoint.records import Checkpoint
from doctor.facts.guard import Guarded
from doctor.facts.interpreter import Torch
from doctor.facts.load import Attention
from doctor.facts.log import Log
from doctor.judge.check import Finding, Status
from doctor.judge.families import FAMILIES
from doctor.report.conditions import conditions, limitations
from doctor.report.formats.html import charts, samples
from doctor.report.formats.html.curves import curves, logged_curves
from doctor.report.formats.html.heat import heat_maps
from doctor.report.formats.html.markup import Markup, el, prose
from doctor.report.formats.html.todo import badge, cited, for_provider, section, todo
from doctor.report.header import examined_on, header_parts, subject
from doctor.report.lines import codes_of
from doctor.report.phrases import summary
from doctor.report.report import Outcome, Report
from doctor.report.table import Table
from doctor.report.tables import tables_of

ORDER = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.NOTE, Status.PASS, Status.SKIP)
"""Of the counts in a family's line."""

MEANINGS = {
    Outcome.READY: ("✓", "ready", ""),
    Outcome.FIX: ("✗", "fix", "Fix the code or the environment before training"),
    Outcome.RETURN: ("✗", "return", "The machine is at fault: return it"),
    Outcome.UNKNOWN: ("?", "unsure", "A required check could not be evaluated"),
}
"""Mark, CSS class and meaning of a verdict."""
MOST_NOTES = 3
"""Notes of a heading that are open."""
WARNED = ("✓", "warned", "Nothing stops the training; read the warnings first")


def render(report: Report) -> str:
    """The page, in ASCII."""
    style, script = _file("report.css"), _file("copy.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        f"{samples.POLICY if samples.has_images(report) else ''}base-uri 'none'; form-action 'none'"
    )
    head = el(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        el("title", f"{report.headline}: {subject(report)} - preflight doctor"),
        Markup(f"<style>{style}</style>"),
    )
    body = _body(report, Markup(f"<script>{script}</script>"))
    page = Markup("<!doctype html>\n") + el("html", head, Markup("\n"), body, lang="en")
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _file(name: str) -> str:
    return files("doctor.report.formats.html").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _body(report: Report, script: Markup) -> Markup:
    return el(
        "body",
        el("a", "Skip to all checks", href="#checks", class_="away"),
        _verdict(report),
        el(
            "main",
            todo(report),
            for_provider(report),
            _prescription(report),
            _pictures(report),
            all_checks(report),
            _timings(report),
        ),
        el("footer", el("p", prose(_origin(report)), class_="quiet")),
        script,
    )


def _verdict(report: Report) -> Markup:
    warned = report.outcome is Outcome.READY and report.with_status(Status.WARN)
    mark, css, meaning = WARNED if warned else MEANINGS[report.outcome]
    meaning = "" if report.facts.subject == "fleet" else meaning
    rows = [[el("dt", name), el("dd", text)] for name, text in _header(report) if text]
    counts = ", ".join(f"{number} {word}" for word, number in report.counts.items() if number)
    rows.append([el("dt", "checks"), el("dd", f"{counts}; {report.facts.seconds:.1f} s")])
    about = filter(None, ["preflight doctor", subject(report), examined_on(report)])
    return el(
        "header",
        el(
            "h1",
            el("span", " · ".join(about), class_="about"),
            el("span", el("span", mark, aria_hidden="true"), f" {report.headline}"),
        ),
        el("p", meaning, class_="quiet") if meaning else "",
        el("p", prose(report.next_action), class_="next"),
        el("dl", rows),
        class_=css,
    )


def _header(report: Report) -> Iterator[tuple[str, Markup | str]]:
    """What was examined; many notes in one line that opens."""
    parts = list(header_parts(report))
    notes = [text for name, text in parts if name == "note"]
    if len(notes) <= MOST_NOTES:
        yield from parts
        return
    yield from (part for part in parts if part[0] != "note")
    items = el("ul", (el("li", prose(note)) for note in notes), class_="places")
    yield "notes", el("details", el("summary", f"{len(notes)} notes"), items)


def _prescription(report: Report) -> Markup | str:
    """The settings, each with the code that caused it; none for a machine that goes back."""
    if not report.settings or report.outcome is Outcome.RETURN:
        return ""
    if isinstance(report.facts.guard, Guarded):
        return ""  # a training's records say nothing of the machine
    rows = [
        (
            el("dt", setting.name),
            el(
                "dd", el("strong", setting.value), el("br"), prose(f"{setting.code}: {setting.why}")
            ),
        )
        for setting in report.settings
    ]
    hint = "Settings to start with on this machine; `doctor prescribe` prints them ready to paste."
    return section(
        "settings",
        "Prescription",
        el("p", prose(hint), class_="quiet"),
        el("dl", rows, class_="settings"),
    )


def _pictures(report: Report) -> Iterator[Markup]:
    facts = report.facts
    if isinstance(facts.guard, Guarded) and (lines := curves(facts.guard)):
        yield section("curves", "Curves of the training", *lines)
    if isinstance(facts.log, Log) and (lines := _logged_curves(report, facts.log)):
        yield section("curves", "Curves of the training", *lines)
    if bar := charts.memory(facts):
        yield section("memory", "Memory of a GPU", bar)
    if isinstance(facts.attention, Attention):
        yield section("attention", "Attention trial", charts.trial(facts.attention, _torch(report)))
    if isinstance(facts.checkpoint, Checkpoint) and (chart := charts.dtypes(facts.checkpoint)):
        yield section("dtypes", "The checkpoint's dtypes", chart)
    if pieces := samples.pieces(report):
        yield section("samples", "Samples", *pieces)
    yield from _tables(report)


def _tables(report: Report) -> Iterator[Markup]:
    """The heat maps of nodes, and all tables."""
    if maps := list(heat_maps(report.facts.fleet)):
        yield section("nodes-map", "Nodes and rates", *maps)
    for table in tables_of(report):
        yield section(table.title.split()[0].lower(), table.title, _table(table))


def _table(table: Table) -> Markup:
    heads = [_cell("th", name, number, table) for number, name in enumerate(table.heads) if name]
    rows = [
        el("tr", [_cell("td", cell, column, table, row) for column, cell in enumerate(cells)])
        for row, cells in enumerate(table.rows)
    ]
    return charts.table(table.title, heads, rows, hidden=True)


def _cell(name: str, text: str, column: int, table: Table, row: int | None = None) -> Markup:
    scope = {"scope": "col"} if name == "th" else {}
    if row is not None and column in table.bars:
        return el(name, [text, charts.bar(table.bars[column][row])], class_="number")
    if column in table.right:
        return el(name, text, class_="number", **scope)
    return el(name, text, **scope)


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
    return section("timings", "Where the time went", *tables) if tables else ""


def _origin(report: Report) -> str:
    replayed = f", judging {report.replayed} ({report.facts.origin})" if report.replayed else ""
    return f"preflight doctor {__version__}{replayed}. `doctor explain CODE` describes each check."


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
