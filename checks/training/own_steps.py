"""What the steps of the user's own training show beyond their end: divergence, growing memory."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from doctor.checks.training import own_trials as tried
from doctor.checks.training.own_rates import too_fast
from doctor.checks.training.own_trend import cause_in_losses, inverted_masks, unbounded
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Smoke
from doctor.judge.check import Verdict, warn

ENOUGH_STEPS = 7
"""Steps that show a trend: allocators grow in the first ones of every run. Our own number."""
GROWTH = 256 * 1024
"""Bytes per step; a training that keeps the graph of each step holds far more."""

STEADY = 8
"""A kept graph grows by about the same in each step; batches that are routed otherwise in each step
grow now and then. Our own number."""

GROWTH_FIX = (
    "Keep no tensor of a step that has a graph: write total += loss.item() instead of total += "
    "loss, and detach() what is stored in a list or as the state of the next step."
)


def memory_growth(own: OwnModel) -> int:
    """Bytes by which memory grows in each of the last steps; 0 if it does not, or is unknown."""
    used = own.trend.resident if own.trend else ()
    steps = len(used) - 1
    if steps < ENOUGH_STEPS or any(after < before for before, after in pairwise(used)):
        return 0
    each = (used[-1] - used[0]) // steps
    grown = sum(after - before > each // STEADY for before, after in pairwise(used))
    return each if each >= GROWTH and grown >= steps - 1 else 0


def over_the_steps(own: OwnModel, steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on finite steps: a warning if they diverge, notes on what they show otherwise."""
    trend = own.trend or Trend()
    losses = [float(loss) for loss in trend.losses]
    if exploded := unbounded(own, steps, trend):
        return exploded(verdict)
    if named := inverted_masks(trend) or tried.named(own.trials):
        return warn(f"{named[0]}; {verdict.summary}", fix=named[1])
    if shown := cause_in_losses(trend, steps, losses):
        row = shown.row
        return warn(
            f"{shown.text}; {verdict.summary}",
            fix=shown.fix,
            sources=row.sources if row else (),
            causes=(row.id,) if row else (),
        )
    if problem := too_fast(own, steps, trend):
        return warn(f"{problem[0]}; {verdict.summary}", fix=problem[1])
    notes = [*_notes(own, losses), *tried.notes(own.trials)]
    return replace(verdict, summary="; ".join([verdict.summary, *notes]))


def _notes(own: OwnModel, losses: list[float]) -> list[str]:
    """Remarks on the losses that are no fault by themselves."""
    notes = []
    trend = own.trend
    if trend and trend.ran and trend.planned:
        short = trend.ran < trend.planned
        left = "; the trend is not evaluated" if short else ""
        notes.append(f"{trend.ran} of {trend.planned} steps on this batch were run{left}")
    if own.changed_batch:
        notes.append(
            f"note: each step changes {', '.join(own.changed_batch[:3])} of the batch in place; "
            "the doctor puts the values back, a training that passes the same tensors does not"
        )
    classes = own.trend.classes if own.trend else None
    if classes and classes > 1 and losses and losses[0] > 2 * math.log(classes) + 1:
        notes.append(
            f"note: the first loss is {losses[0]:.4g}, uniform predictions of {classes} classes "
            f"give {math.log(classes):.4g}"
        )
    window = 5
    if len(losses) >= 4 * window:
        first, last = (sum(part) / window for part in (losses[:window], losses[-window:]))
        if last >= first:
            notes.append(
                f"note: the loss did not fall in {len(losses)} steps on this batch (mean of the "
                f"first {window} {first:.4g}, of the last {window} {last:.4g})"
            )
    if any(float(step.loss) == 0.0 for step in (own.smoke.steps if own.smoke else ())):
        notes.append("note: the loss is 0 while gradients are not, as in the first step of GRPO")
    return notes
