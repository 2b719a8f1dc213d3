"""Errors that are raised where nobody may see them: in a save, in another thread."""

from __future__ import annotations

import pickle
import re
import threading
from types import ModuleType
from typing import Any, Dict

from ..foreign import Foreign
from ..last_error import text_of
from .places import user_line

MOST_KEYS, LONGEST = 200, 300
MOST_LEVELS = 4
"""Of nested dicts: each pickles what is in it again."""
MOST_WRITTEN = 2**24
"""Bytes of an entry after which it counts as one that can be pickled."""
PICKLED = re.compile(r"pickle|serializ|<locals>", re.IGNORECASE)
"""In messages of what cannot be written."""


def of_save(torch: ModuleType, error: BaseException, value: Foreign) -> Dict[str, Any]:
    """The record of an error that a save raised; with the entry that cannot be pickled."""
    found = of_error(error)
    if PICKLED.search(found["message"]):
        try:
            found["entry"] = unpicklable(torch, value)[:LONGEST]
        except Exception:  # of a key of the user's class, whose repr() raises
            pass
    return found


def of_error(error: BaseException) -> Dict[str, Any]:
    """Class, message and the user's nearest line."""
    place, _ = user_line(error.__traceback__, "")
    return {
        "error": type(error).__name__[:LONGEST],
        "message": text_of(error)[: 3 * LONGEST],
        "place": place,
        "thread": threading.current_thread() is not threading.main_thread(),
    }


def unpicklable(torch: ModuleType, value: Foreign, levels: int = MOST_LEVELS) -> str:
    """The first entry of a dict, by its keys, that cannot be pickled, and its class."""
    entries = list(value.items())[:MOST_KEYS] if isinstance(value, dict) and levels else []
    for key, each in entries:
        if not _pickles(torch, each):
            inner = unpicklable(torch, each, levels - 1)
            return f"[{key!r}]{inner}" if inner else f"[{key!r}], of class {type(each).__name__}"
    return ""


class _Light(pickle.Pickler):
    """Leaves the contents of tensors out."""

    tensors: Foreign = ()

    def persistent_id(self, each: Foreign) -> Foreign:
        """Part of the protocol of pickle."""
        return "tensor" if isinstance(each, self.tensors) else None


class _TooLong(Exception):
    """More than is looked at."""


class _Nowhere:
    """A file that keeps nothing."""

    written = 0

    def write(self, data: Foreign) -> int:
        """Count it."""
        self.written += len(data)
        if self.written > MOST_WRITTEN:
            raise _TooLong
        return len(data)


def _pickles(torch: ModuleType, value: Foreign) -> bool:
    pickler = _Light(_Nowhere())
    pickler.tensors = (torch.Tensor, torch.UntypedStorage)
    try:
        pickler.dump(value)
    except _TooLong:
        return True
    except Exception:
        return False
    return True


class Threads:
    """Listens to the errors that end threads."""

    def __init__(self, observer: Foreign) -> None:
        self.observer = observer

    def install(self) -> None:
        """Stand in front of threading.excepthook."""
        original = threading.excepthook

        def excepthook(args: Foreign) -> None:
            if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
                self.observer.safely(self.ended, args.exc_value)
            original(args)

        threading.excepthook = excepthook

    def ended(self, error: BaseException) -> None:
        """A thread ended with this error."""
        observer = self.observer
        observer.begin()
        found = {**of_error(error), "thread": True}
        observer.records.write("failed", s=observer.step, what="thread", path="", **found)
