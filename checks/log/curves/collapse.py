"""Quantities that should stay above 0 and fall to it: the KL divergence of latents, the codes of a
quantizer, the entropy of a policy."""

from __future__ import annotations

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, finite_of, partner, place_at
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, note, ok, skip, warn

GONE, NO_KL = 0.01, 1e-3
"""Share of its highest value, and the level, below which a KL divergence carries no information.
Our own numbers."""
UNUSED = 5.0
"""Per cent of the codes, below which a codebook is hardly used. Our own number."""
CERTAIN_ANSWERS, STARTED = 0.02, 0.1
"""Entropy per token at which every answer is the same, and at which a run begins. Our own."""
RISES = 0.05
"""Share by which rewards rise while the entropy falls, so that nothing is said. Our own."""
LATENTS = (
    "The decoder ignores the latents. Raise the weight of the KL term slowly from 0 (warm-up or "
    "cycles), leave a number of nats free (free bits), lower beta, and weaken a decoder that can "
    "do without (dropout of its inputs, fewer layers). Check that the reconstruction is summed "
    "over pixels as the KL is over latents, not averaged."
)
CODES = (
    "Most codes are never chosen. Start codes anew from encodings of a batch when they are unused, "
    "initialize by k-means, use averages (EMA) in place of gradients, a smaller codebook or code "
    "dimension, normalized codes, and a commitment weight of 0.25."
)
ANSWERS = (
    "Every completion of a prompt is the same, so nothing more is explored. Raise the sampling "
    "temperature to 1.0, the entropy bonus or the upper clip limit (clip_ratio_high 0.28), lower "
    "the learning rate, and drop prompts that are solved; go back to a checkpoint before."
)

ONE_ACTION = (
    "Where the rewards do not rise, the policy takes one action whatever it sees: raise the "
    "entropy bonus (ent_coef 0.01), lower the learning rate, scale the rewards to about 1, and go "
    "back to a checkpoint before."
)


def holds(log: Log) -> Verdict:
    verdicts = [
        each_curve(log, "latent_kl", _latents),
        each_curve(log, "codebook_usage", _codes),
        each_curve(log, "policy_entropy", lambda curve: _entropy(log, curve)),
    ]
    judged = [each for each in verdicts if each.status is not Status.SKIP]
    return next((each for each in judged if each.fix), judged[0] if judged else verdicts[0])


def _levels(curve: Curve) -> tuple[float, float] | None:
    """The highest of the first values, and the level of the last third."""
    values, _ = finite_of(curve)
    if len(values) < series.FEWEST:
        return None
    return max(values[: len(values) // 3]), median(values[-len(values) // 3 :])


def _fell(curve: Curve, what: str, early: float, late: float, fix: str) -> Verdict:
    return warn(
        f"{what} fell from {early:.3g} to {late:.2g}",
        fix=fix,
        places=(place_at(curve, len(curve.values) - 1),),
    )


def _latents(curve: Curve) -> Verdict:
    levels = _levels(curve)
    if levels is None or levels[1] > min(NO_KL, GONE * levels[0]):
        return ok("the KL divergence of the latents stays") if levels else skip(FEW)
    return _fell(curve, "the KL divergence of the latents", *levels, LATENTS)


def _codes(curve: Curve) -> Verdict:
    levels = _levels(curve)
    per_cent = 1.0 if levels and levels[0] > 1 else 100.0
    if levels is None or per_cent * levels[1] > UNUSED:
        return ok("the codes are used") if levels else skip(FEW)
    early, late = levels
    return _fell(curve, "the share of the codes that are used", early, late, CODES)


def _entropy(log: Log, curve: Curve) -> Verdict:
    levels = _levels(curve)
    if levels is None:
        return skip(FEW)
    episodes = partner(log, curve, "episode_reward")
    reward = partner(log, curve, "reward") or episodes
    fell = levels[0] >= STARTED and levels[1] <= CERTAIN_ANSWERS
    rewards = finite_of(reward)[0] if reward else []
    early, late = series.thirds(rewards or [0.0])
    rises = late > early + RISES * abs(early)
    falls = bool(rewards) and late < early - RISES * abs(early)
    solved = episodes and not rises and not falls  # a policy that has learned is sure
    if fell and (solved or (not rewards and partner(log, curve, "value_loss"))):
        rose = "the rewards do not rise" if rewards else "no rewards were read"
        text = f"the entropy fell from {levels[0]:.3g} to {levels[1]:.2g}; {rose}"
        return note(text, fix=ONE_ACTION, places=(place_at(curve, len(curve.values) - 1),))
    if not fell or not rewards or rises:
        return ok(f"the entropy went from {levels[0]:.3g} to {levels[1]:.3g}")
    fix = ONE_ACTION if episodes else ANSWERS
    return _fell(curve, "the rewards do not rise, and the entropy", *levels, fix)


FEW = f"fewer than {series.FEWEST} values are not judged"
