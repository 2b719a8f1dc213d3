"""Parameters of the user's own training that do not change: what the optimizer does with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from doctor.checks.training import own_cuts
from doctor.checks.training import smoke as judged
from doctor.facts.own_model import Trend
from doctor.facts.training import Optimizer, Parameter, Smoke
from doctor.judge.check import Status, Verdict, fail, ok, warn


def unchanged(
    steps: Smoke, unchanged: Sequence[Parameter], verdict: Verdict, later: Sequence[str] = ()
) -> Verdict:
    """The verdict on parameters that got a gradient and did not change.

    `later` are those that a further step changed, as an optimizer that accumulates does.
    """
    optimizer = steps.optimizer
    verdict = replace(verdict, owner=None)
    summary, *_ = verdict.summary.partition("; required")
    if optimizer is not None:
        summary = summary.replace(f"at lr {steps.lr:g}", f"of your {optimizer.name}")
    required = "; required: all change"
    if cause := _left_by_the_optimizer(steps, unchanged) or _tiny_gradients(steps, unchanged):
        clause, fix = cause
        return fail(f"{summary}; {clause}{required}", fix=fix)
    halves = any(each.dtype in HALVES for each in unchanged)
    if optimizer is None:
        return replace(verdict, fix=None if halves else UNEXPLAINED_FIX)
    if resting := _resting(optimizer, unchanged):
        clause = f"in a group whose learning rate is 0: {_listed(resting)}"
        return warn(f"{summary}; {clause}{required}", fix=RESTING_FIX)
    if all(each.name in later for each in unchanged):
        return ok(f"{summary}: changed in one of the following steps")
    rate = max(step.lr for step in steps.steps)
    if steerable := [each for each in unchanged if each.steerable and each.dtype not in HALVES]:
        norm = max(float(each.grad_norm or 0.0) for each in steerable)
        clause = f"although a step of {rate:g} along a gradient of norm {norm:.2g} changes them"
        return fail(f"{summary}; {clause}{required}", fix=IDLE_STEP_FIX)
    if halves:
        return replace(verdict, summary=f"{summary}{required}; {judged.ROUNDING}", fix=None)
    return ok(f"{summary}: updates at a learning rate of {rate:g} are below what float32 resolves")


def _left_by_the_optimizer(steps: Smoke, unchanged: Sequence[Parameter]) -> tuple[str, str] | None:
    """Why the user's optimizer leaves parameters as they are, and the fix; None: not known."""
    if (optimizer := steps.optimizer) is None:
        return None
    schedule = f" with {optimizer.schedule}" if optimizer.schedule else ""
    rates = [step.lr for step in steps.steps]
    if all(rate == 0.0 for rate in rates):
        return f"the learning rate is 0 in every step{schedule}", RATE_FIX
    if optimizer.max_norm == 0.0:
        return "gradients are clipped to a norm of 0", CLIP_FIX
    if omitted := [each.name for each in unchanged if each.name in optimizer.omitted]:
        strays = f"; {optimizer.strays} tensors of its groups are no part of the model"
        clause = (
            f"in no group of the optimizer: {_listed(omitted)}{strays * bool(optimizer.strays)}"
        )
        return clause, REPLACED_FIX * bool(optimizer.strays) or OMITTED_FIX
    if max(rates) < TINY_RATE and not optimizer.schedule:
        return f"the learning rate is {max(rates):g}, and no schedule raises it", TINY_RATE_FIX
    slow = [each for each in unchanged if each.rate and each.rate < TINY_RATE]
    if len(slow) == len(unchanged) and not optimizer.schedule:
        largest = max(each.rate or 0.0 for each in slow)
        names = _listed([each.name for each in slow])
        return f"in groups whose learning rate is at most {largest:.1g}: {names}", SLOW_GROUP_FIX
    if all(each.clipped for each in unchanged):
        clause = f"a step of {max(rates):g} along the gradient changes them, and not once it is"
        return f"{clause} clipped to a norm of {optimizer.max_norm:g}", CLIP_FIX
    return None


def _tiny_gradients(steps: Smoke, unchanged: Sequence[Parameter]) -> tuple[str, str] | None:
    """Gradients that are too small for the optimizer, with the operation that shrinks them."""
    norms = [float(each.grad_norm) for each in unchanged if each.grad_norm is not None]
    name, epsilon = "AdamW", EPSILON
    if steps.optimizer is not None:
        name, epsilon = steps.optimizer.name, steps.optimizer.epsilon or EPSILON
    largest = max(norms, default=0.0)
    if not largest or len(norms) < len(unchanged) or largest >= epsilon:
        return None
    clause = f"their gradients are at most {largest:.1e}"
    if steps.optimizer is None or steps.optimizer.epsilon:
        clause += f", and the epsilon of {name} is {epsilon:g}"
    if epsilon > USUAL_EPSILON:
        return clause, EPSILON_FIX
    cuts = own_cuts.of(steps.diagnosis.cuts if steps.diagnosis else (), unchanged)
    if not cuts:
        return clause, SMALL_FIX
    return f"{clause}; {own_cuts.clause(cuts)}", own_cuts.fix(cuts)


def set_back(steps: Smoke, verdict: Verdict, trend: Trend | None) -> Verdict:
    """The verdict on parameters that all differ at the end; a failure if the forward pass discards
    the updates of matrices."""
    discarded = trend.discarded if trend else ()
    lost = [p for p in steps.parameters if p.undone or p.set_back or p.name in discarded]
    if not any((each.dimensions or 0) > 1 for each in lost):
        return verdict
    writes = trend.writes if trend else ()
    where = f"; the forward pass overwrites them: {', '.join(writes)}" if writes else ""
    return fail(
        f"{len(lost)} of {len(steps.parameters)} parameters {_lost(lost)}: "
        f"{_listed([each.name for each in lost])}{where}; required: updates stay",
        fix=_writer_fix(writes) if writes else SET_BACK_FIX,
    )


def _lost(parameters: Sequence[Parameter]) -> str:
    """How the forward pass discards updates."""
    if all(each.set_back for each in parameters):
        return "have their initial values again after the next forward pass"
    if all(each.undone or each.set_back for each in parameters):
        return "have the values from before the update again after the next forward pass"
    return "get values in each forward pass that hardly depend on their updates"


def too_long(steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on weights that change; a warning if the first update is far larger than they."""
    changes = sorted(
        float(each.change)
        for each in steps.parameters
        if (each.dimensions or 0) > 1 and each.change is not None
    )
    middle = changes[(len(changes) - 1) // 2] if changes else 0.0
    if middle < FAR or not steps.steps or steps.steps[0].lr <= HIGHEST:
        return verdict
    optimizer = steps.optimizer.name if steps.optimizer else "AdamW"
    return warn(
        f"{verdict.summary}; the first update is {middle:.3g} times as large as the weights "
        f"(median of {len(changes)} matrices), at a learning rate of {steps.steps[0].lr:g} of "
        f"{optimizer}; required: less than {FAR:g} times",
        fix="Lower the learning rate: 1e-5 to 1e-3 is usual for Adam, 1e-3 to 1e-1 for SGD.",
    )


FAR, HIGHEST = 10.0, 0.1
"""Our own numbers: usual first updates are a hundredth of the weights, and usual learning rates are
lower; weights that start near 0 change much at those too."""


def _writer_fix(writes: Sequence[str]) -> str:
    if any("renorm" in each for each in writes):
        return RENORM_FIX
    return (
        "Remove what overwrites weights in the forward pass or the loss, or do it once, before the "
        "first step. To train values between bounds, compute them from an unbounded parameter."
    )


def over_schedule(steps: Smoke, verdict: Verdict, trend: Trend | None) -> Verdict:
    """The verdict on weights that change; a warning if the learning rate, or the clipping, ends
    that within the first steps."""
    optimizer = steps.optimizer
    if optimizer is None:
        return verdict
    rates = trend.rates if trend else ()
    first = rates[: len(steps.steps)]
    least = FALLEN * max(first, default=0.0)
    fallen = next((n for n, rate in enumerate(first) if rate < least), None)
    if fallen and len(rates) >= FEWEST and max(rates[fallen:]) < least:
        schedule = f" with {optimizer.schedule}" if optimizer.schedule else ""
        return warn(
            f"{verdict.summary}; the learning rate falls from {max(first):g} to {rates[fallen]:g} "
            f"in step {fallen + 1}{schedule}, and is at most {max(rates[fallen:]):g} in the "
            f"{len(rates) - fallen} steps from there; required: it lasts longer than {fallen} "
            f"{'step' if fallen == 1 else 'steps'}",
            fix=SCHEDULE_FIX,
        )
    if optimizer.decay >= LARGE_DECAY:
        return warn(
            f"{verdict.summary}; learning rate times weight decay is {optimizer.decay:g}, so each "
            f"step multiplies the weights by {1 - optimizer.decay:.3g}; required: below "
            f"{LARGE_DECAY:g}",
            fix=DECAY_FIX,
        )
    rises = bool(rates) and rates[-1] > rates[0]
    required = TINY_WARM_UP if rises else TINY_RATE
    if len(rates) >= FEWEST and 0.0 < max(rates) < required:
        schedule = f" with {optimizer.schedule}" if optimizer.schedule else ""
        return warn(
            f"{verdict.summary}; the learning rate is at most {max(rates):g} in {len(rates)} steps"
            f"{schedule}{'' if rises else ', and does not rise'}; required: at least {required:g}",
            fix=f"{TINY_RATE_FIX} A LambdaLR returns a factor of the rate, not the rate.",
        )
    if optimizer.epsilon and optimizer.max_norm and optimizer.max_norm < optimizer.epsilon:
        return warn(
            f"{verdict.summary}; gradients are clipped to a norm of {optimizer.max_norm:g}, and "
            f"the epsilon of {optimizer.name} is {optimizer.epsilon:g}: its steps are smaller than "
            "the learning rate by that factor",
            fix=CLIP_FIX,
        )
    return verdict


def by_the_update(steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on losses; a learning rate that is not finite, or an epsilon of 0 where an update
    makes weights non-finite, comes before all other remedies."""
    optimizer, diagnosis = steps.optimizer, steps.diagnosis
    of_update = diagnosis is not None and diagnosis.origin == "update"
    if optimizer and optimizer.epsilon == 0.0 and of_update and verdict.status is Status.FAIL:
        text = f"eps of {optimizer.name} is 0, and a gradient of exactly 0 gives 0 / 0"
        return replace(verdict, summary=f"{verdict.summary}; {text}", fix=ZERO_EPSILON_FIX)
    bad = next((n for n, step in enumerate(steps.steps, 1) if not math.isfinite(step.lr)), None)
    if bad is None or verdict.status is Status.PASS:
        return verdict
    schedule = optimizer.schedule if optimizer else None
    rate = f"the learning rate is {steps.steps[bad - 1].lr} in step {bad}"
    summary = f"{verdict.summary}; {rate}{f' with {schedule}' if schedule else ''}"
    return replace(verdict, summary=summary, fix=RATE_NOT_FINITE_FIX)


def growth_cause(steps: Smoke, trend: Trend | None) -> tuple[str, str]:
    """What makes the weights grow in each step, and the fix; ("", "") if nothing was observed."""
    optimizer = steps.optimizer
    if optimizer is None:
        return "", ""
    if optimizer.momentum >= 1.0:
        text = f"momentum={optimizer.momentum:g} multiplies the previous update in each step"
        return text, MOMENTUM_FIX
    rates = [rate for rate in (trend.rates if trend else ()) if rate > 0]
    if optimizer.decay > 2.0 and max(rates, default=0.0) < 1.0:
        factor = 1 - optimizer.decay
        text = "learning rate times weight decay is"
        return f"{text} {optimizer.decay:g}, so each step multiplies the weights by {factor:g}", (
            DECAY_FIX
        )
    if rates and optimizer.schedule and max(rates) > RISEN * rates[0] and max(rates) > HIGH:
        text = f"the learning rate rises from {rates[0]:g} to {max(rates):g}"
        return f"{text} with {optimizer.schedule}", RISING_FIX
    if rates:
        return f"the learning rate of {optimizer.name} is {max(rates):g}", ""
    return "", ""


def _resting(optimizer: Optimizer, unchanged: Sequence[Parameter]) -> list[str]:
    """The parameters of groups that no schedule wakes."""
    names = [each.name for each in unchanged if each.name in optimizer.resting]
    return [] if optimizer.schedule else names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")


EPSILON = 1e-8
"""The default of torch.optim.Adam and AdamW, beside which smaller gradients give no update."""
USUAL_EPSILON = 1e-3
"""Our own number: some reinforcement learning uses 1e-5, Inception 1.0 with large gradients."""
EPSILON_FIX = "Lower eps of the optimizer: 1e-8 is usual, and it is added to the gradient's norm."
FALLEN, FEWEST = 1.01e-4, 10
"""Our own numbers: a fall of the learning rate that ends the training, and the steps to see it."""
LARGE_DECAY = 0.5
"""Our own number: usual products are 1e-6 to 1e-3."""
RISEN, HIGH = 10.0, 0.01
"""Times the first learning rate, and a high one for any optimizer."""
SCHEDULE_FIX = (
    "Give the schedule the number of steps of the whole training, and step it as often as it "
    "counts: one made for epochs is stepped once an epoch, and ExponentialLR multiplies by gamma "
    "each time (0.95 to 0.999 is usual)."
)
MOMENTUM_FIX = "Set momentum below 1: 0.9 is usual."
DECAY_FIX = "Lower weight_decay: 0.01 to 0.1 is usual for AdamW, 1e-4 for SGD."
RISING_FIX = (
    "Look at the factor of the schedule: gamma below 1 lowers the learning rate, and a LambdaLR "
    "returns a factor of the learning rate, not the rate itself."
)
RENORM_FIX = (
    "Omit max_norm of the embedding, or normalize its result (torch.nn.functional.normalize): "
    "max_norm writes the weights in each forward pass."
)
SMALL_FIX = (
    "Scale the loss so that gradients are above 1e-8: remove a tiny factor, or take the mean where "
    "it is divided by a count more than once."
)
HALVES = ("bfloat16", "float16")
UNEXPLAINED_FIX = (
    "Look at what the loss function does to these parameters after the update: the optimizer had a "
    "gradient for them."
)
RATE_FIX = (
    "Let the schedule start above 0, step it after every batch and not after every epoch, and "
    "check the number of its warm-up and total steps."
)
NEGATIVE_RATE_FIX = (
    "Compute the schedule again: below 0 each step raises the loss. A cosine from 1 to 0 is "
    "(1 + cos(pi * step / steps)) / 2, and a linear one max(0, 1 - step / steps)."
)
ZERO_EPSILON_FIX = "Give the optimizer an epsilon: eps=1e-8, torch's default."
RATE_NOT_FINITE_FIX = (
    "Compute the schedule again: one update with such a learning rate makes all weights NaN. A "
    "warm-up of 0 steps divides by 0: max(1, warm_up_steps)."
)
RESTING_FIX = (
    "Set a learning rate above 0 in that group of the optimizer. For parameters that must not "
    "train, call requires_grad_(False)."
)
TINY_RATE = 1e-8
"""Adam changes a weight by about the learning rate, and float32 resolves 6e-8 beside 1."""
TINY_WARM_UP = 1e-9
"""A warm-up of 10,000 steps to 5e-7, the smallest rate that is usual, is above it in step 20."""
TINY_RATE_FIX = "Raise the learning rate: 1e-5 to 1e-3 is usual for Adam, 1e-3 to 1e-1 for SGD."
SLOW_GROUP_FIX = (
    "Raise the learning rate of these groups: a change of less than 6e-8 of a weight is lost in "
    "fp32. With rates that decay from layer to layer, the factor is usually 0.65 to 0.95. Call "
    "requires_grad_(False) on what must not train."
)
IDLE_STEP_FIX = (
    "Look at what step() of the optimizer does with the gradients: zero_grad() before they are "
    "used, a condition that leaves the step out, or parameters that were replaced by copies."
)
SET_BACK_FIX = (
    "Look for code in the forward pass or the loss that writes weights: load_state_dict, copy_, "
    "reset_parameters or torch.nn.init. Call it once, before the first step."
)
CLIP_FIX = "Clip to a norm such as 1.0: a limit near 0 multiplies every gradient by almost 0."
REPLACED_FIX = (
    "Create the optimizer after the layers are replaced, copied or tied: it trains the parameters "
    "that the model had before."
)
OMITTED_FIX = (
    "Put every trainable parameter into a group of the optimizer; norms and biases belong into the "
    "group without weight decay, not outside of all groups. Call requires_grad_(False) on what "
    "must not train."
)
