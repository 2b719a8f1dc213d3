"""Whether two checkpoints hold the same values."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checkpoint.computed import not_computed
from doctor.checkpoint.records import Checkpoint, Differing, Equality
from doctor.checks.checkpoint.merge_rest import other_tokenizer
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

EXCHANGED_FIX = (
    "Correct the order in which the conversion splits a fused tensor (gate and up, queries, keys "
    "and values) or numbers the layers, and convert again."
)

MOST_LISTED = 20
"""Names that a record keeps."""

EVEN = 2.0
"""Times the smallest difference that the largest may be, where one rounding made them all. Our own
number."""

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
    return (
        _different(equality)
        or _incomplete(equality, same)
        or other_tokenizer(equality.tokenizer, f"{same:,} tensors are equal")
        or _equal(equality, same)
    )


def _different(equality: Equality) -> Verdict | None:
    of = f"of {equality.compared:,} tensors"
    if len(turned := [name for name in equality.converted if name.startswith(TURNED)]) > 1:
        text = f"{listed(turned, 3)}: heads of one size required"
        return fail(text, fix=HEADS_FIX)
    if equality.differing_count:
        return _differing(equality, f"{equality.differing_count:,} {of} differ")
    if equality.reshaped_count:
        text = f"{equality.reshaped_count:,} {of} have other shapes"
        return fail(f"{text}: {listed(list(equality.reshaped), 2)}", fix=NAMES_FIX)
    squares = equality.converted.get(SQUARE, 0)
    if squares and "transposed" not in equality.converted:
        text = f"{squares:,} {of} are transposed, all of them square: no shape shows it"
        return fail(f"{text}; models of the same names keep them alike", fix=TRANSPOSED_FIX)
    return None


def _differing(equality: Equality, text: str) -> Verdict:
    first = equality.differing[0]
    if pairs := [f"{here} has those of {there}" for here, there in equality.exchanged.items()]:
        text = f"{text}, with the values of other tensors"
        return fail(f"{text}: {listed(pairs, 3)}", fix=EXCHANGED_FIX)
    where = _where(equality)
    text = f"{text}{where}: {_described(first)}"
    worst = max(equality.differing, key=lambda each: each.relative or 0.0)
    if worst is not first:
        text = f"{text}; the most {_described(worst)}"
    reason = _reason(equality)
    if reason:
        text = f"{text}; {reason}"
    if equality.differing_files:
        return fail(text, fix=FILE_FIX)
    fixes = (fix for part, fix in FIXES if part in reason)
    return fail(text, fix=next(fixes, VALUES_FIX))


def _where(equality: Equality) -> str:
    """Which tensors differ, where that can be said in a few words; "" else."""
    if equality.differing_count < 2:
        return ""
    if equality.differing_files:
        return f", all that {listed(list(equality.differing_files), 3)} holds"
    if len(equality.differing_layers) == 1:
        return f", all in layer {equality.differing_layers[0]}"
    if len(equality.differing_roles) <= 3:
        return f", all of them {listed(list(equality.differing_roles), 3)}"
    return ""


def _described(each: Differing) -> str:
    share = f"{each.elements:,} of {each.of:,} elements"
    relative = "" if each.relative is None else f", {each.relative:.2g} of its size"
    return f"{each.name} in {share} by up to {each.largest:.2g}{relative}"


def _reason(equality: Equality) -> str:
    """What would explain the differences, "" where nothing known does."""
    reasons = {each.reason for each in equality.differing} - {""}
    if len(reasons) == 1 or any("order" in each or TURNED in each for each in reasons):
        return "; ".join(sorted(reasons))
    known = [each for each in equality.differing if each.relative is not None]
    rough = [each for each in known if (each.relative or 0.0) >= ROUGH]
    if len(known) > 1 and 2 * len(rough) > len(known):
        return "they have nothing in common: other rows, other tensors or another model"
    if equality.differing_files:
        return "these files are of another step or another save than the rest"
    if equality.differing_count == 1:
        return "one tensor alone: changed, damaged or tied in one of the two"
    if equality.differing_count == equality.compared and known:
        return "every tensor: another step of the run, or an average of its weights"
    sizes = [each.relative or 0.0 for each in known]
    if sizes and all(each.dimensions > 1 for each in known) and 0 < max(sizes) <= EVEN * min(sizes):
        return "matrices alone, all by the same share: as quantizing and expanding them leaves"
    return ""


def _incomplete(equality: Equality, same: int) -> Verdict | None:
    here, there = not_computed(equality.here), not_computed(equality.there)
    if _tied_only(here) and _tied_only(there):
        here = there = []
    if there:
        text = f"{same:,} tensors are equal; not here: {_count(equality.there_count, there)} of"
        return fail(f"{text} the other, {listed(there, 3)}", fix=LOST_FIX)
    if here:
        text = f"{same:,} tensors are equal; not in the other: {_count(equality.here_count, here)}"
        return warn(f"{text} from here, {listed(here, 3)}", fix=NAMES_FIX)
    if equality.separate:
        text = f"{same:,} tensors are equal; {equality.separate[0]} is in one of the two alone"
        return fail(f"{text}, and is not the embedding of it", fix=HEAD_FIX)
    if equality.unread:
        reason, count = next(iter(equality.unread.items()))
        total = sum(equality.unread.values())
        more = f"; {total - count:,} for other reasons" if total > count else ""
        text = f"{same:,} tensors are equal; {count:,} could not be compared: {shown(reason, 200)}"
        return unknown(f"{text}{more}")
    return None


def _count(total: int, names: list[str]) -> str:
    """The number of names, of which more may be than are listed."""
    return f"{max(total, len(names)) if len(names) >= MOST_LISTED else len(names):,}"


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
SQUARE = "transposed square matrices"

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
FIXES = (
    ("as of tokens", "Keep the tokenizer whose tokens the rows are of: a row is found by the "
     "number of its token."),
    ("order", ORDER_FIX),
    (TURNED, ORDER_FIX),
    ("times the values", "Leave out the factor in one of the two conversions: a scale that a model "
     "applies itself (the square root of its width, alpha / r) must not be in its weights."),
    ("zeros", "Convert again with these tensors mapped to theirs: what a converter does not find "
     "it leaves at zero."),
    ("1 was added", "Convert again without adding 1 to the norms, or with it, as the program that "
     "loads them computes: transformers' Gemma adds it itself, llama.cpp does not."),
    ("on the way", "Convert again from the original in full precision: what was rounded to fewer "
     "bits does not come back. If that loss is accepted, nothing is wrong."),
    ("expanding", "Convert again from the original in full precision, not from weights that were "
     "quantized and expanded again; or from the same step."),
    ("merged LoRA", "Name the model before the adapter was merged, or merge the adapter into the "
     "other one, too; --merged-from and --adapter compare a merge with its base."),
)  # fmt: skip
"""Part of a reason -> the remedy."""

FILE_FIX = (
    "Copy these files again from the save that the others are of, and compare checksums: a model "
    "of shards from two steps loads without an error."
)
TRANSPOSED_FIX = (
    "Convert again, and transpose all matrices of a kind or none: a converter that transposes "
    "where the shapes differ leaves out square ones."
)
LOST_FIX = (
    "Convert again with these tensors mapped: what a loader does not find it makes up at random or "
    "leaves at zero."
)
HEAD_FIX = (
    "Keep the head in both, with tie_word_embeddings false in config.json: loading ties it to the "
    "embedding otherwise, and the trained head is lost."
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
    warns=("further tensors are here", "tokens have other numbers, or texts are cut otherwise"),
    fails=(
        "tensors differ after every known conversion",
        "square matrices alone are transposed, between models of the same names",
        "tensors of the other are not here, or a head that is not its embedding",
        "no tensor has a common name",
    ),
    fix=VALUES_FIX,
    limits="that quantized tensors are the same.",
    owner=Owner.JOB,
    judge=equals_other,
    required="checkpoint",
    sources=("safetensors-format",),
    after=("CKP001",),
)

CHECKS = (EQUALS,)
