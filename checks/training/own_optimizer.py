"""Parameters of the user's own training that do not change: what the optimizer does with them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from doctor._util.units import listed
from doctor.checks.training import own_cuts
from doctor.checks.training import smoke as judged
from doctor.facts.training import HALVES, Forecast, Optimizer, Parameter, Smoke
from doctor.judge.check import Verdict, fail, ok, warn


def unchanged(steps: Smoke, reached: Smoke, verdict: Verdict, later: Sequence[str] = ()) -> Verdict:
    """The verdict on parameters that got a gradient and did not change.

    `reached`: the steps with the parameters that got one alone; `later` are those that a further
    step changed, as an optimizer that accumulates does.
    """
    optimizer = steps.optimizer
    unchanged = [each for each in reached.parameters if not each.moved]
    verdict = replace(verdict, owner=None)
    kind = f"at lr {steps.lr:g}" if optimizer is None else f"of your {optimizer.name}"
    summary = judged.count_unchanged(reached, kind)
    required = "; required: all change"
    left = _left_by_the_optimizer(steps, unchanged)
    if not left and (gates := _behind(steps, unchanged)):
        names = listed([each.name for each in gates], 2)
        clause = f"their gradients are at most {_largest(unchanged):.1e} so far, as weights nearer"
        return ok(f"{summary}: {clause} to the loss start near 0, and these change: {names}")
    if cause := left or _tiny_gradients(steps, unchanged):
        clause, fix = cause
        return fail(f"{summary}; {clause}{required}", fix=fix)
    halves = any(each.dtype in HALVES for each in unchanged)
    if optimizer is None:
        return replace(verdict, fix=None if halves else UNEXPLAINED_FIX)
    if resting := [each.name for each in unchanged if each.name in optimizer.resting]:
        clause = f"in a group whose learning rate is 0: {listed(resting, 4)}"
        return warn(f"{summary}; {clause}{required}", fix=RESTING_FIX)
    if all(each.name in later for each in unchanged):
        return ok(f"{summary}: changed in one of the following steps")
    if all(each.name in (*later, *optimizer.waiting) for each in unchanged):
        clause = f"the learning rate of their group is 0 in these steps, under {optimizer.schedule}"
        return ok(f"{summary}: {clause}")
    rounded = replace(verdict, summary=f"{summary}{required}; {judged.ROUNDING}", fix=None)
    return _by_size(steps, unchanged, summary, rounded if halves else None)


def _by_size(
    steps: Smoke, unchanged: Sequence[Parameter], summary: str, rounded: Verdict | None
) -> Verdict:
    """The verdict by the size of the updates; `rounded` is that of weights in 16 bits."""
    rate = max(step.lr for step in steps.steps)
    if steerable := [each for each in unchanged if each.steerable and each.dtype not in HALVES]:
        norm = max(float(each.grad_norm or 0.0) for each in steerable)
        clause = f"although a step of {rate:g} along a gradient of norm {norm:.2g} changes them"
        return fail(f"{summary}; {clause}; required: all change", fix=IDLE_STEP_FIX)
    small = f"{summary}: updates at a learning rate of {rate:g} are below what float32 resolves"
    return rounded or ok(small)


def _left_by_the_optimizer(steps: Smoke, unchanged: Sequence[Parameter]) -> tuple[str, str] | None:
    """Why the user's optimizer leaves parameters as they are, and the fix; None: not known."""
    if (optimizer := steps.optimizer) is None:
        return None
    schedule = f" with {optimizer.schedule}" if optimizer.schedule else ""
    rates = [step.lr for step in steps.steps]
    if all(rate == 0.0 for rate in rates):
        text, fix = _foreseen(optimizer.forecast, len(rates))
        fix = fix if schedule else ZERO_RATE_FIX
        return f"the learning rate is 0 in every step{schedule}{text}", fix
    if optimizer.max_norm == 0.0:
        return "gradients are clipped to a norm of 0", CLIP_FIX
    if omitted := [each.name for each in unchanged if each.name in optimizer.omitted]:
        strays = f"; {optimizer.strays} tensors of its groups are no part of the model"
        clause = (
            f"in no group of the optimizer: {listed(omitted, 4)}{strays * bool(optimizer.strays)}"
        )
        trained = {each.name for each in steps.parameters}
        early = len(trained) > 1 and trained <= set(optimizer.omitted)
        clause += "; it holds no trainable parameter of the model" * early
        fix = REPLACED_FIX * bool(optimizer.strays) or TOO_EARLY_FIX * early
        fix = fix or f"{_added(omitted, trained)}{OMITTED_FIX}"
        return clause, fix
    if max(rates) < TINY_RATE and not optimizer.schedule:
        return f"the learning rate is {max(rates):g}, and no schedule raises it", TINY_RATE_FIX
    slow = [each for each in unchanged if each.rate and each.rate < TINY_RATE]
    largest = max((each.rate or 0.0 for each in slow), default=0.0)
    if len(slow) == len(unchanged) and max(rates) > APART * largest:
        names = listed([each.name for each in slow], 4)
        return f"in groups whose learning rate is at most {largest:.1g}: {names}", SLOW_GROUP_FIX
    if all(each.clipped for each in unchanged):
        clause = f"a step of {max(rates):g} along the gradient changes them, and not once it is"
        return f"{clause} clipped to a norm of {optimizer.max_norm:g}", CLIP_FIX
    return None


def _added(omitted: Sequence[str], trained: Iterable[str]) -> str:
    """The line that adds whole parts of the model to the optimizer; "" if it lacks single ones."""
    parts = dict.fromkeys(name.partition(".")[0] for name in omitted if "." in name)
    whole = all(name in omitted for name in trained if name.partition(".")[0] in parts)
    if not parts or not whole or len(parts) > MOST_PARTS or any(part.isdigit() for part in parts):
        return ""
    listed_parts = ", ".join(f"*model.{part}.parameters()" for part in parts)
    return f"Add them: optimizer.add_param_group({{'params': [{listed_parts}]}}). "


MOST_PARTS = 3


def _foreseen(forecast: Forecast | None, steps: int) -> tuple[str, str]:
    """What the schedule gives in further steps, and the fix."""
    if forecast is None or not (forecast.zeros or forecast.rate):
        return "", RATE_FIX
    last = steps + forecast.zeros
    text = f", and stays 0 in the {forecast.zeros:,} further steps that were tried"
    if forecast.rate is not None:
        text = f", until it is {forecast.rate:g} in step {last + 1:,}"
    if not forecast.place:
        return text, RATE_FIX
    code = f" (`{forecast.code}`)" if forecast.code else ""
    text += f"; {forecast.place}{code} gives 0"
    why = ROUNDED if ROUNDING.search(forecast.code) else WARM_UP
    return text, f"Look at {forecast.place}: {why}"


def _behind(steps: Smoke, unchanged: Sequence[Parameter]) -> list[Parameter]:
    """The weights near 0 that make the gradients of these too small for the optimizer, if there
    are any: they are nearer to the loss, get gradients that are none too small, and change."""
    epsilon = (steps.optimizer and steps.optimizer.epsilon) or EPSILON
    if epsilon > USUAL_EPSILON or not 0.0 < _largest(unchanged) < epsilon:
        return []
    gates = [
        each
        for each in steps.parameters
        if each.near_zero and each.moved and float(each.grad_norm or 0.0) > AMPLE * epsilon
    ]
    nearest = min((each.order for each in gates if each.order is not None), default=None)
    if nearest is None or any(p.order is None or p.order <= nearest for p in unchanged):
        return []
    return sorted(gates, key=lambda each: math.inf if each.order is None else each.order)


AMPLE = 1000.0
"""Our own number: the gradient of a first weight near 0 has a common size, 1e-3 and more."""


def _largest(parameters: Sequence[Parameter]) -> float:
    """The largest norm of their gradients."""
    return max((float(each.grad_norm or 0.0) for each in parameters), default=0.0)


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


EPSILON = 1e-8
"""The default of torch.optim.Adam and AdamW, beside which smaller gradients give no update."""
USUAL_EPSILON = 1e-3
"""Our own number: some reinforcement learning uses 1e-5, Inception 1.0 with large gradients."""
EPSILON_FIX = "Lower eps of the optimizer: 1e-8 is usual, and it is added to the gradient's norm."
SMALL_FIX = (
    "Scale the loss so that gradients are above 1e-8: remove a tiny factor, or take the mean where "
    "it is divided by a count more than once."
)
UNEXPLAINED_FIX = (
    "Look at what the loss function does to these parameters after the update: the optimizer had a "
    "gradient for them."
)
ROUNDING = re.compile(r"//|\b(?:int|floor|round)\(")
ROUNDED = (
    "a division that rounds down makes 0 of what is below the divisor: divide with /, as in "
    "(step + 1) / warm_up_steps."
)
WARM_UP = (
    "it makes the learning rate 0. A warm-up gives (step + 1) / warm_up_steps; check the number of "
    "its steps and of all steps, and what the schedule counts, batches or epochs."
)
RATE_FIX = (
    "Let the schedule start above 0, step it after every batch and not after every epoch, and "
    "check the number of its warm-up and total steps."
)
RESTING_FIX = (
    "Set a learning rate above 0 in that group of the optimizer. For parameters that must not "
    "train, call requires_grad_(False)."
)
TINY_RATE = 1e-8
"""Adam changes a weight by about the learning rate, and float32 resolves 6e-8 beside 1."""
APART = 100.0
"""Between the learning rates of groups. Our own number."""
TINY_RATE_FIX = "Raise the learning rate: 1e-5 to 1e-3 is usual for Adam, 1e-3 to 1e-1 for SGD."
ZERO_RATE_FIX = (
    "Set a learning rate above 0 where the optimizer is made: 1e-5 to 1e-3 is usual for Adam, 1e-3 "
    "to 1e-1 for SGD. A schedule that raises it is to be returned with the optimizer."
)
SLOW_GROUP_FIX = (
    "Raise the learning rate of these groups: a change of less than 6e-8 of a weight is lost in "
    "fp32. With rates that decay from layer to layer, the factor is usually 0.65 to 0.95. Call "
    "requires_grad_(False) on what must not train."
)
IDLE_STEP_FIX = (
    "Look at what step() of the optimizer does with the gradients: zero_grad() before they are "
    "used, a condition that leaves the step out, or parameters that were replaced by copies."
)
CLIP_FIX = "Clip to a norm such as 1.0: a limit near 0 multiplies every gradient by almost 0."
REPLACED_FIX = (
    "Create the optimizer after the layers are replaced, copied or tied: it trains the parameters "
    "that the model had before."
)
TOO_EARLY_FIX = (
    "Create the optimizer after the model is complete: after get_peft_model, new heads, copies and "
    "requires_grad_. It holds none of the parameters that train now."
)
OMITTED_FIX = (
    "Put every trainable parameter into a group of the optimizer; norms and biases belong into the "
    "group without weight decay, not outside of all groups. A parameter that was assigned after "
    "the optimizer was created is in none. Call requires_grad_(False) on what must not train."
)
SCALE_FREE = re.compile(r"(?i)ada|rmsprop|lion|lamb|lars|muon|prodigy|sophia")
"""Names of optimizers that divide a gradient by its size."""


def is_scale_free(optimizer: Optimizer | None) -> bool:
    """Whether it is the user's own, and the factor of a sum in the loss changes none of its
    steps."""
    return optimizer is not None and bool(SCALE_FREE.search(optimizer.name))
