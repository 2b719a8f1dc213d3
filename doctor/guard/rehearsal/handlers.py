"""Which of the program's functions handle signals, and the flags that they fail to set."""

from __future__ import annotations

import dis
import os
import signal
import sys
from types import CodeType
from typing import Dict, List, Optional, Set, Tuple

from ..foreign import Foreign
from ..switch import unwrapped

NAMES = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP")
DEPTH = 60
"""Frames in which a variable is looked for."""


class Wakeup:
    """Sees whether a signal comes to this process, without being its handler."""

    def __init__(self, records: Foreign) -> None:
        self.records = records
        self.ends: Tuple[int, ...] = ()
        self.waits = False
        """None came since it listens."""

    def listen(self) -> None:
        """From now on; in another thread, or beside a loop of asyncio, it does not."""
        try:
            before = signal.set_wakeup_fd(-1)
            if before != -1:
                signal.set_wakeup_fd(before, warn_on_full_buffer=False)
                return
            self.ends = os.pipe()
            for end in self.ends:
                os.set_blocking(end, False)
            signal.set_wakeup_fd(self.ends[1], warn_on_full_buffer=False)
            self.waits = True
        except (ValueError, OSError):
            pass

    def end(self, step: int) -> None:
        """Record whether one came in the middle of this step."""
        self.records.write("signalled", s=step, reached=self.came())

    def look(self, step: int) -> None:
        """Record the first one that came since, as through a launcher that is slow."""
        if self.waits and self.came():
            self.records.write("signalled", s=step, reached=True)

    def came(self) -> Optional[bool]:
        """Whether one came; None where that is not known."""
        if not self.ends:
            return None
        try:
            came = bool(os.read(self.ends[0], 1))
        except OSError:
            came = False
        self.waits = self.waits and not came
        return came


def handlers() -> Dict[str, str]:
    """Signal -> the function of Python that handles it."""
    return {name: str(handler.__code__.co_name) for name, handler in _functions().items()}


def lost_flags() -> Dict[str, List[str]]:
    """Signal -> names that its handler sets as variables of its own and never reads, and that are
    flags of the module or of a function that is running: `global` or `nonlocal` is missing."""
    outside: Dict[str, Foreign] = {}
    frame: Foreign = sys._getframe(1)
    for _ in range(DEPTH):
        if frame is None:
            break
        outside = {**frame.f_locals, **outside}
        frame = frame.f_back
    found = {}
    for name, handler in _functions().items():
        held = {**outside, **getattr(handler, "__globals__", {})}
        flags = [each for each in _only_set(handler.__code__) if isinstance(held.get(each), bool)]
        if flags:
            found[name] = flags
    return found


def _functions() -> Dict[str, Foreign]:
    found = {name: unwrapped(signal.getsignal(getattr(signal, name))) for name in NAMES}
    return {n: each for n, each in found.items() if isinstance(_code(each), CodeType)}


def _code(handler: Foreign) -> Foreign:
    return getattr(handler, "__code__", None)


def _only_set(code: CodeType) -> List[str]:
    """Local names that are set and never read."""
    read: Set[str] = set()
    written: List[str] = []
    for each in dis.get_instructions(code):
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        if each.opname == "STORE_FAST":
            written.append(each.argval)
        elif "_FAST" in each.opname:
            read.update(names)
    return [name for name in dict.fromkeys(written) if name not in read]
