"""The hooks in torch: installed once, removed without a trace, and harmless if the guard breaks.

The first error of the guard in a hook switches it off with one line. What a version of torch does
not have is left out; the checks that need it are unknown.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Callable

from . import batch_hooks, loss_hooks, scaler_hooks, step_hooks
from .foreign import Foreign
from .protection import Protection
from .writer import say

if TYPE_CHECKING:
    from .watch import Watch

MISSING = object()


class Hooks:
    """The hooks of one watch.

    `active`: until `remove`, or an error of the guard. `closure`: the step() that is running got
    one.
    """

    def __init__(self, torch: ModuleType, watch: Watch) -> None:
        self.torch = torch
        self.watch = watch
        self.active = False
        self.error = ""
        self.undo: list[Callable[[], None]] = []
        self.closure = False
        self.protection = Protection(torch) if watch.settings.protect else None

    def install(self) -> None:
        """Install all hooks that this torch has a place for."""
        if self.active:
            return
        self.active = True
        for module in (step_hooks, loss_hooks, scaler_hooks, batch_hooks):
            self.safely(module.install, self)

    def remove(self) -> None:
        """Restore every attribute, unless somebody else has replaced it since."""
        self.deactivate()
        while self.undo:
            self.undo.pop()()

    def deactivate(self) -> None:
        """From now on the hooks only pass through."""
        self.active = False
        self.watch.steady.disarm()

    def safely(self, action: Callable[..., object], *arguments: Foreign) -> None:
        """Call it; after an error the guard is off."""
        if not self.active:
            return
        try:
            action(*arguments)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Switch the guard off."""
        self.deactivate()
        self.error = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        say(f"switched itself off after an error, the training goes on: {self.error}")
        try:
            self.watch.close(f"error: {self.error}")
        except Exception:
            pass

    def replace(self, owner: Foreign, name: str, make: Callable[[Foreign], Foreign]) -> None:
        """Put make(original) in its place, where there is an original."""
        original = owner.__dict__.get(name, MISSING)
        if original is MISSING:
            return
        replacement = functools.wraps(original)(make(original))
        setattr(owner, name, replacement)

        def undo() -> None:
            if owner.__dict__.get(name) is replacement:
                setattr(owner, name, original)

        self.undo.append(undo)

    def capturing(self) -> bool:
        """A CUDA graph is being captured: nothing may be launched, queried or copied."""
        cuda = self.torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def may_look(self) -> bool:
        """Whether the watch may read tensors now."""
        return self.active and not self.capturing()

    def safely_without_graph(self, action: Callable[..., object], *arguments: Foreign) -> None:
        """Call it without recording operations for a backward pass."""
        if self.active:
            with self.torch.no_grad():
                self.safely(action, *arguments)
