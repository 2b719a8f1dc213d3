"""Curves of a log, and verdicts over all of one metric."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from doctor._util.median import median
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
    step = "" if _is_alone(curve) else f" at {curve.counts} {curve.steps[at]}"
    text = f"{curve.name} {curve.values[at]}{step}"
    line = curve.lines[at] if curve.lines else 0
    return Place(path=curve.path, line=line, rank=curve.rank, text=text, message=message)


def step_at(curve: Curve, at: int) -> str:
    return f"{'row' if _is_alone(curve) else curve.counts} {curve.steps[at]:,} ({curve.path})"


def _is_alone(curve: Curve) -> bool:
    """A single row whose step is that of its place in the text, as far as is known."""
    return curve.steps == (1,)


def each_curve(log: Log, name: str, judge: Callable[[Curve], Verdict]) -> Verdict:
    """The worst verdict over the curves of a metric, with the places of all."""
    curves = [curve for curve in log.curves if curve.name == name and curve.values]
    verdicts = [judge(part) for curve in curves for part in runs_of(log, curve)]
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


def states(log: Log, name: str) -> bool:
    """Whether a line says so: that a schedule restarts, or that the training goes in stages."""
    return any(each.name == name for each in log.stated)


def sequences_grow(log: Log, curve: Curve) -> bool:
    """Whether the same file says that the samples become longer or larger."""
    lengths = partner(log, curve, "sequence_length")
    values = finite_of(lengths)[0] if lengths is not None else []
    early, late = series.thirds(values or [0.0])
    return late > early


ERRORS = re.compile(r"loss|error|wer$|cer$")
"""Curves of an evaluation that fall as it improves; scores rise."""


LEARNED, AT_FIRST = 1.2, 5
"""By what an evaluation is better than its first values, so that something was learned. Our own
numbers."""


def improves_beside(log: Log, loss: Curve, *, itself: bool = True) -> bool:
    """An evaluation is better in the last third of the log than ever before; one whose loss is
    judged may be left out."""
    return any(
        median(values[-third:]) > max(values[:-third])
        for values in _evaluations(log, loss, "" if itself else loss.name)
        if (third := len(values) // 3) >= 2
    )


def worsens_beside(log: Log, loss: Curve) -> bool:
    """A score of the evaluation is worse in the last third of the log than before: another one
    that still improves does not make up for it."""
    for curve in log.curves:
        if curve.path != loss.path or not curve.name.startswith("score:"):
            continue
        sign = -1 if ERRORS.search(curve.name) else 1
        values = [sign * value for value in finite_of(curve)[0]]
        third = len(values) // 3
        if third >= 2 and max(values[:-third]) > max(values[-third:]):
            return True
    return False


def learned_beside(log: Log, loss: Curve) -> bool:
    """An evaluation is far better in the last third of the log than at its start."""
    for values in _evaluations(log, loss):
        first, last = median(values[:AT_FIRST]), median(values[-(len(values) // 3) - 1 :])
        better = last > LEARNED * first if first > 0 else LEARNED * last > first
        if len(values) >= 2 * AT_FIRST and last > first and better:
            return True
    return False


FEWER, AT_LAST = 0.95, 3
"""Share of the errors that are left where a score is better beyond its noise, and evaluations at
the end whose median counts. Our own numbers."""


def scores_better_since(log: Log, held_out: Curve, at: int) -> bool:
    """Each score has certainly fewer errors at last than at any evaluation up to this one."""
    if not held_out.lines or at + 1 >= len(held_out.lines):
        return False
    until, better = held_out.lines[at + 1], []
    for curve in log.curves:
        if curve.path == held_out.path and curve.name.startswith("score:") and curve.lines:
            values = values_of(curve)
            if not ERRORS.search(curve.name):
                whole = 1 if max(values) <= 1 else 100
                values = [whole - value for value in values]
            split = bisect_left(curve.lines, until)
            before, after = values[:split], values[split:]
            better.append(bool(before and after) and median(after[-AT_LAST:]) < FEWER * min(before))
    return bool(better) and all(better)


def _evaluations(log: Log, loss: Curve, but: str = "") -> Iterator[list[float]]:
    """The values of each evaluation in the same file but one; higher ones are better."""
    for curve in log.curves:
        own = curve.path == loss.path and curve.name != but
        if own and curve.name.startswith(("score:", "eval_loss")):
            sign = -1 if ERRORS.search(curve.name) else 1
            if values := finite_of(curve)[0]:
                yield [sign * value for value in values]


def too_few(curve: Curve) -> Verdict | None:
    if len(curve.values) < series.FEWEST:
        return skip(f"{len(curve.values)} values; fewer than {series.FEWEST} are not judged")
    return None


def partner(log: Log, curve: Curve, name: str) -> Curve | None:
    """The curve of another metric from the same file, and from the same run in it."""
    found = next(
        (each for each in log.curves if each.name == name and each.path == curve.path), None
    )
    starts = _starts(log, curve.path)
    if found is None or not starts or not curve.lines:
        return found
    run = bisect_right(starts, curve.lines[0])
    if run != bisect_right(starts, curve.lines[-1]):
        return found
    return _part(found, starts, run)


def _starts(log: Log, path: str) -> tuple[int, ...]:
    return next((file.starts for file in log.files if file.path == path), ())


def runs_of(log: Log, curve: Curve) -> list[Curve]:
    """The curve of each training, where one log has several that began with new weights."""
    starts = _starts(log, curve.path)
    if not starts or len(curve.lines) != len(curve.values):
        return [curve]
    runs = dict.fromkeys(bisect_right(starts, line) for line in curve.lines)
    return [part for run in runs if (part := _part(curve, starts, run))]


def _part(curve: Curve, starts: tuple[int, ...], run: int) -> Curve | None:
    """The values between two lines that begin a run: lines ascend, so that each is found at once
    in a log of a thousand restarts."""
    first = bisect_left(curve.lines, starts[run - 1]) if run else 0
    end = bisect_left(curve.lines, starts[run]) if run < len(starts) else len(curve.lines)
    if end - first == len(curve.lines):
        return curve if curve.lines else None
    part = slice(first, end)
    return (
        replace(
            curve,
            steps=curve.steps[part],
            values=curve.values[part],
            lines=curve.lines[part],
            points=(end - first) * curve.thinned,
        )
        if end > first
        else None
    )
