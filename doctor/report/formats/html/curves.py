"""Curves of a watched training: one line of SVG for each quantity, with its range as text."""

from __future__ import annotations

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
    for name, value in QUANTITIES:
        series = [(p.step, float(v)) for p in points if (v := value(p)) is not None]
        if len(series) > 1:
            yield _curve(name, series)


def _curve(name: str, series: list[tuple[int, float]]) -> Markup:
    finite = [(step, value) for step, value in series if math.isfinite(value)]
    bad = [step for step, value in series if not math.isfinite(value)]
    first, last = series[0][0], series[-1][0]
    caption = f"{name}, steps {first:,} to {last:,}"
    if finite:
        values = [value for _, value in finite]
        caption += f": {min(values):.4g} to {max(values):.4g}, last {values[-1]:.4g}"
    if bad:
        caption += f"; not finite in {len(bad):,} recorded steps, first {bad[0]:,}"
    return el(
        "figure",
        el("figcaption", caption),
        el(
            "svg",
            el("polyline", class_="curve", points=_line(finite, first, last)) if finite else "",
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            class_="curves",
            aria_hidden="true",
        ),
        class_="chart",
    )


def _line(series: list[tuple[int, float]], first: int, last: int) -> str:
    """Coordinates of at most `MOST` points."""
    every = max(1, math.ceil(len(series) / MOST))
    low, high = min(v for _, v in series), max(v for _, v in series)
    span = high - low or 1.0
    width = max(1, last - first)
    return " ".join(
        f"{(step - first) / width * WIDTH:.1f},{(1 - (value - low) / span) * (HEIGHT - 4) + 2:.1f}"
        for step, value in series[::every]
    )
