"""A series of values as a curve over the steps, with axes, and its range as text.

The curve is SVG that stretches with the page; the numbers beside and below it do not stretch, so
each axis is an element of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.report.formats.html.markup import Markup, el

WIDTH, HEIGHT = 600, 100
MARGIN = 6
"""Units above and below the curve."""
MOST = 600
"""Points of a line."""
FEW = 40
"""Points up to which each one is drawn as a dot."""
Series = list[tuple[int, float]]
"""Steps and values."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A step with a dashed line, and what happened there."""

    step: int
    text: str


def legend(marks: Iterable[Mark], *, shaded: bool) -> Markup:
    """What the dashed lines and the shades of the pictures below mean."""
    named = ", ".join(f"{mark.text} at step {mark.step:,}" for mark in marks)
    text = f"Dashed lines: {named}."
    return el("p", text + " Shaded: values that are not finite." * shaded, class_="quiet")


def has_shades(pictures: Iterable[Series]) -> bool:
    """Whether one of the quantities was not finite at a step."""
    return not all(math.isfinite(value) for series in pictures for _, value in series)


def picture(name: str, series: Series, steps: tuple[int, int], marks: Iterable[Mark]) -> Markup:
    """One quantity between two steps; what is not finite is shaded, the marks are dashed."""
    scale = _Scale(steps, [value for _, value in series if math.isfinite(value)])
    every = max(1, math.ceil(len(series) / MOST))
    runs = [(finite, run[::every]) for finite, run in _runs(series)]
    curve = el(
        "svg",
        [_rule(scale, value) for value in scale.values],
        [_shade(scale, run) for finite, run in runs if not finite],
        [_dashed(scale, mark.step) for mark in marks if steps[0] <= mark.step <= steps[1]],
        [_line(scale, run) for finite, run in runs if finite],
        [_dots(scale, run) for finite, run in runs if finite and len(series) <= FEW],
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        class_="curves",
        aria_hidden="true",
    )
    plot = el("div", _values(scale), curve, _steps(scale), class_="plot")
    return el("figure", el("figcaption", _caption(name, series)), plot, class_="chart")


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
    """Steps and values -> coordinates, and the numbers that the axes have."""

    def __init__(self, steps: tuple[int, int], values: list[float]) -> None:
        self.first, self.width = steps[0], max(1, steps[1] - steps[0])
        low, high = min(values, default=0.0), max(values, default=0.0)
        around = 0.0 if high > low else abs(low) / 2 or 1.0  # a constant is in the middle
        self.low, self.span = low - around, high - low + 2 * around
        self.values = _round_numbers(low, high, 4) if values else []
        self.steps = [round(step) for step in _round_numbers(steps[0], steps[1], 5)]

    def x(self, step: int) -> float:
        """From the left, of 1."""
        return (step - self.first) / self.width

    def y(self, value: float) -> float:
        """From the top, of `HEIGHT`."""
        inner = HEIGHT - 2 * MARGIN
        return (1 - (value - self.low) / self.span) * inner + MARGIN

    def point(self, step: int, value: float) -> str:
        return f"{self.x(step) * WIDTH:.1f},{self.y(value):.1f}"


def _round_numbers(low: float, high: float, most: int) -> list[float]:
    """At most `most` multiples of 1, 2 or 5 times a power of ten from low to high; low alone where
    both are the same.
    """
    if not high > low or not math.isfinite(high - low):
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for unit in (power, 2 * power, 5 * power, 10 * power, 20 * power):
        first, last = math.ceil(low / unit), math.floor(high / unit)
        if last - first < most:
            return [number * unit for number in range(first, last + 1)]
    return [low, high]


def _values(scale: _Scale) -> Markup:
    """The numbers of the vertical axis, to the left of the curve."""
    texts = [
        el("text", f"{value:.4g}", x="100%", y=f"{scale.y(value) / HEIGHT:.1%}", dy=".35em")
        for value in scale.values
    ]
    return el("svg", texts, class_="values", aria_hidden="true")


def _steps(scale: _Scale) -> Markup:
    """The numbers of the horizontal axis, below the curve."""
    texts = []
    for number, step in enumerate(scale.steps):
        at = scale.x(step)
        anchor = "start" if at < 0.05 else "end" if at > 0.95 else "middle"
        text = f"{'step ' * (number == 0)}{step:,}"
        texts.append(el("text", text, x=f"{at:.1%}", y="1em", text_anchor=anchor))
    return el("svg", texts, class_="steps", aria_hidden="true")


def _runs(series: Series) -> Iterator[tuple[bool, Series]]:
    """Stretches of finite and of other values."""
    for finite, run in itertools.groupby(series, lambda pair: math.isfinite(pair[1])):
        yield finite, list(run)


def _line(scale: _Scale, run: Series) -> Markup:
    points = " ".join(scale.point(step, value) for step, value in run)
    return el("polyline", class_="curve", points=points)


def _dots(scale: _Scale, run: Series) -> Markup:
    """A dot is a line without length, whose round ends the stretching leaves round."""
    return el("path", class_="dots", d="".join(f"M{scale.point(*pair)}h0" for pair in run))


def _shade(scale: _Scale, run: Series) -> Markup:
    left, right = scale.x(run[0][0]) * WIDTH, scale.x(run[-1][0]) * WIDTH
    width = f"{max(2.0, right - left):.1f}"
    return el("rect", class_="nonfinite", x=f"{left:.1f}", y="0", width=width, height=str(HEIGHT))


def _rule(scale: _Scale, value: float) -> Markup:
    y = f"{scale.y(value):.1f}"
    return el("line", class_="rule", x1="0", x2=str(WIDTH), y1=y, y2=y)


def _dashed(scale: _Scale, step: int) -> Markup:
    x = f"{scale.x(step) * WIDTH:.1f}"
    return el("line", class_="mark", x1=x, x2=x, y1="0", y2=str(HEIGHT))
