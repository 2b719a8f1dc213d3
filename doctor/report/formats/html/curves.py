"""Curves of a training, watched or logged: one line of SVG for each quantity, its range as text."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from doctor.facts.guard import Guarded, GuardedProcess, GuardPoint
from doctor.facts.log import Curve, Log
from doctor.judge.place import Place
from doctor.report.formats.html.markup import Markup, el

Item = TypeVar("Item")
WIDTH, HEIGHT = 600, 80
MOST = 600
"""Points of a line, and marks of steps without a finite value."""

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
    "loss_scale": "loss scale",
}
"""Curves of a log in the order of the pictures."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A step that a picture marks, and what happened there."""

    step: int
    text: str


def curves(guard: Guarded) -> list[Markup]:
    """The curves of the first rank that recorded any, for its first optimizer."""
    process = next((process for process in guard.processes if process.points), None)
    return list(_curves(process)) if process else []


def _curves(process: GuardedProcess) -> Iterator[Markup]:
    points = [point for point in process.points if point.optimizer == process.points[0].optimizer]
    steps = points[0].step, points[-1].step
    mark = _first_alarm(process, steps)
    for name, value in QUANTITIES:
        series = [(p.step, float(v)) for p in points if (v := value(p)) is not None]
        if len(series) > 1:
            yield _curve(name, series, mark, steps)


def _first_alarm(process: GuardedProcess, steps: tuple[int, int]) -> Mark | None:
    """The step of the earliest failure, or warning, on the curves."""
    alarms = [alarm for alarm in process.alarms if steps[0] <= alarm.step <= steps[1]]
    worst = min(alarms, key=lambda alarm: (alarm.status != "fail", alarm.step), default=None)
    return None if worst is None else Mark(worst.step, worst.code)


def logged_curves(log: Log, code: str, place: Place | None) -> list[Markup]:
    """The curves of one file; the step before `place`, of the finding `code`, is marked.

    The file is the one of the place if it has curves, else the first one with curves.
    """
    paths = [curve.path for curve in log.curves]
    path = place.path if place and place.path in paths else next(iter(paths), "")
    own = [curve for curve in log.curves if curve.path == path and len(curve.values) > 1]
    own.sort(key=lambda curve: list(LOGGED).index(curve.name))
    return [
        _curve(
            LOGGED[curve.name],
            [(step, float(value)) for step, value in zip(curve.steps, curve.values, strict=True)],
            _mark(curve, code, place),
        )
        for curve in own
    ]


def _mark(curve: Curve, code: str, place: Place | None) -> Mark | None:
    """The last step that was logged up to a line; None where the curve has no lines."""
    if place is None or place.path != curve.path or place.line < 1 or not any(curve.lines):
        return None
    at = bisect_right(curve.lines, place.line) - 1
    return Mark(curve.steps[at], f"{code} at line {place.line:,}") if at >= 0 else None


def _curve(
    name: str,
    series: list[tuple[int, float]],
    mark: Mark | None = None,
    steps: tuple[int, int] | None = None,
) -> Markup:
    """One quantity; `steps` are those at the left and right edge, by default its own."""
    finite = [(step, value) for step, value in series if math.isfinite(value)]
    bad = [step for step, value in series if not math.isfinite(value)]
    first, last = steps or (series[0][0], series[-1][0])
    caption = f"{name}, steps {series[0][0]:,} to {series[-1][0]:,}"
    values = [value for _, value in finite]
    if finite and min(values) == max(values):
        caption += f": {values[0]:.4g} throughout"
    elif finite:
        caption += f": {min(values):.4g} to {max(values):.4g}, last {values[-1]:.4g}"
    if bad:
        caption += f"; not finite in {len(bad):,} recorded steps, first {bad[0]:,}"
    if mark:
        caption += f"; marked: step {mark.step:,}, {mark.text}"
    return el(
        "figure",
        el("figcaption", caption),
        el(
            "svg",
            el("polyline", class_="curve", points=_line(finite, first, last)) if finite else "",
            (_tick(step, first, last) for step in _thinned(bad)),
            _upright(mark.step, first, last) if mark else "",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            class_="curves",
            aria_hidden="true",
        ),
        class_="chart",
    )


def _line(series: list[tuple[int, float]], first: int, last: int) -> str:
    """Coordinates of at most `MOST` points."""
    low, high = min(v for _, v in series), max(v for _, v in series)
    span = high - low or 1.0
    return " ".join(
        f"{_x(step, first, last)},{(1 - (value - low) / span) * (HEIGHT - 4) + 2:.1f}"
        for step, value in _thinned(series)
    )


def _thinned(values: list[Item]) -> list[Item]:
    return values[:: max(1, math.ceil(len(values) / MOST))]


def _x(step: int, first: int, last: int) -> str:
    return f"{(step - first) / max(1, last - first) * WIDTH:.1f}"


def _tick(step: int, first: int, last: int) -> Markup:
    """A short line at the bottom for a step without a finite value."""
    return _vertical(_x(step, first, last), HEIGHT * 0.85, "curve-bad")


def _upright(step: int, first: int, last: int) -> Markup:
    return _vertical(_x(step, first, last), 0, "curve-mark")


def _vertical(x: str, top: float, css: str) -> Markup:
    return el("line", class_=css, x1=x, x2=x, y1=f"{top:.0f}", y2=f"{HEIGHT}")
