"""What the trained module is called with: at the first step, and at those that follow a save."""

from __future__ import annotations

import sys
from types import ModuleType

from ..foreign import Foreign
from .hashes import hash_of
from .state import in_memory

TRIES = 50
"""Calls of modules at which the trained one is looked for."""
MOST = 11
"""Batches of a process: the first, and those after its first saves."""


class Batches:
    """Catches the first call of a module in training, and the first after each save."""

    def __init__(self, torch: ModuleType, observer: Foreign) -> None:
        self.torch, self.observer = torch, observer
        self.recorded = self.ahead = 0
        self.watching = False

    def saved(self) -> None:
        """The next call is looked for again."""
        if self.recorded and not self.watching and self.recorded < MOST and not _compiled():
            self.watch()

    def watch(self) -> None:
        """Record the next forward pass of the training, and before the first the state."""
        kind = self.torch.nn.Module
        original = kind.__call__
        self.watching = True
        found, tries = self.recorded, 0

        def restore() -> None:
            self.watching = False
            if kind.__dict__.get("__call__") is call:
                kind.__call__ = original

        def call(module: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
            nonlocal tries
            observer = self.observer
            if not self.watching:
                return original(module, *args, **kwargs)
            if module.training and self.torch.is_grad_enabled():
                tries += next(module.parameters(), None) is not None  # torchvision's transforms
                observer.called = True
                observer.safely(self.look, module, args, kwargs)
            else:
                observer.safely(self.look_ahead, module)
            # The state of a start without a module's call is recorded at its first step.
            late = not self.recorded and bool(observer.hashed - {"start"})
            if self.recorded > found or late or tries >= TRIES or not observer.alive:
                restore()
            return original(module, *args, **kwargs)

        kind.__call__ = call

    def look(self, module: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """Record the batch, if an optimizer holds this module's parameters."""
        if not self.recorded and self.observer.hashed - {"start"}:
            return
        parameters = {id(p) for p in module.parameters()}
        if not parameters:
            if next(module.buffers(), None) is not None:  # statistics of the input
                self.begin_ahead()
            return
        for each in in_memory(self.torch)["optimizer"]:
            groups = getattr(each, "param_groups", None) or ()
            if any(id(p) in parameters for group in groups for p in group["params"]):
                self.record(args, kwargs)
                return

    def look_ahead(self, module: Foreign) -> None:
        """The state of the start, before a pass without gradients changes the statistics of this
        batch norm: guessed labels, a teacher."""
        norm = self.torch.nn.modules.batchnorm._NormBase
        if isinstance(module, norm) and module.training:
            self.begin_ahead()

    def begin_ahead(self) -> None:
        """The state of the start, before this call may change buffers."""
        if self.observer.hashed:
            return
        self.ahead += 1
        if self.ahead <= TRIES and in_memory(self.torch)["optimizer"]:
            self.observer.begin()
            self.observer.hash_state("start", once=True)

    def record(self, args: Foreign, kwargs: Foreign) -> None:
        """The batch; before the first one the state."""
        observer = self.observer
        observer.begin()
        if not self.recorded:
            observer.hash_state("start", once=True)
        self.recorded += 1
        batch = hash_of(self.torch, (*args, *kwargs.values()))
        observer.records.write("batch", s=observer.step, tensors=batch)


def _compiled() -> bool:
    """Whether a function was compiled: one that is compiled again must not meet a wrapped call."""
    found = sys.modules.get("torch._dynamo.utils")
    counters: Foreign = getattr(found, "counters", None) or {}
    return bool(counters.get("frames"))
