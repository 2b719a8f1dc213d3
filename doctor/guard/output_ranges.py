"""Targets that no output can reach: beyond the range of the last activation, or of the loss."""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Optional

from . import codes, loss_graphs
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .loss_graphs import DISTANCES, kind
from .values import unless_lost

OF_LOGITS = "BinaryCrossEntropyWithLogitsBackward0"
"""Of targets from 0 to 1; binary_cross_entropy() checks its own."""
RANGES = {
    "SigmoidBackward0": ("sigmoid()", 0.0, 1.0),
    "SoftmaxBackward0": ("softmax()", 0.0, 1.0),
    "TanhBackward0": ("tanh()", -1.0, 1.0),
    "ReluBackward0": ("relu()", 0.0, inf),
    "SoftplusBackward0": ("softplus()", 0.0, inf),
    "HardtanhBackward0": ("hardtanh()", -1.0, 1.0),
}
OF_DIFFERENCES = {"AbsBackward0": "an absolute difference", "PowBackward0": "a squared difference"}


class Target(NamedTuple):
    """What a loss compares with, and the range of what it can be compared with."""

    cause: str
    loss: str
    activation: str
    values: Foreign
    low: float
    high: float


class OutputRanges:
    """Reads the targets of the first losses, as far as their graphs keep them."""

    def __init__(self, context: Context) -> None:
        self._context, self._torch = context, context.torch
        self._rows: dict[str, int] = {}

    def passes(self, root: Foreign, number: int, where: str) -> None:
        """The backward pass of this number begins at a loss with this node."""
        found = next(filter(None, map(_target, loss_graphs.nearest(root))), None)
        if found is None or not found.values.is_floating_point() or not found.values.numel():
            return
        with self._torch.no_grad():
            values = found.values.detach().float()
            margin = limit.RANGE_MARGIN * (values.abs().max() if found.high == inf else 1.0)
            outside = (values < found.low - margin) | (values > found.high + margin)
            read = self._torch.stack([outside.float().mean(), values.min(), values.max()])
        target = found._replace(values=None)
        self._context.submit([read], unless_lost(self._judge, target, number, where))

    def _judge(self, found: Target, number: int, where: str, read: list[float]) -> None:
        share, least, most = read
        row = self._rows.get(found.loss, 0) + 1 if share > limit.RANGE_SHARE else 0
        self._rows[found.loss] = row
        if row != limit.MISFITS:
            return
        high = "" if found.high == inf else f" to {found.high:g}"
        limits = f"{found.low:g}{high}" + (" or more" if found.high == inf else "")
        text = (
            f"the targets of {found.loss} reach from {least:.4g} to {most:.4g}; it expects {limits}"
            if not found.activation
            else f"{found.loss} compares the result of {found.activation}, which is {limits}, with "
            f"targets from {least:.4g} to {most:.4g}: {share:.0%} of them cannot be reached"
        )
        self._context.warn(codes.LOSS_FITS_OUTPUT, text + where, found.cause, step=number)


def _target(node: Foreign) -> Optional[Target]:
    """Of one node of a graph; None where it keeps none, or single elements may yet be masked."""
    name = kind(node)
    if name == OF_LOGITS:
        plain = node._saved_reduction != 0 and node._saved_weight is None
        loss, target = "binary_cross_entropy_with_logits()", node._saved_target
        return Target("targets", loss, "", target, 0.0, 1.0) if plain else None
    if name in DISTANCES and node._saved_reduction != 0:
        return _of_distance(node, f"{DISTANCES[name]}()")
    if name in ("MeanBackward0", "SumBackward0"):
        below = node.next_functions[0][0]
        if kind(below) in OF_DIFFERENCES and getattr(below, "_saved_exponent", 2) == 2:
            return _of_difference(below, OF_DIFFERENCES[kind(below)])
    return None


def _of_distance(node: Foreign, loss: str) -> Optional[Target]:
    first, second = (parent for parent, _ in node.next_functions)
    if (first is None) == (second is None):
        return None  # both are computed
    own = RANGES.get(kind(_last(node, 0 if second is None else 1)))
    target = node._saved_target if second is None else node._saved_self
    return None if own is None else Target("range", loss, own[0], target, own[1], own[2])


def _of_difference(node: Foreign, loss: str) -> Optional[Target]:
    """The target is not kept, but its difference from the output, and that one."""
    minus = node.next_functions[0][0]
    if kind(minus) != "SubBackward0" or len(minus.next_functions) != 2:
        return None
    parents = [parent for parent, _ in minus.next_functions]
    place = 0 if parents[1] is None else 1
    output = parents[place]
    own = RANGES.get(kind(output))
    result = getattr(output, "_saved_result", None)
    if parents[1 - place] is not None or own is None or result is None:
        return None
    difference = node._saved_self
    if difference.shape != result.shape or getattr(minus, "_saved_alpha", 1) != 1:
        return None
    target = result.detach() - difference.detach() * (1 if place == 0 else -1)
    return Target("range", loss, own[0], target, own[1], own[2])


def _last(node: Foreign, place: int) -> Foreign:
    """What computed the output, before its shape was changed."""
    node = node.next_functions[place][0]
    while kind(node) in loss_graphs.LAYOUT:
        node = node.next_functions[0][0]
    return node
