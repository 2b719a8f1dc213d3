"""What `doctor explain` prints about a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from doctor._util.owner import OWNERS
from doctor._util.units import shown
from doctor.facts.log import Log
from doctor.judge.check import Check, Finding
from doctor.log.collector import UNCAUGHT
from doctor.report.explain import cited, table, wrapped
from doctor.report.reason import reason_of


def explained(
    findings: Iterable[Finding], harmless: Iterable[tuple[str, str]], log: Log, nearest: list[Check]
) -> str:
    """Each class with its cause and fix, then harmless texts, or the nearest checks."""
    parts = ["\n".join(_finding(finding)) for finding in findings]
    parts += [f"harmless ({name}): {why}" for name, why in harmless]
    if not parts and log.curves:
        parts.append("\n".join(_metrics(log)))
    if nearest:
        parts.append("no name; checks in whose texts the words occur:\n\n" + table(nearest))
    return "\n\n".join(parts)


def _finding(finding: Finding) -> Iterator[str]:
    check = finding.check
    yield f"{check.code} {check.slug}"
    if finding.places:
        yield from wrapped(shown(finding.places[0].text, 400), "  | ")
    if check.slug == UNCAUGHT:
        for place in finding.places[1:]:
            said = f"{place.message}: {place.path}:{place.line}: {shown(place.text, 200)}"
            yield from wrapped(said, "  | ")
    yield ""
    yield from wrapped(reason_of(finding), "")
    yield ""
    yield from wrapped(finding.headline_fix, "Fix: ", indent=2)
    for command in finding.commands:
        yield f"  $ {command}"
    yield ""
    yield f"Fix owner: {OWNERS[finding.owner]}"
    if finding.sources:
        yield "Sources:"
        for id in finding.sources:
            yield from cited(id)


def _metrics(log: Log) -> Iterator[str]:
    finite = all(math.isfinite(float(value)) for curve in log.curves for value in curve.values)
    if finite:
        yield "metrics, of which a few values decide nothing; `doctor triage` reads a log:"
    else:
        yield (
            "metrics, of which some are NaN or infinite: only the first steps of an fp16 loss "
            "scaler explain that; give the whole log to `doctor triage`"
        )
    for curve in log.curves:
        yield f"  {curve.name} {', '.join(str(value) for value in curve.values[:8])}"
