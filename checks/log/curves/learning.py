"""Whether a training improves: a loss that stands still."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.nonfinite import skips_all
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    learned_beside,
    partner,
    place_at,
    too_few,
    values_of,
)
from doctor.checks.log.curves.rewards import OF_POLICY, is_of_policy
from doctor.checks.log.differential.rates import DECODERS
from doctor.facts.log import Curve, Log
from doctor.facts.stated import Setting
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
WORDS, ABOVE = 1000, 1.06
"""Tokens of a vocabulary that is no list of classes, and by what the first loss of new weights
exceeds that of a guess among them. Our own numbers."""
NO_SLOPE = 1e-3
"""A gradient norm with which outputs hardly depend on the weights any more. Our own number."""
COLLAPSED = (
    "The outputs no longer depend on the inputs, and hardly a gradient is left: embeddings that "
    "fell onto one point, or units that died. Start from the weights before the run with a tenth "
    "of the learning rate and a warm-up (weights that are fine-tuned take 1e-5 to 5e-5). If it "
    "stands again: a temperature or a normalization of the wrong size, inputs that are all alike, "
    "a softmax before the loss."
)
LOWER = (
    "Lower the learning rate to a tenth first, with a warm-up, and start from the weights before "
    "the run, since units that died do not come back. Usual are 1e-4 to 1e-3 for Adam, 1e-5 to "
    "5e-5 for weights that are fine-tuned, 0.01 to 0.1 for SGD with normalization. If the loss "
    "stands again: inputs that are not normalized, parameters that do not change (SMK007), labels "
    "that do not belong to their samples."
)
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
    "All completions of a prompt get the same reward, so that their advantages are 0: "
    "look at completions/clipped_ratio (near 1: every answer is cut off, raise "
    "max_completion_length or switch thinking off), frac_reward_zero_std, and what the reward "
    "functions return for single completions."
)
NO_GRADIENTS = (
    "Count the labels above -100 of a batch, and the parameters that require gradients. In fp16, "
    "train in bf16: a loss of 0 also stands where the Trainer filters a NaN, and gradients below "
    "6e-8 are 0."
)


WITHOUT_TARGETS = (
    "All labels of these samples are masked (-100): the prompt alone fills max_length, so that the "
    "answer is cut off, or the template's mark of the answer is not found in them. Raise "
    "max_length, leave out or shorten prompts that fill it, and count samples without a label "
    "above -100 before the training."
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
    if skips_all(log, loss):
        return skip("no gradient is finite, so that no step is taken: see LOG092")
    if len(values) >= ENOUGH and len(set(values)) == 1:
        return replace(_standing(log, loss, values[0]), places=(place_at(loss, places[0]),))
    if len(values) >= ENOUGH and (still := _untrained(log, loss, values)):
        return still
    if few := too_few(loss):
        return few
    if not series.is_flat(values):
        return ok(f"the loss went from {values[0]:.4g} to {values[-1]:.4g}")
    return _plateau(log, loss, values)


def _plateau(log: Log, loss: Curve, values: list[float]) -> Verdict:
    if learned_beside(log, loss):
        return ok("the loss hardly changes, and the evaluations became better")
    guesses = chance(median(values)) or _of_vocabulary(log, loss, values)
    level = guesses or chance(values[0])
    hint, fix = _of_rate(log, loss)
    if guesses and (alike := _outputs_alike(log, loss)):
        hint, fix = f"{alike}{hint}", fix or COLLAPSED
    is_long = len(values) >= LONG and fix != STILL_WARMS_UP
    is_guess = bool(guesses) and (
        guesses != chance(median(values)) or guesses == chance(values[0]) or TOO_HIGH in hint
    )
    make = warn if is_guess and is_long and (values[0] > 2 or _is_of_one_side(log, loss)) else note
    return make(
        f"the loss hardly changes: {_from_to(values)}"
        f"{level or '; a training at its floor looks the same'}{hint}",
        fix=fix,
    )


def _from_to(values: list[float]) -> str:
    """The first value and the last one, or the usual ones where these two differ."""
    first, last = values[0], values[-1]
    if abs(first - last) <= series.FLAT_TOTAL * abs(first):
        return f"{first:.4g} at first, {last:.4g} at last"
    early, late = series.thirds(values)
    return f"mostly {early:.4g} in its first third, {late:.4g} in its last"


def _of_vocabulary(log: Log, loss: Curve, values: list[float]) -> str:
    """That a language model is no better than a guess among the tokens that the log states: new
    weights begin a little above it."""
    words = [each.number or 0 for each in log.stated
             if each.name == "vocab_size" and each.path == loss.path]  # fmt: skip
    guess = math.log(max(words)) if words and max(words) >= WORDS else 0.0
    early, late = series.thirds(values)
    if not guess or not guess * (1 - GUESSED) <= late <= early * (1 + GUESSED) <= ABOVE * guess:
        return ""
    return f"; a guess among the {max(words):,.0f} tokens of the vocabulary has {guess:.4g}"


def _outputs_alike(log: Log, loss: Curve) -> str:
    """That hardly a gradient is left at the level of guessing."""
    norm = partner(log, loss, "grad_norm")
    norms = finite_of(norm)[0] if norm is not None else []
    late = median(norms[-(len(norms) // 3) :]) if len(norms) >= LONG else 1.0
    return f"; the gradient norm is {late:.2g}" if 0 < late < NO_SLOPE else ""


def _without_gradients(log: Log, loss: Curve, values: list[float]) -> Verdict | None:
    """A loss that varies with the batches, while the gradient norm is 0 and nothing improves."""
    norm = partner(log, loss, "grad_norm")
    norms = values_of(norm) if norm is not None else []
    early, late = series.thirds(values)
    falls = late < (1 - series.FLAT_TOTAL) * early
    if len(norms) < ENOUGH or any(norms) or falls or not any(values):
        return None
    return warn(
        f"the gradient norm is 0 at all {len(norms):,} logged steps, and the loss goes from "
        f"{values[0]:.4g} to {values[-1]:.4g}: nothing is trained"
    )


PART = 0.1
"""Share of steps without targets which is no accident, and the least loss of the others. Our own
number."""


def _partly_without_targets(log: Log, loss: Curve, values: list[float]) -> Verdict | None:
    """Steps of a language model whose loss and gradient are exactly 0 between others that train,
    from the start on: a loss with a margin has such batches anywhere."""
    prefers = any((each.name, each.text) == ("method", "preference") for each in log.stated)
    if prefers or not any(_of_text(each) for each in log.stated):
        return None
    norm = partner(log, loss, "grad_norm")
    norms = dict(zip(norm.steps, values_of(norm), strict=True)) if norm is not None else {}
    steps = list(zip(loss.steps, values_of(loss), strict=True))
    empty = [at for at, (step, value) in enumerate(steps) if value == norms.get(step) == 0.0]
    early = sum(at < len(steps) // 3 for at in empty)
    trains = median([value for value in values if value] or [0.0])
    few = len(empty) < PART * len(values) or early < len(empty) // 6
    if few or len(values) < series.FEWEST or trains < PART:
        return None
    return warn(
        f"loss and gradient norm are 0 at {len(empty):,} of {len(values):,} logged steps, between "
        f"losses of {trains:.3g}: their samples have no targets",
        fix=WITHOUT_TARGETS,
        places=(place_at(loss, empty[0]),),
    )


def _of_text(each: Setting) -> bool:
    """Whether a setting says that the model answers in words; a margin is none of its losses."""
    text = each.text.lower()
    return each.name in ("model", "family") and any(re.search(word, text) for word in DECODERS)


def _is_of_one_side(log: Log, loss: Curve) -> bool:
    """Whether the log is of a trainer that prints its learning rate, and of no adversarial one."""
    rate = partner(log, loss, "learning_rate")
    return rate is not None and not any(curve.name in TWO_SIDES for curve in log.curves)


def _untrained(log: Log, loss: Curve, values: list[float]) -> Verdict | None:
    still = _without_gradients(log, loss, values) or _equals_reference(log, loss, values)
    return still or _partly_without_targets(log, loss, values) or _repeated(loss, values)


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
    if (
        last == highest >= RISEN_RATE * first
        and last > 0
        and rates[-2] < last
        and rates == sorted(rates)
    ):
        return (
            f"; the learning rate still rises, from {first:.3g} to {last:.3g}: the warm-up does "
            "not end within the log",
            STILL_WARMS_UP,
        )
    if highest < TINY_RATE:
        return f"; the learning rate is {highest:.3g} at most: too low to learn anything", None
    if highest >= HIGH_RATE:
        return f"; the learning rate is up to {highest:g}: {TOO_HIGH}", LOWER
    return "", None


def _standing(log: Log, loss: Curve, value: float) -> Verdict:
    """All values are one."""
    norm = partner(log, loss, "grad_norm")
    norms = values_of(norm) if norm is not None else []
    is_still = len(norms) >= ENOUGH and not any(norms)
    if value == 0.0 and not is_still:
        return skip("the loss is 0 at every step, as with GRPO; the rewards show the progress")
    if value == 0.0:
        rewards = is_of_policy(log, loss)
        make = warn if rewards else fail
        return make(
            f"loss and gradient norm are 0 at all {loss.points:,} logged steps: nothing is learned",
            fix=EQUAL_REWARDS if rewards else NO_GRADIENTS,
        )
    every = f"the loss is {value:g} at all {loss.points:,} logged steps"
    if is_still:
        return fail(f"{every}, and the gradient norm is 0: nothing is trained")
    return warn(f"{every}{chance(value)}")


def chance(level: float) -> str:
    """That a level is that of a uniform guess, "" where it is none."""
    for classes in CLASSES:
        if abs(level - math.log(classes)) < GUESSED * math.log(classes):
            return f"; that is ln {classes:,}, the level of guessing among {classes:,} classes"
    return ""
