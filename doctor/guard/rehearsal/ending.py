"""Where an exception that ends the program came from."""

from __future__ import annotations

import os
import re
import sys
from types import ModuleType
from typing import Any, Dict

from ..foreign import Foreign
from ..last_error import ORIGINAL
from ..switch import handler_of
from .places import LOADER, LONGEST, MODULE, is_own, passes, user_line

FRAME = re.compile(r'File "(.{1,1000})", line (\d{1,9}), in (.{1,200})')
"""In the traceback of another process, which the message of an error has."""


def where_it_ended(torch: ModuleType) -> Dict[str, Any]:
    """The user's nearest line, the handler of a signal that the error came from, whether a module
    was called, and whether the ranks exchanged gradients or weights of a step; {} where no
    exception ends the program."""
    error = getattr(sys, "last_value", None)
    inside = os.path.join(os.path.dirname(torch.__file__ or ""), "")
    trace = getattr(error, "__traceback__", None)
    place, exchanging = user_line(trace, inside)
    of_worker = _of_worker(error)
    if not place and not of_worker:
        return {}
    return {
        "place": of_worker or place,
        "exchanging": exchanging,
        "handler": getattr(error and handler_of(error), "__name__", ""),
        "in_model": passes(trace, inside + MODULE),
        "in_loader": passes(trace, inside + LOADER),
    }


def _of_worker(error: Foreign) -> str:
    """The user's nearest line in the worker of a loader that raised an error, and its function."""
    try:
        trace = str(error).partition(ORIGINAL)[2]
    except Exception:  # of the user's class
        return ""
    found = [m for m in FRAME.finditer(trace) if is_own(m[1])]
    return f"{found[-1][1][-LONGEST:]}:{found[-1][2]} in {found[-1][3]}" if found else ""
