"""One place where two kinds of a dimension meet, with both and the conversion."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.checks.script.kinds.conversions import remedy
from doctor.checks.script.kinds.dimensions import OF, Kind
from doctor.checks.script.kinds.known import Known
from doctor.checks.script.rule import Match, Severity
from doctor.facts.script import Span

UNITS = {"time", "size", "angle", "share"}


@dataclass(frozen=True, slots=True)
class Clash:
    """`code`: of the rule that has always reported this, "" for that of the dimension's family."""

    dimension: str
    match: Match
    code: str = ""


def clash(
    span: Span,
    what: str,
    wanted: Kind,
    known: Known,
    code: str = "",
    severity: Severity | None = None,
) -> Clash:
    """What takes one kind and gets another."""
    dimension = OF[known.kind.name].name
    fix = remedy(known.kind.name, wanted.name, units=dimension in UNITS)
    message = f"{what} {wanted.name}, and gets {known.kind.name} ({known.origin})"
    return Clash(dimension, Match(span, message, severity, fix=fix), code)
