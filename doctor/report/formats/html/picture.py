"""A series of values as one line of SVG, with its range as text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.report.formats.html.markup import Markup, el

WIDTH, HEIGHT = 600, 80
MOST = 600
"""Points of a line."""
Series = list[tuple[int, float]]
"""Steps and values."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A step with a dashed line, and what happened there."""

    step: int
    text: str


def legend(marks: Iterable[Mark]) -> Markup:
    """What the dashed lines and the shades of the pictures below mean."""
    named = ", ".join(f"{mark.text} at step {mark.step:,}" for mark in marks)
    text = f"Dashed lines: {named}. Shaded: values that are not finite."
    return el("p", text, class_="quiet")


def picture(name: str, series: Series, steps: tuple[int, int], marks: Iterable[Mark]) -> Markup:
    """One quantity between two steps; what is not finite is shaded, the marks are dashed."""
    scale = _Scale(steps, [value for _, value in series if math.isfinite(value)])
    every = max(1, math.ceil(len(series) / MOST))
    runs = [(finite, run[::every]) for finite, run in _runs(series)]
    return el(
        "figure",
        el("figcaption", _caption(name, series)),
        el(
            "svg",
            [_shade(scale, run) for finite, run in runs if not finite],
            [_dashed(scale, mark.step) for mark in marks if steps[0] <= mark.step <= steps[1]],
            [_line(scale, run) for finite, run in runs if finite],
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            class_="curves",
            aria_hidden="true",
        ),
        class_="chart",
    )


def _caption(name: str, series: Series) -> str:
    values = [value for _, value in series if math.isfinite(value)]
    bad = [step for step, value in series if not math.isfinite(value)]
    caption = f"{name}, steps {series[0][0]:,} to {series[-1][0]:,}"
    if values and min(values) == max(values):
        caption += f": {values[0]:.4g} {'where finite' if bad else 'throughout'}"
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


def _runs(series: Series) -> Iterator[tuple[bool, Series]]:
    """Stretches of finite and of other values."""
    for finite, run in itertools.groupby(series, lambda pair: math.isfinite(pair[1])):
        yield finite, list(run)


def _line(scale: _Scale, run: Series) -> Markup:
    points = " ".join(f"{scale.x(step)},{scale.y(value)}" for step, value in run)
    return el("polyline", class_="curve", points=points)


def _shade(scale: _Scale, run: Series) -> Markup:
    left, right = float(scale.x(run[0][0])), float(scale.x(run[-1][0]))
    width = f"{max(2.0, right - left):.1f}"
    return el("rect", class_="nonfinite", x=f"{left:.1f}", y="0", width=width, height=str(HEIGHT))


def _dashed(scale: _Scale, step: int) -> Markup:
    x = scale.x(step)
    return el("line", class_="mark", x1=x, x2=x, y1="0", y2=str(HEIGHT))
