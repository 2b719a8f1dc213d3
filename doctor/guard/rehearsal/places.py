"""Lines of the user's own files, in tracebacks and on the stack."""

from __future__ import annotations

import os
import sys
from typing import Tuple

from ..foreign import Foreign

LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen", "/doctor/guard/")
"""In the paths of files that are not the user's."""
EXCHANGES = ("autograd/__init__.py", "nn/parallel/", "distributed/fsdp/", "distributed/_")
"""Files of torch that exchange gradients or weights in a training step, below its directory."""
MODULE, LOADER = "nn/modules/module.py", "utils/data/"
"""Calls a module, and files that read and join samples, below the directory of torch."""
LONGEST, MOST_FRAMES = 300, 200
OF_SAMPLE = " in __getitem__"


def user_line(trace: Foreign, inside: str) -> Tuple[str, bool]:
    """The user's nearest line of a traceback, and whether what it called exchanges gradients;
    `inside` is the directory of torch."""
    place, exchanging = "", False
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if is_own(path):
            place = _line(path, trace.tb_lineno)
            place += OF_SAMPLE * (trace.tb_frame.f_code.co_name == "__getitem__")
            exchanging = False
        elif inside and path.startswith(inside):
            exchanging = exchanging or path[len(inside) :].startswith(EXCHANGES)
        trace = trace.tb_next
    return place, exchanging


def passes(trace: Foreign, path: str) -> bool:
    """Whether an error came through a file whose path begins so."""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(path):
            return True
        trace = trace.tb_next
    return False


def is_own(path: str) -> bool:
    """Whether a file is the user's."""
    return not any(library in path for library in LIBRARIES)


def _line(path: str, number: int) -> str:
    """Of the file itself, and not of the link to it in {output}."""
    path = os.path.realpath(path) if os.path.islink(path) else path
    return "%s:%d" % (path[-LONGEST:], number)


def calling_line() -> str:
    """The user's nearest line on the stack; "" where there is none."""
    frame: Foreign = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        if is_own(frame.f_code.co_filename):
            return _line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""
