"""A loss that rose for good before what ended the run: that is a consequence."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.checks.log import series
from doctor.checks.log.curves.reading import finite_of, partner, place_at
from doctor.checks.log.differential.run import Run
from doctor.facts.log import Curve, Log, LogEvent
from doctor.judge.place import Place

OF_NUMBERS = ("scaler-collapse", "stopped-at-nan")
"""Classes of lines with which a run ends that diverged."""
ABOVE, LEAD = 1.2, 3
"""Of the level before: from there on a value is of the rise; and values of it before the end. Our
own numbers."""
SYMPTOM = "loss-divergence"
AT_FIRST = (
    "The loss rose before that, so begin with what made it rise: go back to a checkpoint before "
    "step {step}, and go on with a lower learning rate (a fifth to a tenth{of}) and a longer "
    "warm-up; look at the batches there. Another precision does not hold a run that diverges."
)


@dataclass(frozen=True, slots=True)
class Rise:
    """Where the loss began to rise for good."""

    summary: str
    fix: str
    place: Place


def rose_before(log: Log, event: LogEvent) -> Rise | None:
    """Of a run that an overflow or NaN ended."""
    own = (each for each in log.curves if each.name == "loss" and each.path == event.path)
    loss = next((each for each in own if each.lines), None)
    if event.name not in OF_NUMBERS or loss is None:
        return None
    values, places = finite_of(loss)
    before = sum(loss.lines[at] < event.line for at in places)
    spikes = series.spikes(values[:before])
    if not spikes or not spikes[-1].severe:
        return None
    first, typical = spikes[-1].first, spikes[-1].typical
    while first and values[first - 1] > ABOVE * typical:
        first -= 1
    if before - first < LEAD or min(values[first:before]) <= ABOVE * typical:
        return None
    step = f"{loss.steps[places[first]]:,}"
    summary = f"the loss had risen from {typical:.4g} to {max(values[first:before]):.4g} from step "
    summary += step + _without_overflow(log, loss, [places[first - 1], places[first + LEAD - 1]])
    return Rise(
        summary,
        AT_FIRST.format(step=step, of=_rate(log, event)),
        place_at(loss, places[first], "the loss rises from here on"),
    )


def _without_overflow(log: Log, loss: Curve, around: list[int]) -> str:
    """That the scale was not lowered while the loss began to rise."""
    scale = partner(log, loss, "loss_scale")
    start, end = (loss.lines[at] for at in around)
    if scale is None or any(start < line < end for line in scale.lines):
        return " on"
    return " on, before any gradient overflowed there"


def _rate(log: Log, event: LogEvent) -> str:
    rate = Run(log, event.path, event.line).rate
    return f" of {rate.text}" if rate is not None and rate.number else " of this one"
