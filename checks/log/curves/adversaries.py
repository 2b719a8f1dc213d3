"""The two sides of an adversarial training."""

from __future__ import annotations

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, finite_of, partner, place_at, too_few
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, ok, skip, warn

LOST, WON, GREW = 0.02, 0.1, 2.0
"""The discriminator's loss at the end: its level, and its share of the one at the start; and the
growth of the generator's loss meanwhile. At the level of guessing it is ln 2 or 2 ln 2; a hinge
loss that wins ends near 0 as well. Our own numbers."""


def balanced(log: Log) -> Verdict:
    return each_curve(log, "discriminator_loss", lambda curve: _balance(log, curve))


def _balance(log: Log, discriminator: Curve) -> Verdict:
    generator = partner(log, discriminator, "generator_loss")
    if generator is None:
        return skip("the log has no loss of the generator")
    if few := too_few(discriminator) or too_few(generator):
        return few
    (own, places), (other, _) = finite_of(discriminator), finite_of(generator)
    if min(own) < 0 or min(len(own), len(other)) < series.FEWEST:
        return skip("losses of a critic have no level at which it has won")
    first, last = median(own[:5]), median(own[-len(own) // 3 :])
    before, after = median(other[:5]), median(other[-len(other) // 3 :])
    if last > min(LOST, WON * first) or after < GREW * before:
        return ok(f"the discriminator's loss went from {first:.4g} to {last:.4g}")
    return warn(
        f"the discriminator has won: its loss went from {first:.4g} to {last:.4g}, that of the "
        f"generator from {before:.4g} to {after:.4g}, which gets no gradient to learn from",
        places=(place_at(discriminator, places[0]),),
    )
