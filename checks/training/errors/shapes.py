"""Layers, products and views whose sizes do not fit, by the arguments of torch's function."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors.explanation import (
    Explanation,
    count,
    module,
    shape,
    tensors,
    text,
)
from doctor.facts.raised import Raised

INVALID = re.compile(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)")
BATCHES = re.compile(
    r"first two dimensions of batch2 tensor to be: \[(\d+), \d+\] but got: \[(\d+),"
)
PERMUTED = {3: "transpose(1, 2)", 4: "permute(0, 3, 1, 2)", 5: "permute(0, 4, 1, 2, 3)"}
"""Dimensions of a batch with channels last -> what puts them second."""


def explain(raised: Raised) -> Explanation | None:
    """The sizes that differ and what makes them fit; None if the call is not known."""
    explainer = next((f for names, f in FUNCTIONS if re.fullmatch(names, raised.function)), None)
    return (explainer(raised) if explainer else None) or _batches(raised)


def _batches(raised: Raised) -> Explanation | None:
    """Two numbers of samples in a product that a function of torch makes."""
    match = BATCHES.search(raised.message)
    if not match or match[1] == match[2]:
        return None
    return Explanation(
        f"{match[1]} samples against {match[2]}",
        "Give both arguments the same number of samples, their first dimension.",
    )


def attention(raised: Raised) -> Explanation | None:
    """Keys of another width than the queries, or a mask of other lengths."""
    key, weight = raised.operand("key"), raised.operand("in_proj_weight")
    query = raised.operand("query")
    mask = re.search(r"attn_mask is torch.Size\((\[[\d, ]*\])\), but should be \(([\d, ]*)\)",
                     raised.message)  # fmt: skip
    if mask:
        length = mask[2].rpartition(", ")[2]
        if mask[1].count(",") == mask[2].count(",") == 2 and mask[1][1:-1].endswith(
            mask[2].partition(", ")[2]
        ):
            return Explanation(
                f"attn_mask has {mask[1]}, one for each sample; required is one for each sample "
                f"and head, ({mask[2]})",
                "Repeat the mask of each sample for its heads: "
                "mask.repeat_interleave(num_heads, dim=0), or pass one of (queries, keys) for all.",
            )
        return Explanation(
            f"attn_mask is {mask[1]}, the lengths of the queries and keys are ({mask[2]})",
            f"Make the mask for the length of this batch, {length}: "
            "generate_square_subsequent_mask(x.size(1)) with batch_first=True, or cut it, "
            f"mask[:{length}, :{length}].",
        )
    if key is None or weight is None or query is None or not (shape(key) and shape(weight)):
        return None
    width, got = shape(weight)[-1], shape(key)[-1]
    where = module(raised)
    if got == width or shape(query)[-1] != width:
        return None
    return Explanation(
        f"{where} takes keys and values of {width} features, they have {got}",
        f"Pass kdim={got} and vdim={got} to {where}, or project keys and values to {width} first.",
    )


def linear(raised: Raised) -> Explanation | None:
    x, weight = raised.operand("input"), raised.operand("weight")
    if x is None or weight is None or len(shape(weight)) != 2 or not shape(x):
        return None
    outputs, inputs = shape(weight)
    sizes = shape(x)
    if sizes[-1] == inputs:
        return None
    where = module(raised)
    cause = f"{where} takes {inputs} features, the last dimension of its input has {sizes[-1]}"
    change = f"Set in_features={sizes[-1]} in {where} (nn.Linear({sizes[-1]}, {outputs}))"
    if len(sizes) > 2 and count(sizes[1:]) == inputs:
        return Explanation(cause, f"Call flatten(1) on the input of {where}: {text(sizes)} becomes "
                           f"[{sizes[0]}, {inputs}].")  # fmt: skip
    if len(sizes) == 3 and sizes[1] == inputs:
        return Explanation(cause, f"Call transpose(1, 2) on the input of {where}: the layer works "
                           f"on the last dimension, and dimension 1 has the {inputs}.")  # fmt: skip
    samples = int(raised.observed.get("samples", 0))
    if len(sizes) == 2 and samples > sizes[0] > 0 == samples % sizes[0]:
        return Explanation(
            f"{cause}; it has {sizes[0]} rows, the batch {samples} samples",
            "If a chunk, a split or an index before that line was meant for the features, pass "
            f"dim=-1: dimension 0 is the batch. Otherwise s{change[1:]}.",
        )
    joined = raised.observed.get("joined", "")
    if joined:
        cause += f": {joined}"
    if joined.startswith(("cat", "concat", "hstack")):
        place = joined.rpartition(" in ")[2]
        return Explanation(
            cause,
            f"Look at what {place} joins: {where} needs {inputs} in the last dimension. If these "
            f"sizes are meant, s{change[1:]}.",
        )
    return Explanation(
        cause,
        f"{change}, or change what comes before it so that its input has {inputs} in the last "
        "dimension.",
    )


def product(raised: Raised) -> Explanation | None:
    pair = tensors(raised)[-2:]
    if len(pair) < 2 or min(len(shape(each)) for each in pair) < 2:
        return None
    first, second = (shape(each) for each in pair)
    if first[-1] == second[-2]:
        return None
    cause = f"the inner sizes are {first[-1]} and {second[-2]}"
    if first[-1] == second[-1]:
        return Explanation(
            cause,
            f"Transpose the second factor, a @ b.transpose(-2, -1): {text(first)} with "
            f"{text((*second[:-2], second[-1], second[-2]))} fits.",
        )
    if first[-2] == second[-2]:
        return Explanation(
            cause,
            f"Transpose the first factor, a.transpose(-2, -1) @ b: "
            f"{text((*first[:-2], first[-1], first[-2]))} with {text(second)} fits.",
        )
    return Explanation(
        cause,
        f"Make the last size of the first factor, {first[-1]}, equal to the last but one of the "
        f"second, {second[-2]}: {text(first)} @ {text(second)}.",
    )


def convolution(raised: Raised) -> Explanation | None:
    x, weight = raised.operand("input"), raised.operand("weight")
    groups = re.search(r"groups=(\d+)", raised.message)
    if x is None or weight is None or len(shape(weight)) < 3:
        return None
    sizes, dimensions = shape(x), len(shape(weight))
    channels = shape(weight)[1] * (int(groups[1]) if groups else 1)
    where = module(raised)
    order = "[batch, channels, " + ", ".join(("depth", "height", "width")[5 - dimensions :]) + "]"
    if dimensions == 3:
        order = "[batch, channels, time]"
    if len(sizes) == dimensions - 1 and channels == 1:
        return Explanation(
            f"{where} takes {order}, its input is {text(sizes)}",
            f"Call unsqueeze(1) on the input of {where}: {text(sizes)} has no dimension for the "
            f"one channel, and becomes {text((sizes[0], 1, *sizes[1:]))}.",
        )
    if len(sizes) != dimensions or sizes[1] == channels:
        return None
    cause = f"{where} takes {channels} channels, dimension 1 of its input has {sizes[1]}"
    if sizes[-1] == channels:
        return Explanation(
            cause,
            f"Call {PERMUTED[dimensions]} on the input of {where}: its {channels} channels come "
            f"last ({text(sizes)}), and the layer takes {order}.",
        )
    fitting = f"set in_channels={sizes[1]} in {where}"
    colours = {
        (4, 3): "Leave the transparency out, x[:, :3] or image.convert('RGB')",
        (1, 3): "Repeat the gray channel, x.expand(-1, 3, -1, -1) or image.convert('RGB')",
        (3, 1): "Convert the images to gray, x.mean(1, keepdim=True) or image.convert('L')",
    }
    if dimensions == 4 and (colour := colours.get((sizes[1], channels))):
        return Explanation(cause, f"{colour}, or {fitting}.")
    return Explanation(
        cause, f"S{fitting[1:]}, or pass it {channels} channels in dimension 1 of {order}."
    )


def transposed_convolution(raised: Raised) -> Explanation | None:
    """Its weight is [in_channels, out_channels / groups, ...]."""
    pair = tensors(raised)[:2]
    if len(pair) < 2 or len(shape(pair[0])) != len(shape(pair[1])):
        return None
    sizes, channels = shape(pair[0]), shape(pair[1])[0]
    if len(sizes) < 3 or sizes[1] == channels:
        return None
    where = module(raised)
    return Explanation(
        f"{where} takes {channels} channels, dimension 1 of its input has {sizes[1]}",
        f"Set in_channels={sizes[1]} in {where}, or pass it {channels} channels in dimension 1.",
    )


def batch_norm(raised: Raised) -> Explanation | None:
    x = raised.operand("input")
    known = raised.operand("running_mean") or raised.operand("weight")
    if x is None or known is None or len(shape(x)) < 2 or not shape(known):
        return None
    sizes, features = shape(x), shape(known)[0]
    if sizes[1] == features:
        return None
    where = module(raised, "the norm")
    cause = f"{where} normalizes {features} channels, dimension 1 of its input has {sizes[1]}"
    if len(sizes) == 3 and sizes[2] == features:
        return Explanation(
            cause,
            f"Call transpose(1, 2) on the input of {where}, and again on its output: the channels "
            f"come second there, and in {text(sizes)} they come last.",
        )
    return Explanation(cause, f"Set num_features={sizes[1]} in {where}, or move it to a place with "
                       f"{features} channels.")  # fmt: skip


def layer_norm(raised: Raised) -> Explanation | None:
    x, weight = raised.operand("input"), raised.operand("normalized_shape")
    if x is None or weight is None or not shape(x):
        return None
    sizes = shape(x)
    normalized = tuple(map(int, re.findall(r"\d+", weight.value)))
    if not normalized or sizes[-len(normalized) :] == normalized:
        return None
    where = module(raised, "the norm")
    cause = f"{where} normalizes {text(normalized)}, the last size of its input is {sizes[-1]}"
    if len(normalized) == 1 and len(sizes) > 2 and sizes[1] == normalized[0]:
        return Explanation(
            cause,
            f"Normalize the channels, which come second in {text(sizes)}, with nn.GroupNorm(1, "
            f"{normalized[0]}) in {where}, or move them to the end before it: a LayerNorm works on "
            "the last dimensions.",
        )
    return Explanation(
        cause,
        f"Write nn.LayerNorm({sizes[-1]}) for {where}, or place it where the last dimension has "
        f"{text(normalized)}.",
    )


def view(raised: Raised) -> Explanation | None:
    match = INVALID.search(raised.message)
    operand = next(iter(tensors(raised)), None)
    if match is None or operand is None:
        return None
    target = tuple(int(each) for each in match[1].split(",") if each.strip())
    sizes, total = shape(operand), int(match[2])
    known = count(tuple(each for each in target if each != -1))
    cause = f"{text(sizes)} has {total:,} values, {text(target)} "
    cause += f"needs a multiple of {known:,}" if -1 in target else f"needs {known:,}"
    rest = count(target[1:])
    if sizes and -1 not in target and sizes[0] != target[0] and rest and total % rest == 0:
        return Explanation(
            cause,
            f"Do not write the batch size down: the first size is {target[0]} there, and "
            f"{total // rest} fits. Write x.size(0) or -1 for it, or x.flatten(1).",
        )
    prefix = next((n for n, (a, b) in enumerate(zip(sizes, target, strict=False)) if a != b), 0)
    if prefix and len(sizes) == prefix + 1 and len(target) == prefix + 2 and -1 not in target:
        return Explanation(
            cause,
            f"Choose numbers whose product is {sizes[-1]}: {target[-2]} * {target[-1]} is "
            f"{target[-2] * target[-1]}. A width is divided into heads only if it is a multiple of "
            "their number.",
        )
    return Explanation(
        cause, f"Choose sizes whose product is {total:,} in that line, with -1 for one of them."
    )


FUNCTIONS: tuple[tuple[str, Callable[[Raised], Explanation | None]], ...] = (
    ("linear", linear),
    (r"(__)?r?matmul(__)?|bmm|mm|addmm|baddbmm|mv", product),
    ("conv[123]d", convolution),
    ("conv_transpose[123]d", transposed_convolution),
    ("multi_head_attention_forward", attention),
    ("batch_norm", batch_norm),
    ("layer_norm", layer_norm),
    ("view|reshape|_unsafe_view|unflatten", view),
)  # fmt: skip
"""Pattern of a function's name -> what explains its sizes."""
