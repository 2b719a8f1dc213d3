"""Whether a checkpoint's norms changed from their initial value."""

from __future__ import annotations

import dataclasses
import math
import re

from doctor._util.records import Unknown
from doctor._util.units import counted, listed, shown
from doctor.checkpoint.dtypes import HALVES
from doctor.checkpoint.records import Checkpoint, History, Norm, Optimizer
from doctor.checks.checkpoint.loading import ADAPTER
from doctor.checks.checkpoint.norm_causes import (
    DTYPE_NAMES,
    HALF_STEP,
    LEAST_RATE,
    LEFT_OUT_FIX,
    LOW_RATE_FIX,
    MASTER_FIX,
    MATCHED_BY,
    MIN_DISTANCE,
    MIN_STEPS,
    NO_GRADIENT_FIX,
    NO_GRADIENT_SOURCES,
    causes,
    distance_of_steps,
    length_of_run,
    steps_by_rate,
)
from doctor.checks.checkpoint.optimizer import unread_state
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn

COPY_FIX = (
    "Copy the buffers with the average: AveragedModel(use_buffers=True), or "
    "ema_buffer.copy_(buffer) for each of buffers() at every update. For this file, copy "
    "running_mean, running_var and num_batches_tracked of the trained model into the average, or "
    "recompute them with torch.optim.swa_utils.update_bn(loader, model). If update_bn runs before "
    "each use, nothing is wrong."
)
EVAL_FIX = (
    "Call model.train() before the steps, and again after each evaluation: batch norms in eval() "
    "neither use nor record the statistics of the batches."
)

RANK = (Status.PASS, Status.WARN, Status.FAIL)

ZERO_CENTERED = re.compile(
    r"(?:gemma[23]?|recurrent_gemma|paligemma|shieldgemma2|t5_?gemma2?|vaultgemma|qwen3_next"
    r"|qwen3_5(?:_moe)?|qwen4_exp|minimax_m3_vl|muse_glimmer|muse_spark|step3p[57]|videoprism"
    r"|nemotron)(?:_text|_module|_encoder|_decoder|_vision)?(?:_model)?"
)
"""model_type of families that multiply by 1 + weight (transformers 5.23), so that 0.0 is the
initial value. Some of their norms are initialized to 1.0 nevertheless."""

RELEASED_AT_ONE = frozenset({"opt"})
"""Families released with every norm at 1.0 (transformers-24243)."""

ROUNDING_FIX = (
    f"{MASTER_FIX} These files do not include the optimizer: if it did keep fp32 weights, look for "
    "norms without a gradient instead."
)
GRADIENT_FIX = (
    "Print param.grad of a norm after backward() and look for it in the optimizer's param_groups: "
    "it is frozen (requires_grad), left out of the optimizer, or a fused norm kernel returns no "
    "weight gradient. If training ran in a lower precision than that of these files, rounding is "
    "the cause: keep the weights in fp32 and compute under torch.autocast."
)

ZEROS_FIX = (
    "Compare the file's checksum with the source's, or scan with --deep, which finds stretches of "
    "zeros. If the gains begin at 0.0 (zero_init_residual), print their param.grad "
    "after backward()."
)
ANEW_FIX = (
    "Compare with an earlier checkpoint (--baseline): layers that a resumed run did not find in "
    "its files are initialized anew, and have nothing in common with what they were. If they were "
    "frozen on purpose, nothing is wrong; else print param.grad of a norm after backward()."
)

LAYER = re.compile(r"(?:^|\.)(\d+)\.")

FOLDED = re.compile(
    r".*(?:input|post_attention|pre_feedforward)_layernorm|.*ln_[12]|.*(?:attention|ffn|mlp)_norm"
    r"|(?:.*\.)?(?:final_)?norm(?:_f)?|.*(?:attn|ffn|output)_norm"
)
"""Norms that precede a linear layer, into which their weights can be folded."""

UNFOLDED = re.compile(r".*(?:[qk]|q_a|kv_a|post)_?(?:layer)?norm")
"""Norms whose weights cannot be folded."""


def norms_changed(checkpoint: Checkpoint) -> Verdict:
    verdict = _others_at_one(checkpoint, _norms(checkpoint))
    if verdict.status in (Status.PASS, Status.SKIP):
        return _statistics(checkpoint) or verdict
    return verdict


def _statistics(checkpoint: Checkpoint) -> Verdict | None:
    """The warning on a model or a copy of it whose batch norms saw no batch; None for neither."""
    all_states = checkpoint.contents.statistics
    seen = max((state.layers - state.initial for state in all_states if not state.copy), default=0)
    for state in all_states:
        initial = state.initial == state.layers
        where = f"the {state.layers:,} batch norms of {shown(state.state, 60) or 'the model'}"
        text = f"{where} have the statistics of a new model, mean 0 and variance 1"
        if state.copy and initial and seen:
            return warn(f"{text}; those of the trained model have seen batches", fix=COPY_FIX)
        steps = length_of_run(checkpoint)
        if not state.state and initial and steps and steps >= MIN_STEPS:
            return warn(f"{text}, after {steps:,} steps", fix=EVAL_FIX)
    return None


def _others_at_one(checkpoint: Checkpoint, verdict: Verdict) -> Verdict:
    """The verdict with other parameters whose initial value is 1.0."""
    vectors = checkpoint.contents.initialized_to_one
    initial = [vector for vector in vectors if vector.value == "ones"]
    if not initial or verdict.status is Status.UNKNOWN:
        return verdict
    summary = (
        f"{verdict.summary}; of {len(vectors)} other parameters that are initialized to 1.0, "
        f"{len(initial)} are exactly 1.0: {_names(initial)}"
    )
    if verdict.status in (Status.PASS, Status.SKIP) and _long_run(checkpoint):
        return warn(summary, fix=GRADIENT_FIX)
    return dataclasses.replace(verdict, summary=summary)


def _long_run(checkpoint: Checkpoint) -> bool:
    return distance_of_steps(checkpoint) >= MIN_DISTANCE


def _norms(checkpoint: Checkpoint) -> Verdict:
    norms = checkpoint.contents.norms
    if reason := checkpoint.not_inspectable:
        return unknown(reason)
    if not checkpoint.contents.tensors:
        return unknown("no header could be read")
    if not norms:
        return skip("no norm weights in these files, as in adapters and models like OLMo v1")
    if reason := _not_comparable(norms):
        return unknown(reason)
    initial = [norm for norm in norms if norm.value != "other"]
    if not initial:
        return ok(f"{len(norms)} of {len(norms)} norms differ from 1.0 and 0.0")
    if verdict := _by_optimizer(checkpoint, initial):
        return verdict
    some = len(initial) < len(norms)
    verdict = _some_unchanged(checkpoint, initial) if some else _all_unchanged(checkpoint)
    if reason := _undecided(checkpoint):
        return dataclasses.replace(verdict, summary=f"{verdict.summary}; {reason}")
    return verdict


def _not_comparable(norms: tuple[Norm, ...]) -> str:
    """Why the norms cannot be compared with their initial value, "" if they can."""
    for value, problem in (("unread", "could not be read"), ("nonfinite", "hold NaN or Inf")):
        if affected := [norm for norm in norms if norm.value == value]:
            first = shown(affected[0].name)
            return f"{len(affected)} of {len(norms)} norms {problem}, such as {first}"
    return ""


def _by_optimizer(checkpoint: Checkpoint, initial: list[Norm]) -> Verdict | None:
    """The verdict where the optimizer's state decides; None where it does not."""
    optimizer, norms = checkpoint.training.optimizer, checkpoint.contents.norms
    if not isinstance(optimizer, Optimizer) or optimizer.norms is None:
        return None
    explanations = causes(checkpoint, optimizer, initial, _legitimate(checkpoint))
    if not explanations:
        return None
    worst = max(explanations, key=lambda cause: RANK.index(cause.status))
    reasons = "; ".join(cause.summary for cause in explanations)
    matched = MATCHED_BY[optimizer.norms.matched_by or "names"]
    summary = f"{_observed(norms, initial)}: {reasons} ({matched})"
    status = worst.status
    if len(initial) < len(norms) and worst.fix in (NO_GRADIENT_FIX, LEFT_OUT_FIX):
        status = Status.WARN
        summary = f"{summary}, as in unused modules: {_names(initial)}"
    if status is Status.PASS:
        return ok(summary)
    verdict = fail if status is Status.FAIL else warn
    return verdict(summary, fix=worst.fix, sources=worst.sources)


def _undecided(checkpoint: Checkpoint) -> str:
    """Why the optimizer's state does not decide, "" where there is none."""
    optimizer = checkpoint.training.optimizer
    if isinstance(optimizer, Unknown):
        return unread_state(optimizer)
    if optimizer is None or optimizer.norms is None or optimizer.norms.matched_by:
        return ""
    return f"the optimizer's state cannot be matched with the norms: {optimizer.norms.reason}"


def _some_unchanged(checkpoint: Checkpoint, initial: list[Norm]) -> Verdict:
    norms = checkpoint.contents.norms
    summary = f"{_observed(norms, initial)}, the others changed: {_names(initial)}"
    changed = [norm for norm in norms if norm.value == "other"]
    folded = all(_matches(FOLDED, norm) for norm in initial)
    if folded and all(_matches(UNFOLDED, norm) for norm in changed):
        return warn(
            f"{summary}; all precede a linear layer, as norms folded into it do (QuaRot, "
            "SpinQuant, FlashNorm)"
        )
    if all(norm.value == "zeros" for norm in initial) and not _is_zero_centered(checkpoint):
        text = f"{summary}: as bytes that an unfinished download left, or gains initialized to 0.0"
        return warn(f"{text} that did not train", fix=ZEROS_FIX)
    if layers := _whole_layers(initial, changed):
        text = (
            f"{summary}; they are all norms of layer{'s' * (len(layers) > 1)} {listed(layers, 4)}"
        )
        return warn(f"{text}: initialized anew, or frozen", fix=ANEW_FIX)
    return warn(f"{summary}; all norms changed required", fix=GRADIENT_FIX)


def _whole_layers(initial: list[Norm], changed: list[Norm]) -> list[str]:
    """The numbers of layers of which no norm changed; [] where some of a layer's did."""
    layers, others = (
        {match[1] if (match := LAYER.search(norm.name)) else "" for norm in norms}
        for norms in (initial, changed)
    )
    apart = "" not in layers and not layers & others and others - {""}
    return sorted(layers, key=int) if apart else []


def _matches(pattern: re.Pattern[str], norm: Norm) -> bool:
    return bool(pattern.fullmatch(norm.name.casefold().removesuffix(".weight")))


def _observed(norms: tuple[Norm, ...], initial: list[Norm]) -> str:
    if len(initial) < len(norms):
        return f"{len(initial)} of {len(norms)} norms are exactly {_value(initial)}"
    elements = sum(norm.size for norm in norms)
    some = f"all {len(norms)} norms" if len(norms) > 1 else "the only norm"
    verb = "are" if len(norms) > 1 else "is"
    return f"{some} ({counted(elements, 'element')}) {verb} exactly {_value(norms)}"


def _names(norms: list[Norm]) -> str:
    return listed([shown(norm.name) for norm in norms], 3)


def _all_unchanged(checkpoint: Checkpoint) -> Verdict:
    norms = checkpoint.contents.norms
    history, optimizer = checkpoint.training.history, checkpoint.training.optimizer
    observed = _observed(norms, list(norms))
    if reason := _legitimate(checkpoint):
        return warn(f"{observed}; {reason}")
    steps = length_of_run(checkpoint)
    if history is None and steps:
        return warn(f"{observed} after {steps:,} steps; no learning rates were logged")
    if history is None:
        return warn(f"{observed}; the length of the run is unknown without trainer_state.json")
    observed = f"{observed} after {history.steps:,} steps"
    if not history.covered:
        return warn(f"{observed}; no learning rates were logged")
    if isinstance(optimizer, Optimizer) and not steps_by_rate(optimizer):
        return _with_unknown_steps(observed, norms, optimizer.kind)
    distance = math.sqrt(history.lr_squares)
    observed = (
        f"{observed}; a random walk with the {history.covered:,} logged learning rates covers "
        f"{distance:.2g}"
    )
    if distance < MIN_DISTANCE:
        return warn(f"{observed}, {MIN_DISTANCE:g} required for a verdict")
    return _unchanged_after_long_run(observed, norms, history)


def _with_unknown_steps(observed: str, norms: tuple[Norm, ...], kind: str) -> Verdict:
    half = all(norm.dtype in HALVES and norm.value == "ones" for norm in norms)
    summary = f"{observed}; the learning rate does not show how far {shown(kind, 40)} steps"
    return warn(summary, fix=ROUNDING_FIX if half else GRADIENT_FIX)


def _legitimate(checkpoint: Checkpoint) -> str | None:
    """Why norms that are all at one value may be correct."""
    if _model_types(checkpoint) & RELEASED_AT_ONE:
        return "models of this family are released with all norms at 1.0"
    if any(ADAPTER.fullmatch(role.name) for role in checkpoint.contents.roles):
        return "these files hold adapters, and the base model beside them is frozen on purpose"
    if checkpoint.model.quantized:
        return "quantizers fold the norms into the next layer"
    zeros = any(norm.value == "zeros" for norm in checkpoint.contents.norms)
    if zeros and not _is_zero_centered(checkpoint):
        return "zero-centered norms are initialized to 0.0, and this family is not known for them"
    return None


def _model_types(checkpoint: Checkpoint) -> set[str]:
    return {checkpoint.model.model_type or "", checkpoint.model.text_model_type or ""}


def _is_zero_centered(checkpoint: Checkpoint) -> bool:
    return any(ZERO_CENTERED.fullmatch(name) for name in _model_types(checkpoint))


def _unchanged_after_long_run(observed: str, norms: tuple[Norm, ...], history: History) -> Verdict:
    """The run was long enough: whether rounding explains that nothing changed."""
    dtypes = sorted({norm.dtype for norm in norms})
    half = min(HALF_STEP[dtype] for dtype in dtypes)
    name = " and ".join(DTYPE_NAMES[dtype] for dtype in dtypes)
    if any(norm.value == "zeros" for norm in norms):
        cause = "at 0.0 no update is lost to rounding: no gradient"
        return fail(f"{observed}; {cause}", fix=GRADIENT_FIX, sources=NO_GRADIENT_SOURCES)
    rate = history.lr_max or math.sqrt(history.lr_squares / max(history.covered, 1))
    if rate > half:
        cause = (
            f"{name} rounds back only steps of up to {half:.3g} at 1.0 and the learning rate was "
            f"up to {rate:.2g}: no gradient"
        )
        return fail(f"{observed}; {cause}", fix=GRADIENT_FIX, sources=NO_GRADIENT_SOURCES)
    if rate < LEAST_RATE:
        return warn(f"{observed}; the largest learning rate was {rate:.2g}", fix=LOW_RATE_FIX)
    cause = (
        f"at 1.0 {name} rounds back a decrease of up to {half:.3g} and an increase of up to "
        f"{2 * half:.3g}, the largest learning rate was {rate:.2g}"
    )
    return fail(f"{observed}; {cause}", fix=ROUNDING_FIX)


def _value(norms: tuple[Norm, ...] | list[Norm]) -> str:
    values = {norm.value for norm in norms}
    return " or ".join(text for key, text in (("ones", "1.0"), ("zeros", "0.0")) if key in values)


NORMS = Check(
    code="CKP004",
    slug="norms-changed",
    aliases=("norms-moved",),
    title="The norms differ from their initial value",
    why="Norm weights are initialized to 1.0, where bf16 rounds back a decrease of up to 2^-9 "
    "(0.00195) and an increase of up to 2^-8: with bf16 weights and typical learning rates every "
    "update is lost, and the norms never train. Norms without a gradient look the same. A bf16 "
    "copy of fp32 weights does not, after a long run.",
    passes=(
        "every norm differs from all ones and all zeros, bit for bit",
        "the optimizer's fp32 copies of the norms changed: only the saved copy is rounded",
        "the optimizer's moments for them are fp32 and not zero, and the run was short: a random "
        "walk of its steps covers less than 0.001",
    ),
    warns=(
        "some norms are exactly 1.0 or 0.0 while others changed, without evidence of rounding",
        "the optimizer took fewer than 10 steps",
        "the optimizer's moments are not zero, and rounding does not explain the norms: fp32 "
        "weights, 0.0, Kahan summation, or a learning rate beyond eight times the rounding",
        "without an optimizer's state: the learning rates are unknown, or sqrt(sum of lr^2) over "
        "the logged steps is below 0.001",
        "the steps of the optimizer do not follow from its learning rate (SGD, Rprop, Adagrad)",
        "adapters lie in the same file, the model is quantized, its family is released so (OPT), "
        "or the norms are 0.0 in a family that is not known to be zero-centered",
        "the batch norms of an average of the weights have a mean of 0 and a variance of 1, while "
        "those of the model have seen batches; or the model's own have, after 10 or more steps",
        "other parameters initialized to 1.0 (Mamba's D, LayerScale, IA3) are exactly 1.0 after a "
        "long run",
    ),
    fails=(
        "norms are at their initial value, and the optimizer's moments for them are bf16 or fp16 "
        "and not zero: the updates were lost to rounding",
        "the same with fp32 moments in an optimizer that keeps them so for bf16 weights, after a "
        "random walk of 0.001",
        "all norms are at their initial value, and the optimizer has no state for them, moments "
        "that are all zero, or does not have them in its groups",
        "without an optimizer's state: all norms are at their initial value although sqrt(sum of "
        "lr^2) over the logged steps is at least 0.001",
    ),
    fix="If the model was trained, check whether its weights were in bf16 during training and "
    "whether the norms received gradients. If it was not trained, or its norms were folded into "
    "the next layers, nothing is wrong.",
    limits="that the norms learned well: one different bit suffices.",
    owner=Owner.JOB,
    judge=norms_changed,
    required="checkpoint",
    sources=(
        "fnr-precision",
        "fnr-root",
        "fnr-fix",
        "fnr-gradients",
        "speculators-765",
        "flame-47",
        "transformers-24243",
        "optimi",
    ),
    after=("CKP001",),
)

CHECKS = (NORMS,)
