"""Two optimizers, and gradients that reach the wrong one.

Two networks that train against each other have passes of their own. In one's pass the other gets
gradients, too. Where nothing clears them, it applies them with those of its own pass; and a term
that reaches the other network alone trains neither, where they are cleared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, List, Optional, Set

from . import codes
from . import thresholds as limit
from .adversaries import stepped_since
from .context import Context
from .foreign import Foreign
from .loss_graphs import kind, reached, shape

SUMS = ("AddBackward0", "SubBackward0")
FACTORS = ("MulBackward0", "DivBackward0", "NegBackward0")
MOST_TERMS = 16


@dataclass
class _Passes:
    """Backward passes until an optimizer stepped: the optimizers that each term of their losses
    reaches, the nearest first, and those whose gradients from before were still there."""

    terms: List[List[int]] = field(default_factory=list)
    leftover: Set[int] = field(default_factory=set)

    @property
    def reached(self) -> Set[int]:
        """All optimizers that they reach."""
        return {index for term in self.terms for index in term}


class Crossed:
    """Follows the first passes where there are two optimizers; `open` until enough were seen."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.open = True
        self._count = 0
        self._now = _Passes()
        self._before: Optional[_Passes] = None
        """Those of the step before, if one optimizer alone stepped after them."""
        self._stepped = -1
        """That optimizer."""
        self._steps: dict[int, int] = {}
        self._rows: dict[tuple[str, int], int] = {}
        self._alone: dict[int, bool] = {}
        """Of each optimizer that steps alone: whether its passes reached nothing else."""

    def passes(self, root: Foreign) -> None:
        """A backward pass begins from a loss with this node."""
        watches = list(self._context.watches())
        if len(watches) != limit.SIDES or not self.open:
            return
        self._count += 1
        self.open = self._count < limit.CROSSED_PASSES
        self._end(watches)
        owners = {id(p): each.index for each in watches for p in each.flat}
        for term in _terms(root):
            found = reached(term, owners)
            if found is None:
                self.open = False
                return
            self._now.terms.append(found)

    def _end(self, watches: List[Foreign]) -> None:
        """Judge the passes until now, if an optimizer has stepped after them."""
        stepped = stepped_since(watches, self._steps)
        if not stepped:
            return
        now, self._now = self._now, _Passes()
        if len(stepped) != 1 or not now.terms:
            self._before = None
            return
        own = next(each for each in watches if each.index == stepped[0])
        other = next(each for each in watches if each.index != stepped[0])
        self._judge_leftover(now, own)
        self._alone[own.index] = self._alone.get(own.index, True) and now.reached == {own.index}
        stays = other.index in now.reached and not other.clearing.is_clear()
        self._judge_terms(now, own, other, stays)
        self._now.leftover = {other.index} if stays else set()
        self._before, self._stepped = now, own.index

    def _judge_leftover(self, now: _Passes, own: Foreign) -> None:
        """Whether the step applied what the other one's passes had left."""
        before = self._before
        if before is None or self._stepped == own.index or own.index not in before.reached:
            return
        against = any(term[0] == own.index for term in before.terms if len(term) > 1)
        mixed = own.index in now.leftover and (against or len(now.reached) > 1)
        if self._row("other-pass", own, mixed):
            text = (
                f"{own.name} applies gradients of the passes after which the other optimizer "
                f"steps, together with those of its own, {limit.CROSSED} times in a row: nothing "
                "clears them in between"
            )
            self._context.warn(codes.GRADIENTS_CLEARED, text, "other-pass", own)

    def _judge_terms(self, now: _Passes, own: Foreign, other: Foreign, stays: bool) -> None:
        """Whether a term of the loss reaches only what does not step, and is cleared."""
        reaches = [own.index in term for term in now.terms if term]
        wasted = any(reaches) and not all(reaches) and not stays and self._alone.get(other.index)
        if self._row("term", own, bool(wasted)):
            text = (
                f"a term of the loss before each step of {own.name} reaches none of its "
                f"parameters, only those of the other optimizer, where its gradients are cleared "
                f"without a step, {limit.CROSSED} times in a row"
            )
            self._context.warn(codes.OPTIMIZER_HAS_GRADIENTS, text, "term", own)

    def _row(self, cause: str, own: Foreign, holds: bool) -> bool:
        """Whether it holds for the steps of this optimizer often enough in a row."""
        key = cause, own.index
        self._rows[key] = self._rows.get(key, 0) + 1 if holds else 0
        return self._rows[key] == limit.CROSSED


def _terms(root: Foreign) -> Iterator[Foreign]:
    """The scalars that a loss is the sum of, without what they are multiplied with."""
    open_ = [root]
    for count, node in enumerate(open_):
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        splits = kind(node) in SUMS or (kind(node) in FACTORS and len(parents) == 1)
        if splits and parents and count < MOST_TERMS and not any(shape(each) for each in parents):
            open_ += parents
        else:
            yield node
