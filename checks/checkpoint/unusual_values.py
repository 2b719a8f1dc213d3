"""Values of a checkpoint that are finite and that no training leaves, or few do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from doctor._util.units import shown
from doctor.checkpoint.records import Values, ZeroRange
from doctor.checks.checkpoint.copied import LAYER_FIX, whole_layer
from doctor.checks.checkpoint.norm_causes import MIN_STEPS

ZERO_INITIALIZED = re.compile(
    r".*(?:lora_(?:b|embedding_a)|zero|adaln|ada_?norm|modulation|controlnet|adapter|prompt"
    r"|position|token_type|relative|rotary|inv_freq|bias|mask|buffer|cache).*"
)
"""Matrices that are initialized to zero on purpose, or hold constants."""
CONSTANT = re.compile(r"mask|causal|tril|(?:^|[._])fb$|mel|queue|memory|bias|buffer")
"""Names of what begins or stays at zero in large parts: masks, filter banks, queues."""
HEAD = re.compile(r"head|gate|probe|classifier")
"""Names of what may begin at zero, beside a model in another file."""
FEWEST_WEIGHTS, NEARLY_ALL = 4, 0.9
"""Matrices, and the share of all, whose zeros no model has on purpose. Our own numbers."""
EMPTY = 0.25
"""Share of zero rows that no padding of a vocabulary has. Our own number."""
PADDED = ("embedding", "head")
"""Parts whose last rows are often zeros: tokens that do not exist."""
APART = 50.0
"""Times the median of its kind that a layer's weights are larger. Our own number: those of trained
models differ by ten at most."""
FEWEST_LAYERS = 3
OUTLIER_FIX = (
    "Compare the file's checksum with the source's: a flipped bit of an exponent makes such a "
    "value, and the first step with it diverges. Return to an earlier checkpoint."
)
APART_FIX = (
    "Return to an earlier checkpoint and compare with --baseline: a layer diverged, or was scaled "
    "by a conversion. If it was made so on purpose, nothing is wrong."
)
SAME_FIX = (
    "Copy each tensor when the average begins, .detach().clone(): a state_dict() holds the model's "
    "own. Check that its decay is not 0, and that the average was not in the model while this was "
    "saved: then the trained weights are lost."
)
AVERAGE_FIX = (
    "Update the average after each optimizer.step(), from the model that is trained, and begin it "
    "as a copy of that model; do not evaluate this one."
)
ZEROS_FIX = (
    "Compare the file's checksum with the source's, and download it again: a download that "
    "reserves the file's size first leaves zeros where it stopped. Where whole matrices are 0.0 in "
    "a file of the right checksum, they were never trained or are initialized so on purpose."
)
NO_WEIGHTS_FIX = (
    "Take the weights from an earlier save or from their source. If a run wrote the file, read its "
    "list of missing weights at the beginning: a checkpoint with LoRA's names must be merged "
    "first. Print a weight's abs().max() after loading, and before saving once it is gathered."
)
SECOND_FIX = (
    "transformers, peft and diffusers load the safetensors, programs that open the .bin file the "
    "other values. Delete what is stale, or save the model again into an empty directory."
)
ROWS_FIX = (
    "Compare the embedding with that of the base model. Where tokens were added, let "
    "resize_token_embeddings initialize their rows (mean_resizing=True) and train them: a row of "
    "zeros is the same input for every such token."
)


def unusual(values: Values, steps: int | None) -> Iterator[tuple[str, str]]:
    """What is unusual, each with its fix, the worst first. `steps` of the run; None: not known.

    What a model may hold on purpose is reported only where the values were requested.
    """
    found = _requested(values, steps) if values.requested else _surely_wrong(values)
    return ((text, fix) for text, fix in found if text)


def _requested(values: Values, steps: int | None) -> Iterator[tuple[str, str]]:
    yield _outlier(values), OUTLIER_FIX
    yield _zero_rows(values), ROWS_FIX
    yield _layers_apart(values), APART_FIX
    yield _average(values), AVERAGE_FIX
    yield _same_as_model(values, steps or 0), SAME_FIX
    yield _zeros(values) if steps != 0 else _zeros_across(values), ZEROS_FIX
    yield whole_layer(values), LAYER_FIX
    yield _second(values), SECOND_FIX


def _surely_wrong(values: Values) -> Iterator[tuple[str, str]]:
    """What nobody means."""
    yield _outlier(values), OUTLIER_FIX
    yield _zeros_across(values), ZEROS_FIX
    yield _second(values), SECOND_FIX


def _zero_rows(values: Values) -> str:
    for name, share in values.zero_rows.items():
        if EMPTY <= share < 1:
            return f"{share:.0%} of the rows of {shown(name)} are zeros"
    return ""


def _layers_apart(values: Values) -> str:
    """A layer whose matrices are far larger than those of the others, "" for none."""
    for kind in ("attention", "MLP"):
        rows = [row for row in values.layers if row.kind == kind and row.layer]
        middle = median(row.rms for row in rows) if len(rows) >= FEWEST_LAYERS else 0.0
        largest = max(rows, key=lambda row: row.rms, default=None)
        if largest and middle > 0 and largest.rms > APART * middle:
            times = f"{largest.rms / middle:.3g} times as large as those of most layers"
            return f"the weights of {kind} in layer {largest.layer} are {times}"
    return ""


def _second(values: Values) -> str:
    """What weights of another format hold in the same directory."""
    second = values.second
    if second is None or not second.differing:
        return ""
    text = f"{shown(second.file)} beside them holds other values in {second.differing:,} of"
    return f"{text} {second.compared:,} tensors, such as {shown(second.first, 120)}"


def _average(values: Values) -> str:
    """An average that does not follow the model, "" where each does."""
    for each in values.averages:
        if each.zero == each.matrices:
            return f"all matrices of {shown(each.state, 60)} are zeros"
        if 2 * each.unrelated > each.matrices:
            text = f"{each.unrelated:,} of {each.matrices:,} matrices of {shown(each.state, 60)}"
            return f"{text} have nothing in common with the model's: it was not updated"
    return ""


def _same_as_model(values: Values, steps: int) -> str:
    """An average that is the model itself after many steps, "" where none is."""
    same = [each for each in values.averages if each.equal == each.matrices]
    if not same or steps < MIN_STEPS:
        return ""
    name = shown(same[0].state, 60)
    return f"all matrices of {name} are those of the model after {steps:,} steps: it averages none"


def _outlier(values: Values) -> str:
    if not values.outliers:
        return ""
    first = values.outliers[0]
    more = f" (and {len(values.outliers) - 1:,} more matrices)" * (len(values.outliers) > 1)
    count = "a value" if first.values == 1 else f"{first.values:,} values"
    return (
        f"{shown(first.name)} has {count} up to {first.largest:.2g}, the rest is below "
        f"{first.rest:.2g}{more}"
    )


def _zeros_across(values: Values) -> str:
    """A stretch of zeros through several matrices, "" where there is none: in one alone it may be
    of the model, as rows that were pruned."""
    return next(
        filter(None, (_stretch(each) for each in values.zero_ranges if each.matrices > 1)), ""
    )


def _stretch(lost: ZeroRange) -> str:
    if CONSTANT.search(lost.name.casefold()):
        return ""
    if lost.matrices > 1 or lost.kind not in PADDED or (lost.rows and lost.share >= EMPTY):
        begin = f"from byte {lost.begin:,} to {lost.end:,} of {lost.file} there are zeros"
        inside = "inside" if lost.inside else "from the beginning of"
        more = f" and {lost.matrices - 1:,} more" if lost.matrices > 1 else ""
        return f"{begin}, {inside} {shown(lost.name)}{more}, as an unfinished download leaves"
    return ""


def whole_model_is_zero(values: Values) -> str:
    """That nearly all matrices are zeros, "" where not: one by one, a model may begin so."""
    zero = values.zero_matrices
    names = (each.name.casefold() for each in values.constant if each.zero)
    weights = sum(not (ZERO_INITIALIZED.fullmatch(name) or HEAD.search(name)) for name in names)
    if weights < FEWEST_WEIGHTS or zero < NEARLY_ALL * values.matrices:
        return ""
    return f"all elements of {zero:,} of {values.matrices:,} matrices are 0.0"


def _zeros(values: Values) -> str:
    """Zeros that no training leaves, "" where there are none."""
    if text := next(filter(None, map(_stretch, values.zero_ranges)), ""):
        return text
    zero = [each.name for each in values.constant if each.zero]
    zero = [name for name in zero if not ZERO_INITIALIZED.fullmatch(name.casefold())]
    if not zero:
        return ""
    more = f" and {len(zero) - 1:,} more" if len(zero) > 1 else ""
    return f"all elements of {shown(zero[0])}{more} are 0.0"


def rows_inside(values: Values) -> list[ZeroRange]:
    """Zeros amid the rows of an embedding or a head: padding of a vocabulary lies behind them."""
    return [each for each in values.zero_ranges if each.rows and each.kind in PADDED]


def _rows_of(lost: ZeroRange) -> str:
    first, last = lost.rows or (0, 0)
    return f"rows {first:,} to {last:,} of {shown(lost.name)}, before others that are not,"


def alike(values: Values) -> str:
    """What is unusual and can be right: rows of zeros, matrices of one value, and copies."""
    notes = [f"; {_rows_of(each)} are zeros" for each in rows_inside(values)[:1]]
    if constant := [each.name for each in values.constant]:
        notes.append(f"; {len(constant):,} matrices hold one value, such as {shown(constant[0])}")
    if values.copies:
        first = values.copies[0]
        pair = f"{shown(first.name)} and {shown(first.of)}"
        notes.append(f"; {len(values.copies):,} are copies of another, such as {pair}")
    return "".join(notes)
