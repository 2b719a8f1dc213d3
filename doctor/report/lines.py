"""The report as lines for people: what the terminal and the plain format share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from doctor import __version__
from doctor._util.records import Unknown
from doctor._util.units import gib, shown
from doctor.facts.machine import Driver, Host, Torch
from doctor.facts.views import JobGpus
from doctor.judge.catalog import FAMILIES
from doctor.judge.check import Finding, Status
from doctor.judge.sources import SOURCES, cite, short_section
from doctor.report.report import Report

Detail = Literal["quiet", "normal", "verbose"]

WORDS = {
    Status.PASS: "pass",
    Status.WARN: "WARN",
    Status.FAIL: "FAIL",
    Status.SKIP: "skip",
    Status.UNKNOWN: "????",
}
STYLES = {
    Status.PASS: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.SKIP: "dim",
    Status.UNKNOWN: "magenta",
}
SECONDS_SHOWN = 1.0
DEEP = " " * 7


@dataclass(frozen=True, slots=True)
class Line:
    """A styled prefix, and a body that is wrapped; its later lines begin at `indent`."""

    prefix: str = ""
    body: str = ""
    style: str = ""
    body_style: str = ""
    hang: int | None = None

    @property
    def indent(self) -> int:
        """Columns before the later lines: the prefix's, unless `hang` says less."""
        return len(self.prefix) if self.hang is None else self.hang

    def wrapped(self, width: int | None) -> list[str]:
        """The body's lines, the whole line in `width` columns; addresses stay whole."""
        if width is None or width <= len(self.prefix) + 20:
            return [self.body]
        room = " " * (len(self.prefix) - self.indent)
        lines = textwrap.wrap(
            self.body,
            width - self.indent,
            initial_indent=room,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [lines[0][len(room) :], *lines[1:]] if lines else [""]


def report_lines(report: Report, detail: Detail = "normal") -> Iterator[Line]:
    """The whole report; quiet leaves out what is well, verbose shows every check's sources."""
    if detail != "quiet":
        yield from _header(report)
    else:
        yield from _notes(report)
    for family, findings in groupby(report.findings, key=lambda finding: finding.check.family):
        yield from family_lines(family, list(findings), detail, annotate=report.annotate)
    yield from footer_lines(report)


def _header(report: Report) -> Iterator[Line]:
    facts = report.facts
    replayed = f", judging {report.replayed} ({facts.origin})" if report.replayed else ""
    yield Line(f"doctor {__version__}{replayed}", "", "bold")
    for name, said in header_parts(report):
        yield Line(f"  {name:<9}", said)


def _notes(report: Report) -> Iterator[Line]:
    """What was left out or not read: without it a quiet READY would promise too much."""
    for note in report.notes:
        yield Line("note ", shown(note, 500))


def header_parts(report: Report) -> Iterator[tuple[str, str]]:
    """What was examined: the machine, the interpreter, the job."""
    facts = report.facts
    yield "machine", " · ".join(_machine(report))
    torch = f"torch {facts.torch.version}" if isinstance(facts.torch, Torch) else "no torch"
    if not isinstance(facts.interpreter, Unknown):
        asked = f"{facts.interpreter.path} ({facts.interpreter.chosen})"
        version = facts.interpreter.version
        parts = [asked, f"Python {version}" if version else "", torch]
        yield "python", " · ".join(filter(None, parts))
    yield "job", " · ".join(_job(report))
    if report.config:
        yield "job file", shown(report.config, 500)
    for note in report.notes:
        yield "note", shown(note, 500)


def _machine(report: Report) -> Iterator[str]:
    facts = report.facts
    host = facts.host
    if isinstance(host, Host):
        yield f"{host.system} {host.arch}".strip()
        cpus = [count for count in (host.cpus, host.cgroup_cpus) if count]
        if cpus:
            yield f"{min(cpus):g} CPUs"
        limits = [size for size in (host.memory_total, host.cgroup_memory_limit) if size]
        if limits:
            yield f"{gib(min(limits))} memory"
    if isinstance(facts.driver, Driver) and facts.driver.version:
        yield f"driver {facts.driver.version}"
    gpus = facts.job_gpus
    if isinstance(gpus, JobGpus):
        for (name, size), same in groupby(gpus.gpus, key=lambda gpu: (gpu.name, gpu.memory_total)):
            yield f"{len(list(same))} × {name}" + (f" {gib(size)}" if size else "")


def _job(report: Report) -> Iterator[str]:
    facts = report.facts
    yield f"{facts.target.kind} ({facts.target.why})"
    chosen = facts.chosen
    if isinstance(chosen, Unknown):
        yield f"precision unknown: {chosen.reason}"
    else:
        yield f"{chosen.precision} ({chosen.why})"
    yield f"recipe {facts.job.recipe or 'amp (assumed)'}"


def family_lines(
    family: str, findings: list[Finding], detail: Detail, *, annotate: bool = False
) -> Iterator[Line]:
    """The findings of one family below its name."""
    findings = _worth_telling(family, findings, detail)
    if not findings:
        return
    yield Line()
    yield Line(FAMILIES.get(family, family), "", "bold")
    told: dict[str, str] = {}
    for silent, group in groupby(findings, key=told_once):
        members = list(group)
        if silent and len(members) > 1 and detail != "verbose":
            yield _folded(members)
            continue
        for finding in members:
            first = told.setdefault(finding.fix, finding.check.code)
            yield from _finding(finding, detail, first)
            yield from _limits(finding) if annotate else ()


def _limits(finding: Finding) -> Iterator[Line]:
    if finding.limits:
        yield Line(f"{DEEP}no proof ", finding.limits, "dim", "dim")


def _worth_telling(family: str, findings: list[Finding], detail: Detail) -> list[Finding]:
    """Verbose tells all; else what is ignored is counted only, and what nobody expects is not."""
    if detail == "verbose":
        return findings
    if detail == "quiet":
        findings = [f for f in findings if f.complains or f.status is Status.UNKNOWN]
    counted = [finding for finding in findings if not finding.ignored]
    expects = family != "JOB" or any(f.status is not Status.SKIP for f in counted)
    return counted if expects else []


def told_once(finding: Finding) -> tuple[Status, str] | None:
    """Findings that say the same for the same reason are shown once."""
    if finding.status in (Status.SKIP, Status.UNKNOWN) and not finding.ignored:
        return finding.status, finding.verdict.summary
    return None


def _folded(members: list[Finding]) -> Line:
    status = members[0].status
    codes = f"{members[0].check.code}-{members[-1].check.code[3:]}"
    return Line(f"  {WORDS[status]} {codes}  ", members[0].verdict.summary, STYLES[status])


def _finding(finding: Finding, detail: Detail, first: str) -> Iterator[Line]:
    """One finding; `first` is the code above whose remedy is the same, or its own."""
    status, check = finding.status, finding.check
    seconds = finding.verdict.seconds
    told = f"{seconds:.0f} s" in finding.verdict.summary
    spent = f" ({seconds:.1f} s)" if seconds >= SECONDS_SHOWN and not told else ""
    head = f"  {WORDS[status]} {check.code} {check.slug}  "
    yield Line(head, f"{finding.verdict.summary}{spent}", STYLES[status], hang=len(DEEP) * 2)
    if finding.ignored:
        yield Line(f"{DEEP}ignored: ", shown(finding.ignored, 300), "dim")
    elif finding.complains:
        same = [f"as {first} above"] if first != check.code else finding.fix.splitlines()
        yield Line(f"{DEEP}fix: ", same[0])
        for line in same[1:]:
            yield Line(f"{DEEP}     ", line)
        for command in finding.commands:
            yield Line(f"{DEEP}  $ ", command, "dim", "bold")
    if finding.complains or detail == "verbose":
        yield from _sources(finding, detail)


def _sources(finding: Finding, detail: Detail) -> Iterator[Line]:
    """Sections of one document in one line, then the addresses; what is wrong in them if asked."""
    cited = [SOURCES[id] for id in finding.sources]
    for document, group in groupby(
        (source for source in cited if source.document), key=lambda source: source.document
    ):
        said = "; ".join(short_section(source) for source in group)
        yield Line(f"{DEEP}see: ", f"document {document}: {said}", "dim", "dim")
    for source in cited:
        if source.url:
            yield Line(f"{DEEP}see: ", cite(source), "dim", "dim")
    wrong = [source for source in cited if source.correction]
    if wrong and detail != "verbose":
        less = f"parts of these documents are wrong: doctor explain {finding.check.code}"
        yield Line(f"{DEEP}but: ", less, "dim", "dim")
        return
    for source in wrong:
        yield Line(f"{DEEP}but: ", source.correction, "dim", "dim")


def footer_lines(report: Report) -> Iterator[Line]:
    """Counts, the verdict and what to do now."""
    counts = report.counts
    said = " · ".join(f"{count} {word}" for word, count in counts.items() if count)
    yield Line()
    yield Line("", f"{said} · {report.facts.seconds:.1f} s")
    style = {"ready": "bold green", "unknown": "bold magenta"}.get(report.outcome, "bold red")
    yield Line(f"{report.outcome.upper()}: ", report.next_action, style)
