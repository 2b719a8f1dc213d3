"""Passes over the loaders: epochs that train, and evaluations in training mode."""

from __future__ import annotations

import sys
import weakref

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .modes import mode_matters
from .steady import Steady
from .switch import raise_of_a_signal

MOST_ITERATORS = 64


class _Pass:
    """The batches of one iterator, and the backward passes before its first."""

    def __init__(self, iterator: Foreign, backwards: int) -> None:
        self.iterator = weakref.ref(iterator)
        self.backwards = backwards
        self.fetched = 0
        self.trains = self.shuffles = False


class Epochs:
    """`count` are iterators between whose batches the training went backward, `batches` those of
    the last one's loader, 0 where it does not say."""

    def __init__(self, steady: Steady[Foreign]) -> None:
        self._steady = steady
        self._passes: dict[int, _Pass] = {}
        self.now: _Pass | None = None
        self.count = self.batches = 0
        self._fetched_at = 0
        """Backward passes before the last batch."""

    def fetched(self, iterator: Foreign) -> _Pass:
        """The iterator returned a batch."""
        now = self.now
        if now is None or now.iterator() is not iterator:
            now = self.now = self._pass_of(iterator)
        now.fetched += 1
        self._fetched_at = self._steady.backwards
        if not now.trains and self._steady.backwards > now.backwards and now.fetched > 1:
            now.trains = True
            self.count += 1
            try:
                self.batches = len(iterator._index_sampler)
                sampler = getattr(iterator._index_sampler, "sampler", None)
                now.shuffles = type(sampler).__name__ == "RandomSampler"
            except Exception as error:  # of a sampler of the program
                raise_of_a_signal(error)
                self.batches = 0
        return now

    def are_kept(self) -> str:
        """Whether the batches of the first epoch are trained on again and again, as by
        itertools.cycle(); "" where they are not."""
        now, since = self.now, self._steady.backwards - self._fetched_at
        if now is None or not now.trains or self.count > 1 or not now.shuffles:
            return ""
        if now.fetched != self.batches or since < max(2 * self.batches, limit.SAME_BATCHES):
            return ""
        return (
            f"{since:,} backward passes since the loader, which shuffles, gave the last of its "
            f"{self.batches:,} batches: the batches of the first epoch are used again"
        )

    def _pass_of(self, iterator: Foreign) -> _Pass:
        found = self._passes.get(id(iterator))
        if found is None or found.iterator() is not iterator:
            if len(self._passes) >= MOST_ITERATORS:
                self._passes = {k: p for k, p in self._passes.items() if p.iterator() is not None}
            found = self._passes[id(iterator)] = _Pass(iterator, self._steady.backwards)
        return found


class Evaluations:
    """Looks at the modules that run over a loader's batches without gradients.

    `open` until enough evaluations were seen. A hook for all modules is there from one batch to
    the next, twice in a training, and never where torch.compile has been used.
    """

    def __init__(self, context: Context, epochs: Epochs) -> None:
        self._context, self._torch, self.epochs = context, context.torch, epochs
        self.open = True
        self._looked: Foreign = lambda: None
        self._handle: Foreign = None
        self._modes: set[bool] = set()
        self._kinds: set[str] = set()
        self._wrong = 0
        self._trained: set[int] = set()
        """Ids of the parameters of all optimizers."""
        self._own = False
        """Some of the modules have them."""

    def fetched(self, iterator: Foreign, now: _Pass) -> None:
        """A batch was fetched."""
        self.end()
        if now.trains or self._looked() is iterator:
            return
        without_graph = not self._torch.is_grad_enabled()
        if not (without_graph if now.fetched == 1 else now.fetched == 2):
            return
        watch = next(iter(self._context.watches()), None)
        if watch is None or not watch.steps or _compiles():
            return
        self._looked = weakref.ref(iterator)
        self._trained = {id(p) for each in self._context.watches() for p in each.flat}
        self._handle = self._torch.nn.modules.module.register_module_forward_hook(self._called)

    def _called(self, module: Foreign, *_: Foreign) -> None:
        """A module returned: one that trains, or drops something; no error of this reaches it."""
        try:
            self._look(module)
        except Exception as error:
            raise_of_a_signal(error)
            self.open = False
            self.end()

    def _look(self, module: Foreign) -> None:
        if self._torch.is_grad_enabled():
            self.end()  # the evaluation is over
            return
        trains = any(id(p) in self._trained for p in module._parameters.values())
        self._own |= trains
        matters = mode_matters(self._torch, module) and not _resets(module)
        if matters and (trains or not module._parameters):
            self._modes.add(bool(module.training))
            if module.training:
                self._kinds.add(type(module).__name__)

    def end(self) -> None:
        """The batch after it, or a backward pass, begins."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        handle.remove()
        modes, self._modes = self._modes, set()
        own, self._own = self._own, False
        if not modes or not own:
            return
        self._context.tally.evaluations += 1
        if False in modes:  # MC dropout, or some layers on purpose
            self.open = False
            return
        self._wrong += 1
        if self._wrong == limit.EVALUATIONS:
            self.open = False
            self._report()

    def _report(self) -> None:
        kinds = ", ".join(sorted(self._kinds)[:3])
        text = (
            f"{limit.EVALUATIONS} evaluations over a loader, without gradients, ran with {kinds} "
            "in training mode: they drop values, or gather statistics of the evaluation's batches"
        )
        self._context.warn(codes.EVALUATION_MODE, text, "training")


def _resets(module: Foreign) -> bool:
    """A batch norm whose statistics are gathered anew, as update_bn() does."""
    return getattr(module, "momentum", 0.1) in (None, 1.0)


def _compiles() -> bool:
    """Whether torch.compile has been used: a hook for all modules would disturb it."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(module, "cached_backends", None) or {}
    return any(backend is not None for backend in backends.values())
