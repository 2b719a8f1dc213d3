"""An evaluation beside the training: one that gets worse, or whose loss is of another size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from doctor._util.median import median
from doctor.checks.log.curves.learning import chance
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    improves_beside,
    partner,
    place_at,
    scores_better_since,
    step_at,
    values_of,
    worsens_beside,
)
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, note, ok, skip, warn

EVALUATIONS, AFTER = 6, 3
"""Evaluations in all, and after the best one, from which on a rise is no accident. Our own."""
RISEN, FAR_RISEN, TRAINED = 1.25, 1.5, 0.9
"""The last level of the evaluation by its best one, for a note and for a warning (other measures
may still improve), and that of the training since then."""
DOUBLED = 2.0
"""Times its best level, from which on a loss has risen too far for a better score to excuse it. Our
own number."""
HALVED = 0.5
"""Of the training's loss, beside an evaluation that never improved. Our own number."""
NEVER_BETTER = (
    "If the training began from scratch or with a new head, look for evaluation data that are "
    "prepared in another way: classes numbered in another order (compare class_to_idx of both "
    "sets; a missing folder shifts all that follow), other normalization, tokenizer or template, "
    "shuffled labels, a model that is not in eval() mode, or in it with statistics of batch norm "
    "that were never updated. Check that the metric is at the level of guessing, and evaluate the "
    "training data with the same code. If it began from pretrained weights and the metric is good, "
    "it is overfitting: a lower learning rate, fewer epochs, more data."
)


OVERFITS = (
    "The model learns its training data by heart after the first evaluation. Take the checkpoint "
    "of the best evaluation (load_best_model_at_end with early stopping, save at every "
    "evaluation), train for about that many steps, with a lower learning rate, a smaller rank, "
    "dropout or weight decay, and with more data."
)
BY_SCORE = (
    "Choose the checkpoint by the score that counts (metric_for_best_model), not by the loss. "
    "Where probabilities are used, calibrate them, or train with label smoothing or fewer epochs."
)
ALIKE = 0.25
"""By how much the losses of training and evaluation may differ at the first evaluation where both "
"are of one kind. Our own number."""


def _begins_alike(log: Log, held_out: Curve) -> bool:
    """Whether the first evaluation is at the level of the training's losses just before it."""
    loss = partner(log, held_out, "loss")
    pairs = list(zip(loss.steps, values_of(loss), strict=True)) if loss else []
    before = [value for step, value in pairs if step <= held_out.steps[0]][-AFTER:]
    first = values_of(held_out)[0]
    return len(before) == AFTER and abs(first - median(before)) < ALIKE * first


def generalizes(log: Log) -> Verdict:
    return each_curve(log, "eval_loss", lambda curve: _generalization(log, curve))


def _generalization(log: Log, held_out: Curve) -> Verdict:
    values, places = finite_of(held_out)
    if len(values) < EVALUATIONS:
        return skip(f"{len(values)} evaluations; fewer than {EVALUATIONS} are not judged")
    best = values.index(min(values))
    final, at = median(values[-AFTER:]), places[best]
    never = best == 0 and _trained_on(log, held_out, held_out.steps[at], HALVED)
    risen = final > (values[best] if never else RISEN * values[best]) > 0
    risen = risen and len(values) - best > AFTER and values[-1] > RISEN * values[best]
    if not risen or not _trained_on(log, held_out, held_out.steps[at]):
        return ok(f"the loss of the evaluation ends at {final:.4g}, best {values[best]:.4g}")
    alike = never and _begins_alike(log, held_out)
    certain = never and (final > RISEN * values[best] or chance(values[best]))
    make = warn if certain or final > FAR_RISEN * values[best] else note
    verdict = make(
        f"the loss of the evaluation was {values[best]:.4g} at {step_at(held_out, at)} and ends at "
        f"{values[-1]:.4g}, while that of the training fell"
        + ("; it was never below its first value" if never else "")
        + (", which is the level of the training's: the data are of one kind" if alike else ""),
        fix=NEVER_BETTER if never and not alike else OVERFITS if alike else None,
        places=(place_at(held_out, at, "the best evaluation"),),
    )
    improves = improves_beside(log, held_out) and not worsens_beside(log, held_out)
    since = final < DOUBLED * values[best] and scores_better_since(log, held_out, at)
    if improves or since:
        itself = "; most of the last third is lower than all before"
        surer = "; a score of the evaluation is better than it was there: the model is too sure"
        better = since or improves_beside(log, held_out, itself=False)
        summary, fix = verdict.summary + (surer if better else itself), BY_SCORE if better else None
        return replace(verdict, status=Status.NOTE, summary=summary, fix=fix)
    return verdict if never else _selected(log, verdict)


KEPT = ("best_kept", "early_stopping")
"""Settings that take the weights of the best evaluation."""


def _selected(log: Log, verdict: Verdict) -> Verdict:
    """A note where the log states that the best evaluation is taken: a loss may rise by confidence
    while the measure that selects still improves."""
    kept = next((e for e in log.stated if e.name in KEPT and (e.number or 0) > 0), None)
    if kept is None:
        return verdict
    text = f"{verdict.summary}; {kept.name.replace('_', ' ')} is set (line {kept.line})"
    return replace(verdict, status=Status.NOTE, summary=text, fix="")


def halves(log: Log, held_out: Curve) -> bool:
    """Whether the loss of the training fell to half after the first evaluation."""
    return bool(held_out.steps) and _trained_on(log, held_out, held_out.steps[0], HALVED)


def _trained_on(log: Log, held_out: Curve, since: int, share: float = TRAINED) -> bool:
    """Whether the loss of the training went on falling, below this share."""
    loss = partner(log, held_out, "loss")
    pairs = list(zip(loss.steps, values_of(loss), strict=True)) if loss else []
    before = [value for step, value in pairs if step <= since and math.isfinite(value)]
    after = [value for step, value in pairs if step > since and math.isfinite(value)]
    if not before or not after:
        return False
    return median(after[-AFTER:]) < share * median(before[-AFTER:])


ACCUMULATED, ACCUMULATES = "gradients-accumulated", 4
"""The condition that names the steps of accumulation, and the fewest at which a ratio of two losses
is no accident. Our own number."""
OFF, TWICE = 0.15, 2
"""By how much the ratio may differ from their number, and evaluations that agree. Our own."""


def averaged(log: Log) -> Verdict:
    return each_curve(log, "eval_loss", lambda curve: _averaged(log, curve))


def _averaged(log: Log, held_out: Curve) -> Verdict:
    steps = _accumulated(log, held_out.path)
    if steps < ACCUMULATES:
        return skip(f"the log names no accumulation of gradients over {ACCUMULATES} steps or more")
    pairs = list(_beside(log, held_out))
    if len(pairs) < TWICE:
        return skip("fewer than two evaluations stand beside losses of the training")
    ratios = [trained / evaluated for trained, evaluated in pairs]
    middle = median(ratios)
    if any(abs(ratio / steps - 1) > OFF for ratio in ratios):
        return ok(f"the loss of the training is {middle:.3g} times that of the evaluation")
    return warn(
        f"the loss of the training is {middle:.3g} times that of the evaluation at all "
        f"{len(pairs)} evaluations (at last {pairs[-1][0]:.4g} and {pairs[-1][1]:.4g}), and the "
        f"gradients are accumulated over {steps} steps: a sum is logged in place of the mean",
        places=(place_at(held_out, len(held_out.values) - 1),),
    )


def _accumulated(log: Log, path: str) -> int:
    events = (each for each in log.harmless if each.name == ACCUMULATED and each.path == path)
    return int(next((each.groups["steps"] for each in events), "0"))


def _beside(log: Log, held_out: Curve) -> Iterator[tuple[float, float]]:
    """The loss of the training just before each evaluation, and that of the evaluation."""
    loss = partner(log, held_out, "loss")
    own = list(zip(values_of(loss), loss.steps, strict=True)) if loss else []
    own = [(value, at) for value, at in own if math.isfinite(value)]
    for step, evaluated in zip(held_out.steps, values_of(held_out), strict=True):
        before = [value for value, at in own if at <= step]
        if len(before) >= AFTER and math.isfinite(evaluated) and evaluated > 0:
            yield median(before[-AFTER:]), evaluated
