"""Curves of a training, watched or logged: one picture for each quantity."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from doctor.facts.guard import Guarded, GuardedProcess, GuardPoint
from doctor.facts.log import Curve, Log
from doctor.judge.place import Place
from doctor.report.formats.html.markup import Markup
from doctor.report.formats.html.picture import Mark, Series, has_shades, legend, picture

QUANTITIES: tuple[tuple[str, Callable[[GuardPoint], float | str | None]], ...] = (
    ("loss", lambda point: point.loss),
    ("gradient norm", lambda point: point.norm),
    ("learning rate", lambda point: point.rate),
    ("loss scale", lambda point: point.scale),
)
LOGGED = {
    "loss": "loss",
    "grad_norm": "gradient norm",
    "learning_rate": "learning rate",
    "throughput": "throughput",
    "speed": "samples or steps per second",
    "loss_scale": "loss scale",
}
"""Curves of a log in the order of the pictures."""


def curves(guard: Guarded) -> list[Markup]:
    """The curves of the first rank that recorded any, for its first optimizer."""
    process = next((process for process in guard.processes if process.points), None)
    return _curves(process) if process else []


def _curves(process: GuardedProcess) -> list[Markup]:
    points = [point for point in process.points if point.optimizer == process.points[0].optimizer]
    steps = points[0].step, points[-1].step
    alarms: dict[int, str] = {}
    for alarm in process.alarms:
        alarms.setdefault(alarm.step, alarm.code)
    marks = [Mark(step, code) for step, code in sorted(alarms.items())]
    series = [
        (name, [(p.step, float(v)) for p in points if (v := value(p)) is not None])
        for name, value in QUANTITIES
    ]
    return _pictures([pair for pair in series if len(pair[1]) > 1], steps, marks)


def _pictures(
    series: list[tuple[str, Series]], steps: tuple[int, int], marks: list[Mark]
) -> list[Markup]:
    """A picture for each quantity, below a legend where something is marked."""
    pictures = [picture(name, values, steps, marks) for name, values in series]
    shaded = has_shades(values for _, values in series)
    return [legend(marks, shaded=shaded), *pictures] if marks else pictures


def logged_curves(log: Log, code: str, place: Place | None) -> list[Markup]:
    """The curves of one file; the step before `place`, of the finding `code`, is marked.

    The file is the one of the place if it has curves, else the first one with curves.
    """
    paths = [curve.path for curve in log.curves]
    path = place.path if place and place.path in paths else next(iter(paths), "")
    own = [curve for curve in log.curves if curve.path == path and _can_be_drawn(curve)]
    if not own:
        return []
    own.sort(key=lambda curve: list(LOGGED).index(curve.name))
    steps = min(curve.steps[0] for curve in own), max(curve.steps[-1] for curve in own)
    marks = [mark for mark in [_mark(own[0], code, place)] if mark]
    return _pictures([(LOGGED[curve.name], _series(curve)) for curve in own], steps, marks)


def _can_be_drawn(curve: Curve) -> bool:
    """Facts of others may name any curve, and give it more steps than values."""
    return curve.name in LOGGED and 1 < len(curve.values) == len(curve.steps)


def _series(curve: Curve) -> Series:
    return [(step, float(value)) for step, value in zip(curve.steps, curve.values, strict=True)]


def _mark(curve: Curve, code: str, place: Place | None) -> Mark | None:
    """The last step that was logged up to a line; None where the curve has no lines."""
    if place is None or place.path != curve.path or place.line < 1 or not any(curve.lines):
        return None
    at = bisect_right(curve.lines, place.line) - 1
    return Mark(curve.steps[at], f"{code} (line {place.line:,})") if at >= 0 else None
