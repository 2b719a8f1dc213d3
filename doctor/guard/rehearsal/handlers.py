"""Which of the program's functions handle signals, and the flags that they fail to set."""

from __future__ import annotations

import dis
import signal
import sys
from types import CodeType
from typing import Dict, List, Set

from ..foreign import Foreign
from ..switch import unwrapped

NAMES = ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP")
DEPTH = 60
"""Frames in which a variable is looked for."""


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
