"""Whether a checkpoint's norms moved away from the value they were born with."""

from __future__ import annotations

import math
import re

from doctor.checkpoint.names import shown
from doctor.model import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.sections import Checkpoint, History, Norm

FAR = 1e-3
"""sqrt(sum of lr^2): the distance of a random walk with steps of the learning rate."""

HALF_STEP = {"BF16": 2.0**-9, "F16": 2.0**-12, "F32": 2.0**-25, "F64": 2.0**-54}
"""The largest decrease at 1.0 that rounds back to it; an increase may be twice as large."""

WORDS = {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64"}

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
    "Keep the weights that the optimizer steps in fp32: load with dtype=torch.float32, leave out "
    "model.to(torch.bfloat16) and model.half(), and compute under torch.autocast. Where memory "
    "forbids that, take an optimizer with Kahan summation (torch-optimi) or stochastic rounding, "
    "or keep the norms alone in fp32. Norms that stood still have to be trained again. These "
    "files do not show the optimizer: if it did keep fp32 weights, look for norms without a "
    "gradient instead."
)
GRADIENT_FIX = (
    "Print param.grad of a norm after backward() and look for it in the optimizer's param_groups: "
    "it is frozen (requires_grad), left out of the optimizer, or a fused norm kernel returns no "
    "weight gradient. If the training itself ran in a lower precision than these files have, "
    "rounding is the cause: keep the weights in fp32 and compute under torch.autocast."
)


def norms_moved(checkpoint: Checkpoint) -> Verdict:
    norms = checkpoint.norms
    if reason := checkpoint.not_inspectable:
        return unknown(reason)
    if not checkpoint.tensors:
        return unknown("no header could be read")
    if not norms:
        return skip("no norm weights are in these files, as in adapters and models like OLMo v1")
    if unread := [norm for norm in norms if norm.value == "unread"]:
        first = shown(unread[0].name)
        return unknown(f"{len(unread)} of {len(norms)} norms could not be read, such as {first}")
    still = [norm for norm in norms if norm.value != "other"]
    if not still:
        return ok(f"{len(norms)} of {len(norms)} norms differ from 1.0 and 0.0")
    if len(still) < len(norms):
        names = ", ".join(shown(norm.name) for norm in still[:3])
        more = f" and {len(still) - 3} more" if len(still) > 3 else ""
        said = f"{len(still)} of {len(norms)} norms are exactly {_value(still)}, the others moved"
        return warn(f"{said}: {names}{more}; a norm that trains gets a gradient", fix=GRADIENT_FIX)
    return _none_moved(checkpoint)


def _none_moved(checkpoint: Checkpoint) -> Verdict:
    norms, history = checkpoint.norms, checkpoint.history
    elements = sum(norm.size for norm in norms)
    said = f"all {len(norms)} norms ({elements:,} elements) are exactly {_value(norms)}"
    if reason := _legitimate(checkpoint):
        return warn(f"{said}; {reason}")
    if history is None:
        return warn(f"{said}, and no trainer_state.json tells how far the run went")
    distance = math.sqrt(history.lr_squares)
    went = (
        f"{said} after {history.steps:,} steps; a random walk of the {history.covered:,} logged "
        f"learning rates goes {distance:.2g}"
    )
    if distance < FAR:
        return warn(f"{went}, {FAR:g} required for a verdict")
    return _stuck(went, norms, history)


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
        passes="every norm differs from all-ones and all-zeros, bit for bit",
        warns="some norms are exactly at 1.0 or 0.0 while others moved; or all are, without "
        "evidence why: no trainer_state.json, sqrt(sum of lr^2) over the logged steps below "
        "0.001, a quantised model (folded norms), a family released so (OPT), or 0.0 in a family "
        "that is not known to be zero-centred",
        fails="all norms are exactly at their initial value although sqrt(sum of lr^2) over the "
        "steps that trainer_state.json covers, the distance of a random walk with Adam-sized "
        "steps, is at least 0.001",
        fix="If the model was trained, see whether its weights were in bf16 during training "
        "and whether the norms got gradients; if it was not, or its norms were folded into the "
        "next layers, nothing is wrong.",
        owner=Owner.JOB,
        judge=norms_moved,
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
