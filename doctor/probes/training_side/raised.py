"""What the frames of a traceback hold: the line, the module, the call that raised, its arguments.

Imported by own_stages.py; standard library and torch only, Python 3.9. Nothing is called but
signatures and representations; `scene` returns the fields of doctor.facts.raised.Raised.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
import wire

HIDDEN = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "<frozen")
"""The doctor's own frames, and those of the import system."""
CALLERS = ("_call_impl", "_wrapped_call_impl", "decorate_context", "inner", "wrapper", "_fn")
"""Functions of torch that only call what they wrap."""
MESSAGE, VALUE, CODE, ITEMS, ARGUMENTS = 4000, 80, 160, 12, 8


SECRET = re.compile(
    r"token|secret|passw|pwd|passphrase|credential|auth|bearer|access_?key|api_?key|(^|[._])key$",
    re.IGNORECASE,
)
"""Names of arguments and variables whose texts are not shown."""
USERINFO = re.compile(r"(?<=://)[^/@\s'\"]+@")
"""User and password in an address."""


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
        positions: Any = getattr(self.frame.f_code, "co_positions", None)
        if positions is None:
            return self.code
        at: Any = next(itertools.islice(positions(), self._instruction // 2, None), None)
        if at is None or None in at:
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


def _same(value: Any, default: Any) -> bool:
    plain = (bool, int, float, str, tuple, type(None))
    return value is default or (isinstance(value, plain) and bool(value == default))


def is_library(file: str) -> bool:
    """Whether a file belongs to Python or an installed package."""
    return file.startswith("<") or bool(wire.sibling("places").of_library(file))


def all_frames(error: BaseException) -> List[Any]:
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


def scene(error: BaseException, model: Optional[torch.nn.Module] = None) -> Dict[str, Any]:
    """The fields of doctor.facts.raised.Raised that the traceback shows."""
    frames = frames_of(error)
    fields: Dict[str, Any] = {
        "type": "Raised",
        "error": type(error).__name__,
        "message": str(error)[:MESSAGE],
    }
    used = [index for index, frame in enumerate(frames) if not frame.library]
    inner = frames[used[-1] + 1 :] if used else frames
    if used:
        fields.update(place=frames[used[-1]].place, code=frames[used[-1]].code)
    called = [frame for frame in inner if frame.name not in CALLERS]
    try:  # the user's objects may do anything
        fields.update(module_fields(frames, model))
        if called and used:
            fields.update(function=called[0].qualified, operands=operands(called[0].passed()))
    except Exception:
        fields.pop("function", None)
    user = frames[used[-1]] if used else None
    observe = wire.sibling("raised_observations").observe
    fields["observed"] = observe(error, frames, user, model)
    return fields


def module_fields(frames: List[Frame], model: Optional[torch.nn.Module]) -> Dict[str, Any]:
    """The innermost module whose forward was running: its path and what it is."""
    running = running_modules(frames)
    if not running:
        return {}
    inner = running[-1]
    root = model if model is not None else running[0]
    path = next((name for name, each in root.named_modules() if each is inner), None)
    return {"module": path, "module_type": shown(inner)}


def running_modules(frames: List[Frame]) -> List[torch.nn.Module]:
    """The modules that were being called, the innermost last."""
    owners = (frame.locals.get("self") for frame in frames if frame.name == "_call_impl")
    return [each for each in owners if isinstance(each, torch.nn.Module)]


def shown(module: torch.nn.Module) -> str:
    """ "Linear(in_features=8, out_features=5, bias=True)", of a larger module its class."""
    try:
        text = "%s(%s)" % (type(module).__name__, module.extra_repr())
    except Exception:
        return type(module).__name__
    return (
        text if len(text) <= VALUE + 40 and not list(module.children()) else type(module).__name__
    )


# Arguments


def operands(arguments: Dict[str, Any], names: Optional[Dict[int, str]] = None) -> List[Any]:
    """Each argument as a doctor.facts.raised.Operand; `names` are parameters by their id."""
    return [
        operand(value, name, names)
        for name, value in list(arguments.items())[:ARGUMENTS]
        if name != "self" or isinstance(value, torch.Tensor)
    ]


def operand(value: Any, name: str = "", names: Optional[Dict[int, str]] = None) -> Dict[str, Any]:
    record: Dict[str, Any] = {"type": "Operand", "name": name, "kind": type(value).__name__}
    shape = shape_of(value)
    if shape is None:
        record["value"] = described(name, value)
        return record
    record["shape"] = shape
    record["dtype"] = str(value.dtype).replace("torch.", "")
    if isinstance(value, torch.Tensor):
        record["device"] = str(value.device)
        record["parameter"] = (names or {}).get(id(value), "")
    return record


def shape_of(value: Any) -> Optional[List[int]]:
    """The shape of a tensor or an array; None of anything else, classes of them included."""
    if isinstance(value, type):
        return None
    try:
        shape = value.shape if hasattr(value, "dtype") else None
        return [int(size) for size in shape] if isinstance(shape, tuple) else None
    except Exception:
        return None


def described(name: str, value: Any) -> str:
    """The value of a variable in a few words; a text under the name of a secret is not shown."""
    parts = value if isinstance(value, (list, tuple, set)) else [value]
    texts = any(isinstance(each, (str, bytes)) for each in parts)
    return "***" if texts and SECRET.search(name) else short(value)


def short(value: Any) -> str:
    """A value in a few words; a tensor by its shape and dtype."""
    if isinstance(value, torch.Tensor):
        return "%s %s" % (list(value.shape), str(value.dtype).replace("torch.", ""))
    if isinstance(value, torch.nn.Module):
        several = isinstance(value, (torch.nn.ModuleList, torch.nn.Sequential))
        return type(value).__name__ + (" of %d" % len(value) if several else "")  # type: ignore[arg-type]
    if (shape := shape_of(value)) is not None:
        return "%s %s %s" % (type(value).__name__, shape, value.dtype)
    if isinstance(value, (list, tuple)):
        parts = [short(each) for each in value[:ITEMS]] + ["..."] * (len(value) > ITEMS)
        text = ", ".join(parts)
        return ("[%s]" if isinstance(value, list) else "(%s)") % text[: 3 * VALUE]
    if isinstance(value, dict):
        return "{%s}" % ", ".join(map(repr, list(value)[:ITEMS]))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return USERINFO.sub("***@", repr(value))[:VALUE]
    if isinstance(value, type):
        return value.__name__
    return "%s object" % type(value).__name__


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


def resolved(frame: Frame, parts: List[str]) -> Tuple[bool, Any]:
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


def _attribute(owner: Any, name: str) -> Any:
    """An attribute of an object as it is stored: no property runs."""
    stored = getattr(owner, "__dict__", None)
    if not isinstance(stored, dict):
        return _ABSENT
    stores = [stored]
    if isinstance(owner, torch.nn.Module):
        stores += [stored.get(each, {}) for each in STORES]
    return next((store[name] for store in stores if name in store), _ABSENT)


STORES = ("_parameters", "_buffers", "_modules")
