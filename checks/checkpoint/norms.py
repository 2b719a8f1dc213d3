"""Whether a checkpoint's norms moved away from the value they were born with."""

from __future__ import annotations

import dataclasses
import math
import re

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.records import Checkpoint, History, Norm, Optimizer
from doctor.checks.checkpoint.norm_causes import (
    BY,
    FAR,
    HALF_STEP,
    LEFT_OUT_FIX,
    LOW,
    MASTER_FIX,
    NO_GRADIENT_FIX,
    WORDS,
    causes,
    keeps_no_state,
)
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn

RANK = (Status.PASS, Status.WARN, Status.FAIL)

ZERO_CENTRED = re.compile(
    r"(?:gemma[23]?|recurrent_gemma|paligemma|shieldgemma2|t5_?gemma2?|vaultgemma|qwen3_next"
    r"|qwen3_5(?:_moe)?|qwen4_exp|minimax_m3_vl|muse_glimmer|muse_spark|step3p[57]|videoprism"
    r"|nemotron)(?:_text|_module|_encoder|_decoder|_vision)?(?:_model)?"
)
"""model_type of families that multiply by 1 + weight (transformers 5.23), so that 0.0 is the
initial value. Some of their norms are born at 1.0 all the same."""

RELEASED_AT_ONE = frozenset({"opt"})
"""Families released with every norm at 1.0 (transformers-24243)."""

ROUNDING_FIX = (
    f"{MASTER_FIX} These files do not show the optimizer: if it did keep fp32 weights, look for "
    "norms without a gradient instead."
)
GRADIENT_FIX = (
    "Print param.grad of a norm after backward() and look for it in the optimizer's param_groups: "
    "it is frozen (requires_grad), left out of the optimizer, or a fused norm kernel returns no "
    "weight gradient. If the training itself ran in a lower precision than these files have, "
    "rounding is the cause: keep the weights in fp32 and compute under torch.autocast."
)


FOLDED = re.compile(
    r".*(?:input|post_attention|pre_feedforward)_layernorm|.*ln_[12]|.*(?:attention|ffn|mlp)_norm"
    r"|(?:.*\.)?(?:final_)?norm(?:_f)?|.*(?:attn|ffn|output)_norm"
)
"""Norms that precede a linear layer, into which their weights can be folded."""

UNFOLDED = re.compile(r".*(?:[qk]|q_a|kv_a|post)_?(?:layer)?norm")
"""Norms that stand where nothing can take their weights."""


def norms_moved(checkpoint: Checkpoint) -> Verdict:
    verdict = _norms(checkpoint)
    still = [each for each in checkpoint.born_at_one if each.value == "ones"]
    if not still or verdict.status is Status.UNKNOWN:
        return verdict
    said = (
        f"{verdict.summary}; of {len(checkpoint.born_at_one)} other parameters that are born at "
        f"1.0, {len(still)} are exactly 1.0: {_named(still)}"
    )
    if verdict.status in (Status.PASS, Status.SKIP) and _went_far(checkpoint):
        return warn(said, fix=GRADIENT_FIX)
    return dataclasses.replace(verdict, summary=said)


def _went_far(checkpoint: Checkpoint) -> bool:
    history = checkpoint.history
    return history is not None and math.sqrt(history.lr_squares) >= FAR


def _norms(checkpoint: Checkpoint) -> Verdict:
    norms = checkpoint.norms
    if reason := checkpoint.not_inspectable:
        return unknown(reason)
    if not checkpoint.tensors:
        return unknown("no header could be read")
    if not norms:
        return skip("no norm weights are in these files, as in adapters and models like OLMo v1")
    if untold := _untold(norms):
        return unknown(untold)
    still = [norm for norm in norms if norm.value != "other"]
    if not still:
        return ok(f"{len(norms)} of {len(norms)} norms differ from 1.0 and 0.0")
    if verdict := _by_the_optimizer(checkpoint, still):
        return verdict
    verdict = _some_moved(norms, still) if len(still) < len(norms) else _none_moved(checkpoint)
    if reason := _undecided(checkpoint):
        return dataclasses.replace(verdict, summary=f"{verdict.summary}; {reason}")
    return verdict


def _untold(norms: tuple[Norm, ...]) -> str:
    """Why the norms cannot be compared with their initial value, "" if they can."""
    for value, trouble in (("unread", "could not be read"), ("nonfinite", "hold NaN or Inf")):
        if found := [norm for norm in norms if norm.value == value]:
            first = shown(found[0].name)
            return f"{len(found)} of {len(norms)} norms {trouble}, such as {first}"
    return ""


def _by_the_optimizer(checkpoint: Checkpoint, still: list[Norm]) -> Verdict | None:
    """The verdict where the optimizer's state decides; None where it does not."""
    optimizer, norms = checkpoint.optimizer, checkpoint.norms
    if not isinstance(optimizer, Optimizer) or optimizer.norms is None:
        return None
    found = causes(checkpoint, optimizer, still, _legitimate(checkpoint))
    if not found:
        return None
    worst = max(found, key=lambda cause: RANK.index(cause.status))
    said = "; ".join(cause.words for cause in found)
    summary = f"{_at(norms, still)}: {said} ({BY[optimizer.norms.by or 'names']})"
    status = worst.status
    if len(still) < len(norms) and worst.fix in (NO_GRADIENT_FIX, LEFT_OUT_FIX):
        status = Status.WARN
        summary = f"{summary}, as in modules that are not used: {_named(still)}"
    if status is Status.PASS:
        return ok(summary)
    complain = fail if status is Status.FAIL else warn
    return complain(summary, fix=worst.fix, sources=worst.sources)


def _undecided(checkpoint: Checkpoint) -> str:
    """Why the optimizer's state does not decide, "" where there is none."""
    optimizer = checkpoint.optimizer
    if isinstance(optimizer, Unknown):
        return f"the optimizer's state could not be read: {optimizer.reason}"
    if optimizer is None or optimizer.norms is None or optimizer.norms.by:
        return ""
    return f"the optimizer's state cannot be attributed: {optimizer.norms.reason}"


def _some_moved(norms: tuple[Norm, ...], still: list[Norm]) -> Verdict:
    said = f"{_at(norms, still)}, the others moved: {_named(still)}"
    moved = [norm for norm in norms if norm.value == "other"]
    if all(_is(FOLDED, norm) for norm in still) and all(_is(UNFOLDED, norm) for norm in moved):
        return warn(
            f"{said}; all of them precede a linear layer, as norms do that were folded into it "
            "(QuaRot, SpinQuant, FlashNorm)"
        )
    return warn(f"{said}; a norm that trains gets a gradient", fix=GRADIENT_FIX)


def _is(pattern: re.Pattern[str], norm: Norm) -> bool:
    return bool(pattern.fullmatch(norm.name.casefold().removesuffix(".weight")))


def _at(norms: tuple[Norm, ...], still: list[Norm]) -> str:
    if len(still) < len(norms):
        return f"{len(still)} of {len(norms)} norms are exactly {_value(still)}"
    elements = sum(norm.size for norm in norms)
    return f"all {len(norms)} norms ({elements:,} elements) are exactly {_value(norms)}"


def _named(norms: list[Norm]) -> str:
    names = ", ".join(shown(norm.name) for norm in norms[:3])
    return f"{names} and {len(norms) - 3} more" if len(norms) > 3 else names


def _none_moved(checkpoint: Checkpoint) -> Verdict:
    norms, history, optimizer = checkpoint.norms, checkpoint.history, checkpoint.optimizer
    said = _at(norms, list(norms))
    if reason := _legitimate(checkpoint):
        return warn(f"{said}; {reason}")
    if history is None:
        return warn(f"{said}, and no trainer_state.json tells how far the run went")
    after = f"{said} after {history.steps:,} steps"
    if not history.covered:
        return warn(f"{after}; no learning rates were logged")
    if isinstance(optimizer, Optimizer) and keeps_no_state(optimizer):
        return _by_plain_sgd(after, norms)
    distance = math.sqrt(history.lr_squares)
    went = (
        f"{after}; a random walk of the {history.covered:,} logged "
        f"learning rates goes {distance:.2g}"
    )
    if distance < FAR:
        return warn(f"{went}, {FAR:g} required for a verdict")
    return _stuck(went, norms, history)


def _by_plain_sgd(said: str, norms: tuple[Norm, ...]) -> Verdict:
    low = all(norm.dtype in LOW and norm.value == "ones" for norm in norms)
    words = "plain SGD steps by the learning rate times the gradient, whose size is not told"
    return warn(f"{said}; {words}", fix=ROUNDING_FIX if low else GRADIENT_FIX)


def _legitimate(checkpoint: Checkpoint) -> str | None:
    """Why norms that all stand at one value may be as they should."""
    types = {checkpoint.model_type or "", checkpoint.text_model_type or ""}
    if types & RELEASED_AT_ONE:
        return "models of this family are released so"
    if checkpoint.quantized:
        return "quantisers fold the norms into the next layer"
    zeros = any(norm.value == "zeros" for norm in checkpoint.norms)
    if zeros and not any(ZERO_CENTRED.fullmatch(known) for known in types):
        return "that is the initial value of zero-centred norms, and this family is not known"
    return None


def _stuck(went: str, norms: tuple[Norm, ...], history: History) -> Verdict:
    """The run went far enough: whether rounding explains that nothing moved."""
    dtypes = sorted({norm.dtype for norm in norms})
    half = min(HALF_STEP[dtype] for dtype in dtypes)
    name = " and ".join(WORDS[dtype] for dtype in dtypes)
    if any(norm.value == "zeros" for norm in norms):
        cause = "no step is lost to rounding at 0.0, so these norms got no gradient"
        return fail(f"{went}; {cause}", fix=GRADIENT_FIX, sources=("unsloth-4533",))
    rate = history.lr_max or math.sqrt(history.lr_squares / max(history.covered, 1))
    if rate > half:
        cause = (
            f"{name} rounds back only steps of up to {half:.3g} at 1.0 and the learning rate was "
            f"up to {rate:.2g}: these norms received no gradient"
        )
        return fail(f"{went}; {cause}", fix=GRADIENT_FIX, sources=("unsloth-4533",))
    cause = (
        f"at 1.0 {name} rounds back a decrease of up to {half:.3g} and an increase of up to "
        f"{2 * half:.3g}, the largest learning rate was {rate:.2g}"
    )
    return fail(f"{went}; {cause}", fix=ROUNDING_FIX)


def _value(norms: tuple[Norm, ...] | list[Norm]) -> str:
    values = {norm.value for norm in norms}
    return " or ".join(word for key, word in (("ones", "1.0"), ("zeros", "0.0")) if key in values)


CHECKS = (
    Check(
        code="CKP004",
        slug="norms-moved",
        title="The norms differ from their initial value",
        why="Norm weights are born at 1.0, where bf16 cannot hold a decrease of up to 2^-9 "
        "(0.00195) or an increase of up to 2^-8 (0.0039): with weights in bf16 and an Adam step "
        "of the learning rate, every update rounds back and the norms never train. Norms without "
        "a gradient look the same, in any dtype. A copy that was rounded from fp32 weights does "
        "not: once a random walk has gone 0.001, about one element in forty has crossed the "
        "rounding. Where 0.0 is the initial value (weights used as 1 + w) nothing is lost to "
        "rounding, and norms at 0.0 had no gradient.",
        passes=(
            "every norm differs from all-ones and all-zeros, bit for bit",
            "the optimizer's state shows that fp32 weights are stepped and only the saved "
            "copy is rounded: its fp32 copies moved, or its moments for the norms are fp32 "
            "and not zero and a random walk of its steps goes less than 0.001",
        ),
        warns=(
            "some norms are exactly at 1.0 or 0.0 while others moved, without evidence of rounding",
            "fewer than 10 steps of the optimizer, unless the trainer counts 100 and more",
            "moments that are not zero although rounding does not explain it (weights "
            "stepped in fp32, at 0.0, with Kahan summation, or with a learning rate beyond "
            "eight times the rounding)",
            "where no optimizer's state decides: no trainer_state.json, no learning rates "
            "in it, sqrt(sum of lr^2) over the logged steps below 0.001, plain SGD (whose "
            "steps are not of the learning rate's size), a quantised model (folded norms), "
            "a family released so (OPT), or 0.0 in a family that is not known to be "
            "zero-centred. Other parameters born at 1.0 (Mamba's D, LayerScale, IA3) that "
            "are exactly 1.0 after a run that went 0.001",
        ),
        fails=(
            "norms are exactly at their initial value and the optimizer's moments for them "
            "are bf16 or fp16 and not zero, or fp32 in an optimizer that keeps them so for "
            "bf16 weights (bitsandbytes) after a random walk of 0.001: rounding swallowed "
            "the updates",
            "all norms are, and the optimizer has no state for them (no gradient), moments "
            "that are all zero (zero gradients), or does not have them in its groups "
            "(frozen or left out)",
            "where no optimizer's state decides, although sqrt(sum of lr^2) over the steps "
            "that trainer_state.json covers, the distance of a random walk with Adam-sized "
            "steps, is at least 0.001",
        ),
        fix="If the model was trained, see whether its weights were in bf16 during training "
        "and whether the norms got gradients; if it was not, or its norms were folded into the "
        "next layers, nothing is wrong.",
        limits="that the norms learned well: one bit that differs is enough to pass.",
        owner=Owner.JOB,
        judge=norms_moved,
        required="checkpoint",
        sources=(
            "fnr-precision",
            "fnr-root",
            "fnr-fix",
            "fnr-gradients",
            "ps-P17",
            "speculators-765",
            "flame-47",
            "transformers-24243",
            "optimi",
        ),
        after=("CKP001",),
    ),
)
