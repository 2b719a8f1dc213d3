"""Layers that were made for another size of their input."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from doctor.checks.training.errors.explanation import Explanation, module
from doctor.checks.training.errors.sizes import refused, sizes_of, text
from doctor.facts.observations import Joined, Layout
from doctor.facts.raised import Raised

LAYERS = {
    "linear": ("in_features", -1, -1),
    "conv": ("in_channels", 1, 1),
    "conv_transpose": ("in_channels", 1, 0),
    "batch_norm": ("num_features", 1, 0),
    "layer_norm": ("normalized_shape", -1, -1),
}
"""Function, without its number of dimensions -> the option of the layer, the dimension of its input
and that of its weight, which are equal."""


def kind_of_layer(raised: Raised) -> str:
    """The function without its number of dimensions: a key of LAYERS, if it is one of them."""
    return re.sub(r"\dd$", "", raised.function)


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
    if of_maps := _maps_into_rows(raised, size, where):
        return of_maps
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


def _maps_into_rows(raised: Raised, size: Size, where: str) -> Explanation | None:
    """Maps of channels, lines and columns as the input of a linear layer, which takes their
    columns for its features: they were not flattened."""
    operand = raised.operand("input")
    sizes = sizes_of(operand) if operand else ()
    if size.option != "in_features" or len(sizes) != 4 or sizes[1] < sizes[-1]:
        return None
    features = math.prod(sizes[1:])
    if features == size.expected:  # flattening alone fits
        return None
    return Explanation(
        f"{where} takes {size.expected} in the last dimension of its input {text(sizes)}, which "
        f"are the {size.got} columns of {sizes[1]} channels; one row for each sample has "
        f"{features}",
        f"Write input.flatten(1) for the input of {where}, and set in_features={features}.\n"
        f"If {where} is to see the columns of each map, set in_features={size.got}.",
    )


def _of_layer(raised: Raised) -> Size | None:
    call = refused(raised)
    if call is None or kind_of_layer(raised) not in LAYERS:
        return None
    option, dimension, of_weight = LAYERS[kind_of_layer(raised)]
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
