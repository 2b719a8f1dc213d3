"""Modules that follow the trained one: averages of its weights, targets, teachers."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Iterator

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .parameters import DEVICES, local
from .values import unless_lost

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

COMPARED, SAMPLED, MOST, DEPTH = 4, 64, 4, 2
"""Parameters of a pair that are compared, values of each, pairs, and how deep a module may be in
another one."""


class _Pair:
    """A trained module and one of the same parameters that no optimizer has."""

    def __init__(self, torch: Foreign, trained: Foreign, follower: Foreign) -> None:
        self.name, self.kind = type(follower).__name__, type(trained).__name__
        every = list(zip(trained.parameters(), follower.parameters()))
        largest = sorted(every, key=lambda pair: -pair[0].numel())[:COMPARED]
        self._weights = [(weakref.ref(a), weakref.ref(b)) for a, b in largest]
        self.near = 0
        self.before: Foreign = None
        """The distance of the two before a step, and the weights then."""
        norm = torch.nn.modules.batchnorm._BatchNorm
        both = zip(trained.modules(), follower.modules())
        statistics = [
            (a.running_mean, b.running_mean)
            for a, b in both
            if isinstance(a, norm) and isinstance(b, norm) and a.running_mean is not None
            if b.running_mean is not None
        ][:COMPARED]
        self._statistics = [(a, a.clone(), b, b.clone()) for a, b in statistics]
        """Of the trained one, and of the other; they are small and are held."""
        self._followed = [_some(b).clone() for _, b in largest]
        self.follows = False

    def weights(self) -> list[tuple[Foreign, Foreign]]:
        """Some values of each; [] once one is gone, or on different devices."""
        found = [(a(), b()) for a, b in self._weights]
        if any(a is None or b is None or a.device != b.device for a, b in found):
            return []
        return [(_some(a), _some(b)) for a, b in found]

    def changes(self) -> list[Foreign]:
        """Whether each of some of the follower's parameters has changed, on their devices."""
        pairs = zip([] if self.follows else self.weights(), self._followed)
        return [(b != c).any().float() for (_, b), c in pairs if b.device == c.device]

    def is_stale(self) -> bool:
        """Whether statistics of the trained one have changed, and none of the follower's."""
        if not self.follows or not self._statistics:
            return False
        same = [(_same(a, x), _same(b, y)) for a, x, b, y in self._statistics]
        return all(theirs and not own for own, theirs in same)


class Followers:
    """Pairs of modules, found at comparisons of parameters."""

    def __init__(self, context: Context) -> None:
        self._context, self._torch = context, context.torch
        self._pairs: list[_Pair] = []
        self._known: set[int] = set()
        """Ids of followers, and of what is in them."""
        self._watch: OptimizerWatch | None = None

    @property
    def count(self) -> int:
        """Pairs so far."""
        return len(self._pairs)

    def look(self, roots: list[Foreign], watch: OptimizerWatch) -> None:
        """After a step; to be called without recording a graph."""
        self._watch = watch
        for pair in self._pairs:
            self._compare(pair, watch)
            self._note_following(pair)
        if len(self._pairs) < MOST and watch.effective <= limit.FOLLOWED_UNTIL:
            self._find(roots, {id(p) for p in watch.flat})

    def before(self) -> None:
        """Before a step that is followed by a look: how far the follower is from the trained."""
        for pair in self._pairs:
            weights = pair.weights()
            distances = [(a - b).abs().max().float() for a, b in weights]
            pair.before = (distances, [a.clone() for a, _ in weights]) if weights else None

    def close(self) -> None:
        """The training has ended by itself; this may wait for a device."""
        for pair in self._pairs:
            pair.follows |= any(map(bool, pair.changes()))
            if self._watch is not None and pair.is_stale():
                text = (
                    f"the weights of a {pair.name} follow those of the {pair.kind} that is "
                    "trained, and its batch norms still have the statistics that they began with, "
                    "while those of the trained one have changed"
                )
                self._context.warn(codes.AVERAGE_FOLLOWS, text, "statistics", self._watch)

    def _note_following(self, pair: _Pair) -> None:
        def deliver(values: list[Foreign]) -> None:
            pair.follows |= values[0] is not None and any(values[0])

        if changes := pair.changes():
            self._context.submit([self._torch.stack(changes)], deliver)

    def _find(self, roots: list[Foreign], held: set[int]) -> None:
        trained: dict[Foreign, Foreign] = {}
        others: list[tuple[Foreign, Foreign]] = []
        for module in _modules(roots):
            parameters = list(module.parameters())
            if len(parameters) < 2 or any(p.device.type not in DEVICES for p in parameters):
                continue
            key = type(module), tuple((p.shape, p.dtype) for p in parameters)
            count = sum(id(p) in held for p in parameters)
            if count == len(parameters):
                trained.setdefault(key, module)
            elif not count:
                others.append((key, module))
        for key, module in others:
            if key in trained and id(module) not in self._known and len(self._pairs) < MOST:
                self._known |= {id(each) for each in module.modules()}
                self._pairs.append(_Pair(self._torch, trained[key], module))

    def _compare(self, pair: _Pair, watch: OptimizerWatch) -> None:
        """An average that is, before each step, nearly where the step begins."""
        before, pair.before = pair.before, None
        weights = pair.weights()
        if before is None or not weights:
            return
        distances, old = before
        steps = [(a - b).abs().max().float() for (a, _), b in zip(weights, old)]
        stacked = self._torch.stack([*distances, *steps])
        self._context.submit([stacked], unless_lost(self._judge, pair, watch))

    def _judge(self, pair: _Pair, watch: OptimizerWatch, read: list[float]) -> None:
        half = len(read) // 2
        distance, step = max(read[:half]), max(read[half:])
        near = 0.0 < distance < limit.NEAR_SHARE * step
        pair.near = pair.near + 1 if near else 0
        if pair.near == limit.NEAR_LOOKS:
            text = (
                f"a {pair.name} that follows the {pair.kind} that is trained is within "
                f"{distance / step:.1%} of a step of it, at {limit.NEAR_LOOKS} comparisons in a "
                "row: each update takes nearly all of the new weights, and averages nothing"
            )
            self._context.warn(codes.AVERAGE_FOLLOWS, text, "decay", watch)


def _some(tensor: Foreign) -> Foreign:
    return local(tensor).reshape(-1)[:SAMPLED]


def _same(tensor: Foreign, saved: Foreign) -> bool:
    return tensor.device == saved.device and bool((tensor == saved).all())


def _modules(roots: list[Foreign]) -> Iterator[Foreign]:
    """The roots and what is near below them, the outer ones first."""
    level, seen = roots, set[int]()
    for _ in range(DEPTH + 1):
        level = list({id(each): each for each in level if id(each) not in seen}.values())
        seen |= {id(each) for each in level}
        yield from level
        level = [child for each in level for child in each.children()]
