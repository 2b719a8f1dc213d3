"""The rewards of a reinforcement learning: without differences nothing is learned."""

from __future__ import annotations

from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, finite_of, partner, place_at, step_at
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, fail, note, ok, skip, warn

OF_POLICY = "the loss of a policy: the rewards show the progress"
ENOUGH = 10
"""Logged steps without a difference that are no accident. Our own number."""
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
        return each_curve(log, "reward", _reward)
    spread = each_curve(log, "reward_spread", _spread)
    return spread if spread.status is Status.FAIL else each_curve(log, "reward", _reward)


def _spread(spread: Curve) -> Verdict:
    values, places = finite_of(spread)
    if len(values) < ENOUGH or any(values):
        return ok(f"the rewards of a prompt's completions differ in {spread.points:,} logged steps")
    return fail(
        f"the rewards do not differ at any of {spread.points:,} logged steps, so that all "
        "advantages are 0 and nothing is learned",
        places=(place_at(spread, places[0]),),
    )


def _reward(reward: Curve) -> Verdict:
    values, places = finite_of(reward)
    if len(values) < ENOUGH:
        return skip(f"{len(values)} rewards; fewer than {ENOUGH} are not judged")
    if len(set(values)) == 1:
        return fail(
            f"the mean reward is {values[0]:g} at all {reward.points:,} logged steps: nothing is "
            "learned",
            places=(place_at(reward, places[0]),),
        )
    if lost := series.lost([-value for value in values]):
        best, final = (-level for level in lost)
        at = places[values.index(max(values))]
        summary = f"the reward was {best:.4g} near {step_at(reward, at)} and ends at {final:.4g}"
        make = warn if len(values) >= series.CERTAIN else note
        return make(
            summary,
            fix="Go back to a checkpoint near the best reward; lower the learning rate, raise the "
            "weight of the KL term, clip the gradient norm, and read completions of both times: "
            "the policy may have found an answer that the reward function favours.",
        )
    return ok(f"the reward went from {values[0]:.4g} to {values[-1]:.4g}")


def is_of_policy(log: Log, loss: Curve) -> bool:
    """Whether the loss is of a policy: the rewards show the progress."""
    return partner(log, loss, "reward") is not None
