"""What an error shows: the line, the module, the call that raised and its arguments.

Imported by tracebacks.py; standard library and torch only, Python 3.9. Nothing is called but
signatures and representations; `scene` returns the fields of doctor.facts.raised.Raised.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

import torch
import wire

stack_frames = wire.sibling("stack_frames")

MESSAGE, VALUE, ITEMS, ARGUMENTS = 4000, 80, 12, 8

SECRET = re.compile(
    r"token|secret|passw|pwd|passphrase|credential|auth|bearer|access_?key|api_?key|(^|[._])key$",
    re.IGNORECASE,
)
"""Names of arguments and variables whose texts are not shown."""
USERINFO = re.compile(r"(?<=://)[^/@\s'\"]+@")
"""User and password in an address."""


def scene(error: BaseException, model: Optional[torch.nn.Module] = None) -> Dict[str, Any]:
    """The fields of doctor.facts.raised.Raised that the traceback shows."""
    frames = stack_frames.frames_of(error)
    fields: Dict[str, Any] = {
        "type": "Raised",
        "error": type(error).__name__,
        "message": str(error)[:MESSAGE],
    }
    used = [index for index, frame in enumerate(frames) if not frame.library]
    inner = frames[used[-1] + 1 :] if used else frames
    if used:
        fields.update(place=frames[used[-1]].place, code=frames[used[-1]].code)
    called = [frame for frame in inner if frame.name not in stack_frames.CALLERS]
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


def module_fields(frames: List[Any], model: Optional[torch.nn.Module]) -> Dict[str, Any]:
    """The innermost module whose forward was running: its path and what it is."""
    running = stack_frames.running_modules(frames)
    if not running:
        return {}
    inner = running[-1]
    root = model if model is not None else running[0]
    path = next((name for name, each in root.named_modules() if each is inner), None)
    return {"module": path, "module_type": shown(inner)}


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
