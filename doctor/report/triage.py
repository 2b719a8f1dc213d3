"""The report of `doctor triage` for people."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor._util.units import shown
from doctor.errors.index import ENTRIES
from doctor.errors.match import row
from doctor.facts.log import Curve, Log
from doctor.judge.check import Finding, Status
from doctor.judge.sources import SOURCES, cite
from doctor.report.footer import footer_lines
from doctor.report.header import header_lines
from doctor.report.line import DEEP, HANG, STYLES, WORDS, Detail, Line
from doctor.report.reason import reason_of
from doctor.report.remedy import fix_lines
from doctor.report.report import Report

LEVELS = "▁▂▃▄▅▆▇█"
WIDTH = 40
NONFINITE = "!"

OUTLOOK = {
    "fix": "fails again in the same way until it is fixed",
    "again": "may succeed as it is, from the last checkpoint",
    "node": "may succeed on another node; keep this one out until it was examined",
}
"""What a restart brings, by `Verdict.retry`."""
CURVES = 6
"""Curves that are drawn, unless verbose."""


def triage_lines(report: Report, detail: Detail) -> Iterator[Line]:
    """The whole report: the first cause first, then what else is known."""
    log = report.facts.log
    if detail != "quiet":
        yield from header_lines(report)
    for finding in report.findings:
        if _is_shown(finding, detail):
            yield Line()
            yield from _finding(finding, detail)
    if isinstance(log, Log) and detail != "quiet":
        yield from _harmless(log)
        yield from _curves(log, detail)
    yield from footer_lines(report)


def _is_shown(finding: Finding, detail: Detail) -> bool:
    if detail == "verbose":
        return True
    shown = finding.is_problem or finding.status is Status.UNKNOWN
    shown |= finding.status is Status.NOTE and detail == "normal"
    return shown and not finding.ignored


def _finding(finding: Finding, detail: Detail) -> Iterator[Line]:
    check, verdict = finding.check, finding.verdict
    head = f"  {WORDS[finding.status]} {check.code} {check.slug}  "
    yield Line(head, verdict.summary, STYLES[finding.status], hang=HANG)
    for number, place in enumerate(finding.places):
        name = f"{place}" + (f", rank {place.rank}" if place.rank is not None else "")
        label = shown(place.message, 200) + ", at " if place.message else "at "
        if number == 0 or place.message:
            yield Line(f"{DEEP}{label}", shown(name, 400), "dim")
        if place.text and (number == 0 or detail == "verbose"):
            yield Line(f"{DEEP}  | ", shown(place.text, 700), "dim")
    if finding.is_problem:
        yield Line(f"{DEEP}why: ", reason_of(finding))
    if finding.fix:
        yield from fix_lines(finding, finding.fix.split("\n"))
        if outlook := OUTLOOK.get(finding.verdict.retry):
            yield Line(f"{DEEP}restart: ", outlook)
        for id in finding.sources:
            yield Line(f"{DEEP}see: ", cite(SOURCES[id]), "dim", "dim")


def _harmless(log: Log) -> Iterator[Line]:
    texts = [event for event in log.harmless if _is_harmless(event.name)]
    if not texts:
        return
    yield Line()
    yield Line("  harmless", "", "bold")
    for event in texts:
        times = f"{event.count:,} × " if event.count > 1 else ""
        yield Line("    ", f"{times}{event.name}: {shown(event.text, 160)}", "dim", "dim")


def _is_harmless(name: str) -> bool:
    """Conditions are listed where they explain something; a facts file may hold any other name."""
    return name not in ENTRIES or row(name).role == "harmless"


def _curves(log: Log, detail: Detail) -> Iterator[Line]:
    drawn = log.curves if detail == "verbose" else [each for each in log.curves if each.steps[1:]]
    if not drawn:
        return
    yield Line()
    yield Line("  curves", "", "bold")
    for curve in drawn if detail == "verbose" else drawn[:CURVES]:
        yield Line(f"    {curve.name:<14}", f"{sparkline(curve)}  {_range(curve)}")


def _range(curve: Curve) -> str:
    if not curve.values:
        return "no values"
    first, last = float(curve.values[0]), float(curve.values[-1])
    if len(curve.values) == 1:
        return f"{first:.4g} at {curve.counts} {curve.steps[0]:,}"
    return f"{first:.4g} -> {last:.4g}, {curve.counts}s {curve.steps[0]:,} to {curve.steps[-1]:,}"


def sparkline(curve: Curve, width: int = WIDTH) -> str:
    """The medians of equal parts of the curve; "!" where a part has a non-finite value."""
    values = [float(value) for value in curve.values]
    size = max(1, math.ceil(len(values) / width))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    middles = [_middle(part) for part in parts]
    finite = [value for value in middles if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_block(value, low, high) for value in middles)


def _middle(part: list[float]) -> float:
    if not all(map(math.isfinite, part)):
        return math.nan
    return sorted(part)[len(part) // 2]


def _block(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return NONFINITE
    share = (value - low) / (high - low) if high > low else 0.0
    return LEVELS[min(len(LEVELS) - 1, int(share * len(LEVELS)))]
