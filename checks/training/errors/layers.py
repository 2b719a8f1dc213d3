"""Layers that take their dimensions in another order or size, and modules that are not there."""

from __future__ import annotations

import re
from collections.abc import Callable

from doctor.checks.training.errors.explanation import Explanation, module
from doctor.facts.raised import Raised


def explain(raised: Raised) -> Explanation | None:
    return next(filter(None, (explainer(raised) for explainer in EXPLAINERS)), None)


def layout(raised: Raised) -> Explanation | None:
    """A layer that takes the first dimension for time although the batch comes first."""
    observed = raised.observed
    if observed.get("batch_first") != "False":
        return None
    shapes = {
        name: [int(each) for each in sizes.split(",") if each.strip()]
        for name, sizes in re.findall(r"(\w+) \[([\d, ]*)\]", observed.get("inputs", ""))
    }
    x = next((sizes for name, sizes in shapes.items() if len(sizes) == 3), None)
    mask = next((sizes for name, sizes in shapes.items() if "padding_mask" in name), None)
    if x is None or mask != x[:2] or mask == [x[1], x[0]]:
        return None
    where = raised.module or "the layer"
    return Explanation(
        f"{where} takes {x} as [time, batch, features], and the mask {mask} as [batch, time]",
        "Pass batch_first=True to the layer (nn.MultiheadAttention, nn.TransformerEncoderLayer): "
        "the batch is the first dimension of the input.",
    )


def hook(raised: Raised) -> Explanation | None:
    """A hook of a module whose parameters are others."""
    if not (owner := raised.observed.get("hook of")):
        return None
    return Explanation(
        f"{raised.observed['hook']} is a hook of {owner}",
        "Give the hook the parameters that it is called with: (module, args, output) for "
        "register_forward_hook, (module, args) for register_forward_pre_hook, (module, grad_input, "
        "grad_output) for register_full_backward_hook.",
    )


def recurrent(raised: Raised) -> Explanation | None:
    """The size of the features or of the state that nn.RNN, nn.LSTM or nn.GRU got."""
    layer = re.match(r"(LSTM|GRU|RNN)\((\d+), (\d+)", raised.module_type)
    if not layer:
        return None
    sizes = dict(re.findall(r"(\w+) \[([\d, ]*)\]", raised.observed.get("inputs", "")))
    x = [int(each) for each in sizes.get("input", "").split(",") if each.strip()]
    where = module(raised)
    if "input_size" in raised.message and x:
        return Explanation(
            f"{where} takes {layer[2]} features, the last dimension of its input has {x[-1]}",
            f"Set input_size={x[-1]} in {where}, or give it an input with {layer[2]} in the last "
            "dimension.",
        )
    if layer[1] == "LSTM" and "hx" in sizes:
        return Explanation(
            f"{where} got one tensor as its state",
            f"Pass a tuple of two states to {where}, (h, c), or none: they are zeros then.",
        )
    state = re.search(
        r"Expected hidden(?:\[\d\])? size \(\d+, (\d+), \d+\), got \[\d+, (\d+)", raised.message
    )
    if not state or len(x) != 3:
        return None
    if state[1] == state[2]:
        return _state_of_another_layer(where, raised.message)
    expected, got = int(state[1]), int(state[2])
    if raised.observed.get("batch_first") == "False" and got == x[0] != x[1]:
        return Explanation(
            f"{where} takes the input {x} as [time, batch, features], the state is for {got} "
            "samples",
            f"Pass batch_first=True to {where}: the batch is the first dimension of its input.",
        )
    return Explanation(
        f"the state is for {got} samples, the batch has {expected}",
        f"Create the state for the batch at hand, with {expected} in its second dimension "
        "(x.size(0) with batch_first=True), or pass none: it is zeros then. The last batch of a "
        "DataLoader is smaller.",
    )


def packed(raised: Raised) -> Explanation | None:
    """A packed sequence where a tensor is needed."""
    if not (name := raised.observed.get("packed")):
        return None
    return Explanation(
        f"{name} is a PackedSequence",
        f"Unpack it first: {name}, lengths = nn.utils.rnn.pad_packed_sequence({name}, "
        "batch_first=True). The last step of each sequence is in the state that the layer returns, "
        "h[-1].",
    )


STATE = re.compile(
    r"size \((?P<layers>\d+), \d+, (?P<size>\d+)\), got \[(?P<first>\d+), \d+, (?P<last>\d+)\]"
)


def _state_of_another_layer(where: str, message: str) -> Explanation | None:
    """A state for other numbers of layers, directions or features."""
    if not (match := STATE.search(message)):
        return None
    if match["layers"] != match["first"]:
        return Explanation(
            f"the first dimension of the state is {match['first']}, {where} has {match['layers']} "
            "layers and directions",
            f"Create the state with {match['layers']} in its first dimension, num_layers times 2 "
            "if bidirectional, or pass none: it is zeros then.",
        )
    return Explanation(
        f"the last dimension of the state is {match['last']}, hidden_size is {match['size']}",
        f"Create the state with hidden_size={match['size']} in its last dimension, or pass none: "
        "it is zeros then.",
    )


def adapters(raised: Raised) -> Explanation | None:
    if not (names := raised.observed.get("linear")):
        return None
    return Explanation(
        f"linear modules of this model: {names}",
        f"Choose target_modules among {names}, or pass target_modules='all-linear'.",
    )


EXPLAINERS: tuple[Callable[[Raised], Explanation | None], ...] = (
    packed,
    hook,
    layout,
    recurrent,
    adapters,
)
