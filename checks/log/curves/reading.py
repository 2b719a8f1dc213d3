"""Curves of a log, and verdicts over all of one metric."""

from __future__ import annotations

import math
from collections.abc import Callable

from doctor.checks.log import series
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, skip
from doctor.judge.combine import worst
from doctor.judge.place import Place


def values_of(curve: Curve) -> list[float]:
    return [float(value) for value in curve.values]


def finite_of(curve: Curve) -> tuple[list[float], list[int]]:
    """The finite values, and their indices."""
    pairs = [(value, at) for at, value in enumerate(values_of(curve)) if math.isfinite(value)]
    return [value for value, _ in pairs], [at for _, at in pairs]


def place_at(curve: Curve, at: int, message: str = "") -> Place:
    text = f"{curve.name} {curve.values[at]} at step {curve.steps[at]}"
    line = curve.lines[at] if curve.lines else 0
    return Place(path=curve.path, line=line, rank=curve.rank, text=text, message=message)


def step_at(curve: Curve, at: int) -> str:
    return f"step {curve.steps[at]:,} ({curve.path})"


def each_curve(log: Log, name: str, judge: Callable[[Curve], Verdict]) -> Verdict:
    """The worst verdict over the curves of a metric, with the places of all."""
    verdicts = [judge(curve) for curve in log.curves if curve.name == name and curve.values]
    if not verdicts:
        return skip(f"the log has no {name.replace('_', ' ')}")
    if len(verdicts) == 1:
        return verdicts[0]
    combined = worst(*verdicts)
    alike = [each for each in verdicts if each.status is combined.status]
    places = tuple(place for each in alike for place in each.places)
    more = f" (and in {len(alike) - 1:,} more)" if len(alike) > 1 else ""
    return Verdict(
        combined.status,
        alike[0].summary + more,
        fix=alike[0].fix,
        owner=combined.owner,
        places=places[:20],
    )


def too_few(curve: Curve) -> Verdict | None:
    if len(curve.values) < series.FEWEST:
        return skip(f"{len(curve.values)} values; fewer than {series.FEWEST} are not judged")
    return None


def partner(log: Log, curve: Curve, name: str) -> Curve | None:
    """The curve of another metric from the same file."""
    return next(
        (each for each in log.curves if each.name == name and each.path == curve.path), None
    )
