"""The line of the user's files that is being executed, and the one of a library that it called."""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import re
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Iterator, Optional, Tuple

import torch

from ...wire import PROBES
from . import Foreign, observing

TORCH = os.path.join(os.path.dirname(torch.__file__), "")
LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")
)
INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
"""Also those of the user and of Debian."""
COMPUTING = tuple(os.path.join(TORCH, name, "") for name in ("nn", "distributions"))
CALLING_FILES = ("functional.py", "module.py", "container.py")
"""Files there that pass a call on."""
ENGINE = "_engine_run_backward"
WRAPPERS = ("__call__", "_call_impl", "_wrapped_call_impl", "inner", "wrapper", "decorate_context")
SAMPLING = os.path.join(TORCH, "distributions", "")


def innermost(inside_backward: bool = False) -> Tuple[Tuple[str, str], str]:
    """The place and the code of the innermost line of the user's files, and the place in a library
    that it called; torch itself counts as one where a module of it computes something, as a
    parametrization does. Without such a line, those of the library.

    `inside_backward`: only lines that backward() itself runs count."""
    library: Optional[FrameType] = None
    inside: Optional[FrameType] = None
    for frame in outwards(sys._getframe(1)):
        file = frame.f_code.co_filename
        if inside_backward and frame.f_code.co_name == ENGINE:
            break
        if file.startswith(TORCH):
            computes = file.startswith(COMPUTING) and os.path.basename(file) not in CALLING_FILES
            if inside is None and computes:
                inside = frame
        elif not file.startswith((PROBES, "<")):
            if not of_library(file):
                through = library or inside
                return line(frame), "" if through is None else line(through)[0]
            if library is None:
                library = frame
    return (("", "") if library is None else line(library)), ""


def position(code: Foreign, instruction: int) -> Foreign:
    """First and last line, first and last column of an instruction; None before Python 3.11."""
    positions = getattr(code, "co_positions", tuple)
    return next(itertools.islice(positions(), instruction // 2, None), (None,) * 4)


def expression() -> str:
    """The part of the user's innermost line that is being called, "a.detach()", if this Python
    knows it and it is not the whole line; else ""."""
    frame = user_frame()
    if frame is None:
        return ""
    first, last, start, end = position(frame.f_code, frame.f_lasti)
    if first is None or first != last or start is None or end is None:
        return ""
    text = linecache.getline(frame.f_code.co_filename, first)
    part = text.encode()[start:end].decode(errors="replace")
    return "" if part == text.strip() else part[:120]


def outwards(frame: Optional[FrameType]) -> Iterator[FrameType]:
    """A frame, and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_frame() -> Optional[FrameType]:
    """The frame of the innermost line of the user's files; None if there is none."""
    for frame in outwards(sys._getframe(1)):
        file = frame.f_code.co_filename
        if not file.startswith((TORCH, PROBES, "<")) and not of_library(file):
            return frame
    return None


def called_in_torch() -> str:
    """The function of torch that the user's innermost line called, "" if it is none in Python."""
    name = ""
    for frame in outwards(sys._getframe(1)):
        file = frame.f_code.co_filename
        if file.startswith(TORCH):
            name = frame.f_code.co_name
        elif not file.startswith((PROBES, "<")):
            break
    return "" if name in WRAPPERS else name


def in_sample() -> bool:
    """Whether a distribution of torch draws a sample, which has no graph."""
    codes = (frame.f_code for frame in outwards(sys._getframe(1)))
    return any(c.co_name == "sample" and c.co_filename.startswith(SAMPLING) for c in codes)


@functools.lru_cache(maxsize=None)
def of_library(file: str) -> bool:
    """Whether a file belongs to Python or an installed package."""
    return bool(INSTALLED.search(file)) or os.path.realpath(file).startswith(LIBRARIES)


def line(frame: FrameType) -> Tuple[str, str]:
    """ "train.py, line 12" and its code."""
    file, number = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(file, number).strip()
    return "%s, line %d" % (os.path.basename(file), number), code[:120]


def line_of_function(function: Foreign) -> Tuple[str, str]:
    """Name and place of a function of Python."""
    while isinstance(function, functools.partial):
        function = function.func
    code = observing.code_of(function)
    if code is None:
        own = observing.code_of(vars(type(function)).get("__call__"))
        return type(function).__name__, "" if own is None else place_of(own)
    return code.co_name, place_of(code)


def place_of(code: CodeType) -> str:
    return "%s, line %d" % (os.path.basename(code.co_filename), code.co_firstlineno)
