"""The frames of a traceback: the line, the function, its arguments and the variables in it.

Nothing is called but signatures.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
from types import FrameType
from typing import Any, Dict, Iterator, List, Tuple

import torch

from ...wire import PROBES
from . import Foreign, places

HIDDEN = (PROBES, "<frozen")
"""The doctor's own frames, and those of the import system."""
MODULE_CALLERS = ("_call_impl", "_wrapped_call_impl")
"""Functions of torch through which every module is called."""
CALLERS = (*MODULE_CALLERS, "decorate_context", "inner", "wrapper", "_fn")
"""Functions of torch that only call what they wrap."""
CODE = 160
"""Characters of a line of code."""


class Frame:
    """One entry of a traceback."""

    def __init__(self, entry: Any) -> None:
        code = entry.tb_frame.f_code
        self.file: str = code.co_filename
        self.line: int = entry.tb_lineno
        self.name: str = code.co_name
        self.frame = entry.tb_frame
        self.locals: Dict[str, Any] = dict(entry.tb_frame.f_locals)
        self.library = is_library(self.file)
        self._instruction = entry.tb_lasti

    @property
    def place(self) -> str:
        return "%s, line %d" % (os.path.basename(self.file), self.line)

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()[:CODE]

    @property
    def expression(self) -> str:
        """The part of the line that was being computed, the whole line before Python 3.11."""
        at = places.position(self.frame.f_code, self._instruction)
        if None in at:
            return self.code
        first, last, start, end = at
        if first == last:
            line = linecache.getline(self.file, first).encode()
            return str(line[start:end].decode(errors="replace").strip())
        lines = [linecache.getline(self.file, number) for number in range(first, last + 1)]
        return " ".join(line.strip() for line in lines)

    @property
    def qualified(self) -> str:
        """The function's name with its class: "AdamW.__init__"."""
        if "self" in self.locals:
            return "%s.%s" % (type(self.locals["self"]).__name__, self.name)
        return self.name

    def arguments(self) -> Dict[str, Any]:
        """The arguments that this function got, as far as it has not replaced them."""
        code = self.frame.f_code
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[: count + bool(code.co_flags & 4)])
        return {name: self.locals[name] for name in names if name in self.locals}

    def passed(self) -> Dict[str, Any]:
        """The same without those that have their default."""
        defaults = self._defaults()
        return {
            name: value
            for name, value in self.arguments().items()
            if name not in defaults or not _same(value, defaults[name])
        }

    def _defaults(self) -> Dict[str, Any]:
        owner = self.locals.get("self")
        function = self.frame.f_globals.get(self.name)
        function = function if owner is None else getattr(type(owner), self.name, None)
        try:
            parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return {}
        return {each.name: each.default for each in parameters if each.default is not each.empty}


def _same(value: Foreign, default: Foreign) -> bool:
    plain = (bool, int, float, str, tuple, type(None))
    return value is default or (isinstance(value, plain) and bool(value == default))


def is_library(file: str) -> bool:
    """Whether a file belongs to Python or an installed package."""
    return file.startswith("<") or bool(places.of_library(file))


def all_frames(error: BaseException) -> List[FrameType]:
    """The frame objects of a traceback, those of the doctor included."""
    entry, frames = error.__traceback__, []
    while entry is not None:
        frames.append(entry.tb_frame)
        entry = entry.tb_next
    return frames


def frames_of(error: BaseException) -> List[Frame]:
    """The frames of a traceback without those of the doctor, the innermost last."""
    entry, frames = error.__traceback__, []
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(HIDDEN):
            frames.append(Frame(entry))
        entry = entry.tb_next
    return frames


def running_modules(frames: List[Frame]) -> List[torch.nn.Module]:
    """The modules that were being called, the innermost last."""
    owners = (frame.locals.get("self") for frame in frames if frame.name == "_call_impl")
    return [each for each in owners if isinstance(each, torch.nn.Module)]


# Names in a line of code

NAME = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
STRING = re.compile(r"""(?:"[^"]*"|'[^']*')""")


def values_in(frame: Frame, text: str) -> Iterator[Tuple[str, Any]]:
    """The variables in a piece of code, and attributes of modules, with their values."""
    names = set()
    for match in NAME.finditer(STRING.sub("''", text)):
        parts = match[0].split(".")
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            known, value = resolved(frame, parts[:count])
            if known:
                if name not in names:
                    names.add(name)
                    yield name, value
                break


def resolved(frame: Frame, parts: List[str]) -> Tuple[bool, Foreign]:
    """Whether that variable, or attribute of a module, exists, and its value."""
    if parts[0] not in frame.locals:
        return False, None
    value = frame.locals[parts[0]]
    for part in parts[1:]:
        value = _attribute(value, part)
        if value is _ABSENT:
            return False, None
    return True, value


_ABSENT = object()


def _attribute(owner: Foreign, name: str) -> Foreign:
    """An attribute of an object as it is stored: no property runs."""
    stored = getattr(owner, "__dict__", None)
    if not isinstance(stored, dict):
        return _ABSENT
    stores = [stored]
    if isinstance(owner, torch.nn.Module):
        stores += [stored.get(each, {}) for each in STORES]
    return next((store[name] for store in stores if name in store), _ABSENT)


STORES = ("_parameters", "_buffers", "_modules")
