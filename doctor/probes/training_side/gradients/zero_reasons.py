"""Why the backward pass of an operation turns a gradient into zeros: what its inputs were.

One rule per kind of operation. A node of the graph holds the inputs until its backward pass is
over.
"""

from __future__ import annotations

import math
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Foreign, graphs


class Reason(NamedTuple):
    """What was observed in the inputs."""

    text: str = ""
    certain: bool = False
    """The gradient is 0 whatever the values are."""
    origin: Any = None
    """The zero_origins.Origin of a factor of 0; None: it is not 0 throughout, or not known."""


Rule = Callable[[Any, int], Reason]
NOTHING = Reason()


def reason(node: Foreign, index: int, names: Dict[int, str], origins: Any) -> Reason:
    """Why the gradient of the input with this index is 0. Never raises.

    `names` are those of the parameters by their ids, `origins` a zero_origins.ZeroOrigins.
    """
    operation = re.sub(r"^torch::autograd::|Backwards?\d*$", "", node.name())
    if hasattr(node, "_forward_cls"):
        return Reason("its backward() returns zeros", True)
    rule = RULES.get(operation)
    try:
        if operation in PRODUCTS:
            return factor(node, index, names, origins)
        if operation == "Div":
            return quotient(node, index, origins)
        return rule(node, index) if rule else Reason("", operation in FLAT)
    except Exception:
        return NOTHING


def share(condition: torch.Tensor, text: str) -> Reason:
    return Reason("%d of %d %s" % (int(condition.sum()), condition.numel(), text))


def softmax(node: Foreign, index: int) -> Reason:
    result, dim = node._saved_result, node._saved_dim
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim
    if result.dim() and result.shape[dim] == 1:
        return Reason("it is over a dimension of 1 value", True)
    largest = result.amax(dim)
    largest = largest.exp() if node.name().startswith("Log") else largest
    return share(largest == 1, "rows have a probability of exactly 1")


def attention(node: Foreign, index: int) -> Reason:
    return Reason("it is over 1 key", True) if node._saved_key.shape[-2] == 1 else NOTHING


def larger(node: Foreign, index: int) -> Reason:
    own, other = node._saved_self, node._saved_other
    own, other = (own, other) if index == 0 else (other, own)
    what = "below" if node.name().startswith("Max") else "above"
    lost = own < other if what == "below" else own > other
    return share(lost, "values are %s those of the other input" % what)


def clamped(node: Foreign, index: int) -> Reason:
    x = node._saved_self
    low = bound(node, "_saved_min", "_saved_min_val")
    high = bound(node, "_saved_max", "_saved_max_val")
    outside = torch.zeros_like(x, dtype=torch.bool)
    if low is not None:
        outside |= x <= low
    if high is not None:
        outside |= x >= high
    limits = "[%s, %s]" % (
        "-inf" if low is None else "%g" % low,
        "inf" if high is None else "%g" % high,
    )
    span = "from %.4g to %.4g" % (float(x.min()), float(x.max()))
    return share(outside, "inputs are at or beyond the bounds %s: they are %s" % (limits, span))


def bound(node: Foreign, *names: str) -> Optional[float]:
    values = [getattr(node, name, None) for name in names]
    return next((float(each) for each in values if each is not None), None)


def rectified(node: Foreign, index: int) -> Reason:
    x = node._saved_result if hasattr(node, "_saved_result") else node._saved_self
    return share(x <= 0, "inputs are 0 or less")


def saturated(node: Foreign, index: int) -> Reason:
    low = 0.0 if node.name().startswith("Sigmoid") else -1.0
    result = node._saved_result
    return share((result == low) | (result == 1), "results are exactly %g or 1" % low)


def spanned(node: Foreign, index: int) -> Reason:
    x = node._saved_self
    return Reason("its inputs are from %.4g to %.4g" % (float(x.min()), float(x.max())))


def factor(node: Foreign, index: int, names: Dict[int, str], origins: Any) -> Reason:
    """For a product: the factor that the gradient of this input is multiplied by."""
    operation = re.sub(r"Backwards?\d*$", "", node.name())
    attribute, edge = PRODUCTS[operation][index]
    other: Any = getattr(node, attribute, None)
    zeros = other == 0
    if not isinstance(zeros, torch.Tensor):
        return Reason("the other factor is 0") if zeros else NOTHING
    bad, total = int(zeros.sum()), zeros.numel()
    if not bad:
        return NOTHING
    extent = "0" if not other.dim() else "0 throughout" if bad == total else "0 in part"
    computed = computed_by(node, edge, names)
    origin = origins.of(other) if bad == total else None
    if bad == total and not computed:
        return zero_since("the other factor", other, origins)
    if "the result of" in computed and origin and origin.name.startswith("the parameter"):
        computed = ", computed from %s," % origin.name
    return Reason("the other factor%s is %s" % (computed, extent))


def quotient(node: Foreign, index: int, origins: Any) -> Reason:
    """For the divisor of a quotient: whether what it divides is 0."""
    dividend = node._saved_self if index == 1 else None
    zero = isinstance(dividend, torch.Tensor) and not bool(dividend.any())
    return zero_since("what it divides", dividend, origins) if zero else NOTHING


def zero_since(what: str, value: Foreign, origins: Any) -> Reason:
    """With the operation that made a value 0 throughout, if it is known."""
    origin = origins.of(value)
    if origin is None or not origin.place:
        name = ", %s," % origin.name if origin else ""
        return Reason("%s%s is 0 throughout" % (what, name), origin=origin)
    return Reason("%s is 0 throughout: %s makes it 0" % (what, origin.text), origin=origin)


def computed_by(node: Foreign, edge: int, names: Dict[int, str]) -> str:
    """ ", the parameter up.weight,": what computed an input of an operation; "" if unknown."""
    following = node.next_functions[edge][0] if edge < len(node.next_functions) else None
    while following is not None and graphs.passes_on(following):
        following = following.next_functions[0][0]
    if following is None:
        return ""
    leaf = graphs.leaf_of(following)
    if leaf is not None:
        name = names.get(id(leaf))
        return ", the parameter %s," % name if name else ""
    return ", the result of %s," % re.sub(r"Backward\d*$", "", following.name())


def normalized(size: Callable[[Any], float]) -> Rule:
    """For a norm: whether each statistic is that of one value."""

    def rule(node: Foreign, index: int) -> Reason:
        return Reason("it normalizes over 1 value", True) if size(node) == 1 else NOTHING

    return rule


def constant_channels(node: Foreign, index: int) -> Reason:
    """For the weight of a batch norm: whether each channel has one value in the whole batch."""
    x = node._saved_input
    rows = x.transpose(0, 1).flatten(1)
    constant = index == 1 and bool((rows == rows[:, :1]).all())
    return Reason(CONSTANT_CHANNELS, True) if constant else NOTHING


CONSTANT_CHANNELS = "each channel of its input has the same value in the whole batch"


def sampled(node: Foreign, index: int) -> Reason:
    """For grid_sample: whether it rounds the positions of its grid."""
    nearest = index == 1 and node._saved_interpolation_mode == 1
    return Reason("its mode is nearest", True) if nearest else NOTHING


def embedded(node: Foreign, index: int) -> Reason:
    """For the table of an embedding: whether its tokens are all padding, or get no gradient."""
    padding = node._saved_indices == node._saved_padding_idx
    if bool(padding.all()):
        return Reason("every index is padding_idx", True)
    count = int(padding.sum()), padding.numel()
    return Reason("%d of %d indices are padding_idx, the others get no gradient" % count)


PRODUCTS = {
    "Mul": (("_saved_other", 1), ("_saved_self", 0)),
    **dict.fromkeys(("Mm", "Bmm"), (("_saved_mat2", 1), ("_saved_self", 0))),
    "Mv": (("_saved_vec", 1), ("_saved_self", 0)),
    "Addmm": (("", 0), ("_saved_mat2", 2), ("_saved_mat1", 1)),
    "Convolution": (("_saved_weight", 1), ("_saved_input", 0)),
}
"""Operation -> for each input, the attribute and the edge of the other factor."""
FLAT = ("Round", "Floor", "Ceil", "Trunc", "Sign", "Heaviside", "Bernoulli", "FloorDivide")
"""Operations whose derivative is 0 everywhere."""
RULES: Dict[str, Rule] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "SafeSoftmax"), softmax),
    **dict.fromkeys(
        ("ScaledDotProductFlashAttentionForCpu", "ScaledDotProductFlashAttention",
         "ScaledDotProductEfficientAttention", "ScaledDotProductCudnnAttention"), attention,
    ),
    "Where": lambda node, index: share(
        node._saved_condition, "values of its condition are True"
    ),
    **dict.fromkeys(
        ("IndexPut", "IndexFill", "Copy", "CopySlices", "SliceScatter", "SelectScatter"),
        lambda node, index: Reason("an assignment overwrites its values"),
    ),
    "MaskedFill": lambda node, index: share(
        node._saved_mask, "values of its mask are True, and filled"
    ),
    "Embedding": embedded,
    **dict.fromkeys(("Maximum", "Minimum"), larger),
    **dict.fromkeys(("Clamp", "ClampMin", "ClampMax", "Hardtanh"), clamped),
    **dict.fromkeys(("Relu", "Threshold"), rectified),
    **dict.fromkeys(("Tanh", "Sigmoid"), saturated),
    **dict.fromkeys(
        ("Gelu", "Silu", "Elu", "Softplus", "Erf", "Hardsigmoid", "Hardswish"), spanned
    ),
    **dict.fromkeys(("NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"), constant_channels),
    "NativeLayerNorm": normalized(lambda node: math.prod(node._saved_normalized_shape)),
    "NativeGroupNorm": normalized(
        lambda node: node._saved_C // node._saved_group * node._saved_HxW
    ),
    **dict.fromkeys(
        ("GridSampler2D", "GridSampler3D", "CudnnGridSampler", "GridSampler2DCpuFallback"), sampled
    ),
    **dict.fromkeys(
        ("Abs", "LinalgVectorNorm", "Norm"),
        lambda node, index: share(node._saved_self == 0, "inputs are exactly 0"),
    ),
}  # fmt: skip


def unread(node: Foreign, parents: Dict[Any, List[Any]], line_of: Any) -> Reason:
    """For an operation that only passes values on: what reads its result, and not this part."""
    operations: Dict[Tuple[str, str], None] = {}
    for each in graphs.readers(node, parents):
        place = line_of(each)[1]
        operations[re.sub(r"Backward\d*$", "", each.name()), place] = None
    names = [
        "%s%s" % (name, " in %s" % place if place else "") for name, place in list(operations)[:2]
    ]
    if not names:
        return NOTHING
    choosing = all(CHOOSING.fullmatch(name) for name, _ in list(operations)[:2])
    text = "leaves this part out" if choosing else "gives zeros to this part"
    return Reason("what reads its result %s: %s" % (text, ", ".join(names)))


CHOOSING = re.compile("Slice|Select|Index|IndexSelect|Gather|Narrow|Max|Amax|Min|Amin|Where")
"""Operations that read a part of their input."""
