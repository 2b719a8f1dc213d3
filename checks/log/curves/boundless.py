"""A loss that has no lower bound, and falls towards none."""

from __future__ import annotations

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import finite_of, place_at
from doctor.checks.log.curves.rewards import is_of_policy
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, warn

BOUNDLESS, GOOD = 10.0, 0.9
"""Below minus this, a loss that falls faster and faster has no lower bound, and a score
that is none of guesses. Our own numbers."""
OUT_OF_RANGE = (
    "Look at the targets first: a binary cross-entropy falls without bound where they are outside "
    "0 to 1 (masks of 0 to 255, labels of -1 and 1, class numbers): divide by 255 or compare with "
    "a threshold, and print target.min() and target.max(). Else a likelihood whose variance goes "
    "to 0 (give it a lower bound), or a term of the wrong sign."
)


def without_bound(log: Log, loss: Curve) -> Verdict | None:
    """A loss far below 0 that falls more in its last third than before, while no score improves."""
    values, places = finite_of(loss)
    if len(values) < series.FEWEST or is_of_policy(log, loss) or values[-1] > -BOUNDLESS:
        return None
    width = max(3, len(values) // 10)
    starts = (0, 2 * (len(values) - width) // 3, len(values) - width)
    first, late, last = (median(values[at : at + width]) for at in starts)
    if late - last <= max(first - late, series.ERRORS * series.noise_of(values)):
        return None
    scores = [c for c in log.curves if c.path == loss.path and c.name.startswith("score:")]
    if not scores or any(_moves(finite_of(each)[0]) or _is_good(each) for each in scores):
        return None
    return warn(
        f"the loss is {values[-1]:.4g} and falls faster and faster, while "
        f"{scores[0].name.partition(':')[2]} stands at {finite_of(scores[0])[0][-1]:.3g}",
        fix=OUT_OF_RANGE,
        places=(place_at(loss, places[-1]),),
    )


def _is_good(score: Curve) -> bool:
    """Whether it stands where targets are learned: not, where they are outside 0 to 1."""
    values = finite_of(score)[0] or [0.0]
    return median(values) >= (GOOD if max(values) <= 1 else 100 * GOOD)


def _moves(values: list[float]) -> bool:
    """Whether a score is another one at the end than at the start."""
    early, late = series.thirds(values or [0.0])
    return abs(late - early) > max(0.05, 3 * series.noise_of(values))
