"""The switch that every hook asks: on, until the guard is closed or breaks.

The first error of the guard in a hook switches it off with one line; the training goes on.
"""

from __future__ import annotations

from types import ModuleType
from typing import Callable

from .foreign import Foreign
from .writer import say


class Switch:
    """`active`: whether hooks do more than pass through; `error`: why not any more.

    `failed` is called with that error.
    """

    def __init__(self, torch: ModuleType, failed: Callable[[str], None]) -> None:
        self.torch = torch
        self.active = False
        self.error = ""
        self._failed = failed

    def fail(self, error: Exception) -> None:
        """Switch the guard off."""
        self.active = False
        self.error = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        say(f"switched itself off after an error, the training goes on: {self.error}")
        try:
            self._failed(self.error)
        except Exception:
            pass

    def safely(self, action: Callable[..., object], *arguments: Foreign) -> None:
        """Call it; after an error the guard is off."""
        if not self.active:
            return
        try:
            action(*arguments)
        except Exception as error:
            self.fail(error)

    def safely_without_graph(self, action: Callable[..., object], *arguments: Foreign) -> None:
        """Call it without recording operations for a backward pass."""
        if self.active:
            with self.torch.no_grad():
                self.safely(action, *arguments)

    def capturing(self) -> bool:
        """A CUDA graph is being captured: nothing may be launched, queried or copied."""
        cuda = self.torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def may_look(self) -> bool:
        """Whether the watch may read tensors now."""
        return self.active and not self.capturing()
