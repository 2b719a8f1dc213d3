"""Whether a merged model is its base plus the adapters, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from statistics import median

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checkpoint.records import AdapterUse, Checkpoint, Merge
from doctor.checks.checkpoint.merge_outcome import NEAR, Outcome, outcome
from doctor.checks.checkpoint.merge_scale import mistake_fix, scale_reason
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

LOST, SOME_LOST = 0.5, 0.1
"""Shares of the update lost to rounding: from the first on a warning. Our own numbers."""

NOT_QUANTIZED = re.compile(r"norm|embed|wte|lm_head|bias")
"""Names of tensors that bitsandbytes leaves as they are."""


def merge_adds_up(checkpoint: Checkpoint) -> Verdict:
    merge = checkpoint.merge
    if merge is None or (isinstance(merge, Merge) and merge.untouched is None):
        return skip("no --merged-from")
    if isinstance(merge, Unknown):
        return unknown(f"the merge could not be compared: {merge.reason}")
    if named := next((each for each in merge.adapters if each.unsupported), None):
        return unknown(f"{named.path}: {named.unsupported}")
    if without := next((each for each in merge.adapters if each.unscaled), None):
        return unknown(f"{without.path}: {unscaled(without)}")
    if not merge.weights:
        return _nothing_compared(merge)
    outcomes = {weight.name: outcome(weight) for weight in merge.weights}
    return _wrong(merge, outcomes) or _right(merge, outcomes)


def _nothing_compared(merge: Merge) -> Verdict:
    for adapter in merge.adapters:
        if adapter.unmatched_count or adapter.misfit_count:
            return fail(f"no weight could be compared: {misfit(adapter)}", fix=OTHER_FIX)
    if merge.unread:
        return unknown(f"no weight could be compared: {shown(merge.unread[0], 300)}")
    if merge.replaced:
        return _replaced(merge) or ok("every tensor that the adapters bring is in the model")
    return unknown("the adapters hold no pair of factors")


def misfit(adapter: AdapterUse) -> str:
    """The first module of an adapter that the base has no place for."""
    if adapter.misfits:
        return f"{adapter.misfit_count:,} modules have other shapes: {adapter.misfits[0]}"
    names = listed(list(adapter.unmatched), 2)
    return f"{adapter.unmatched_count:,} modules are of no tensor of the base: {names}"


def unscaled(adapter: AdapterUse) -> str:
    """How many modules have no scale, and why."""
    if adapter.unscaled_reason:
        return f"no scale is known for {adapter.unscaled:,} modules: {adapter.unscaled_reason}"
    return f"no scale is configured for {adapter.unscaled:,} modules"


def _wrong(merge: Merge, outcomes: dict[str, Outcome]) -> Verdict | None:
    counts = Counter(outcomes.values())
    decided = len(outcomes) - counts["undecided"]
    if counts["nonfinite"]:
        return fail(f"{counts['nonfinite']:,} merged weights hold NaN or Inf", fix=AGAIN_FIX)
    if not decided:
        return None
    of = f"of {decided:,} weights"
    if counts["absent"] == decided:
        text = f"all {decided:,} weights are the base's: the adapters were not merged"
        return fail(text, fix=AGAIN_FIX)
    if counts["scaled"] and counts["scaled"] + counts["absent"] == decided:
        return _wrong_scale(merge, outcomes, decided)
    if counts["other"]:
        return _other(merge, outcomes, f"{counts['other']:,} {of}")
    return (
        _in_part(merge, outcomes, counts, of)
        or _rows(merge, outcomes)
        or _wrong_median(merge, outcomes, decided)
        or _replaced(merge)
    )


def _in_part(
    merge: Merge, outcomes: dict[str, Outcome], counts: Counter[Outcome], of: str
) -> Verdict | None:
    """Where some weights are right and others are the base's, or have another scale."""
    if counts["absent"]:
        names = _names(outcomes, "absent")
        text = f"{counts['absent']:,} {of} are the base's: merged in part, without {names}"
        return fail(text, fix=AGAIN_FIX)
    if counts["scaled"]:
        names = _names(outcomes, "scaled")
        text = f"{counts['scaled']:,} {of} have another scale than the rest, such as {names}"
        if any(each.patterns for each in merge.adapters):
            text = f"{text}: alpha_pattern or rank_pattern of the adapter was left out"
        return fail(text, fix=AGAIN_FIX)
    return None


def _rows(merge: Merge, outcomes: dict[str, Outcome]) -> Verdict | None:
    """Where a weight is right but for some rows."""
    weights = [weight for weight in merge.weights if outcomes[weight.name] == "rows"]
    if not weights:
        return None
    first = max(weights, key=lambda weight: weight.rows_off)
    text = f"{len(weights):,} weights are base + adapters but for some rows"
    text = f"{text}: {shown(first.name, 120)} in {first.rows_off:,}, row {first.first_off} first"
    return fail(text, fix=AGAIN_FIX)


def _wrong_median(merge: Merge, outcomes: dict[str, Outcome], decided: int) -> Verdict | None:
    scales = _scales(merge, outcomes, "merged")
    if len(scales) >= 4 and abs(median(scales) - 1) > NEAR:
        return _wrong_scale(merge, outcomes, decided)
    return None


def _scales(merge: Merge, outcomes: dict[str, Outcome], *which: Outcome) -> list[float]:
    scaled = ((w.scale, outcomes[w.name]) for w in merge.weights)
    return [scale for scale, outcome in scaled if scale is not None and outcome in which]


def _wrong_scale(merge: Merge, outcomes: dict[str, Outcome], decided: int) -> Verdict:
    if reason := _another_base(merge):
        return fail(f"{decided:,} weights are not base + adapters; {reason}", fix=OTHER_FIX)
    scales = _scales(merge, outcomes, "scaled", "merged")
    if abs(median(scales) - 1) <= NEAR:
        share = median(each.explained for each in merge.weights if outcomes[each.name] == "scaled")
        text = f"{decided:,} weights moved with the update, which explains {share:.0%} of it"
        return fail(f"{text}: an adapter of another step was merged", fix=OTHER_ADAPTER_FIX)
    text = f"{decided:,} weights moved by {median(scales):.3g} times the update, 1 required"
    if reason := scale_reason(merge, median(scales)):
        text = f"{text}: {reason}"
    return fail(text, fix=SCALE_FIX)


def _names(outcomes: dict[str, Outcome], which: Outcome) -> str:
    return listed([shown(name, 120) for name, each in outcomes.items() if each == which], 2)


def _other(merge: Merge, outcomes: dict[str, Outcome], count: str) -> Verdict:
    weights = [weight for weight in merge.weights if outcomes[weight.name] == "other"]
    first = max(weights, key=lambda weight: weight.residual / (weight.bound or 1))
    size = first.residual / first.base if first.base else 0.0
    rest = f"{count} are not base + adapters: {shown(first.name, 120)} is off by {size:.2g}"
    rest = f"{rest} of the base's size"
    if converted := next((each for each in merge.adapters if each.converted), None):
        reason = (
            f"{converted.path} was initialized by {converted.converted}, which changed its base"
        )
        return unknown(f"{rest}; {reason}: name the converted base")
    if reason := _another_base(merge):
        return fail(f"{rest}; {reason}", fix=OTHER_FIX)
    if known := next((each.instead for each in weights if each.instead), ""):
        named = next(each for each in weights if each.instead)
        text = f"{count} are not base + adapters: {shown(named.name, 120)} is the base plus {known}"
        return fail(text, fix=mistake_fix(known))
    moving = [w.scale for w in weights if w.scale is not None]
    if moving and abs(median(moving) - 1) <= 0.25:
        return fail(f"{rest}; the adapters are in it, and something else is, too", fix=OTHER_FIX)
    if merge.untouched and merge.untouched.compared and not merge.untouched.changed_count:
        text = f"{rest}; all other tensors are the base's: another adapter was merged, or the"
        return fail(f"{text} weights were trained further", fix=OTHER_ADAPTER_FIX)
    return fail(f"{rest}; the adapters are not in it, another change is", fix=OTHER_FIX)


def _another_base(merge: Merge) -> str:
    """What shows that other tensors than the adapters' differ, too; "" where few do."""
    rest = merge.untouched
    if rest is None or rest.changed_count <= max(1, rest.compared // 4) or _quantized(merge):
        return ""
    text = f"{rest.changed_count:,} of {rest.compared:,} other tensors differ too"
    return f"{text}: it was made from another base"


def _quantized(merge: Merge) -> str:
    """The quantization of the base that explains what differs, "" where none does."""
    rest = merge.untouched
    if rest is not None and any(NOT_QUANTIZED.search(name) for name in rest.changed):
        return ""
    if rest is not None and rest.quantized:
        return rest.quantized
    return next((weight.quantized for weight in merge.weights if weight.quantized), "")


def _replaced(merge: Merge) -> Verdict | None:
    """Tensors that the adapters bring whole and that are not in the merged model."""
    absent = [each for each in merge.replaced if not each.matches]
    if not absent:
        others = [each for each in merge.replaced if each.other_rows]
        if not others:
            return None
        text = f"{others[0].other_rows:,} rows of {others[0].name} differ from the base"
        return fail(f"{text}, of which the adapter brings none", fix=OTHER_FIX)
    names = listed([each.name for each in absent], 3)
    kept = " (they are the base's)" if all(each.as_base for each in absent) else ""
    text = f"{len(absent):,} of {len(merge.replaced):,} tensors that the adapters bring"
    return fail(f"{text} are not in the merged model{kept}: {names}", fix=AGAIN_FIX)


def _right(merge: Merge, outcomes: dict[str, Outcome]) -> Verdict:
    counts = Counter(outcomes.values())
    decided = len(outcomes) - counts["undecided"]
    lost = _lost(merge)
    kept = f"{lost:.0%} of the update is lost to {_grids(merge)} rounding"
    if not decided:
        return unknown(f"the update is below the rounding of the stored dtype: {kept}")
    if merge.unread_count:
        rest = f"{merge.unread_count:,} could not be compared: {shown(merge.unread[0], 200)}"
        return unknown(f"{decided:,} weights are base + adapters; {rest}")
    text = f"{decided:,} weights are base + adapters"
    if counts["undecided"]:
        text = f"{text}; {counts['undecided']:,} have updates below the rounding"
    if counts["quantized"]:
        kind = next(w.quantized for w in merge.weights if w.quantized)
        if again := sum(w.requantized for w in merge.weights):
            text = f"{again:,} weights are base + adapters, both rounded to {kind}"
            return warn(f"{text}: merged into a quantized base", fix=QUANTIZED_FIX)
        return note(f"{text}; the base was quantized to {kind} before the merge")
    if lost >= LOST:
        return warn(f"{text}; {kept}", fix=LOST_FIX)
    return note(f"{text}; {kept}") if lost >= SOME_LOST else ok(text)


def _lost(merge: Merge) -> float:
    sizes = [(weight.update**2 * weight.elements, weight.lost) for weight in merge.weights]
    total = sum(size for size, _ in sizes)
    return sum(size * lost for size, lost in sizes) / total if total else 0.0


def _grids(merge: Merge) -> str:
    return " and ".join(sorted({shown(weight.grid, 20) for weight in merge.weights}))


def rest_differs(merge: Merge, text: str) -> Verdict:
    if kind := _quantized(merge):
        text = f"{text}; the base was quantized to {kind} before the merge"
        return warn(text, fix=QUANTIZED_FIX)
    return fail(text, fix=OTHER_FIX)


AGAIN_FIX = (
    "Merge again from the base: load it in fp32, load the adapter with PeftModel.from_pretrained, "
    "call merge_and_unload() once, and save the model that it returns."
)
SCALE_FIX = (
    "Merge again from the base, each adapter once, scaled by lora_alpha / r of its own "
    "adapter_config.json (by the square root of r for rsLoRA)."
)
QUANTIZED_FIX = (
    "Load the base in the dtype that it was published in (bf16 or fp32), without a quantization "
    "config, and merge the adapter into that: what the quantization rounded stays in the merged "
    "weights."
)
OTHER_FIX = (
    "Merge into the base that the adapter was trained on: compare base_model_name_or_path of "
    "adapter_config.json and the revision with the base that was used."
)
OTHER_ADAPTER_FIX = (
    "Name the adapter that was merged, with its step; or merge again from the base with this one: "
    "PeftModel.from_pretrained, then merge_and_unload() once."
)
LOST_FIX = (
    "Merge in fp32 and keep the result in fp32, or serve base and adapter without merging: what "
    "is smaller than half a unit of the stored dtype rounds back to the base."
)

ADDS_UP = Check(
    code="CKP015",
    slug="merge-adds-up",
    title="The merged model is its base plus the adapters",
    why="A merge with the wrong scale, into another base, twice or in part loads and runs like a "
    "right one; only its answers differ. merged - base is compared with the adapters' product, "
    "weight by weight, within what the roundings of the merge leave.",
    passes=("every weight that the adapters change is base + product, within the roundings",),
    notes=("a tenth of the update is lost to rounding", "the base was quantized before the merge"),
    warns=(
        "half of the update is lost to the rounding of the stored dtype",
        "the adapters were merged into a quantized base, which rounded the sum again",
    ),
    fails=(
        "the adapters are not in the model, or only in some of its weights or rows",
        "the weights moved by another multiple of the update",
        "the weights moved in another direction, too: another base or a further change",
        "a tensor that an adapter brings whole is not in the model",
    ),
    fix=AGAIN_FIX,
    limits="that all rows of a DoRA merge are alike: rows spread over each weight are read, with "
    "--deep all of them.",
    owner=Owner.JOB,
    judge=merge_adds_up,
    required="checkpoint",
    sources=("peft-lora",),
    after=("CKP001",),
)

CHECKS = (ADDS_UP,)
