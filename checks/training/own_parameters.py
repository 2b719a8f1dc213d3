"""Parameters of the user's own training that get no gradient, or do not change."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from doctor.checks.training import smoke as judged
from doctor.checks.training.own_depth import (
    EXPLODING_FIX,
    VANISHING_FIX,
    exploding,
    vanishing,
)
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Optimizer, Parameter, Smoke
from doctor.judge.check import Verdict, fail, ok, warn


def used(required: Sequence[Parameter]) -> tuple[list[Parameter], str]:
    """The parameters in the graph of the loss, and the others in words: those of a class of
    transformers are not used by design, such as the last layers of LLaVA's image encoder."""
    used = [each for each in required if each.computed is not False]
    unused = [each.name for each in required if each.computed is False]
    if not used or not unused:
        return list(required), ""
    common = _common_module(unused)
    return used, f"{len(unused)} parameters ({common}.*)" if common else f"{len(unused)} parameters"


def _common_module(names: Sequence[str]) -> str:
    """The innermost module that holds all of these parameters, "" for the model itself."""
    parts = zip(*(name.split(".") for name in names), strict=False)
    shared = itertools.takewhile(lambda column: len(set(column)) == 1, parts)
    return ".".join(column[0] for column in shared)


IDLE = {
    "in other steps": "more are reached in some steps only",
    "with other weights": "more are reached with other weights only, as experts are",
    "copies": "more get none and start as copies of trained ones, as in a target network",
    "not optimized": "more get none and are in no group of the optimizer",
    "ignored": "more get zeros, because every label of their loss is ignored in this batch",
}
"""Reason of `OwnModel.idle` -> in words."""


def without_idle(required: Sequence[Parameter], own: OwnModel) -> tuple[list[Parameter], str]:
    """The parameters that need a gradient in these steps, and a note about the others."""
    cuts = own.smoke.diagnosis.cuts if own.smoke and own.smoke.diagnosis else ()
    ignored = [cut for cut in cuts if cut.kind == "zero" and cut.name.startswith("NllLoss")]
    idle = {name: "ignored" for cut in ignored for name in cut.parameters} | own.idle
    counts = Counter(idle[each.name] for each in required if each.name in idle)
    note = "".join(f"; {count} {IDLE[reason]}" for reason, count in counts.items())
    return [each for each in required if each.name not in idle], note


def kinds(without: Sequence[Parameter]) -> str:
    """ "got no gradient", "got only zeros", or how many got which."""
    absent = sum(each.computed is False for each in without)
    if any(each.computed is None for each in without):
        return "had no non-zero gradient"
    if absent == len(without):
        return "got no gradient"
    return (
        f"got no gradient ({absent}) or only zeros ({len(without) - absent})"
        if absent
        else ("got a gradient of zeros only")
    )


def uncalled(steps: Smoke, without: Sequence[Parameter]) -> list[str]:
    """Modules that the forward pass does not call and that hold one of these parameters."""
    uncalled = steps.diagnosis.uncalled if steps.diagnosis else ()
    return [name for name in uncalled if any(p.name.startswith(f"{name}.") for p in without)]


def no_gradient_fix(without: Sequence[Parameter], observed: str, *, exempt: bool) -> str:
    """The remedy; `observed` is that of the places where paths end, "" if none was seen.

    `exempt`: with the flag that exempts exactly these parameters.
    """
    fix = observed or (
        "Look for detach, .data, .item(), numpy, no_grad, rounding, indices and unused modules "
        "between these parameters and the loss. Gradients of zeros come from a multiplication by "
        "0, a saturated or clamped value, or underflow in half precision (compare --precision "
        "fp32)."
    )
    if not exempt:
        return fix
    heads = dict.fromkeys(each.name.partition(".")[0] for each in without)
    globs = " ".join(f"--expect-no-grad '{name}*'" for name in list(heads)[:3])
    return (
        f"{fix} If they are frozen or unused on purpose, call requires_grad_(False) on them, or "
        f"exempt them:\ndoctor run ... {globs}"
    )


def reached_unevenly(own: OwnModel, required: Sequence[Parameter], verdict: Verdict) -> Verdict:
    """The verdict on gradients that reach all: a warning if they vanish or explode with depth, or
    reach tensors that are no parameters."""
    if own.unregistered:
        names = ", ".join(own.unregistered[:4])
        more = f" and {len(own.unregistered) - 4} more" if own.unregistered[4:] else ""
        return warn(
            f"{verdict.summary}; no parameters of the model, and so neither trained nor saved, "
            f"although the loss depends on them: {names}{more}",
            fix=UNREGISTERED_FIX,
        )
    if own.trend and own.trend.created:
        shapes = ", ".join(str(list(shape)) for shape in own.trend.created[:4])
        return warn(
            f"{verdict.summary}; each forward pass creates parameters anew, which never train: "
            f"shapes {shapes}",
            fix=CREATED_FIX,
        )
    if alike := [each.name for each in required if each.rows_alike]:
        more = f" and {len(alike) - 4} more" if alike[4:] else ""
        return warn(
            f"{verdict.summary}; all rows are the same, before the steps and after them: "
            f"{', '.join(alike[:4])}{more}; required: different rows",
            fix=ALIKE_FIX,
        )
    if clause := vanishing(required):
        if still := sum(not each.moved for each in required):
            clause = f"{clause}; {still} of {len(required)} parameters do not change"
            return fail(f"{verdict.summary}; {clause}", fix=VANISHING_FIX)
        return warn(f"{verdict.summary}; {clause}", fix=VANISHING_FIX)
    if clause := exploding(required):
        return warn(f"{verdict.summary}; {clause}", fix=EXPLODING_FIX)
    return verdict


UNREGISTERED_FIX = (
    "Hold layers in nn.ModuleList or nn.ModuleDict instead of a plain list or dict, and single "
    "tensors in nn.Parameter: only these are in model.parameters() and in the state dict."
)


CREATED_FIX = (
    "Create the layers and parameters in __init__ and use them in forward: what forward creates "
    "starts from new random numbers in each step, and no optimizer holds it."
)
ALIKE_FIX = (
    "Initialize these weights with random numbers (torch.nn.init.kaiming_uniform_, "
    "xavier_uniform_): units that start the same get the same gradient and stay the same."
)


def adapters_frozen(parameters: Sequence[Parameter]) -> bool:
    """Whether no adapter gets a gradient while another module does."""
    adapters = [p for p in parameters if "lora_" in p.name]
    others = [p for p in parameters if "lora_" not in p.name]
    without = adapters and not any(p.had_gradient for p in adapters)
    return bool(without and any(p.had_gradient for p in others))


SILENT_FIX = (
    "Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
    "model.enable_input_require_grads(): reentrant checkpointing cuts the graph, so only "
    "modules_to_save learn and the adapters do not, without an error."
)


def unchanged(
    steps: Smoke, unchanged: Sequence[Parameter], verdict: Verdict, later: Sequence[str] = ()
) -> Verdict:
    """The verdict on parameters that got a gradient and did not change.

    `later` are those that a further step changed, as an optimizer that accumulates does.
    """
    optimizer = steps.optimizer
    verdict = replace(verdict, owner=None)
    if largest := _below_epsilon(unchanged):
        clause = f"their gradients are at most {largest:.1e}, and Adam's epsilon is {EPSILON:g}"
        summary, *_ = verdict.summary.partition("; required")
        return fail(f"{summary}; {clause}; required: all change", fix=SMALL_FIX)
    if optimizer is None:
        rounded = any(each.dtype in HALVES for each in unchanged)
        return replace(verdict, fix=None if rounded else UNEXPLAINED_FIX)
    summary, *_ = verdict.summary.partition("; required")
    summary = summary.replace(f"at lr {steps.lr:g}", f"of your {optimizer.name}")
    required = "; required: all change"
    if cause := _left_by_the_optimizer(steps, optimizer, unchanged):
        clause, fix = cause
        return fail(f"{summary}; {clause}{required}", fix=fix)
    if resting := _resting(optimizer, unchanged):
        clause = f"in a group whose learning rate is 0: {_listed(resting)}"
        return warn(f"{summary}; {clause}{required}", fix=RESTING_FIX)
    if all(each.name in later for each in unchanged):
        return ok(f"{summary}: changed in one of the following steps")
    if steerable := [each for each in unchanged if each.steerable and each.dtype not in HALVES]:
        norm = max(float(each.grad_norm or 0.0) for each in steerable)
        rate = max(step.lr for step in steps.steps)
        clause = f"although a step of {rate:g} along a gradient of norm {norm:.2g} changes them"
        return fail(f"{summary}; {clause}{required}", fix=IDLE_STEP_FIX)
    if any(each.dtype in HALVES for each in unchanged):
        return replace(verdict, summary=f"{summary}{required}; {judged.ROUNDING}", fix=None)
    rate = max(step.lr for step in steps.steps)
    return ok(f"{summary}: updates at a learning rate of {rate:g} are below what float32 resolves")


def _left_by_the_optimizer(
    steps: Smoke, optimizer: Optimizer, unchanged: Sequence[Parameter]
) -> tuple[str, str] | None:
    """Why the user's optimizer leaves parameters as they are, and the fix; None: not known."""
    schedule = f" with {optimizer.schedule}" if optimizer.schedule else ""
    rates = [step.lr for step in steps.steps]
    names = [each.name for each in unchanged]
    if all(rate == 0.0 for rate in rates):
        return f"the learning rate is 0 in every step{schedule}", RATE_FIX
    if optimizer.max_norm == 0.0:
        return "gradients are clipped to a norm of 0", CLIP_FIX
    if omitted := [name for name in names if name in optimizer.omitted]:
        return f"in no group of the optimizer: {_listed(omitted)}", OMITTED_FIX
    if max(rates) < TINY_RATE and not optimizer.schedule:
        return f"the learning rate is {max(rates):g}, and no schedule raises it", TINY_RATE_FIX
    return None


def _resting(optimizer: Optimizer, unchanged: Sequence[Parameter]) -> list[str]:
    """The parameters of groups that no schedule wakes."""
    names = [each.name for each in unchanged if each.name in optimizer.resting]
    return [] if optimizer.schedule else names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")


def set_back(steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on parameters that all differ at the end; a failure if matrices are set back."""
    names = [each.name for each in steps.parameters if each.set_back and (each.dimensions or 0) > 1]
    if not names:
        return verdict
    return fail(
        f"{len(names)} of {len(steps.parameters)} parameters have their initial values again after "
        f"the next forward pass: {_listed(names)}; required: updates stay",
        fix=SET_BACK_FIX,
    )


def _below_epsilon(unchanged: Sequence[Parameter]) -> float:
    """The largest gradient norm of these parameters, if it is below Adam's epsilon; else 0."""
    norms = [float(each.grad_norm) for each in unchanged if each.grad_norm is not None]
    largest = max(norms, default=0.0)
    return largest if len(norms) == len(unchanged) and largest < EPSILON else 0.0


EPSILON = 1e-8
"""The default of torch.optim.Adam and AdamW, beside which smaller gradients give no update."""
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
RESTING_FIX = (
    "Set a learning rate above 0 in that group of the optimizer. For parameters that must not "
    "train, call requires_grad_(False)."
)
TINY_RATE = 1e-8
"""Adam changes a weight by about the learning rate, and float32 resolves 6e-8 beside 1."""
TINY_RATE_FIX = "Raise the learning rate: 1e-5 to 1e-3 is usual for Adam, 1e-3 to 1e-1 for SGD."
IDLE_STEP_FIX = (
    "Look at what step() of the optimizer does with the gradients: zero_grad() before they are "
    "used, a condition that leaves the step out, or parameters that were replaced by copies."
)
SET_BACK_FIX = (
    "Look for code in the forward pass or the loss that writes weights: load_state_dict, copy_, "
    "reset_parameters or torch.nn.init. Call it once, before the first step."
)
CLIP_FIX = "Clip to a positive norm such as 1.0: a limit of 0 multiplies every gradient by 0."
OMITTED_FIX = (
    "Put every trainable parameter into a group of the optimizer; norms and biases belong into the "
    "group without weight decay, not outside of all groups. Call requires_grad_(False) on what "
    "must not train."
)
