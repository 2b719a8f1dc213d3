"""Evaluations that give one value whatever was trained in between."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

from doctor.checks.log import series
from doctor.checks.log.curves.guesses import ACCURACIES, FEWEST, SAME, guessed
from doctor.checks.log.curves.held_out import NEVER_BETTER, halves
from doctor.checks.log.curves.nonfinite import finite, hidden_nan
from doctor.checks.log.curves.reading import (
    each_curve,
    partner,
    place_at,
    step_at,
    values_of,
)
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, fail, note, ok, skip, warn
from doctor.judge.combine import worst
from doctor.log.metrics.scores import SCORE

DIGITS = 3
"""Decimals from which on equal values say that nothing changed: on a few samples, two decimals
are equal by chance. Our own number."""
GOOD = 0.9
"""Share, or per cent, from which on a score may stand at its ceiling. Our own number."""
ERROR_RATES = ("wer", "cer")
RANKINGS, UNRANKED = ("auc", "auroc"), 0.01
"""Scores that are 0.5 for one answer to everything, and by how much all of them may differ from it.
Our own number."""
NO_BOXES = 0.01
"""A detector's precision up to which nothing that it finds counts. Our own number."""
CEILING = (
    "Where the task is not that easy, look at the recall of each class (a score that never changes "
    "may be the share of the largest one), for evaluation data among the training data, the answer "
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


ONLY_BLANKS = (
    "Print some predictions. Empty ones: a CTC model gives the blank alone, as each does at first; "
    "where that lasts, lower the learning rate (1e-4 to 3e-4 for weights that are fine-tuned) with "
    "a warm-up of 500 steps, keep the encoder of sounds frozen, set "
    'ctc_loss_reduction="mean", make pad_token_id the blank, and give inputs the rate (16 kHz) and '
    "the normalization of the pretraining. Words that are all wrong: letters that the vocabulary "
    "lacks or has in another case, labels whose -100 was not replaced before decoding, or a "
    "language token of another language."
)
SHARES = re.compile(
    r"(?<![a-z])(?:acc(?:uracy)?|top-?\d|f1|auc|auroc|precision|recall|m?iou|dice|match|map|rate|pass)"
    r"(?![a-z])"
)
MORE_THAN_ALL = (
    "Divide by the number of samples that were evaluated: len(dataset) of the evaluation, on "
    "several ranks the sum of their counts; not the batches times a fixed batch size, and not one "
    "rank's share beside a sum over all ranks. With a padded DistributedSampler use "
    "gather_for_metrics or count what is not padding. What was selected by this score is not the "
    "best one."
)
LONG, MOSTLY, LOW = 12, 0.65, 0.5
"""Evaluations, the share of them that are equal, and the highest such score, with which it does not
follow the training although single ones differ. Our own numbers."""


def standing(log: Log) -> Verdict:
    """The worst of the loss and the scores of the evaluations."""
    names = dict.fromkeys(curve.name for curve in log.curves if curve.name.startswith(SCORE))
    verdicts = [
        each_curve(
            log,
            n,
            lambda c: (
                guessed(log, c)
                or _one_class(log, c)
                or _nothing_yet(log, c)
                or _score(log, c, halves(log, c))
            ),
        )
        for n in names
    ]
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
        return (fail if len(values) > 1 else warn)(
            f"the loss of the evaluation is {curve.values[0]} at every evaluation of the log",
            fix=NOT_FINITE,
            places=(place_at(curve, 0),),
        )
    if len(values) < FEWEST:
        return skip(f"{len(values)} evaluations; fewer than {FEWEST} are not judged")
    if len(set(values)) > 1 or not _is_exact(values[0]):
        return ok("the loss of the evaluation changes")
    return _stands(curve, "the loss of the evaluation", SAME)


OF_ONE_CLASS = ("precision", "recall", "f1")
"""Scores that are 0 where a class is never predicted."""


def _one_class(log: Log, curve: Curve) -> Verdict | None:
    """That a class is not predicted at the last evaluation and at half of them, while the others
    are: the accuracy is not 0."""
    values, name = values_of(curve), curve.name.partition(":")[2]
    zeros = values.count(0.0)
    own = re.split(r"[\W_]", name)[-1] in OF_ONE_CLASS
    if not own or len(values) < FEWEST or values[-1] or 2 * zeros < len(values):
        return None
    accuracies = (c for c in log.curves if c.path == curve.path and c.name.startswith(SCORE))
    last = next((values_of(c)[-1] for c in accuracies if ACCURACIES.search(c.name)), 0.0)
    if not last:
        return None
    return warn(
        f"{name} is 0 at {zeros} of {len(values)} evaluations, the last one among them, beside an "
        f"accuracy of {last:.4g}: a class is never predicted",
        fix=SAME,
        places=(place_at(curve, len(values) - 1),),
    )


AT_FIRST = "; a detector that starts from scratch has that for some epochs"
OF_BOXES = re.compile(r"(?i)map|(?<![a-z])ap(?![a-z])|coco|bbox")
ALONE = re.compile(r"bbox|segm|coco|map_?50|map@\[?0?\.5")
"""Names of a detector's scores alone: in a ranking of items, a precision of 0.01 is usual."""


def _nothing_yet(log: Log, curve: Curve) -> Verdict | None:
    """That few evaluations are 0, of which one before the first step is none."""
    values, name = values_of(curve), curve.name.partition(":")[2]
    low = NO_BOXES if ALONE.search(name) else 0.0
    if len(values) >= FEWEST or _is_error_rate(name) or not max(values, default=1.0) <= low:
        return None
    if values[-1] > values[0] or (ALONE.search(name) and _finds_boxes(log, curve)):
        return None
    loss = partner(log, curve, "loss")
    if loss and loss.lines and loss.counts == "step" and curve.lines[-1:] < loss.lines[:1]:
        return None
    every = "its only evaluation" if len(values) == 1 else f"all {len(values)} evaluations"
    return note(
        f"{name} is {_up_to(values)} at {every}{AT_FIRST if OF_BOXES.search(name) else ''}",
        fix=NOTHING_RIGHT,
        places=(place_at(curve, len(values) - 1),),
    )


def _finds_boxes(log: Log, curve: Curve) -> bool:
    """Whether another score of the detector counts: of masks, of a size, at another overlap."""
    others = (c for c in log.curves if c.path == curve.path and c.name.startswith(SCORE))
    return any(max(values_of(c), default=0.0) > NO_BOXES for c in others if ALONE.search(c.name))


def _up_to(values: list[float]) -> str:
    return f"{min(values):g}{f' to {max(values):g}' if len(set(values)) > 1 else ''}"


def _is_error_rate(name: str) -> bool:
    return re.split(r"[\W_]", name)[-1] in ERROR_RATES


def _score(log: Log, curve: Curve, trained: bool) -> Verdict:
    """Where the loss of the training fell to half meanwhile, it was `trained`."""
    values, name = _in_digits(curve), curve.name.partition(":")[2]
    if _exceeds(values) and SHARES.search(name):
        at = values.index(max(values))
        return warn(
            f"{name} is {values[at]:g} at {step_at(curve, at)}: more than 100 %",
            fix=MORE_THAN_ALL,
            places=(place_at(curve, at),),
        )
    if len(values) < FEWEST:
        return skip(f"{len(values)} values of {name}; fewer than {FEWEST} are not judged")
    if of_chance := _of_chance(log, curve, name, values):
        return of_chance
    value, times = Counter(values).most_common(1)[0]
    if len(set(values)) > 1:
        stays = trained and _stays(values, value, times)
        return _mostly(curve, name, value, times) if stays else ok(f"{name} changes")
    if _is_error_rate(name):
        bad = value in (1.0, 100.0)
        return _stands(curve, name, ONLY_BLANKS) if bad else ok(f"{name} is {value:g}")
    if value == 0.0:
        return _stands(curve, name, NOTHING_RIGHT)
    if value >= (GOOD if value <= 1 else 100 * GOOD):
        return note(
            f"{name} is {value:g} at all {len(values):,} evaluations: at its ceiling",
            fix=CEILING,
            places=(place_at(curve, 0),),
        )
    return _stands(curve, name, SAME) if _is_exact(value) else ok(f"{name} is {value:g}")


def _of_chance(log: Log, curve: Curve, name: str, values: list[float]) -> Verdict | None:
    """That no ranking is better than by chance, or nothing that a detector finds counts."""
    is_ranking = re.split(r"[\W_]", name)[-1] in RANKINGS
    improves = values[-1] > values[0]
    if is_ranking and not improves and all(abs(value - 0.5) <= UNRANKED for value in values):
        return _stands(curve, name, SAME)
    early, late = series.thirds(values)
    few_boxes = ALONE.search(name) and max(values) <= NO_BOXES and late <= 2 * early
    if few_boxes and len(values) >= 2 * FEWEST and not _finds_boxes(log, curve):
        return _stands(curve, name, NOTHING_RIGHT, warn if late <= early else note)
    return None


def _in_digits(curve: Curve) -> list[float]:
    """The values in as many digits as means of 32-bit numbers have alike."""
    return [float(f"{value:.6g}") for value in values_of(curve)]


def _exceeds(values: list[float]) -> bool:
    """Whether shares pass 100 %: counts of hits are whole, or above it from the start."""
    return min(values) <= 100 < max(values) < math.inf and any(value % 1 > 0 for value in values)


def _stays(values: list[float], value: float, times: int) -> bool:
    """Whether a low score is the usual one in the first and in the last third."""
    low = 0 <= value <= (LOW if value <= 1 else 100 * LOW)
    return (
        low
        and len(values) >= LONG
        and times >= MOSTLY * len(values)
        and series.thirds(values) == (value, value)
    )


def _mostly(curve: Curve, name: str, value: float, times: int) -> Verdict:
    return warn(
        f"{name} is {value:g} at {times} of {len(curve.values)} evaluations, the first and the "
        "last ones among them, while the loss of the training fell to less than half",
        fix=NEVER_BETTER,
        places=(place_at(curve, 0),),
    )


def _stands(curve: Curve, name: str, fix: str, make: Callable[..., Verdict] = warn) -> Verdict:
    return make(
        f"{name} is {_up_to(_in_digits(curve))} at all {curve.points:,} evaluations",
        fix=fix,
        places=(place_at(curve, 0),),
    )


def _is_exact(value: float) -> bool:
    """Whether it has so many decimals that values that differ would be printed differently."""
    return value == value and len(repr(value).partition(".")[2].rstrip("0")) >= DIGITS
