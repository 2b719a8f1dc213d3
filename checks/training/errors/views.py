"""Views and indices of another number of values or dimensions than the tensor has."""

from __future__ import annotations

import math

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import Explanation, Proof
from doctor.checks.training.errors.sizes import sizes_of, tensors, text
from doctor.facts.observations import Regrouped
from doctor.facts.raised import Raised


def target_sizes(raised: Raised) -> Sizes:
    return tuple(n for each in raised.operands for n in each.numbers)


def view_size(raised: Raised) -> Explanation | None:
    x, target = next(iter(tensors(raised)), None), target_sizes(raised)
    if raised.function not in ("view", "reshape") or x is None or not target:
        return None
    sizes, total = sizes_of(x), math.prod(sizes_of(x))
    known = math.prod(each for each in target if each != -1)
    if known == total or (-1 in target and known and total % known == 0):
        return None
    needs = f"a multiple of {known:,}" if -1 in target else f"{known:,}"
    cause = f"{text(sizes)} has {total:,} values, {text(target)} needs {needs}"
    features = math.prod(sizes[1:])
    if _is_of_samples(sizes, target):
        return Explanation(
            cause,
            "If each row is a sample, write x.flatten(1) in that line, which makes "
            f"[{sizes[0]}, {features}] of {text(sizes)} whatever their number is, and set "
            f"in_features={features} in the linear layer behind it, in place of {target[1]}.",
        )
    rest = math.prod(target[1:])
    if -1 in target or sizes[:1] == target[:1] or not rest or total % rest:
        return Explanation(cause, PRODUCT_OF_SIZES.format(total=total))
    return Explanation(
        cause,
        f"Do not write the batch size down: the first size is {target[0]} there, and "
        f"{total // rest} fits. Write x.size(0) or -1 for it, or x.flatten(1).",
    )


def _is_of_samples(sizes: Sizes, target: Sizes) -> bool:
    """Whether rows of that width are samples, and no tokens, pixels or frames: it is nearer to all
    values of a sample than to those of a part."""
    given = target[0] == sizes[0] and len(sizes) in (3, 4)
    if len(target) != 2 or not (given or (target[0] == -1 and len(sizes) == 4)):
        return False
    return target[1] ** 2 > math.prod(sizes[1:]) * math.prod(sizes[2:])


PRODUCT_OF_SIZES = (
    "Choose sizes whose product is {total} in that line, with -1 for one of them. A width is "
    "divided into heads only if it is a multiple of their number."
)


def regrouped(raised: Raised) -> Explanation | None:
    """A view that takes the samples of predictions, or of targets, for other rows: one that joins
    the steps of the samples, whose values stay together, is meant."""
    prediction, target = raised.operand("input"), raised.operand("target")
    if prediction is None or target is None:
        return None
    rows, wanted = sizes_of(prediction), sizes_of(target)
    if not rows:
        return None
    for seen in raised.all(Regrouped):
        if 0 in seen.after:
            continue
        samples, after = seen.before[0], seen.after
        kept = after[1:] == seen.before[len(seen.before) - len(after) + 1 :]
        cause = f"{seen.function}() in {seen.place} (`{seen.code}`) makes {text(after)} of "
        cause += f"{text(seen.before)}, {samples} samples"
        features = math.prod(seen.before[1:])
        if after == wanted and rows == (samples, features):
            return Explanation(cause, IN_ROWS.format(view=seen.function, place=seen.place))
        if kept or not 2 <= len(after) <= len(seen.before) or features % math.prod(after[2:]):
            continue
        if after[0] != rows[0] or wanted[:1] != (samples,):
            continue
        width = features // math.prod(after[2:])
        kept_sizes = ", ".join(map(str, ("len(x)", -1, *after[2:])))
        change = "x.flatten(1)" if len(after) == 2 else f"x.reshape({kept_sizes})"
        return Explanation(
            cause,
            f"Write {change} in {seen.place}, in place of {seen.function}(): it makes "
            f"{text((samples, width, *after[2:]))} and keeps the samples. The layer behind it then "
            f"takes {width} in place of {after[1]} (in_features, or in_channels of a convolution).",
        )
    return None


IN_ROWS = (
    "Write x.flatten(1) in {place}, in place of {view}(): it keeps the samples in the first "
    "dimension, as the output has them."
)


def number_of_dimensions(raised: Raised) -> Explanation | None:
    """Another number of dimensions than permute or an index names."""
    x, key = next(iter(tensors(raised)), None), raised.operand("key")
    indices = key.value.count(",") + 1 if key and key.kind == "tuple" else 0
    named_ones = {"permute": len(target_sizes(raised)), "__getitem__": indices}.get(
        raised.function, 0
    )
    dimensions = len(sizes_of(x)) if x else 0
    if x is None or named_ones in (0, dimensions) or (indices and indices < dimensions):
        return None
    cause = f"{text(sizes_of(x))} has {dimensions} dimensions, not {named_ones}"
    if sizes_of(x) == (0,):
        return Explanation(
            f"{cause}: it is empty",
            "Give an empty list its dimensions, torch.tensor(rows).reshape(-1, 4) of boxes for "
            "instance, or leave samples without entries out: torch.tensor([]) has one dimension.",
        )
    return Explanation(cause)


PROOFS: dict[str, Proof] = {"view-size": view_size}
