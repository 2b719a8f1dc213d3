"""What the losses of the steps on one batch show: divergence, a loss that stands still or rises."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from doctor._util.units import listed, shown
from doctor.checks.training.own_misuses import Shown, misused
from doctor.checks.training.own_optimizer import is_scale_free
from doctor.checks.training.own_rates import growth_cause
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Smoke
from doctor.judge.check import Verdict, fail, note

LARGE_NORM = 1e3
"""Our own number: gradients of common models have norms below 100 after initialization."""
SHARE_OF_LOSS = 0.1
"""Our own number: the norm of a loss that is a sum over many values is large with it, and a smaller
share of it, as in a VAE that sums over pixels."""
DIVERGED = 100.0
"""Times the first loss."""


def unbounded(own: OwnModel, steps: Smoke, trend: Trend) -> Callable[[Verdict], Verdict] | None:
    """A loss that grows without bound in the judged steps: a failure if a lower learning rate
    prevents it on the same batch, else a note."""
    losses = [float(step.loss) for step in steps.steps]
    if not explodes(losses):
        return None
    last = losses.index(max(losses, key=abs)) + 1
    text = f"the loss grows from {losses[0]:.4g} to {losses[last - 1]:.4g} in {last} steps"
    text += " on the same batch"
    stable = [share for share, of_share in own.slower if not explodes(list(map(float, of_share)))]
    if not stable and trend.supervised:
        return None  # which a loss of predictions and targets does for no good reason
    if not stable:
        tried = ", ".join(f"{share:g}" for share, _ in own.slower)
        also = f", also at {tried} of the learning rate" if tried else ""
        return lambda verdict: note(f"{verdict.summary}; {text}{also}", fix=verdict.fix)
    cause, fix = growth_cause(steps, trend)
    cause = f"; {cause}" if cause else ""
    return lambda verdict: fail(
        f"{text}, and does not at {max(stable):g} of the learning rate{cause}; "
        f"required: it does not grow {DIVERGED:g}-fold; {verdict.summary}",
        fix=fix or DIVERGES_FIX,
    )


def explodes(losses: list[float]) -> bool:
    """Whether losses that are all finite grow without bound, or some are not finite."""
    if not all(map(math.isfinite, losses)):
        return True
    highest = max(map(abs, losses), default=0.0)
    return bool(losses) and highest > DIVERGED * max(1.0, abs(losses[0]))


def cause_in_losses(trend: Trend, steps: Smoke, losses: list[float]) -> Shown | None:
    """The first fault that the losses show."""
    judges = (
        _scaled,
        _diverges,
        lambda trend, steps, losses: misused(trend) or _seen(trend),
        _is_constant,
        _is_of_itself,
        _stands_still,
        _rises,
        _is_steep,
    )
    shown = (judge(trend, steps, losses) for judge in judges)
    return next((Shown(*found) for found in shown if found), None)


def _scaled(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    """A loss with a large factor, as a GradScaler has it, that diverges or is steep."""
    factor = float(trend.loss_factor or 0.0)
    if not LARGE_FACTOR <= factor < math.inf or not any(
        judge(trend, steps, losses) for judge in (_diverges, _is_steep)
    ):
        return None
    name = " and ".join(trend.supervised)
    norms = [float(step.grad_norm) for step in steps.steps]
    return (
        f"the loss is {factor:.6g} times {name}, and the gradient norm {norms[0]:.3g}; required: "
        "gradients without that factor",
        SCALED_FIX,
    )


LARGE_FACTOR = 100.0
"""Our own number: weights of losses are smaller."""
SCALED_FIX = (
    "Remove the factor from the loss. Of a GradScaler, return the loss itself: the doctor scales "
    "it where the precision needs that (--precision fp16), and a training calls "
    "scaler.scale(loss).backward(), scaler.step(optimizer) and scaler.update()."
)


def _diverges(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    bad = next((n for n, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
    cause, fix = growth_cause(steps, trend)
    cause = f"; {cause}" if cause else ""
    if bad:
        text = f"the loss is {losses[bad - 1]} in step {bad} on the same batch{cause}"
        return f"{text}; required: it stays finite", fix or DIVERGES_FIX
    highest = max(losses, key=abs, default=0.0)
    if losses and abs(highest) > DIVERGED * max(1.0, abs(losses[0])):
        last = losses.index(highest) + 1
        text = f"the loss grows from {losses[0]:.4g} to {highest:.4g} in {last} steps"
        required = f"required: it does not grow {DIVERGED:g}-fold"
        return f"{text} on the same batch{cause}; {required}", fix or DIVERGES_FIX
    return None


def _is_constant(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    """A loss that is the same in every step, with gradients of rounding errors."""
    if len(losses) < RISING_STEPS or trend.norm_in_fp32 is None:
        return None
    limit, norm = ROUNDING * abs(losses[0]), float(trend.norm_in_fp32)
    moved = all(each.moved for each in steps.parameters if each.had_gradient)
    if max(losses) - min(losses) > limit or not 0.0 < norm <= limit or not moved:
        return None
    return (
        f"the loss is {losses[0]:.7g} in each of {len(losses)} steps on the same batch, and the "
        f"norm of its gradients in fp32 is {norm:.1e}: it does not depend on the weights",
        CONSTANT_FIX,
    )


def _is_of_itself(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    """ln 2 in each step: -logsigmoid of a margin that stays 0 while the weights change."""
    rate = min((step.lr for step in steps.steps), default=0.0)
    changed = all(each.moved for each in steps.parameters if each.had_gradient)
    if len(losses) < RISING_STEPS or rate < USUAL_RATE or not changed:
        return None
    if len(set(losses)) > 1 or abs(losses[0] - math.log(2)) > HALF_ROUNDING:
        return None
    return (
        f"the loss is ln 2 = {losses[0]:.7g} in each of {len(losses)} steps on the same batch "
        "while the weights change: the margin inside logsigmoid stays 0",
        OF_ITSELF_FIX,
    )


def _stands_still(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    if not stands_still(trend, steps, losses):
        return None
    names, classes = " and ".join(trend.supervised), trend.classes or 0
    text = f"the loss of {names} is exactly {losses[0]:.7g} in each of {len(losses)} steps"
    if classes > 1 and losses[0] > LARGE_LOSS * math.log(classes):
        return (
            f"{text}, uniform predictions of {classes} classes give {math.log(classes):.4g}: the "
            "logits are so large that no step changes them; required: logits near 0 at the start",
            LARGE_LOGITS_FIX,
        )
    return f"{text} on the same batch; required: it changes as the weights do", STANDS_FIX


def _rises(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    if not rises(trend, losses):
        return None
    text = f"the loss of {' and '.join(trend.supervised)} rises in each of {len(losses)} steps"
    maximized = steps.optimizer and steps.optimizer.maximize
    return (
        f"{text} on the same batch, from {losses[0]:.4g} to {losses[-1]:.4g}; required: it falls",
        MAXIMIZES_FIX if maximized else RISES_FIX,
    )


def _is_steep(trend: Trend, steps: Smoke, losses: list[float]) -> tuple[str, str] | None:
    norms = [float(step.grad_norm) for step in steps.steps if not step.skipped]
    largest = max((abs(float(step.loss)) for step in steps.steps), default=0.0)
    if not norms or min(norms) <= max(LARGE_NORM, SHARE_OF_LOSS * largest):
        return None
    text = f"the gradient norm is {max(norms):.3g}; at most {LARGE_NORM:g} expected"
    grew = len(losses) >= RISING_STEPS and losses[-1] >= losses[0]
    if not grew and not trend.large_weights and is_scale_free(steps.optimizer):
        return None
    if trend.large_weights:
        layers = listed([shown(each) for each in trend.large_weights], 4)
        return f"{text}; weights are too large for the width of their layer: {layers}", INITIAL_FIX
    return text, LARGE_NORM_FIX


def inverted_masks(trend: Trend) -> tuple[str, str] | None:
    """Masks whose True means the other thing: they say more than what follows from them."""
    return _first(
        (trend.inverted_masks, "a mask hides the tokens and shows the padding: {}; required: the "
         "other way round", MASK_FIX),
        (trend.backward_masks, "a causal mask is inverted, so that each query sees the later keys "
         "alone, and the last one none: {}; required: the own and the earlier keys", CAUSAL_FIX),
    )  # fmt: skip


def _seen(trend: Trend) -> tuple[str, str] | None:
    """What is a fault whatever the losses are."""
    return _first(
        (trend.fresh_heads, "the head of the task is frozen with the random numbers of its "
         "initialization: {}", HEAD_FIX),
        (trend.hasty_norms, "batch norms evaluate with statistics that are nearly those of the "
         "last batch: {}; required: a momentum of torch, such as 0.1", MOMENTUM_FIX),
        (trend.saturated if trend.large_weights else (), "weights are too large for the width of "
         f"their layer ({listed(trend.large_weights, 2)}), and activations are flat for most of "
         "what they get: {}; required: values near 0 at the start", INITIAL_FIX),
        (trend.heavy_dropouts, "a dropout leaves less than a tenth of the values while training: "
         "{}; required: p, the share that is dropped, at most 0.9", DROPOUT_FIX),
    )  # fmt: skip


def _first(*rows: tuple[tuple[str, ...], str, str]) -> tuple[str, str] | None:
    """Of places with a clause and a fix, the first that has places."""
    for places, text, fix in rows:
        if places:
            return text.format(listed([shown(each, 200) for each in places], 2)), fix
    return None


CAUSAL_FIX = (
    "Exchange tril and triu: True hides a key in nn.MultiheadAttention and nn.TransformerEncoder "
    "(torch.triu(torch.ones(n, n), diagonal=1).bool()), and shows it in "
    "scaled_dot_product_attention (torch.tril(torch.ones(n, n)).bool(), or is_causal=True)."
)
RISING_STEPS, RISE = 10, 1.05
"""Steps in which a loss must rise without exception, and the factor of the rise."""


def rises(trend: Trend, losses: list[float]) -> bool:
    """Whether the loss of a prediction rises in every step on the same batch."""
    if not trend.supervised or len(losses) < RISING_STEPS:
        return False
    return all(a < b for a, b in pairwise(losses)) and losses[-1] > RISE * losses[0] > 0


def stands_still(trend: Trend, steps: Smoke, losses: list[float]) -> bool:
    """Whether the loss of a prediction is the same to the last bit in every step, although all
    weights change and the steps are long enough to change it."""
    if not all(each.moved and each.had_gradient and not each.set_back for each in steps.parameters):
        return False
    if trend.discarded:  # which is reported with the line
        return False
    rate = min((step.lr for step in steps.steps), default=0.0)
    same = len(losses) >= RISING_STEPS and len(set(losses)) == 1 and losses[0] != 0.0
    return bool(trend.supervised) and same and rate >= USUAL_RATE


USUAL_RATE = 1e-6
"""A smaller learning rate may leave a loss as it is for some steps, as in a warm-up."""
ROUNDING = 1e-6
"""Our own number: float32 has 6e-8 beside 1, and sums of many values have more."""
CONSTANT_FIX = (
    "Look for an output that is the same for all weights: a softmax that is summed over its own "
    "dimension, a norm of what was normalized to length 1, a difference of equal values, or values "
    "beyond a clamp."
)
HALF_ROUNDING = math.log(2) / 256
"""Of ln 2 in bf16."""
OF_ITSELF_FIX = (
    "Look whether a preference loss compares the model with itself: the reference needs weights of "
    "its own, copy.deepcopy(model).eval().requires_grad_(False), and chosen and rejected must "
    "differ."
)
LARGE_LOSS = 20.0
"""Our own number. Times the loss of uniform predictions."""
LARGE_LOGITS_FIX = (
    "Initialize the weights smaller (torch.nn.init.kaiming_normal_, or a standard deviation of "
    "0.02), or normalize the inputs. In bf16 a logit of 10,000 has a resolution of 64."
)
STANDS_FIX = (
    "Look for what undoes or bypasses the updates: weights that are copied or loaded again in the "
    "forward pass, a loss of another model than the one that is optimized, or an output that does "
    "not depend on the weights, such as one that is clamped."
)
RISES_FIX = (
    "Look for a minus sign in front of the loss, gradients that are reversed, or an optimizer that "
    "steps upwards; else lower the learning rate."
)
MAXIMIZES_FIX = "Omit maximize=True: the optimizer raises the loss instead of lowering it."
DIVERGES_FIX = (
    "Lower the learning rate, warm it up from 0 over the first steps, and clip the gradients.\n"
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
)
INITIAL_FIX = (
    "Initialize these layers for their width: torch.nn.init.kaiming_normal_, xavier_uniform_, or "
    "the layer's own default (a standard deviation of about 1 / sqrt(in_features))."
)
MASK_FIX = (
    "Invert the mask: key_padding_mask and src_key_padding_mask of torch.nn are True at padding "
    "(ids == pad), attn_mask of scaled_dot_product_attention and attention_mask of transformers "
    "are True or 1 at tokens (ids != pad)."
)
DROPOUT_FIX = (
    "Pass the share that is dropped: nn.Dropout(p=0.05) for a keep_prob of 0.95. Where a number "
    "says how much stays, write nn.Dropout(1 - keep_prob)."
)
MOMENTUM_FIX = (
    "Pass momentum=0.1, or 0.01: in torch it is the share of the new batch. Keras and TensorFlow "
    "call what stays momentum, so that their 0.9 and 0.99 are 0.1 and 0.01 here."
)
HEAD_FIX = (
    "Train the head, too: task_type of LoraConfig (TaskType.SEQ_CLS, TOKEN_CLS) does so, or "
    "modules_to_save=['NAME'] with the head's name. Where it was trained before, load it."
)
LARGE_NORM_FIX = (
    "Normalize inputs and targets to a scale near 1, take the mean of the loss instead of the "
    "sum, and check the initialization. Clipping to 1.0 would scale such a gradient down a "
    "thousandfold."
)
