"""The switch that every hook asks: on, until the guard is closed or breaks.

The first error of the guard in a hook switches it off with one line; the training goes on.
"""

from __future__ import annotations

import functools
import signal
from types import ModuleType
from typing import Callable, Set

from .foreign import Foreign
from .writer import say


def raise_of_a_signal(error: BaseException) -> None:
    """Raise it again if a signal handler of the program raised it: it only arrived in the guard."""
    if handler_of(error) is not None:
        raise error


def handler_of(error: BaseException) -> Foreign:
    """The function that handles a signal in which an error was raised, or whose call failed, as
    of one that takes no arguments; None for none."""
    found = (unwrapped(signal.getsignal(number)) for number in signal.valid_signals())
    handlers = [each for each in found if _code(each) is not None]
    called: Set[int] = set()
    trace = error.__traceback__
    while handlers and trace is not None:
        called.add(id(trace.tb_frame.f_code))
        trace = trace.tb_next
    for handler in handlers:
        name = getattr(handler, "__qualname__", "")
        misfit = isinstance(error, TypeError) and name and _text(error).startswith(f"{name}() ")
        if misfit or id(_code(handler)) in called:
            return handler
    return None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of the user's class
        return ""


def unwrapped(handler: Foreign) -> Foreign:
    """The function of a functools.partial; what is none as it is."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler


def _code(handler: Foreign) -> Foreign:
    """The code that runs when a signal arrives; None for the system's own ways."""
    function = getattr(handler, "__func__", handler)
    call = getattr(type(handler), "__call__", None)  # noqa: B004 - its code, not whether it is there
    return getattr(function, "__code__", None) or getattr(call, "__code__", None)


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
        """Switch the guard off; raises what a signal handler of the program raised."""
        raise_of_a_signal(error)
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
