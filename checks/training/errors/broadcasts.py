"""Shapes that are combined: elementwise, indexed, expanded, masked."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors import joins
from doctor.checks.training.errors.explanation import (
    Explanation,
    Shape,
    broadcast,
    count,
    dimensions,
    shape,
    tensors,
    text,
)
from doctor.facts.raised import Operand, Raised


def explain(raised: Raised) -> Explanation | None:
    """The sizes that differ and what makes them fit; None if the call is not known."""
    explainer = next((f for names, f in FUNCTIONS if re.fullmatch(names, raised.function)), None)
    return _beyond(raised) or (explainer(raised) if explainer else None)


def _beyond(raised: Raised) -> Explanation | None:
    """An index that its dimension does not have; -100 has a remedy of its own."""
    match = re.search(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)",
                      raised.message)  # fmt: skip
    operand = next(iter(tensors(raised)), None)
    if not match or operand is None or match[1] == "-100":
        return None
    size = int(match[3])
    return Explanation(
        f"an index is {match[1]}, dimension {match[2]} of {text(shape(operand))} has {size}",
        f"Check where the index is made: 0 to {size - 1} are valid there. Numbers that count from "
        f"1 need index - 1; more items need a larger dimension.",
    )


def elementwise(raised: Raised) -> Explanation | None:
    pair = tensors(raised)[:2]
    if len(pair) < 2:
        return None
    first, second = pair
    together = broadcast(shape(first), shape(second))
    if together is not None:
        if "allocate" not in raised.message or count(together) <= 4 * count(shape(first)):
            return None
        return Explanation(
            f"{text(shape(first))} and {text(shape(second))} broadcast to {text(together)}, "
            f"{count(together):,} values",
            "Give both tensors the same shape (squeeze, or unsqueeze the other one too): they are "
            "combined pair by pair. If all pairs are wanted, compute them in chunks.",
        )
    long, short = sorted(pair, key=lambda each: -len(shape(each)))
    if len(shape(short)) < len(shape(long)) and (index := _inserted(shape(long), shape(short))):
        name = short.name.strip()
        return Explanation(
            f"{text(shape(short))} is aligned with the last dimensions of {text(shape(long))}",
            f"Add dimensions to the {name or 'tensor'} of shape {text(shape(short))}: x[{index}] "
            f"fits {text(shape(long))}.",
        )
    return _unequal(first, second)


def _inserted(long: Shape, short: Shape) -> str:
    """The index that gives the short shape dimensions in its middle, so that both fit."""
    missing = len(long) - len(short)
    for before in range(1, len(short) + 1):
        candidate = short[:before] + (1,) * missing + short[before:]
        if broadcast(long, candidate) is not None:
            return ", ".join([":"] * before + ["None"] * missing)
    return ""


def _unequal(first: Operand, second: Operand) -> Explanation | None:
    """Two shapes of the same number of dimensions that differ in some of them."""
    a, b = shape(first), shape(second)
    if len(a) != len(b):
        return Explanation(
            "", f"Give both the same dimensions: {text(a)} and {text(b)} are aligned at the end."
        )
    differing = [n for n, (x, y) in enumerate(zip(a, b, strict=True)) if x != y and 1 not in (x, y)]
    sizes = " and ".join(f"{a[n]} against {b[n]}" for n in differing)
    cause = f"{dimensions(differing)}: {sizes}"
    table = next((each for each in (first, second) if each.parameter), None)
    if table is not None and len(differing) == 1:
        other = second if table is first else first
        n = differing[0]
        have, need = shape(table)[n], shape(other)[n]
        return Explanation(
            cause,
            f"Make {table.parameter} larger in dimension {n} (it has {have}, the other {need}), or "
            f"shorten the input to {have}."
            if need > have
            else f"Cut {table.parameter} to the {need} of the other: it has {have} in dimension "
            f"{n}, as in table.narrow({n}, 0, {need}).",
        )
    if len(a) == 4 and differing and all(n >= 2 for n in differing):
        ratios = {max(a[n], b[n]) / min(a[n], b[n]) for n in differing if min(a[n], b[n])}
        if ratios and min(ratios) > 1.5:
            return Explanation(
                cause,
                "Give both branches the same stride: one of them makes the image smaller (a stride "
                "or a pooling). A shortcut gets a convolution of kernel size 1 with that stride.",
            )
    if a[:-2] == b[:-2] and a[-2:] == b[-2:][::-1]:
        return Explanation(cause, "Transpose one of them: x.transpose(-2, -1).")
    return Explanation(
        cause, f"Make {dimensions(differing)} equal, or 1 in one of them: {text(a)} and {text(b)}."
    )


def indexed(raised: Raised) -> Explanation | None:
    pair = tensors(raised)
    if pair and "too many indices" in raised.message:
        sizes = shape(pair[0])
        return Explanation(
            f"the tensor is {text(sizes)}",
            f"Index at most {len(sizes)} dimensions in that line, or keep the one that is missing: "
            "squeeze() and an index remove one, unsqueeze adds one.",
        )
    place = re.search(r"Target sizes: \[([\d, ]*)\].*Tensor sizes: \[([\d, ]*)\]", raised.message)
    if place and raised.function == "__setitem__":
        return Explanation(
            f"the place has the shape [{place[1]}], the value [{place[2]}]",
            "Index the value like the place that it is written to, or write to a larger place.",
        )
    if len(pair) < 2 or pair[-1].dtype not in ("bool", "uint8"):
        return None
    sizes, mask = shape(pair[0]), shape(pair[-1])
    wrong = [n for n, (a, b) in enumerate(zip(sizes, mask, strict=False)) if a != b]
    if not wrong:
        return None
    n = wrong[0]
    return Explanation(
        f"the mask has {mask[n]} in dimension {n}, the tensor {sizes[n]}",
        f"Cut the mask as the tensor was cut, to {text(sizes[: len(mask)])}: where tokens are "
        "shifted, mask[:, 1:] belongs to the targets ids[:, 1:].",
    )


def gathered(raised: Raised) -> Explanation | None:
    pair = tensors(raised)
    if len(pair) < 2 or len(shape(pair[0])) == len(shape(pair[-1])):
        return None
    sizes, index = shape(pair[0]), shape(pair[-1])
    cause = f"the index has {len(index)} dimensions, the tensor {len(sizes)}"
    if index == sizes[:-1]:
        return Explanation(
            cause,
            "Give the index the dimension that it selects from: "
            "x.gather(-1, index.unsqueeze(-1)).squeeze(-1).",
        )
    return Explanation(cause, f"Give the index {len(sizes)} dimensions (unsqueeze): {text(sizes)}, "
                       f"index {text(index)}.")  # fmt: skip


def attention(raised: Raised) -> Explanation | None:
    """A mask that does not fit the scores [..., queries, keys]."""
    query, key = raised.operand("query"), raised.operand("key")
    mask = raised.operand("attn_mask")
    if query is None or key is None or mask is None or len(shape(query)) < 2 or not shape(key):
        return None
    scores = (*shape(query)[:-1], shape(key)[-2])
    if broadcast(scores, shape(mask)) is not None:
        return None
    cause = f"attn_mask is {text(shape(mask))}, the scores are {text(scores)}"
    if len(shape(mask)) < len(scores) and (index := _inserted(scores, shape(mask))):
        return Explanation(cause, f"Add dimensions to the mask: mask[{index}] fits the scores.")
    return Explanation(cause, f"Give the mask a shape that broadcasts to {text(scores)}.")


def expanded(raised: Raised) -> Explanation | None:
    operand = next(iter(tensors(raised)), None)
    match = re.search(r"Target sizes: \[([-\d, ]*)\]", raised.message)
    if operand is None or match is None:
        return None
    target = tuple(int(each) for each in match[1].split(",") if each.strip())
    sizes = shape(operand)
    cause = f"{text(sizes)} does not expand to {text(target)}"
    longer = sizes[-1:] and target[-1:] and 1 < sizes[-1] < target[-1]
    if longer and (raised.module or "").endswith("embeddings"):
        return Explanation(
            f"the model has {sizes[-1]} positions, the samples {target[-1]} tokens",
            f"Truncate the samples to {sizes[-1]} tokens (truncation=True, "
            f"max_length={sizes[-1]}), or build the model with more positions "
            "(max_position_embeddings).",
        )
    if len(sizes) < len(target) and (index := _inserted(target, sizes)):
        return Explanation(cause, f"Add the new dimensions first: x[{index}].expand(...).")
    return Explanation(
        cause, "Expand dimensions of size 1 only, repeat the others (x.repeat, repeat_interleave)."
    )


def ordered(raised: Raised) -> Explanation | None:
    operand = next(iter(tensors(raised)), None)
    if operand is None or "desired ordering of dimensions" not in raised.message:
        return None
    count_ = len(shape(operand))
    return Explanation(
        f"the tensor has {count_} dimensions, {text(shape(operand))}",
        f"Name all {count_} dimensions in permute, or add the missing one before (unsqueeze).",
    )


SUBSCRIPT = re.compile(
    r"subscript (\w) has size (\d+) for operand (\d+).* previously seen size (\d+)"
)


def subscripts(raised: Raised) -> Explanation | None:
    if letter := SUBSCRIPT.search(raised.message):
        return Explanation(
            f"the letter {letter[1]} stands for {letter[4]} in an operand before, and for "
            f"{letter[2]} in operand {letter[3]}",
            f"Write another letter for the dimension of {letter[2]}, or transpose the operand "
            "whose dimensions come in another order: a letter is one size everywhere.",
        )
    match = re.search(
        r"subscripts in the equation \((\d+)\).*dimensions \((\d+)\) for operand (\d+)",
        raised.message,
    )
    if not match:
        return None
    number = int(match[3])
    operands = tensors(raised)
    sizes = f", which is {text(shape(operands[number]))}" if number < len(operands) else ""
    return Explanation(
        f"operand {number}{sizes} has {match[2]} dimensions, and the equation names {match[1]}",
        f"Write one letter for each dimension of operand {number}, or ... for those in front, as "
        "in '...i,ij->...j'.",
    )


FUNCTIONS: tuple[tuple[str, Callable[[Raised], Explanation | None]], ...] = (
    ("cat|concat|concatenate|hstack|vstack|stack", joins.joined),
    (r"(__)?[ir]?(add|sub|mul|div|truediv|pow|and|or|gt|lt|ge|le|eq|ne)_?(__)?|masked_fill_?|where|"
     "maximum|minimum|true_divide|lerp_?|addcmul_?|mse_loss|l1_loss", elementwise),
    ("__getitem__|__setitem__", indexed),
    ("gather|scatter_?|scatter_add_?|take_along_dim", gathered),
    ("einsum", subscripts),
    ("scaled_dot_product_attention", attention),
    ("expand|broadcast_to", expanded),
    ("split|split_with_sizes", joins.pieces),
    ("permute", ordered),
)  # fmt: skip
"""Pattern of a function's name -> what explains its sizes."""
