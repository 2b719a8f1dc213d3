"""The first part of the page: what to do about each problem, and what to send to a provider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from doctor._util.secrets import HIDDEN, hide_secrets
from doctor.judge.check import Finding, Status
from doctor.judge.place import Place
from doctor.judge.sources import SOURCES, Source, short_section
from doctor.report.actions import Kind
from doctor.report.formats import letter
from doctor.report.formats.html.markup import Child, Markup, el, joined, prose
from doctor.report.formats.html.markup import lines as preformatted
from doctor.report.lines import PLACES
from doctor.report.phrases import fix_owner
from doctor.report.remedy import steps
from doctor.report.report import Outcome, Report

KINDS: dict[Kind | None, str] = {
    "look": "Look: changes nothing",
    "install": "Install",
    "set-env": "Set in the shell before the training starts",
    "edit": "Add to the start of the training script",
    "run": "Run",
    None: "Command to adapt",
}
"""What a block of commands is for."""


def section(id: str, title: str, *children: Child) -> Markup:
    """A part of the page below its heading."""
    return el("section", el("h2", title, id=id), children, aria_labelledby=id)


def badge(status: Status) -> Markup:
    return el("span", str(status), class_=f"badge {status}")


def for_provider(report: Report) -> Markup | str:
    """The letter to the provider of a machine that is to be returned, ready to copy."""
    if report.outcome is not Outcome.RETURN:
        return ""
    hint = "Text to send with the machine; `--format letter` writes the same into a file."
    text = el("pre", preformatted(letter.lines(report)), class_="copy")
    return section("provider", "For your provider", el("p", prose(hint), class_="quiet"), text)


def todo(report: Report) -> Markup:
    """Failures, then warnings, each with its fix; then what was not evaluated and notes."""
    problems = [f for f in report.findings if f.is_problem and not f.ignored]
    order = (Status.FAIL, Status.WARN)
    items = [
        _problem(finding, report)
        for finding in sorted(problems, key=lambda finding: order.index(finding.status))
    ]
    listed = el("ol", items, class_="todo") if items else el("p", "No warnings or failures.")
    return section("todo", "What to do now", listed, _not_evaluated(report), _notes(report))


def _not_evaluated(report: Report) -> Iterator[Markup]:
    """Unknown checks by reason."""
    reasons: dict[str, list[str]] = {}
    for finding in report.with_status(Status.UNKNOWN):
        reasons.setdefault(finding.verdict.summary, []).append(finding.check.code)
    if reasons:
        yield el("h3", "Not evaluated")
    for reason, codes in reasons.items():
        marked = el("strong", ", ".join(codes))
        yield el("p", badge(Status.UNKNOWN), " ", marked, " ", prose(reason))


def _notes(report: Report) -> Iterator[Markup]:
    """What passed, with something worth reading."""
    notes = report.with_status(Status.NOTE)
    if notes:
        yield el("h3", "Worth reading")
    for finding in notes:
        named = el("strong", f"{finding.check.code} {finding.check.slug}")
        at = [[" ", el("code", str(place))] for place in finding.places[:PLACES]]
        yield el("p", badge(Status.NOTE), " ", named, " ", prose(finding.verdict.summary), at)
        yield from (el("p", prose(line), class_="quiet advice") for line in _fix(finding))


def _fix(finding: Finding) -> list[str]:
    return finding.fix.split("\n") if finding.fix else []


def _problem(finding: Finding, report: Report) -> Markup:
    check = finding.check
    first = next(f.check.code for f in report.findings if f.fix == finding.fix)
    lines = _fix(finding) if first == check.code else [f"See {first}."]
    return el(
        "li",
        el("h3", badge(finding.status), f" {check.code} {check.slug}"),
        el("p", prose(finding.verdict.summary)),
        _places(finding),
        el("p", el("strong", "Fix: "), prose(lines[0]), class_="fixes"),
        _more(finding, lines[1:]),
        el("p", fix_owner(finding), class_="quiet"),
        el("details", el("summary", "Why, and sources"), _reasons(finding), class_="why"),
        class_=f"is-{finding.status}",
    )


def _places(finding: Finding) -> Markup | str:
    """Where it is, the first places open."""
    items = [el("li", _place(place, finding.verdict.summary)) for place in finding.places]
    if not items:
        return ""
    shown = el("ul", items[:PLACES], class_="places")
    if not (more := items[PLACES:]):
        return shown
    rest = el("ul", more, class_="places")
    return joined([shown, el("details", el("summary", f"and {len(more)} more"), rest)])


def _place(place: Place, summary: str) -> Iterator[Child]:
    yield el("code", str(place))
    yield f", rank {place.rank}" if place.rank is not None else ""
    if place.message != summary:
        yield joined([" ", prose(place.message)])
    if place.text.strip():
        yield el("pre", _quoted(place), class_="quote")


def _quoted(place: Place) -> tuple[Child, ...]:
    """The line, with what is meant in it marked; unmarked where a secret in it is hidden."""
    text = hide_secrets(place.text)
    start, end = place.column - 1, place.end_column - 1
    on_one_line = place.end_line in (0, place.line)
    if HIDDEN in text or not on_one_line or not 0 <= start < end <= len(text):
        return (text.strip(),)
    return (text[:start].lstrip(), el("mark", text[start:end]), text[end:].rstrip())


def _more(finding: Finding, lines: Sequence[str]) -> Iterator[Markup]:
    """Further lines of the fix, and commands: those of one kind in a block, ready to copy.

    Indented lines are a table, whose columns are kept.
    """
    for (is_command, kind, indented), group in groupby(steps(finding, lines), key=_form):
        texts = [text for _, _, text in group]
        if is_command:
            yield el("p", KINDS.get(kind, "Command"), class_="quiet kind")
            yield el("pre", el("code", preformatted(texts)), class_="copy")
        elif indented:
            yield el("pre", preformatted(text[2:] for text in texts))
        else:
            yield from (el("p", prose(text)) for text in texts)


def _form(step: tuple[bool, Kind | None, str]) -> tuple[bool, Kind | None, bool]:
    is_command, kind, text = step
    return is_command, kind, not is_command and text.startswith("  ")


def _reasons(finding: Finding) -> Markup:
    return el("div", el("p", prose(finding.check.why)), cited(finding.sources), class_="inside")


def cited(ids: tuple[str, ...]) -> Markup | str:
    """The sources as a list, "" for none."""
    if not ids:
        return ""
    return el("ul", (el("li", _source(SOURCES[id])) for id in ids), class_="sources")


def _source(source: Source) -> Markup:
    if not source.url:
        return joined([f"document {source.document}: {short_section(source)}"])
    section = f", {source.section}" if source.section else ""
    return joined([el("a", source.title, href=source.url, rel="noreferrer"), section])
