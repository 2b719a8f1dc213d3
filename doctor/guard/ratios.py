"""Ratios of probabilities, as PPO clips them, that are 1 although their data are used again."""

from __future__ import annotations

from typing import List, Optional

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .loss_graphs import kind, nearest
from .values import unless_lost

MOST_VALUES = 256
"""Of a pass, that are looked at."""
LEAST, MOST_KNOWN = 16, 65_536
"""Different numbers that tell the data of a pass, and that are kept."""
VALUES = "MseLossBackward0"
CLIPS = ("ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0", "MinimumBackward0")


class Ratios:
    """Follows exp(new - old), where `old` has no gradient, and what it is multiplied with.

    The first update on new data has a ratio of 1. Where later ones on the same data have it too,
    `old` is computed anew with the weights of each update. `open` until it is known.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.open = True
        self.found = False
        """Whether one has left 1: data that an earlier model collected are used several times."""
        self._without = self._again = 0
        self._before: set[float] = set()

    def passes(self, root: Foreign, number: int) -> None:
        """The backward pass of this number begins at a loss with this node."""
        found = _ratio(root)
        if found is None:
            self._without += 1
            self.open = self._without < limit.GRAPHS_READ
            return
        ratio, *marks = [each.detach().reshape(-1) for each in found]
        far = (ratio.float() - 1.0).abs().max()
        tensors = [far, *[each[:MOST_VALUES].float() for each in marks]]
        self._context.submit(tensors, unless_lost(self._judge, number, self._context.where()))

    def _judge(self, number: int, where: str, far: float, *marks: list[float]) -> None:
        """`far`: the largest distance of a ratio from 1; `marks`: numbers of the samples, where
        they are nearly unique to each."""
        if far > limit.RATIO_NEAR:
            self.open, self.found = False, True
            return
        known = [set(each) for each in marks if len(set(each)) >= max(LEAST, len(each) // 2)]
        self._again += any(2 * len(each & self._before) >= len(each) for each in known)
        self._before.update(*known)
        if len(self._before) > MOST_KNOWN:
            self._before.clear()
        if self._again == limit.RATIOS and self.open:
            self.open = False
            text = (
                f"the ratio of the new and the old probabilities is exactly 1 in all of "
                f"{limit.RATIOS} updates on data that were used before: the old ones are computed "
                "with the weights of each update, so that nothing is ever clipped"
            )
            self._context.warn(codes.LOSS_FITS_OUTPUT, text + where, "ratio", step=number)


def _ratio(root: Foreign) -> Optional[List[Foreign]]:
    """The ratio near a loss that also clips, what it is multiplied with, and what values are
    compared with beside it: those of a pass may have been normalized anew."""
    nodes = list(nearest(root))
    if not any(kind(node) in CLIPS for node in nodes):
        return None
    for node in nodes:
        if kind(node) != "MulBackward0":
            continue
        parents = [parent for parent, _ in node.next_functions]
        for parent, other in zip(parents, reversed(parents)):
            if kind(parent) == "ExpBackward0" and other is None and _is_change(parent):
                first = parents.index(parent) == 0
                weights = node._saved_other if first else node._saved_self
                if weights is not None and weights.numel() > 1:
                    targets = [each._saved_target for each in nodes if kind(each) == VALUES]
                    return [parent._saved_result, weights, *targets[:1]]
    return None


def _is_change(node: Foreign) -> bool:
    """exp() of a difference of what has a gradient and what has none."""
    below = node.next_functions[0][0]
    parents = [parent for parent, _ in below.next_functions] if below is not None else []
    return kind(below) == "SubBackward0" and [p is None for p in parents] == [False, True]
