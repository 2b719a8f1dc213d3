"""Sizes that do not fit, by the arguments of the call."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from doctor.checks.training.errors import heads, views
from doctor.checks.training.errors.branches import added_maps, compared_maps
from doctor.checks.training.errors.explanation import Explanation, Proof, first_of, module, named
from doctor.checks.training.errors.norms import fix_of_norm
from doctor.checks.training.errors.sizes import Call, broadcast, call_of, sizes_of, text
from doctor.facts.observations import Joined, Layout
from doctor.facts.raised import Operand, Raised

CLASSES = ("cross_entropy", "nll_loss")
LOSSES = re.compile(r"loss|entropy")
PRODUCTS = r"(__)?r?matmul(__)?|bmm|mm"
LAYERS = {
    "linear": ("in_features", -1, -1),
    "conv": ("in_channels", 1, 1),
    "conv_transpose": ("in_channels", 1, 0),
    "batch_norm": ("num_features", 1, 0),
    "layer_norm": ("normalized_shape", -1, -1),
}
"""Function, without its number of dimensions -> the option of the layer, the dimension of its input
and that of its weight, which are equal."""
LARGE = 1000
"""Values of a result for each value of its larger argument. Our own number."""


def refused(raised: Raised) -> Call | None:
    """The call whose sizes do not fit each other; None if they do, or it is not known."""
    call = call_of(raised)
    return None if call is None or call.fits else call


def _layer(raised: Raised) -> str:
    return re.sub(r"\dd$", "", raised.function)


def _listed(call: Call) -> str:
    return " and ".join(
        f"{named(each, 'an argument')} {text(sizes_of(each))}" for each in call.operands
    )


def _source(raised: Raised, operand: Operand) -> str:
    """ "the input of head", "target", "the argument"."""
    if operand.name == "input" and _layer(raised) in LAYERS:
        return f"the input of {module(raised)}"
    return named(operand, "the argument")


# One change makes the call fit


def fitted(raised: Raised, codes: str = "") -> Explanation | None:
    """`codes`: a pattern of the change; any if empty."""
    call = refused(raised)
    found = call.fitted() if call else None
    if call is None or found is None or not re.search(codes, found[1].code):
        return None
    operand, change = found
    fix = fix_of_norm(raised, operand, change) or (
        f"Write {named(operand, 'x')}{change.code} for {_source(raised, operand)}: "
        f"{text(sizes_of(operand))} becomes {text(change.sizes)}."
    )
    return Explanation(f"{_listed(call)}: {named(operand, 'x')}{change.code} fits", fix)


# Layers


class Size(NamedTuple):
    """A size of a layer's input that is another than the layer was made for."""

    option: str
    dimension: int
    expected: int
    got: int


def layer_size(raised: Raised) -> Explanation | None:
    size = _of_recurrent(raised) or _of_layer(raised)
    if size is None:
        return None
    where = module(raised)
    place = "the last dimension" if size.dimension < 0 else f"dimension {size.dimension}"
    source = ""
    if joined := raised.first(Joined):
        shapes = " and ".join(map(text, joined.shapes))
        source = f": {joined.function} of {shapes} in {joined.place}"
    return Explanation(
        f"{where} takes {size.expected} in {place} of its input, which has {size.got}{source}",
        f"Set {size.option}={size.got} in {where}, or change what comes before it so that {place} "
        f"of its input is {size.expected}.",
    )


def _of_layer(raised: Raised) -> Size | None:
    call = refused(raised)
    if call is None or _layer(raised) not in LAYERS:
        return None
    option, dimension, of_weight = LAYERS[_layer(raised)]
    sizes, weight = call.sizes
    groups = raised.operand("groups")
    expected = weight[of_weight] * (groups.numbers[0] if groups and groups.numbers else 1)
    if len(sizes) <= max(dimension, 0) or sizes[dimension] == expected:
        return None
    return Size(option, dimension, expected, sizes[dimension])


def _of_recurrent(raised: Raised) -> Size | None:
    layout = raised.first(Layout)
    x = layout.inputs.get("input", ()) if layout else ()
    size = layout.options.get("input_size", 0) if layout else 0
    return Size("input_size", -1, size, x[-1]) if x and size and x[-1] != size else None


def recurrent_state(raised: Raised) -> Explanation | None:
    """A state of other numbers of layers, samples or features than the layer takes."""
    layout, where = raised.first(Layout), module(raised)
    if layout is None or "hidden_size" not in layout.options:
        return None
    if "hx" in layout.inputs and raised.module_type.startswith("LSTM"):
        return Explanation(
            f"{where} got one tensor as its state",
            f"Pass a tuple of two states to {where}, (h, c), or none: they are zeros then.",
        )
    x, state = layout.inputs.get("input", ()), layout.inputs.get("hx", layout.inputs.get("hx[0]"))
    if len(x) != 3 or state is None or len(state) != 3:
        return None
    options = layout.options
    layers = options.get("num_layers", 1) * (1 + options.get("bidirectional", 0))
    expected = (layers, x[0] if layout.batch_first else x[1], options["hidden_size"])
    if state == expected:
        return None
    cause = f"the state is {text(state)}; {where} with the input {text(x)} takes {text(expected)}"
    if layout.batch_first or state[1] != x[0] or x[0] == x[1]:
        return Explanation(cause)
    return Explanation(
        f"{cause}, the samples second",
        f"Pass batch_first=True to {where}: the samples are the first dimension of its input.",
    )


# Products, losses, and what is combined


def inner_sizes(raised: Raised) -> Explanation | None:
    """The inner sizes of a product differ."""
    call = refused(raised)
    if call is None or not re.fullmatch(PRODUCTS, raised.function):
        return None
    first, second = call.sizes
    if first[-1] == second[-2]:
        return Explanation(f"{text(first)} and {text(second)} are other numbers of matrices")
    return Explanation(f"the inner sizes are {first[-1]} and {second[-2]}")


def outputs_and_targets(raised: Raised) -> Explanation | None:
    """A loss that compares values, with another number of outputs than of targets."""
    call = refused(raised)
    if call is None or not LOSSES.search(raised.function) or raised.function in CLASSES:
        return None
    have, want = call.sizes
    if have[:1] != want[:1] or call.fitted():
        return None
    if of_maps := compared_maps(have, want):
        return Explanation(f"{_listed(call)}: {of_maps[0]}", of_maps[1])
    outputs = want[-1] if len(want) > 1 else 1
    return Explanation(
        f"{_listed(call)}: {have[-1]} outputs for each sample, {outputs} targets",
        f"Give the last layer {outputs} outputs (out_features={outputs}), as many as the targets "
        f"have{SQUEEZED * (len(want) == 1)}; for one class of several use cross_entropy with "
        "labels.long().",
    )


SQUEEZED = ", and remove that dimension, output.squeeze(-1)"


def rows_and_labels(raised: Raised) -> Explanation | None:
    """Another number of predictions than of labels."""
    call = refused(raised)
    if call is None or raised.function not in CLASSES or call.fitted():
        return None
    rows, labels = call.sizes
    if len(rows) > 2 and len(labels) > 1 and rows[0] == labels[0]:
        return Explanation(
            f"in each sample predictions for {text(rows[2:])} positions against labels for "
            f"{text(labels[1:])}",
            "Make both of one size: where the model puts positions before its input (a prompt, a "
            "class token, an image), give these places ignored labels (-100) or leave them out of "
            "the logits; resize masks of images with mode='nearest' to the size of the logits.",
        )
    if len(rows) != 2 or len(labels) != 1 or rows[0] == labels[0]:
        return None
    whole = labels[0] and rows[0] % labels[0] == 0
    each = f", {rows[0] // labels[0]} for each" if whole else ""
    cause = f"{rows[0]} predictions against {labels[0]} labels{each}"
    if whole and rows[0] == rows[1]:
        return Explanation(f"{cause}; the predictions are square, as similarities are", VIEWS_FIX)
    return Explanation(cause)


VIEWS_FIX = (
    "Give each row its label, the number of the row that belongs to it. Of two views that were "
    "joined, torch.cat([first, second]) with n rows each, these are torch.cat([arange(n) + n, "
    "arange(n)]); of similarities of one view with the other, first @ second.t(), arange(n)."
)


def short_parameter(raised: Raised) -> Explanation | None:
    """A table of the model, as one of positions, that is shorter or longer than what it is added
    to."""
    call = refused(raised)
    if call is None or len(call.operands) != 2 or _layer(raised) in LAYERS:
        return None
    table = next((each for each in call.operands if each.parameter), None)
    other = next((each for each in call.operands if not each.parameter), None)
    if table is None or other is None or len(sizes_of(table)) != len(sizes_of(other)):
        return None
    pairs = enumerate(zip(sizes_of(table), sizes_of(other), strict=True))
    differing = [(n, a, b) for n, (a, b) in pairs if a != b and 1 not in (a, b)]
    if len(differing) != 1:
        return None
    n, have, need = differing[0]
    return Explanation(
        f"{table.parameter} has {have} in dimension {n}, the other {need}",
        f"Give {table.parameter} {need} in dimension {n}, or cut the longer one with "
        f"narrow({n}, 0, {min(have, need)}). A class token needs a position of its own, + 1.",
    )


def differing_sizes(raised: Raised) -> Explanation | None:
    """Two tensors that are combined."""
    call = refused(raised)
    if call is None or call.fitted():
        return None
    if len(call.operands) == 1:
        return Explanation(
            f"{_listed(call)} does not expand to {text(views.target_sizes(raised))}",
            "Expand dimensions of size 1 only and repeat the others (x.repeat, "
            "repeat_interleave). For a table of positions truncate the samples (truncation=True, "
            "max_length=), or build the model with more positions.",
        )
    of_others = _layer(raised) in LAYERS or re.fullmatch(PRODUCTS, raised.function)
    if of_others or LOSSES.search(raised.function):
        return None
    if of_maps := added_maps(raised, call):
        return of_maps
    first, second = call.sizes
    if len(first) != len(second) and raised.function != "__getitem__":
        return Explanation(f"{_listed(call)} have other numbers of dimensions")
    numbers = [n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    sizes = "; ".join(f"dimension {n}: {first[n]} against {second[n]}" for n in numbers)
    return Explanation(
        f"{_listed(call)}, {sizes}",
        "Make these sizes equal, or 1 in one of them: cut a mask as its tensor was cut, and give "
        "both branches of a residual block the same stride.",
    )


def memory_of_a_broadcast(raised: Raised) -> Explanation | None:
    """Two shapes that fit, and give many times as many values."""
    call = call_of(raised)
    if call is None or len(call.operands) != 2 or not call.fits:
        return None
    together = broadcast(*call.sizes) or ()
    if math.prod(together) < LARGE * max(map(math.prod, call.sizes)):
        return None
    return Explanation(
        f"{_listed(call)} broadcast to {text(together)}, {math.prod(together):,} values"
    )


def fitted_by(codes: str) -> Proof:
    """`codes`: a pattern of what is written behind the argument."""
    return lambda raised: fitted(raised, codes)


PROOFS: dict[str, Proof] = {
    "linear-unflattened": fitted_by(r"^\.flatten\(1\)"),
    "extra-dimension": fitted_by(r"^\.squeeze"),
    "order-of-dimensions": fitted_by(r"^\.(transpose|permute)"),
    "missing-dimension": fitted_by(r"None|^\.unsqueeze"),
    "recurrent-state": recurrent_state,
    "layer-size": first_of(layer_size, heads.width_of_keys, inner_sizes),
    "short-parameter": short_parameter,
    "outputs-and-targets": outputs_and_targets,
    "rows-and-labels": first_of(fitted_by(r"^\.flatten\(\)"), rows_and_labels),
    "memory-of-a-broadcast": memory_of_a_broadcast,
    "differing-sizes": first_of(heads.grouped_heads, differing_sizes),
}
