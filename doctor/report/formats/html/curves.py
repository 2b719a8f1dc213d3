"""Curves of a watched training: one line of SVG for each quantity, with its range as text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from doctor.facts.guard import Guarded, GuardedProcess, GuardPoint
from doctor.report.formats.html.markup import Markup, el

WIDTH, HEIGHT = 600, 80
MOST = 600
"""Points of a line."""

QUANTITIES: tuple[tuple[str, Callable[[GuardPoint], float | str | None]], ...] = (
    ("loss", lambda point: point.loss),
    ("gradient norm", lambda point: point.norm),
    ("learning rate", lambda point: point.rate),
    ("loss scale", lambda point: point.scale),
)


def curves(guard: Guarded) -> list[Markup]:
    """The curves of the first rank that recorded any, for its first optimizer."""
    process = next((process for process in guard.processes if process.points), None)
    return list(_curves(process)) if process else []


def _curves(process: GuardedProcess) -> Iterator[Markup]:
    points = [point for point in process.points if point.optimizer == process.points[0].optimizer]
    steps = points[0].step, points[-1].step
    alarms: dict[int, str] = {}
    for alarm in process.alarms:
        alarms.setdefault(alarm.step, alarm.code)
    if alarms:
        named = ", ".join(f"{code} at step {step:,}" for step, code in sorted(alarms.items()))
        yield el("p", f"Dashed lines: {named}. Shaded: values that are not finite.", class_="quiet")
    for name, value in QUANTITIES:
        series = [(p.step, float(v)) for p in points if (v := value(p)) is not None]
        if len(series) > 1:
            yield _curve(name, series, steps, sorted(alarms))


def _curve(
    name: str, series: list[tuple[int, float]], steps: tuple[int, int], alarms: list[int]
) -> Markup:
    """One quantity; all have the same steps from left to right."""
    scale = _Scale(steps, [value for _, value in series if math.isfinite(value)])
    return el(
        "figure",
        el("figcaption", _caption(name, series)),
        el(
            "svg",
            [_shade(scale, run) for finite, run in _runs(series) if not finite],
            [_dashed(scale, step) for step in alarms if steps[0] <= step <= steps[1]],
            [_line(scale, run) for finite, run in _runs(series) if finite],
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            class_="curves",
            aria_hidden="true",
        ),
        class_="chart",
    )


def _caption(name: str, series: list[tuple[int, float]]) -> str:
    values = [value for _, value in series if math.isfinite(value)]
    bad = [step for step, value in series if not math.isfinite(value)]
    caption = f"{name}, steps {series[0][0]:,} to {series[-1][0]:,}"
    if values and min(values) == max(values):
        caption += f": {values[0]:.4g} throughout"
    elif values:
        caption += f": {min(values):.4g} to {max(values):.4g}, last {values[-1]:.4g}"
    if bad:
        caption += f"; not finite in {len(bad):,} recorded steps, first {bad[0]:,}"
    return caption


class _Scale:
    """Steps and values -> coordinates."""

    def __init__(self, steps: tuple[int, int], values: list[float]) -> None:
        self.first, self.width = steps[0], max(1, steps[1] - steps[0])
        self.low, high = min(values, default=0.0), max(values, default=0.0)
        self.span = high - self.low or 1.0

    def x(self, step: int) -> str:
        """From the left."""
        return f"{(step - self.first) / self.width * WIDTH:.1f}"

    def y(self, value: float) -> str:
        """From the top."""
        return f"{(1 - (value - self.low) / self.span) * (HEIGHT - 4) + 2:.1f}"


def _runs(series: list[tuple[int, float]]) -> Iterator[tuple[bool, list[tuple[int, float]]]]:
    """Stretches of finite and of other values."""
    every = max(1, math.ceil(len(series) / MOST))
    for finite, run in itertools.groupby(series[::every], lambda pair: math.isfinite(pair[1])):
        yield finite, list(run)


def _line(scale: _Scale, run: list[tuple[int, float]]) -> Markup:
    points = " ".join(f"{scale.x(step)},{scale.y(value)}" for step, value in run)
    return el("polyline", class_="curve", points=points)


def _shade(scale: _Scale, run: list[tuple[int, float]]) -> Markup:
    left, right = float(scale.x(run[0][0])), float(scale.x(run[-1][0]))
    return el(
        "rect", class_="nonfinite", x=f"{left:.1f}", y="0", width=f"{max(2.0, right - left):.1f}",
        height=str(HEIGHT),
    )  # fmt: skip


def _dashed(scale: _Scale, step: int) -> Markup:
    x = scale.x(step)
    return el("line", class_="alarm", x1=x, x2=x, y1="0", y2=str(HEIGHT))
