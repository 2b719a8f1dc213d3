"""Evaluations that give one value whatever was trained in between."""

from __future__ import annotations

import math
import re

from doctor.checks.log.curves.nonfinite import finite, hidden_nan
from doctor.checks.log.curves.reading import each_curve, place_at, values_of
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, note, ok, skip, warn
from doctor.judge.combine import worst
from doctor.log.metrics.scores import SCORE

FEWEST = 5
"""Evaluations that agree in all printed digits, which is no accident. Our own number."""
DIGITS = 3
"""Decimals from which on equal values say that nothing changed: on a few samples, two decimals
are equal by chance. Our own number."""
GOOD = 0.9
"""Share, or per cent, from which on a score may stand at its ceiling. Our own number."""
ERROR_RATES = ("wer", "cer")
RANKINGS = ("auc", "auroc")
"""Scores that are 0.5 for one answer to everything."""
SAME = (
    "The model gives the same answer to everything, or the weights that are evaluated are not "
    "those "
    "that are trained. Print some predictions beside their labels: one class for all of them means "
    "a learning rate that is too high or classes that are unequal (class weights, a lower rate, a "
    "warm-up). If predictions differ, check that the model that is evaluated is the trained one "
    "(not a copy, an average or a checkpoint from before), that its parameters require gradients "
    "and change (doctor run --only SMK007), and that the learning rate is above 0."
)
CEILING = (
    "Where the task is not that easy, look for evaluation data among the training data, the answer "
    "among the inputs, or an evaluation that has one class."
)
NOT_FINITE = (
    "Where the loss of the training is finite, look at the evaluation: samples whose labels are "
    "all -100 (cut off by max_length, an answer that the mask does not find) or an empty last "
    "batch are a division by 0; fp16_full_eval overflows where training in bf16 does not. Divide "
    "by max(tokens, 1), drop such samples, and evaluate in the training's precision."
)
NOTHING_RIGHT = (
    "Print some predictions beside their labels before training on. Nothing that is predicted "
    "counts as right: labels are missing or of other names and numbers than the evaluation's, "
    "boxes "
    "are in another format or unit, answers are compared as text with other case, spaces or tags, "
    "or the confidence threshold drops everything. Evaluate a model that is known to be good with "
    "the same code."
)


def standing(log: Log) -> Verdict:
    """The worst of the loss and the scores of the evaluations."""
    names = dict.fromkeys(curve.name for curve in log.curves if curve.name.startswith(SCORE))
    verdicts = [each_curve(log, name, _score) for name in names]
    if any(curve.name == "eval_loss" for curve in log.curves):
        verdicts.append(each_curve(log, "eval_loss", _loss))
    if not verdicts:
        return skip("the log has no evaluations")
    if Status.FAIL in (hidden_nan(log).status, finite(log).status):
        return skip("the loss of the training is not finite: see LOG090 and LOG091")
    return next(each for each in verdicts if each.status is worst(*verdicts).status)


def _loss(curve: Curve) -> Verdict:
    values = values_of(curve)
    if values and not any(map(math.isfinite, values)):
        return warn(
            f"the loss of the evaluation is {curve.values[0]} at all {curve.points:,} evaluations",
            fix=NOT_FINITE,
            places=(place_at(curve, 0),),
        )
    if len(values) < FEWEST:
        return skip(f"{len(values)} evaluations; fewer than {FEWEST} are not judged")
    if len(set(values)) > 1 or not _is_exact(values[0]):
        return ok("the loss of the evaluation changes")
    return _stands(curve, "the loss of the evaluation", SAME)


def _score(curve: Curve) -> Verdict:
    values, name = values_of(curve), curve.name.partition(":")[2]
    if len(values) < FEWEST:
        return skip(f"{len(values)} values of {name}; fewer than {FEWEST} are not judged")
    if len(set(values)) > 1:
        return ok(f"{name} changes")
    value = values[0]
    if re.split(r"[\W_]", name)[-1] in ERROR_RATES:
        bad = value in (1.0, 100.0)
        return _stands(curve, name, NOTHING_RIGHT) if bad else ok(f"{name} is {value:g}")
    if value == 0.0:
        return _stands(curve, name, NOTHING_RIGHT)
    if value >= (GOOD if value <= 1 else 100 * GOOD):
        return note(
            f"{name} is {value:g} at all {len(values):,} evaluations: at its ceiling",
            fix=CEILING,
            places=(place_at(curve, 0),),
        )
    is_guess = value == 0.5 and re.split(r"[\W_]", name)[-1] in RANKINGS
    return (
        _stands(curve, name, SAME) if is_guess or _is_exact(value) else ok(f"{name} is {value:g}")
    )


def _stands(curve: Curve, name: str, fix: str) -> Verdict:
    return warn(
        f"{name} is {float(curve.values[0]):g} at all {curve.points:,} evaluations",
        fix=fix,
        places=(place_at(curve, 0),),
    )


def _is_exact(value: float) -> bool:
    """Whether it has so many decimals that values that differ would be printed differently."""
    return value == value and len(repr(value).partition(".")[2].rstrip("0")) >= DIGITS
