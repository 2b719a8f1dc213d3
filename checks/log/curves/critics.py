"""The value function of a reinforcement learning, and the scale of its rewards."""

from __future__ import annotations

import math

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, finite_of, partner, place_at, values_of
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, fail, ok, skip, warn

FEWEST = 5
"""Logged updates that are judged. Our own number."""
NOTHING, LARGE = 0.05, 1e3
"""Explained variance that is none, and a loss of the value function beyond which the returns are
too large for a network whose outputs begin near 0. Our own numbers."""
GREW = 100.0
"""Growth of that loss from the first to the last third that no progress explains. Our own."""
CLIPPED = 0.6
"""Share of samples whose ratio is clipped, from which on updates are too large: 0.1 to 0.3 is
usual. Our own number."""
SCALE = (
    "Bring the returns to the order of 1: VecNormalize(norm_reward=True), a reward that is divided "
    "by a constant, or a value function whose targets are normalized. Then check gamma and the "
    "reward's terms one by one."
)
RANDOM = " Lower the entropy bonus (ent_coef 0 to 0.01): the policy stays near random choice."
EXPLODES = (
    "Look for the reward, observation or state that grows without limit (a simulation that becomes "
    "unstable, a term that is divided by a small number): clip and normalize them, end the episode "
    "there, lower the learning rate and clip the gradient norm. Go back to a checkpoint before it."
)
TOO_LARGE = (
    "Updates change the policy too much: lower the learning rate and the number of epochs over one "
    "batch, raise the batch, or set target_kl. Where it is near 1 from the first update on, the "
    "old log-probabilities are not those of the policy that acted (another temperature, dropout, "
    "precision, or a shift by one token)."
)


def explains(log: Log) -> Verdict:
    of_values = each_curve(log, "value_loss", lambda curve: _value_loss(log, curve))
    of_updates = each_curve(log, "clipped_share", _clipped)
    return of_updates if of_updates.fix and not of_values.fix else of_values


def _value_loss(log: Log, curve: Curve) -> Verdict:
    values = values_of(curve)
    bad = [at for at, value in enumerate(values) if not math.isfinite(value)]
    if bad:
        return fail(
            f"the loss of the value function is {curve.values[bad[0]]} at {len(bad):,} of "
            f"{len(values):,} logged updates",
            fix=EXPLODES,
            places=(place_at(curve, bad[0]),),
        )
    if len(values) < FEWEST:
        return skip(f"{len(values)} logged updates; fewer than {FEWEST} are not judged")
    early, late = series.thirds(values)
    if late > LARGE and late > GREW * early > 0:
        return warn(
            f"the loss of the value function grew from {early:.4g} to {late:.4g}",
            fix=EXPLODES,
            places=(place_at(curve, len(values) - 1),),
        )
    explained = partner(log, curve, "explained_variance")
    shares = finite_of(explained)[0] if explained else []
    if (
        len(shares) < FEWEST
        or max(shares[-max(FEWEST, len(values) // 3) :]) > NOTHING
        or late < LARGE
    ):
        return ok(f"the loss of the value function went from {early:.4g} to {late:.4g}")
    return warn(
        f"the value function explains nothing: explained variance {median(shares):.2g} at the last "
        f"{len(shares):,} updates with a loss of {late:.3g}; the returns are too large to learn",
        fix=SCALE + RANDOM,
        places=(place_at(curve, 0),),
    )


def _clipped(curve: Curve) -> Verdict:
    values, places = finite_of(curve)
    late = values[-max(FEWEST, len(values) // 3) :]
    if len(values) < FEWEST or median(late) < CLIPPED:
        return ok("few ratios of the policy are clipped")
    first = next(at for at, value in zip(places, values, strict=True) if value >= CLIPPED)
    return warn(
        f"{median(late):.0%} of the samples are clipped at the last {len(late):,} logged updates",
        fix=TOO_LARGE,
        places=(place_at(curve, first),),
    )
