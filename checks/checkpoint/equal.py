"""Whether two checkpoints hold the same values."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checkpoint.computed import not_computed
from doctor.checkpoint.records import Checkpoint, Differing, Equality
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

EXCHANGED_FIX = (
    "Correct the order in which the conversion splits a fused tensor (gate and up, queries, keys "
    "and values) or numbers the layers, and convert again."
)

ROUGH = 0.9
"""Relative difference from which values have nothing in common. Our own number."""


def equals_other(checkpoint: Checkpoint) -> Verdict:
    equality = checkpoint.equality
    if equality is None:
        return skip("no --equals")
    if isinstance(equality, Unknown):
        return unknown(f"the checkpoints could not be compared: {equality.reason}")
    same = equality.equal + sum(equality.converted.values())
    if not (equality.compared or equality.unread):
        return fail("no tensor of one has a name that the other has", fix=NAMES_FIX)
    return _different(equality) or _incomplete(equality, same) or _equal(equality, same)


def _different(equality: Equality) -> Verdict | None:
    of = f"of {equality.compared:,} tensors"
    if len(turned := [name for name in equality.converted if name.startswith(TURNED)]) > 1:
        text = f"{listed(turned, 3)}: heads of one size required"
        return fail(text, fix=HEADS_FIX)
    if equality.differing_count:
        first = equality.differing[0]
        worst = max(equality.differing, key=lambda each: each.relative or 0.0)
        text = f"{equality.differing_count:,} {of} differ: {_described(first)}"
        if pairs := [f"{here} has those of {there}" for here, there in equality.exchanged.items()]:
            text = f"{equality.differing_count:,} {of} differ, with the values of other tensors"
            return fail(f"{text}: {listed(pairs, 3)}", fix=EXCHANGED_FIX)
        if worst is not first:
            text = f"{text}; the most {_described(worst)}"
        if reason := _reason(equality):
            text = f"{text}; {reason}"
        return fail(text, fix=ORDER_FIX if "order" in text or TURNED in text else VALUES_FIX)
    if equality.reshaped_count:
        text = f"{equality.reshaped_count:,} {of} have other shapes"
        return fail(f"{text}: {listed(list(equality.reshaped), 2)}", fix=NAMES_FIX)
    return None


def _described(each: Differing) -> str:
    share = f"{each.elements:,} of {each.of:,} elements"
    relative = "" if each.relative is None else f", {each.relative:.2g} of its size"
    return f"{each.name} in {share} by up to {each.largest:.2g}{relative}"


def _reason(equality: Equality) -> str:
    """What would explain the differences, "" where nothing known does."""
    reasons = {each.reason for each in equality.differing}
    if len(reasons) == 1 and (only := reasons.pop()):
        return only
    if any("order" in each or each.startswith(TURNED) for each in reasons):
        return "; ".join(sorted(filter(None, reasons)))
    known = [each for each in equality.differing if each.relative is not None]
    rough = [each for each in known if (each.relative or 0.0) >= ROUGH]
    if len(known) > 1 and 2 * len(rough) > len(known):
        return "they have nothing in common: other rows, other tensors or another model"
    if equality.differing_count == 1:
        return "one tensor alone: changed, damaged or tied in one of the two"
    if equality.differing_count == equality.compared and known:
        return "every tensor: another step of the run, or an average of its weights"
    return ""


def _incomplete(equality: Equality, same: int) -> Verdict | None:
    here, there = not_computed(equality.here), not_computed(equality.there)
    if _tied_only(here) and _tied_only(there):
        here = there = []
    if here or there:
        where = [
            f"{equality.here_count:,} only here ({listed(here, 2)})" * bool(here),
            f"{equality.there_count:,} only in the other ({listed(there, 2)})" * bool(there),
        ]
        text = f"{same:,} tensors are equal; {', '.join(filter(None, where))}"
        return warn(text, fix=NAMES_FIX)
    if equality.unread:
        reason, count = next(iter(equality.unread.items()))
        total = sum(equality.unread.values())
        more = f"; {total - count:,} for other reasons" if total > count else ""
        text = f"{same:,} tensors are equal; {count:,} could not be compared: {shown(reason, 200)}"
        return unknown(f"{text}{more}")
    return None


def _tied_only(names: list[str]) -> bool:
    """A head that one of the two keeps as the embedding alone."""
    return len(names) <= 1 and all("head" in name or "embed" in name for name in names)


def _equal(equality: Equality, same: int) -> Verdict:
    text = f"{same:,} tensors are equal"
    alone = equality.here_count + equality.there_count
    if alone:
        names = listed([*equality.here, *equality.there], 3)
        text = f"{text}; {alone:,} are in one of them alone, as tied or computed ones: {names}"
    if equality.converted:
        applied = ", ".join(
            f"{shown(name, 100)} ({count:,})" for name, count in equality.converted.items()
        )
        return note(f"{text} after {applied}")
    return ok(text) if not alone else note(text)


TURNED = "permuted rotary halves"

ORDER_FIX = (
    "Convert again without the permutation of rows, or with the number of heads of config.json, "
    "and compare the logits of both: llama.cpp and Meta interleave the halves of rotary heads, "
    "transformers does not."
)
HEADS_FIX = (
    "Convert again with the numbers of heads of config.json: queries have num_attention_heads, "
    "keys num_key_value_heads."
)
VALUES_FIX = (
    "Convert again from the source, with the current version of the converter, and compare the "
    "result; where the tensors named are expected to differ, the two are not the same step."
)
NAMES_FIX = (
    "Name the two checkpoints of one model; doctor scan PATH --tensors lists the names and shapes "
    "of each."
)

EQUALS = Check(
    code="CKP018",
    slug="equals-other",
    title="The checkpoint holds the values of the one it is compared with",
    why="Converters change names, shapes, dtypes and orders of rows, and a mistake in one of them "
    "gives a model that loads and answers worse. Two checkpoints that should be equal are compared "
    "value by value; each known conversion that had to be undone is named.",
    passes=("every tensor is equal, byte for byte",),
    notes=(
        "tensors are equal after conversions: casts, split or fused projections, permuted rotary "
        "halves, norms with 1 added, padded vocabularies, transposition",
        "a tied head or computed buffers are in one of the two alone",
    ),
    warns=("tensors are in one of the two alone",),
    fails=("tensors differ after every known conversion", "no tensor has a common name"),
    fix=VALUES_FIX,
    limits="that configuration, tokenizer and quantized tensors are the same.",
    owner=Owner.JOB,
    judge=equals_other,
    required="checkpoint",
    sources=("safetensors-format",),
    after=("CKP001",),
)

CHECKS = (EQUALS,)
