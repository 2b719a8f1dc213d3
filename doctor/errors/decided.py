"""Which of several causes the sizes and words of a message decide, and what its sizes say."""

from __future__ import annotations

import re

PRODUCT = re.compile(
    r"shapes cannot be multiplied \((\d{1,9})x(\d{1,9}) and (\d{1,9})x(\d{1,9})\)", re.IGNORECASE
)
CHANNELS = re.compile(
    r"weight of size \[([\d, ]+)\], expected input\[([\d, ]+)\] to have (\d+) channels, but got "
    r"(\d+)",
    re.IGNORECASE,
)
BROADCAST = re.compile(
    r"(?:tensor a|of the tensor) \((\d+)\) must match the (?:size of tensor b|existing size) "
    r"\((\d+)\) at non-singleton dimension (\d+)",
    re.IGNORECASE,
)
STATISTICS = re.compile(r"running_mean should contain (\d+) elements not (\d+)", re.IGNORECASE)
ROWS = re.compile(r"input batch_size \((\d+)\) to match target batch_size \((\d+)\)", re.IGNORECASE)
EMPTY = re.compile(
    r"must match the existing size \(0\)|of tensor [ab] \(0\) (?:must|at)", re.IGNORECASE
)
LEAF = re.compile(
    r"modified by an inplace operation: \[torch\.(?:cuda\.)?(?:Float|Half|BFloat16)Tensor "
    r"\[(\d+(?:, \d+)+)\]\] is at version"
)
"""Of a result of the forward pass the message names its function: "which is output 0 of"."""
TRANSPOSED = re.compile(
    r"modified by an inplace operation: \[\w[\w.]{4,40} \[(\d+, \d+)\]\], which is output 0 of "
    r"(?:T|AsStrided)(?:Backward\d?)?, is at version"
)
"""A Linear saves its weight as a transposed view; so does the product of a slice."""
STEPS = re.compile(r"\benvs?\.(?:step|reset)\(")
UNPACKED = re.compile(r"values to unpack \(expected [245]\b")
SHAPE = re.compile(
    r"^[^\n=]{1,120},[^\n=]{1,120}= ?[\w.\[\]'\"]{1,80}(?:\.shape|\.size\(\))[ \t]*$", re.MULTILINE
)
"""A line that unpacks the whole shape of a tensor."""
MANY = re.compile(r"too many values to unpack \(expected [2-9]\)")
FEW = re.compile(r"not enough values to unpack \(expected ([2-9]), got ([2-9])\)")
WORDS = (
    (
        re.compile(r"(?:expected scalar type|have scalar type) Long", re.IGNORECASE),
        "dtype-of-labels",
    ),
    (re.compile(r"must be Tensor, not NoneType"), "value-is-none"),
    (MANY, "unpacked-rows"),
    # Of five values four: step() of an older gym, which has a row of its own.
    (re.compile(r"not enough values to unpack \(expected 5, got 4\)"), "simulator-not-usable"),
    (re.compile(r"not enough values to unpack"), "unpacked-rows"),
    (
        re.compile(r"batch must contain tensors.{0,80}found <class '(?!NoneType)"),
        "batch-of-objects",
    ),
)
LIMITS = {77: "the text encoder of CLIP", 512: "BERT and its relatives", 1024: "GPT-2"}
"""Positions -> models that have so many."""
FEW_ROWS = 4
"""Positions by which logits and labels differ where one of them was shifted or got a prefix."""
SMALL = 32
"""Sizes below are channels and heads, whose tensors rather lack a dimension. Our own number."""

LATENTS, MORE_LATENTS = 4, {9: "inpainting", 8: "editing by instructions", 5: "depth"}
"""Channels of the latents of Stable Diffusion, and of UNets that take a mask or a picture too."""

Decided = tuple[str, str]
"""The row that leads, and a sentence before its remedy."""


def decided(text: str, around: str = "") -> Decided | None:
    """What the message decides, or the lines of code around it; None where they decide nothing."""
    by_words = ((id, "") for words, id in WORDS if words.search(text))
    return _unpacked(text, around) or _by_sizes(text) or next(by_words, None)


def _unpacked(text: str, around: str) -> Decided | None:
    if UNPACKED.search(text) and STEPS.search(around):
        return "simulator-not-usable", ""
    if not SHAPE.search(f"{text}\n{around}"):
        return None
    if MANY.search(text):
        return "extra-dimension", "The tensor has more dimensions than the line takes."
    if match := FEW.search(text):
        return "missing-dimension", (
            f"The tensor has {match[2]} dimensions where the line takes {match[1]}."
        )
    return None


def _by_sizes(text: str) -> Decided | None:
    for expression, read in (
        (PRODUCT, _product),
        (CHANNELS, _channels),
        (STATISTICS, _statistics),
        (EMPTY, _empty),
        (BROADCAST, _broadcast),
        (LEAF, _leaf),
        (TRANSPOSED, _transposed),
        (ROWS, _rows),
    ):
        if match := expression.search(text):
            return read(*match.groups())
    return None


def _statistics(has: str, takes: str) -> Decided:
    return "layer-size", f"The layer is for {takes} channels and gets {has}: BatchNorm({has})."


def _empty() -> Decided:
    return "differing-sizes", (
        "One of the two is empty: a slice or crop beyond the end (pictures smaller than it), a "
        "batch or a list without entries. Print its shape before the line."
    )


def _leaf(sizes: str) -> Decided:
    return "parameter-changed-before-backward", (
        f"The message names no function that made [{sizes}]: it is a weight."
    )


def _transposed(sizes: str) -> Decided:
    return "parameter-changed-before-backward", (
        f"[{sizes}] is most often the transposed weight of a Linear; a slice of a tensor that a "
        "loop writes into gives the same message."
    )


def _product(*sizes: str) -> Decided | None:
    rows, has, takes, gives = map(int, sizes)
    if 1 in (takes, gives) and max(takes, gives) >= 10_000:  # packed weights
        return None
    same = [one for one, other in ((rows, takes), (has, gives)) if one == other]
    if any(number.bit_count() > 1 for number in same):  # 64 is a batch and a width by chance
        return "order-of-dimensions", f"One of {rows}x{has} and {takes}x{gives} is transposed."
    parts, rest = divmod(takes, has)
    if parts > 1 and not rest and parts % has == 0 and rows % parts == 0:  # of square pictures
        return "linear-unflattened", (
            f"The layer takes {takes} = {takes // has} x {has} features: x.flatten(1) before it."
        )
    return "layer-size", (
        f"The layer gets {has} features and takes {takes}: nn.Linear({has}, {gives}), or bring the "
        "input to the size that the layer was made for (pictures of another size, features that "
        "were added or left out)."
    )


def _channels(weight: str, shape: str, expected: str, got: str) -> Decided:
    sizes, takes, has = [int(each) for each in shape.split(",")], int(expected), int(got)
    dimensions = len(weight.split(","))
    if len(sizes) < dimensions - 1:
        return "missing-dimension", f"The input has {len(sizes)} dimensions."
    square = len(sizes) > 3 and sizes[-1] == sizes[-2] == takes
    if (takes in sizes[2:] and not square) or (len(sizes) == dimensions - 1 and takes in sizes[1:]):
        return "order-of-dimensions", f"{takes} stands in another dimension of {sizes}."
    if len(sizes) < dimensions:
        return "missing-dimension", f"{sizes} has no dimension of samples."
    sentence = f"The layer takes {takes} channels and gets {has}: in_channels={has}, or"
    if takes == 3 and has in (1, 2, 4):
        return "layer-size", f'{sentence} image.convert("RGB") when pictures are read.'
    if takes == 1 and has in (3, 4):
        return "layer-size", f'{sentence} image.convert("L") when pictures are read.'
    if has == LATENTS and takes in MORE_LATENTS:
        return "layer-size", (
            f"The layer takes {takes} channels and gets {has}: a UNet for {MORE_LATENTS[takes]} "
            "takes more than the latents. Use the checkpoint for text to image, or that task's "
            "script. For a model of your own:"
        )
    return "layer-size", f"{sentence} give the layer before it {takes} outputs."


def _broadcast(*sizes: str) -> Decided | None:
    one, other, dimension = map(int, sizes)
    if min(one, other) < SMALL:
        return None
    sentence = f"Dimension {dimension} is {one} in one tensor and {other} in the other."
    for limit, models in LIMITS.items():
        if limit in (one, other) and max(one, other) > limit:
            sentence += (
                f" {limit} is the number of positions of {models}: if it is that, "
                f"tokenizer(..., truncation=True, max_length={limit})."
            )
    return "differing-sizes", sentence


def _rows(*counts: str) -> Decided | None:
    predictions, labels = map(int, counts)
    small, large = sorted((predictions, labels))
    if not labels:
        return "labels-of-another-length", "There are no labels at all."
    if 0 < large - small <= FEW_ROWS and small >= SMALL:
        return "labels-of-another-length", f"The lengths differ by {large - small}."
    if not small:
        return None
    if large % small:  # fewer predictions than labels: a view mixed samples and features
        sentence = f"{large} is no multiple of {small}."
        return ("labels-of-another-length", sentence) if predictions > labels else None
    many = "predictions" if predictions > labels else "labels"
    return "rows-and-labels", f"There are {large // small} {many} for each of the others."
