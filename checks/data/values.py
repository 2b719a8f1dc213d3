"""Values of images, and what the model may attend to."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import each_split, no_training, observed, of_tokens, passed
from doctor.facts.data import Data, Labels, Offset, Split
from doctor.facts.data_batches import Inputs
from doctor.judge.check import Check, Owner, Remedy, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.combine import worst

BEYOND = 3.0
"""Times the expected range. Our own number: augmentation and rounding stay far below."""
BYTES = (100.0, 255.0)
"""The largest value of images that were not divided by 255."""


def scaled(data: Data) -> Verdict:
    return each_split(data, _scaled)


def _scaled(split: Split) -> Verdict:
    inputs = split.inputs
    if inputs is None:
        return skip("the batches have no images")
    low, high = float(inputs.low), float(inputs.high)
    at = f"at the model's first layer ({inputs.first})" if inputs.first else "in the batch"
    seen = f"values from {low:.4g} to {high:.4g} {at}, of {inputs.samples:,} images"
    if _is_last(inputs):
        return warn(
            f"{inputs.name} has the shape {list(inputs.shape)}: channels are last", fix=LAST
        )
    if inputs.apart:
        return observed(f"{inputs.name} {APART}", inputs.samples, fix=PERMUTED)
    whole = inputs.whole and low >= 0 and BYTES[0] < high <= BYTES[1]
    found = _prepared(inputs, seen)
    if found is not None:
        return found
    if inputs.expected_low is not None and inputs.expected_high is not None:
        return _expected(inputs, low, high, seen, whole, split)
    if whole:
        text = f"{seen}: whole numbers to 255, which were not scaled"
        return observed(text, inputs.samples) if _is_bare(inputs) else note(text)
    if high > BYTES[1] and _is_bare(inputs):
        return note(f"{seen}, and nothing states the range that the model is to get", fix=LARGE)
    return passed(seen, split)


def _prepared(inputs: Inputs, seen: str) -> Verdict | None:
    """A preparation that explains the values, and is not the one that was meant."""
    if inputs.unscaled:
        text = f"{seen}: as if 0 to 255 were normalized by {shown(inputs.unscaled)}"
        return observed(f"{text}, which is meant for 0 to 1", inputs.samples, fix=UNSCALED)
    if inputs.twice:
        then = "" if inputs.twice == "plain" else f", and normalized by {shown(inputs.twice)}"
        text = f"{seen}: as if 0 to 255 were divided by 255 twice{then}"
        return observed(f"{text}; required: 0 to 1 before that", inputs.samples, fix=DIVIDED)
    if inputs.again:
        how, _, name = inputs.again.partition(": ")
        what = (
            "were normalized twice by"
            if how == "twice"
            else "of 0 to 1 were normalized by 255 times"
        )
        fix = ONCE if how == "twice" else SAME_RANGE
        return observed(f"{seen}: as if images {what} {shown(name)}", inputs.samples, fix=fix)
    return None


def _is_last(inputs: Inputs) -> bool:
    """Channels are the last axis, where a layer was seen to get them."""
    shape = inputs.shape
    return inputs.first == "Conv2d" and shape[-1] in (1, 3) and shape[1] not in (1, 3, 4)


def _is_bare(inputs: Inputs) -> bool:
    return inputs.first in ("Conv2d", "Linear")


def _expected(
    inputs: Inputs, low: float, high: float, seen: str, whole: bool, split: Split
) -> Verdict:
    least, most = float(inputs.expected_low or 0), float(inputs.expected_high or 0)
    expected = f"{inputs.stated} states a range of {least:.3g} to {most:.3g}"
    if whole or high > BEYOND * most or low < BEYOND * least:
        return observed(f"{seen}; {expected}", inputs.samples)
    if low >= 0 and high <= 1 and least < -0.5 and inputs.samples >= 64:
        return observed(f"{seen}: they are scaled, and not normalized; {expected}", inputs.samples)
    return passed(f"{seen}; {expected}", split)


ONCE = "Normalize once: in the transform, or in the processor or the model."
SAME_RANGE = (
    "Give the normalization the range that the images have: mean and standard deviation of 0 to "
    "1 after "
    "ToTensor(), those of 0 to 255 (123.7, 116.3, 103.5) for bytes."
)
DIVIDED = (
    "Divide by 255 once: ToTensor() and a processor's rescale_factor do it, too. A mean such as "
    "123.675 and a deviation such as 58.395 are those of 0 to 255, and divide once more."
)
UNSCALED = "Divide the images by 255 (ToTensor(), rescale_factor) before they are normalized."
APART = (
    "repeats every three places along both sides and differs between neighbours: colours and "
    "places are mixed, as where height x width x 3 was reshaped to 3 x height x width"
)
PERMUTED = "Move the axis of the colours instead: .permute(2, 0, 1), or (0, 3, 1, 2) of a batch."
LARGE = (
    "Compare with the range of the files: bytes are divided by 255 before they are normalized; "
    "other numbers are brought near to 0 and 1 by the mean and deviation of train."
)
LAST = "Bring the channels to the second axis: images.permute(0, 3, 1, 2)."

SCALED = Check(
    code="DAT010",
    slug="input-scale",
    title="Images have the scale and layout that the weights expect",
    why="Weights that were trained on normalized images lose much of their accuracy on others, and "
    "nothing fails.",
    passes=("values are in the range that the checkpoint's preprocessing gives",),
    notes=("values are whole numbers to 255, or go beyond it, and no range is stated",),
    warns=(
        "values exceed three times the stated range, are in 0 to 1 where negative ones must "
        "occur, or whole numbers to 255 at the first convolution",
        "they are what a normalization for 0 to 1 gives for 0 to 255: a known one, or steps larger "
        "than 1",
        "they are what bytes give that were divided by 255 twice, or a known normalization that "
        "was "
        "applied twice, or for 0 to 255 to 0 to 1",
        "channels are last, or a reshape mixed them with places",
    ),
    fix="Apply the transforms of the weights: weights.transforms(), the image processor, or timm's "
    "create_transform(**resolve_data_config(model.pretrained_cfg)).",
    owner=Owner.JOB,
    judge=scaled,
    limits="that the order of the colours is right.",
    sources=("detecto-16", "pretrained-models.pytorch-66"),
)


def bounded(data: Data) -> Verdict:
    split = data.split()
    if split is None or not split.rows:
        return no_training(data)
    if split.labels is None or split.labels.objective != "next token":
        return skip("no label is a token of its row")
    joined = verdicts(split.relations, MEANINGS)
    return worst(*joined) if joined else _bounded(data.offset, split.labels)


def _bounded(offset: Offset | Unknown | None, labels: Labels) -> Verdict:
    if offset is None:
        return skip("the target has no model")
    if isinstance(offset, Unknown):
        return unknown(offset.reason)
    under = f"under the batch's own {shown(offset.mask)} " if offset.mask else ""
    remedy: Remedy = {"fix": OWN} if offset.mask else {}
    if offset.later >= 0.95 * offset.positions:
        text = f"the loss of {offset.later} of {offset.positions} positions {under}depends on the"
        what = f"{text} last token of the row, which comes after the one that is predicted"
        return fail(what, **remedy)
    ahead = sum(count for shift, count in offset.shifts.items() if int(shift) < 0)
    if ahead >= 0.95 * offset.positions > 0:
        most = -min(map(int, offset.shifts))
        text = f"the loss of the label at t {under}depends on inputs up to t+{most}"
        return fail(f"{text}, at {ahead} of {offset.positions} positions: the mask lets tokens see "
                    "later ones", fix=OWN if offset.mask else WIDE)  # fmt: skip
    if offset.crossing:
        text = f"the loss of {offset.crossing} positions of a second document depends on the first"
        summary = f"{text} one in its row, though position_ids mark the border"
        # documents of a pretraining are often packed like this
        return (warn if labels.prompts else note)(summary, fix=PACKED)
    packed = "" if offset.crossing is None else ", and of packed documents on their own tokens"
    text = f"the loss of {offset.positions} positions {under}depends on earlier tokens alone"
    return ok(f"{text}{packed}")


MEANINGS: Meanings = {
    "border nowhere": Meaning(
        "rows hold several documents by their lengths, while position_ids run on over all of them: "
        "nothing bounds what a document sees",
        "Begin position_ids at 0 with each document, or give the model cu_seq_lens of the lengths.",
        least=0.5,
    )
}
WIDE = (
    "Let a token see itself and earlier ones alone: torch.ones(T, T).tril(), without diagonal=1, "
    "or is_causal=True."
)
OWN = (
    "Turn the batch's mask around or shift it: token i sees j <= i alone. Where True takes part, "
    "as in attn_mask of scaled_dot_product_attention, that is torch.ones(T, T).tril() == 1; in "
    "torch.nn layers True is ignored: torch.ones(T, T).triu(1) == 1."
)
PACKED = (
    "Use an attention that reads position_ids (flash_attention_2 with a collator without padding), "
    "or leave attention_mask out of packed batches."
)

BOUNDED = Check(
    code="DAT015",
    slug="attention-bounds",
    title="A token does not see later tokens, nor other documents of its row",
    why="A decoder that sees the token it must predict learns to copy it: the loss falls to 0, and "
    "generation is noise.",
    passes=("changing a label changes gradients of earlier tokens alone, and of its own document",),
    warns=(
        "the loss of a packed answer depends on another document of its row",
        "lengths divide half of 32 or more rows into documents, and position_ids run on",
    ),
    notes=("the same of documents that are trained as a whole, which may be meant",),
    fails=(
        "the loss of nearly every position depends on the last token of the row",
        "the loss of nearly every label depends on inputs behind its place",
    ),
    fix="Of a decoder: make attention causal: is_causal=True. Of a masked "
    "language model: keep the ids from before they were masked as labels.",
    owner=Owner.JOB,
    judge=of_tokens(bounded),
    limits="that a mask for padding works.",
    sources=("transformers-causal-loss",),
)

CHECKS = (SCALED, BOUNDED)
