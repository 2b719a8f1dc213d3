"""The variables of the line that raised: what is None, absent, of another kind or not finite, and
what a function accepts."""

from __future__ import annotations

import builtins
import difflib
import functools
import inspect
import math
import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch

from ..foreign import descriptions, stack_frames

Records = List[Dict[str, Any]]
MOST = 12
"""Names in a record."""
SIGNATURE = re.compile(
    r"^(?P<name>[\w.<>]+)\(\) (?:got an unexpected keyword argument '\w+'"
    r"|missing \d+ required|takes |got multiple values)"
)
UNPACKING = re.compile(r"values to unpack|cannot unpack")
INDEXING = re.compile(r"(list|tuple) indices must be integers or slices, not str")


def variables(user: Any) -> List[Tuple[str, Any]]:
    """Those of the raising expression, with their values."""
    return list(stack_frames.values_in(user, user.expression)) if user is not None else []


def values(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    return [
        {"type": "Value", "name": name, "text": descriptions.described(name, value)}
        for name, value in variables(user)
        if not callable(value) or isinstance(value, torch.nn.Module)
    ][:MOST]


def none(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """Where None was not expected."""
    if "NoneType" not in str(error):
        return []
    own = user.arguments() if user is not None else {}
    return [
        {"type": "NoneValue", "name": name, "function": user.name if name in own else ""}
        for name, value in variables(user)
        if value is None
    ]


def not_finite(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """The variables of the line, the arguments of what it called, and the parameters of the
    innermost module that are NaN or infinite."""
    below = frames[frames.index(user) + 1 :] if user in frames else []
    arguments = [pair for frame in below for pair in frame.arguments().items()]
    modules = stack_frames.running_modules(frames)[-1:] if user is not None else []
    weights = [pair for each in modules for pair in each.named_parameters(recurse=False)]
    records: Dict[int, Dict[str, Any]] = {}
    for name, value in (*variables(user), *arguments, *weights):
        if text := counted(value):
            records.setdefault(id(value), {"type": "NonFinite", "name": name, "text": text})
    return list(records.values())[:3]


def counted(value: Any) -> str:
    """ "36 of 36 values", "nan" for a number; "" if it is finite."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else str(value)
    if not isinstance(value, torch.Tensor) or not value.numel():
        return ""
    if value.layout != torch.strided or not (value.is_floating_point() or value.is_complex()):
        return ""
    try:
        bad = int((~torch.isfinite(value.detach())).sum())
    except (RuntimeError, ValueError):  # no values of its own: a meta tensor, one under vmap
        return ""
    return "%d of %d values" % (bad, value.numel()) if bad else ""


def kinds(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """What the line takes for something else: the model, a tuple by a comma, an attribute that
    hides a method."""
    text, found = str(error), []
    for name, value in variables(user):
        if value is model and "not %s" % type(model).__name__ in text:
            found.append((name, "model"))
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            found.append((name, "packed"))
        if isinstance(value, tuple) and len(value) == 1 and "'tuple' object is not" in text:
            found.append((name, "one-tuple"))
    if "object is not callable" in text:
        held = [v for frame in stack_frames.all_frames(error) for v in frame.f_locals.values()]
        held += [member for each in held if isinstance(each, tuple) for member in each]
        modules = [each for each in held if isinstance(each, torch.nn.Module)]
        names = {name for each in modules for name, value in vars(each).items()
                 if hides(name, value)}  # fmt: skip
        found += [(name, "attribute") for name in sorted(names)]
    return [{"type": "Variable", "name": name, "kind": kind} for name, kind in found]


def hides(name: str, value: Any) -> bool:
    """Whether an attribute of a module has the name of a method."""
    return callable(getattr(torch.nn.Module, name, None)) and not callable(value)


def parts(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """The parts of what was unpacked, or indexed by a name."""
    text = str(error)
    if user is None or not (UNPACKING.search(text) or INDEXING.search(text)):
        return []
    held = list(stack_frames.values_in(user, user.code))[::-1]
    for name, value in held:
        if isinstance(value, torch.Tensor) and value.dim() and UNPACKING.search(text):
            shape = list(value.shape)
            return [{"type": "Parts", "name": name, "count": shape[0], "shape": shape}]
    for name, value in held:
        if isinstance(value, (list, tuple, dict)):
            shown = [
                "a text" if isinstance(each, str) and not isinstance(value, dict)
                else descriptions.short(each) for each in list(value)[:MOST]
            ]  # fmt: skip
            return [{"type": "Parts", "name": name, "count": len(value), "parts": shown}]
    return []


# What is absent


def absent(kind: str, name: str, owner: str, members: Iterable[str], **more: Any) -> Records:
    there = [str(each) for each in members]
    fields = {"kind": kind, "name": name, "owner": owner, "similar": similar(name, there)}
    return [{"type": "Missing", **fields, "members": there[:MOST], **more}]


def undefined(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    name = re.search(r"name '(\w+)' is not defined", str(error))
    if not isinstance(error, NameError) or not name or user is None:
        return []
    known = [*user.locals, *user.frame.f_globals, *dir(builtins)]
    return absent("name", name[1], "", similar(name[1], known))


def _asked(error: Any) -> Tuple[Any, str]:
    """Whose attribute an error says is absent, and its name, which Python has told since 3.10."""
    return getattr(error, "obj", None), getattr(error, "name", None) or ""


def attributes(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    owner, name = _asked(error)
    if not isinstance(error, AttributeError) or owner is None or not name or getter_of(error):
        return []
    if isinstance(owner, dict) and name in owner and user is not None:
        held = [each for each, value in stack_frames.values_in(user, user.code) if value is owner]
        return absent("attribute", name, "dict", [], dict_of=held[0] if held else "it")
    kind = owner.__name__ if inspect.ismodule(owner) else type(owner).__name__
    if isinstance(owner, torch.nn.Module):
        own = [each for store in stack_frames.STORES for each in vars(owner).get(store, {})]
        close = similar(name, [*own, *dir(type(owner))])
        return absent("attribute", name, kind, own, similar=close)
    return absent("attribute", name, kind, similar(name, dir(owner)))


def getter_of(error: Any) -> Optional[Callable[[Any], Any]]:
    """The function of the property that an AttributeError says is absent; None if it is none."""
    owner, name = _asked(error)
    if not name or "has no attribute '%s'" % name not in str(error):
        return None
    stored = inspect.getattr_static(type(owner), name, None)
    if isinstance(stored, property):
        return stored.fget
    return stored.func if isinstance(stored, functools.cached_property) else None


def keys(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    if not isinstance(error, KeyError) or user is None:
        return []
    key = error.args[0] if error.args else None
    for name, value in stack_frames.values_in(user, user.code):
        if hasattr(value, "keys") and key not in value:
            (record,) = absent("key", str(key), name, value.keys())
            return [{**record, "name": ""}]  # the message has it, and it may be a secret
    return []


def methods(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """A module without forward, and its methods of similar names."""
    modules = stack_frames.running_modules(frames)
    if not isinstance(error, NotImplementedError) or "forward" not in str(error) or not modules:
        return []
    kind = type(modules[-1])
    own = [name for name, value in vars(kind).items() if callable(value)]
    return absent("method", "forward", kind.__name__, similar("forward", own))


def similar(name: str, names: Iterable[str]) -> List[str]:
    """The other names that are spelled like this one, the most similar first."""
    others = [each for each in names if each != name]
    close = difflib.get_close_matches(name.lower(), [each.lower() for each in others], 3, 0.7)
    close.sort(key=lambda each: not each.startswith(name.lower()))
    return list(dict.fromkeys(n for each in close for n in others if n.lower() == each))


# What a function accepts


def signatures(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    match = SIGNATURE.match(str(error))
    if not isinstance(error, TypeError) or not match or not frames:
        return []
    modules, inner = stack_frames.running_modules(frames), frames[-1]
    name = match["name"].rpartition(".")[2]
    if inner.name == "apply":  # own_functions.py
        return []
    if inner.name in ("_call_impl", "inner") and modules and name != "forward":
        kind = type(modules[-1]).__name__
        return [{"type": "Hook", "kind": "module", "function": name, "on": kind}]
    function: Any = None
    if inner.name == "_call_impl" and modules and name == "forward":
        function = modules[-1].forward
    elif user is not None:
        function = called(user, match["name"])
    if function is None:
        return []
    passed = inner.locals.get("kwargs") if name == "forward" else None
    of_model = name == "forward" and function == getattr(model, "forward", None)
    return [{"type": "Signature", **accepted_by(function), 
             "passed": list(passed or {})[:MOST], "of_model": of_model}]  # fmt: skip


def accepted_by(function: Any) -> Dict[str, List[str]]:
    parameters = inspect.signature(function).parameters.values()
    accepted = [each for each in parameters if each.name not in ("self", "cls")]
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in accepted if p.default is p.empty and p.kind not in variable]
    return {"accepts": [each.name for each in accepted][:MOST], "needs": needed[:MOST]}


def called(user: Any, qualified: str) -> Any:
    """The class or function that the user's expression calls, by its name; None if unknown."""
    last = [part for part in qualified.split(".") if part not in ("__init__", "__new__")][-1]
    for match in stack_frames.NAME.finditer(user.expression):
        path = match[0].split(".")
        if path[-1] != last and last != "forward":
            continue
        value: Optional[Any] = {**user.frame.f_globals, **user.locals}.get(path[0])
        for part in path[1:]:
            value = getattr(value, part, None)
        if callable(value):
            return value.forward if isinstance(value, torch.nn.Module) else value
    return None


OBSERVERS: List[Callable[..., Records]] = [
    none, kinds, undefined, attributes, keys, methods, parts, signatures, values, not_finite,
]  # fmt: skip
