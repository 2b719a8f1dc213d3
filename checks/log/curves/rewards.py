"""The rewards of a reinforcement learning: without differences nothing is learned."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, finite_of, partner, place_at, step_at
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, fail, note, ok, skip, warn

OF_POLICY = "the loss of a policy: the rewards show the progress"
ENOUGH = 10
"""Logged steps without a difference that are no accident. Our own number."""
GONE = 0.5
"""Share of what the rewards had gained, below which most is lost. Our own number."""
BACK = "Go back to a checkpoint near the best reward."
UNREAD = (
    "Lower the learning rate, raise the weight of the KL term, clip the gradient norm, and read "
    "completions of both times: the policy may have found an answer that the reward function "
    "favours."
)
RISES = 2.0
"""Standard errors from which on the rewards may rise, so that nothing is said. Our own number."""
CLIP = "Clip the gradient norm at 1.0 or lower, and lower the learning rate."
COMPANIONS = {
    "rollout_gap": (
        "the difference between the sampler's and the trainer's probabilities",
        0.0,
        5.0,
        "Sampler (vLLM, SGLang) and trainer compute other probabilities for the same tokens: bring "
        "both to one precision and one release, correct for it (importance sampling, truncated), "
        "and on an A100 switch vLLM's cascade attention off (disable_cascade_attn).",
    ),
    "policy_kl": (
        "the KL divergence from the reference",
        0.0,
        5.0,
        "The policy leaves its reference: raise the weight of the KL term or lower the learning "
        "rate.",
    ),
    "policy_entropy": (
        "the entropy",
        0.2,
        3.0,
        "An entropy near 0 explores nothing: raise the temperature, the entropy bonus or the upper "
        "clip limit; one that grows writes at random: lower the learning rate and the bonus.",
    ),
    "answer_length": (
        "the length of completions",
        0.2,
        math.inf,
        "Completions became short: a reward or a loss that is averaged over tokens favours that.",
    ),
}
"""Curve -> what it is, the changes of its level that are not named, what helps. Our own numbers."""
ALIKE = (
    "Score a few printed completions by hand with the reward function: most often it looks for "
    "another form of the answer than the prompt asks for (\\boxed{} and ####, tags, case, "
    "whitespace) or raises and returns a default. Else all completions are cut off (clip ratio "
    "near 1: raise the completion length), sampling is greedy (temperature), or every prompt is "
    "too hard or already solved. The learning rate is not the reason."
)


def rewards_differ(log: Log) -> Verdict:
    names = {curve.name for curve in log.curves}
    if not names & {"reward", "reward_spread"}:
        return skip("the log has no rewards")
    if "reward_spread" not in names:
        return each_curve(log, "reward", lambda curve: _reward(log, curve))
    spread = each_curve(log, "reward_spread", _spread)
    if spread.status is Status.FAIL or "reward" not in names:
        return spread
    return each_curve(log, "reward", lambda curve: _reward(log, curve))


def _spread(spread: Curve) -> Verdict:
    values, places = finite_of(spread)
    if len(values) < ENOUGH or any(values):
        return ok(f"the rewards of a prompt's completions differ in {spread.points:,} logged steps")
    return fail(
        f"the rewards do not differ at any of {spread.points:,} logged steps, so that all "
        "advantages are 0 and nothing is learned",
        places=(place_at(spread, places[0]),),
    )


def _reward(log: Log, reward: Curve) -> Verdict:
    values, places = finite_of(reward)
    if len(values) < ENOUGH:
        return skip(f"{len(values)} rewards; fewer than {ENOUGH} are not judged")
    if len(set(values)) == 1:
        return fail(
            f"the mean reward is {values[0]:g} at all {reward.points:,} logged steps: nothing is "
            "learned",
            places=(place_at(reward, places[0]),),
        )
    if cut := _cut_off(log, reward, values):
        return cut
    if lost := series.lost([-value for value in values]):
        best, final = (-level for level in lost)
        at = places[values.index(max(values))]
        summary = f"the reward was {best:.4g} near {step_at(reward, at)} and ends at {final:.4g}"
        changes = list(_changes(log, reward))
        gone = values[0] <= best and final - values[0] < GONE * (best - values[0])
        make = warn if len(values) >= series.CERTAIN or (gone and changes) else note
        return make(
            "; ".join((summary, *(what for what, _ in changes))),
            fix=" ".join((BACK, *(fix for _, fix in changes)) if changes else (BACK, UNREAD)),
            places=(place_at(reward, at, "the best reward"),),
        )
    if far := _far_away(log, reward) or _apart(log, reward) or _grown_into_limit(log, reward):
        return far
    return ok(f"the reward went from {values[0]:.4g} to {values[-1]:.4g}")


BELOW = -0.5
"""KL divergence, an average that cannot be below 0 but by the noise of an estimate, from which on
down it says that samples are of another distribution. Our own number."""
NOT_SAMPLED = (
    "Sample from the policy as it is: do_sample=True, top_k=0, top_p=1.0, temperature 1, no "
    "min_length, repetition penalty or forced tokens, or compute the log-probabilities with the "
    "same settings. Compare policy and reference on one batch before the first update (equal to "
    "1e-3): both in eval() mode, in one precision, with one template, padding on the same side and "
    "masked, and the reference not updated. A negative estimate is a reward for leaving it."
)


def divergence_holds(log: Log) -> Verdict:
    return each_curve(log, "policy_kl", _below_zero)


def _below_zero(curve: Curve) -> Verdict:
    values, places = finite_of(curve)
    early, late = series.thirds(values or [0.0])
    if len(values) < ENOUGH or late > BELOW:
        return ok("the KL divergence from the reference is not below 0")
    if late > early:
        return ok("the KL divergence comes back to 0")
    return warn(
        f"the KL divergence from the reference is {late:.3g} at the end, and cannot be below 0: "
        "what is sampled is not what the log-probabilities are of",
        fix=NOT_SAMPLED,
        places=(place_at(curve, places[-1]),),
    )


FAR, FARTHER = 5.0, 100.0
"""KL divergence from the reference per token, and its growth, beyond which a policy writes nothing
that the reference would: below 1 is usual. Our own numbers."""


def _far_away(log: Log, reward: Curve) -> Verdict | None:
    """A policy that has left its reference, whatever its rewards are."""
    found = _thirds(log, reward, "policy_kl")
    if found is None or found[2] < max(FAR, FARTHER * found[1]):
        return None
    curve, early, late = found
    return warn(
        f"the KL divergence from the reference went from {early:.3g} to {late:.3g}: what the "
        "rewards favour is far from what the model wrote before",
        fix=COMPANIONS["policy_kl"][3] + " " + UNREAD,
        places=(place_at(curve, len(curve.values) - 1),),
    )


APART, WIDER = 0.05, 10.0
"""Difference between the probabilities of sampler and trainer, and its growth, from which on the
samples are of another policy: 0.001 to 0.02 is usual. Our own numbers."""
FAR_APART, AT_ONCE = 0.3, 5
"""A difference that is too large from the first step on, and the values that show where it began.
Our own numbers."""
FEW_CUT, MANY_CUT = 0.3, 0.7
"""Shares of completions at the limit of length, at first and at last. Our own numbers."""


def _thirds(log: Log, reward: Curve, name: str) -> tuple[Curve, float, float] | None:
    """A curve beside the rewards, with its levels at first and at last."""
    curve = partner(log, reward, name)
    values = finite_of(curve)[0] if curve else []
    if curve is None or len(values) < series.FEWEST:
        return None
    return curve, *series.thirds(values)


def _apart(log: Log, reward: Curve) -> Verdict | None:
    """Sampler and trainer that compute more and more different probabilities."""
    found = _thirds(log, reward, "rollout_gap")
    if found is None:
        return None
    curve, early, late = found
    early = min(early, median(finite_of(curve)[0][:AT_ONCE]))
    if late < APART or (late < WIDER * early and late < FAR_APART):
        return None
    what, _, _, fix = COMPANIONS["rollout_gap"]
    return warn(
        f"{what} {'grew' if late > WIDER * early else 'went'} from {early:.3g} to {late:.3g}: the "
        "samples are of another policy than the one that is trained",
        fix=f"{fix} If it grows with the steps, the sampler keeps old weights: check that each "
        "update arrives (vllm_enable_sleep_mode=False, a newer TRL, no prefix cache of the old "
        "ones).",
        places=(place_at(curve, len(curve.values) - 1),),
        causes=("sampler-off-policy",),
    )


def _grown_into_limit(log: Log, reward: Curve) -> Verdict | None:
    """Completions that became so long that most of them are cut off."""
    found = _thirds(log, reward, "cut_off_share")
    if found is None or found[1] > FEW_CUT or found[2] < MANY_CUT:
        return None
    curve, early, late = found
    return warn(
        f"the share of completions that are cut off at the limit of length grew from {early:.0%} "
        f"to {late:.0%}",
        fix=TOO_LONG,
        places=(place_at(curve, len(curve.values) - 1),),
    )


TOO_LONG = (
    "Read late completions: they repeat themselves, or go on after their answer. Leave cut ones "
    "out of the loss or let them cost (mask_truncated_completions, overlong_filter, a penalty on "
    "length), check that a reward is given only for an answer that ends, average the loss per "
    "token over the batch, and go back to a checkpoint before the rise. If the answers are sound, "
    "raise the limit."
)
CUT_OFF = 0.95
"""Share of completions at the limit of length that are nearly all. Our own number."""
CUT = (
    "Read a few completions. If they end nowhere, correct the end token (the eos token of the "
    "tokenizer is the one that the chat template writes, and the model has learned it); if they "
    "are cut within the answer, raise max_completion_length (max_response_length). Then check "
    "that the rewards of one prompt's completions differ before a long run."
)


def _cut_off(log: Log, reward: Curve, values: list[float]) -> Verdict | None:
    """Rewards that do not rise while nearly every completion reaches the limit of length: a base
    model that writes on after its answer may still learn, and is none."""
    curve = partner(log, reward, "cut_off_share")
    shares = finite_of(curve)[0] if curve else []
    if min(len(shares), len(values)) < series.FEWEST or min(shares) < CUT_OFF:
        return None
    early, late = series.thirds(values)
    if _rise(values):
        return None
    return warn(
        f"at least {min(shares):.0%} of the completions reach the limit of length at all "
        f"{len(shares):,} logged steps, and the reward stays: {early:.4g} at first, {late:.4g} "
        "at last",
        fix=CUT,
        places=(place_at(reward, 0),),
    )


def _rise(values: list[float]) -> bool:
    """Whether rewards rise by more than their noise from the first third to the last."""
    early, late = series.thirds(values)
    error = series.OF_MEDIAN * series.noise_of(values) / math.sqrt(len(values) // 3)
    return late - early > max(RISES * error * math.sqrt(2), series.FLAT_TOTAL * abs(early))


SOLVED = 0.9
"""Share of a reward of 1 that leaves next to nothing to learn. Our own number."""


def _at_ceiling(values: list[float]) -> bool:
    """Whether a reward that ends at 1 is near it, or is at its highest value most of the time."""
    late, highest = series.thirds(values)[1], max(values)
    return late >= highest or SOLVED <= late <= highest <= 1


def stand(log: Log) -> Verdict | None:
    """Rewards that do not rise in a hundred values or more, and could."""
    for curve in (each for each in log.curves if each.name == "reward"):
        values, places = finite_of(curve)
        if len(values) >= series.CERTAIN and not _rise(values) and not _at_ceiling(values):
            early, late = series.thirds(values)
            return warn(
                f"the reward hardly changes: {early:.4g} at first, {late:.4g} at last",
                places=(place_at(curve, places[0]),),
            )
    return None


def _changes(log: Log, reward: Curve) -> Iterator[tuple[str, str]]:
    """What else changed while the rewards fell, and what it points to."""
    norm = partner(log, reward, "grad_norm")
    norms, places = finite_of(norm) if norm else ([], [])
    if norm and (at := series.exploded(norms)) is not None:
        since = step_at(norm, places[at])
        yield f"the gradient norm rose to {max(norms[at:]):.3g} from {since} on", CLIP
    for name, (what, low, high, fix) in COMPANIONS.items():
        curve = partner(log, reward, name)
        values = finite_of(curve)[0] if curve else []
        if len(values) < series.FEWEST:
            continue
        tenth = max(3, len(values) // 10)
        early, late = median(values[: 3 * tenth]), median(values[-tenth:])
        if early > 0 and not low * early <= late <= high * early:
            yield f"{what} went from {early:.3g} to {late:.3g}", fix


def is_of_policy(log: Log, loss: Curve) -> bool:
    """Whether the loss is of a policy: the rewards show the progress."""
    names = ("reward", "reward_spread", "episode_reward")
    return any(partner(log, loss, name) is not None for name in names)
