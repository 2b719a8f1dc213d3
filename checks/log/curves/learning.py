"""Whether a training improves: a loss that stands still, and an evaluation that gets worse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    partner,
    place_at,
    step_at,
    too_few,
    values_of,
)
from doctor.checks.log.curves.rewards import OF_POLICY, is_of_policy
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, fail, note, ok, skip, warn

ENOUGH, LONG = 5, 40
"""Equal values that are no accident, and values at the level of guessing among ten classes or more
(ln 10 is above 2; a discriminator at ln 2 is none) that no start of a run explains. Our own."""
CLASSES = (
    2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 100, 1000, 32_000, 50_257, 128_256, 151_936,
    16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
)  # fmt: skip
"""Numbers of classes, of tokens in common vocabularies, and of samples that a contrastive loss
compares."""
TWO_SIDES = ("discriminator_loss", "generator_loss")
"""Curves beside which a loss of ln 2 is the healthy state, as it is where one loss stands alone."""
GUESSED = 0.003
"""Distance of a level from that of guessing, as a share of it. Our own number."""
RISEN_RATE, TINY_RATE, HIGH_RATE = 5.0, 1e-7, 5e-3
"""Of a learning rate: by what it rises in a warm-up, and the levels below and above which a loss
that stands still needs no other reason. Our own numbers."""
TOO_HIGH = "high for Adam and for transformers, which then fall to the level of guessing"
STILL_WARMS_UP = (
    "Count the warm-up in what the scheduler is stepped by: a warm-up of 10,000 steps whose "
    "scheduler.step() runs once per epoch lasts 10,000 epochs. Call it after every optimizer step, "
    "or give the warm-up in epochs; 1 to 5 % of the run is usual."
)
EQUAL_REWARDS = (
    "With GRPO all completions of a prompt get the same reward, so that their advantages are 0: "
    "look at completions/clipped_ratio (near 1: every answer is cut off, raise "
    "max_completion_length or switch thinking off), frac_reward_zero_std, and what the reward "
    "functions return for single completions. Elsewhere: labels that are all -100, or parameters "
    "without gradients."
)


REPEATED = (
    "Every epoch begins with the weights of the first one. Print the trainable parameters and the "
    "learning rate, check that optimizer.step() runs and that its parameters are those of the "
    "model (built after .to(), LoRA and FSDP wrapping; under DeepSpeed: engine.backward and "
    "engine.step), that an adapter was loaded with is_trainable=True, and that reentrant "
    "checkpointing got enable_input_require_grads(). If the run starts again from one checkpoint "
    "each time, the log shows restarts instead."
)


EQUAL_POLICY = (
    "Print the trainable parameters and the learning rate of a step. Where logps are 0 too, no "
    "token of an answer is left: prompts fill max_length, or the label mask hides the answers; "
    "where they are not, model and reference are one object, the adapter is frozen "
    "(is_trainable=True), or the rate is 0 or far below 1e-7."
)


def progress(log: Log) -> Verdict:
    return each_curve(log, "loss", lambda curve: _progress(log, curve))


def _progress(log: Log, loss: Curve) -> Verdict:
    values, places = finite_of(loss)
    if not values:
        return skip("no value of the loss is finite: see LOG091")
    if is_of_policy(log, loss):
        return skip(OF_POLICY)
    if len(values) >= ENOUGH and len(set(values)) == 1:
        return replace(_standing(log, loss, values[0]), places=(place_at(loss, places[0]),))
    if len(values) >= ENOUGH and (still := _untrained(log, loss, values)):
        return still
    if few := too_few(loss):
        return few
    if not series.is_flat(values):
        return ok(f"the loss went from {values[0]:.4g} to {values[-1]:.4g}")
    guesses = _chance(median(values))
    level = guesses or _chance(values[0])
    hint, fix = _of_rate(log, loss)
    is_long = len(values) >= LONG and fix != STILL_WARMS_UP
    is_guess = bool(guesses) and guesses == _chance(values[0])
    make = warn if is_guess and is_long and (values[0] > 2 or _is_of_one_side(log, loss)) else note
    return make(
        f"the loss hardly changes: {values[0]:.4g} at first, {values[-1]:.4g} at last"
        f"{level or '; a training at its floor looks the same'}{hint}",
        fix=fix,
    )


def _without_gradients(log: Log, loss: Curve, values: list[float]) -> Verdict | None:
    """A loss that varies with the batches, while the gradient norm is 0 and nothing improves."""
    norm = partner(log, loss, "grad_norm")
    norms = values_of(norm) if norm is not None else []
    third = max(1, len(values) // 3)
    falls = median(values[-third:]) < (1 - series.FLAT_TOTAL) * median(values[:third])
    if len(norms) < ENOUGH or any(norms) or falls or not any(values):
        return None
    return warn(
        f"the gradient norm is 0 at all {len(norms):,} logged steps, and the loss goes from "
        f"{values[0]:.4g} to {values[-1]:.4g}: nothing is trained"
    )


def _is_of_one_side(log: Log, loss: Curve) -> bool:
    """Whether the log is of a trainer that prints its learning rate, and of no adversarial one."""
    rate = partner(log, loss, "learning_rate")
    return rate is not None and not any(curve.name in TWO_SIDES for curve in log.curves)


def _untrained(log: Log, loss: Curve, values: list[float]) -> Verdict | None:
    still = _without_gradients(log, loss, values) or _equals_reference(log, loss, values)
    return still or _repeated(loss, values)


def _repeated(loss: Curve, values: list[float]) -> Verdict | None:
    period = series.repeats(values) if loss.thinned == 1 else 0
    if not period:
        return None
    return warn(
        f"the losses repeat to the last digit every {period} logged steps, "
        f"{len(values) // period} times: no parameter changes",
        fix=REPEATED,
        places=(place_at(loss, finite_of(loss)[1][period]),),
    )


def _equals_reference(log: Log, loss: Curve, values: list[float]) -> Verdict | None:
    """A preference loss at ln 2 whose margins are 0: the policy is its reference."""
    margins = partner(log, loss, "preference_margin")
    own = values_of(margins)[1:] if margins is not None else []
    if len(own) < ENOUGH or any(own) or not all(abs(v - math.log(2)) < 1e-3 for v in values):
        return None
    return warn(
        f"the preference loss is ln 2 and its margin 0 at all {loss.points:,} logged steps: the "
        "policy equals its reference, nothing is trained",
        fix=EQUAL_POLICY,
    )


def _of_rate(log: Log, loss: Curve) -> tuple[str, str | None]:
    """What the learning rate says of a loss that stands still, and what to do about it."""
    rate = partner(log, loss, "learning_rate")
    rates = finite_of(rate)[0] if rate else []
    if len(rates) < series.FEWEST:
        return "", None
    first, last, highest = rates[0], rates[-1], max(rates)
    if last == highest >= RISEN_RATE * first and last > 0 and rates == sorted(rates):
        return (
            f"; the learning rate still rises, from {first:.3g} to {last:.3g}: the warm-up does "
            "not end within the log",
            STILL_WARMS_UP,
        )
    if highest < TINY_RATE:
        return f"; the learning rate is {highest:.3g} at most: too low to learn anything", None
    if highest >= HIGH_RATE:
        return f"; the learning rate is up to {highest:g}: {TOO_HIGH}", None
    return "", None


def _standing(log: Log, loss: Curve, value: float) -> Verdict:
    """All values are one."""
    norm = partner(log, loss, "grad_norm")
    norms = values_of(norm) if norm is not None else []
    is_still = len(norms) >= ENOUGH and not any(norms)
    if value == 0.0 and not is_still:
        return skip("the loss is 0 at every step, as with GRPO; the rewards show the progress")
    if value == 0.0:
        return warn(
            f"loss and gradient norm are 0 at all {loss.points:,} logged steps: nothing is learned",
            fix=EQUAL_REWARDS,
        )
    every = f"the loss is {value:g} at all {loss.points:,} logged steps"
    if is_still:
        return fail(f"{every}, and the gradient norm is 0: nothing is trained")
    return warn(f"{every}{_chance(value)}")


def _chance(level: float) -> str:
    """That a level is that of a uniform guess, "" where it is none."""
    for classes in CLASSES:
        if abs(level - math.log(classes)) < GUESSED * math.log(classes):
            return f"; that is ln {classes:,}, the level of guessing among {classes:,} classes"
    return ""


EVALUATIONS, AFTER = 6, 3
"""Evaluations in all, and after the best one, from which on a rise is no accident. Our own."""
RISEN, FAR_RISEN, TRAINED = 1.25, 1.5, 0.9
"""The last level of the evaluation by its best one, for a note and for a warning (other measures
may still improve), and that of the training since then."""
HALVED = 0.5
"""Of the training's loss, beside an evaluation that never improved. Our own number."""
NEVER_BETTER = (
    "If the training began from scratch or with a new head, look for evaluation data that are "
    "prepared in another way: classes numbered in another order (compare class_to_idx of both "
    "sets; a missing folder shifts all that follow), other normalization, tokenizer or template, "
    "shuffled labels, a model that is not in eval() mode. Check that the metric is at the level of "
    "guessing, and evaluate the training data with the same code. If it began from pretrained "
    "weights and the metric is good, it is overfitting: a lower learning rate, fewer epochs, more "
    "data."
)


OVERFITS = (
    "The model learns its training data by heart after the first evaluation. Take the checkpoint "
    "of the best evaluation (load_best_model_at_end with early stopping, save at every "
    "evaluation), train for about that many steps, with a lower learning rate, a smaller rank, "
    "dropout or weight decay, and with more data."
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
    risen = risen and len(values) - best > AFTER
    if not risen or not _trained_on(log, held_out, held_out.steps[at]):
        return ok(f"the loss of the evaluation ends at {final:.4g}, best {values[best]:.4g}")
    alike = never and _begins_alike(log, held_out)
    certain = never and (final > RISEN * values[best] or _chance(values[best]))
    make = warn if certain or final > FAR_RISEN * values[best] else note
    return make(
        f"the loss of the evaluation was {values[best]:.4g} at {step_at(held_out, at)} and ends at "
        f"{final:.4g}, while that of the training fell"
        + ("; it was never below its first value" if never else "")
        + (", which is the level of the training's: the data are of one kind" if alike else ""),
        fix=NEVER_BETTER if never and not alike else OVERFITS if alike else None,
        places=(place_at(held_out, at, "the best evaluation"),),
    )


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
