"""Norms at their initial value, judged without an optimizer's state."""

from __future__ import annotations

import math
import re

from doctor._util.units import counted, listed, shown
from doctor.checkpoint.dtypes import HALVES
from doctor.checkpoint.records import Checkpoint, History, Norm, Optimizer
from doctor.checks.checkpoint.loading import ADAPTER
from doctor.checks.checkpoint.norm_causes import (
    DTYPE_NAMES,
    HALF_STEP,
    LEAST_RATE,
    LOW_RATE_FIX,
    MASTER_FIX,
    MIN_DISTANCE,
    NO_GRADIENT_SOURCES,
    length_of_run,
    steps_by_rate,
)
from doctor.judge.check import Verdict, fail, note, unknown, warn

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


def some_unchanged(checkpoint: Checkpoint, initial: list[Norm]) -> Verdict:
    norms = checkpoint.contents.norms
    summary = f"{observed_norms(norms, initial)}, the others changed: {names_of(initial)}"
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


def observed_norms(norms: tuple[Norm, ...], initial: list[Norm]) -> str:
    if len(initial) < len(norms):
        return f"{len(initial)} of {len(norms)} norms are exactly {_value(initial)}"
    elements = sum(norm.size for norm in norms)
    some = f"all {len(norms)} norms" if len(norms) > 1 else "the only norm"
    verb = "are" if len(norms) > 1 else "is"
    return f"{some} ({counted(elements, 'element')}) {verb} exactly {_value(norms)}"


def names_of(norms: list[Norm]) -> str:
    return listed([shown(norm.name) for norm in norms], 3)


def all_unchanged(checkpoint: Checkpoint) -> Verdict:
    norms = checkpoint.contents.norms
    history, optimizer = checkpoint.training.history, checkpoint.training.optimizer
    observed = observed_norms(norms, list(norms))
    if not _shows_training(checkpoint):
        return _not_shown(checkpoint, observed)
    if reason := legitimate(checkpoint):
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


def _not_shown(checkpoint: Checkpoint, observed: str) -> Verdict:
    """Weights alone: of a new model, or of one whose norms did not train."""
    if reason := legitimate(checkpoint):
        return note(f"{observed}; {reason}")
    return unknown(f"{observed}, as in a new model: nothing here shows that it trained")


def _shows_training(checkpoint: Checkpoint) -> bool:
    """Files of a trainer that has stepped, or batch norms that have seen batches."""
    batches = any(state.initial < state.layers for state in checkpoint.contents.statistics)
    if batches or length_of_run(checkpoint):
        return True
    training = checkpoint.training
    saved = checkpoint.files.others or training.optimizer is not None
    return training.history is None and bool(saved)


def _with_unknown_steps(observed: str, norms: tuple[Norm, ...], kind: str) -> Verdict:
    half = all(norm.dtype in HALVES and norm.value == "ones" for norm in norms)
    summary = f"{observed}; the learning rate does not show how far {shown(kind, 40)} steps"
    return warn(summary, fix=ROUNDING_FIX if half else GRADIENT_FIX)


def legitimate(checkpoint: Checkpoint) -> str | None:
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
