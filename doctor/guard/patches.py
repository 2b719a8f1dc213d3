"""What the guard replaces in torch, and how it is restored."""

from __future__ import annotations

import functools
from typing import Callable

from .foreign import Foreign

MISSING = object()
UNCOUNTED = " (importlib._bootstrap)"
"""What a file's name holds whose frames Python leaves out where a warning counts callers."""


def without_place(function: Foreign) -> Foreign:
    """The function, which warnings of what it calls do not take for the line of the program. One
    that torch.compile knows by its code stays as it is."""
    code = getattr(function, "__code__", None)
    if code is not None and not getattr(function, "_torchdynamo_disable", False):
        function.__code__ = code.replace(co_filename=code.co_filename + UNCOUNTED)
    return function


class Patches:
    """`undo`: what restores each of them, in the order in which they were made."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []

    def replace(self, owner: Foreign, name: str, make: Callable[[Foreign], Foreign]) -> None:
        """Put make(original) in its place, where there is an original."""
        original = owner.__dict__.get(name, MISSING)
        if original is MISSING:
            return
        replacement = functools.wraps(original)(without_place(make(original)))
        setattr(owner, name, replacement)

        def undo() -> None:
            if owner.__dict__.get(name) is replacement:
                setattr(owner, name, original)

        self.undo.append(undo)

    def remove(self) -> None:
        """Restore every attribute, unless somebody else has replaced it since."""
        while self.undo:
            self.undo.pop()()
