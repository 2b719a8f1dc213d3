"""Evaluations that are no better than a guess among classes."""

from __future__ import annotations

import math
import re

from doctor.checks.log import series
from doctor.checks.log.curves.reading import finite_of, partner, place_at
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, note, warn

FEWEST = 5
"""Evaluations that agree in all printed digits, which is no accident. Our own number."""
SAME = (
    "The model gives the same answer to everything, or the weights that are evaluated are not "
    "those that are trained. Print some predictions beside their labels: one class for all of them "
    "means a learning rate that is too high or classes that are unequal (class weights, a lower "
    "rate, a warm-up). If predictions differ, check that the evaluated model is the trained "
    "one (not a copy, an average or a checkpoint from before), that its parameters require "
    "gradients and change (doctor run --only SMK007), and that the learning rate is above 0."
)
ACCURACIES = re.compile(r"(?<![a-z])(?:acc(?:uracy)?|top-?1|prec@1)(?![a-z])")
BY_CHANCE, AT_LEVEL = 0.07, 0.015
"""Shares by which an accuracy and a loss may differ from those of a guess. Our own numbers."""
FEW_CLASSES, HARDLY = 10, 0.95
"""Classes up to which the level of a guess is told from others, and its share that is left where
hardly anything was learned so far. Our own numbers."""
NOT_LEARNED = (
    "Train on ten samples first, until the loss is near 0. If it stays: inputs and labels do not "
    "belong together, parameters are frozen, or the learning rate is far off (try a tenth and ten "
    "times of it). If it falls, what is learned does not hold for other data: prepare both sets "
    "alike, take pretrained weights, more data and augmentation."
)


def guessed(log: Log, curve: Curve) -> Verdict | None:
    """That the last third of the accuracies is 1/k and that of a loss ln k: two measures of one
    guess among k classes."""
    values, name = finite_of(curve)[0], curve.name.partition(":")[2]
    if len(values) < FEWEST or not ACCURACIES.search(name) or min(values) <= 0:
        return None
    share = series.thirds(values)[1] / (100 if max(values) > 1 else 1)
    loss = partner(log, curve, "eval_loss") or partner(log, curve, "loss")
    losses = finite_of(loss)[0] if loss else []
    if not losses:
        return None
    classes, level = max(2, round(1 / share)), series.thirds(losses)[1]
    guess, place = math.log(classes), place_at(curve, len(curve.values) - 1)
    if abs(classes * share - 1) > BY_CHANCE or abs(level / guess - 1) > AT_LEVEL:
        hardly = _hardly_learned(log, curve, share, level)
        said = f"{name} is {share:.0%} {hardly}"
        return note(said, fix=NOT_LEARNED, places=(place,)) if hardly else None
    return warn(
        f"{name} is {share:.2%} and the loss {level:.4g} in the last third of {len(values):,} "
        f"evaluations: a guess among {classes:,} classes has {1 / classes:.2%} and {guess:.4g}",
        fix=SAME,
        places=(place,),
    )


def _hardly_learned(log: Log, curve: Curve, share: float, level: float) -> str:
    """That the training began at a guess among a few classes, and evaluations are still near."""
    loss = partner(log, curve, "loss")
    first = next(iter(finite_of(loss)[0]), 0.0) if loss else 0.0
    classes = round(math.exp(first)) if 0 < first < FEW_CLASSES else 0
    guess = math.log(classes) if 2 <= classes <= FEW_CLASSES else 0.0
    far = not guess or abs(first / guess - 1) > AT_LEVEL or level < HARDLY * guess
    if far or share > min(0.75, 2 / classes):
        return ""
    return (
        f"and the loss {level:.4g} in the last third of the evaluations; the training began at "
        f"{first:.4g}, a guess among {classes} classes: hardly anything was learned so far that "
        "holds for other data"
    )
