"""The user's values in a few words: arguments, variables, modules.

Nothing is called but representations.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch

from ...secrets import HIDDEN, hide_secrets, kind_of
from . import Foreign, Options

VALUE, ITEMS, ARGUMENTS = 80, 12, 8


def operands(arguments: Options, names: Optional[Dict[int, str]] = None) -> List[Dict[str, Any]]:
    """Each argument as a doctor.facts.raised.Operand; `names` are parameters by their id."""
    return [
        operand(value, name, names)
        for name, value in list(arguments.items())[:ARGUMENTS]
        if name != "self" or isinstance(value, torch.Tensor)
    ]


def operand(
    value: Foreign, name: str = "", names: Optional[Dict[int, str]] = None
) -> Dict[str, Any]:
    record: Dict[str, Any] = {"type": "Operand", "name": name, "kind": type(value).__name__}
    shape = shape_of(value)
    if shape is None:
        record["value"] = described(name, value)
        record["numbers"] = numbers_of(value)
        return record
    record["shape"] = shape
    record["dtype"] = str(value.dtype).replace("torch.", "")
    if isinstance(value, torch.Tensor):
        record["device"] = str(value.device)
        record["parameter"] = (names or {}).get(id(value), "")
    return record


def numbers_of(value: Foreign) -> List[int]:
    """An integer, or those of a tuple or list that holds nothing else."""
    members = value if isinstance(value, (list, tuple)) else [value]
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in members)
    return [int(each) for each in members] if whole and len(members) <= ITEMS else []


def shape_of(value: Foreign) -> Optional[List[int]]:
    """The shape of a tensor or an array; None of anything else, classes of them included."""
    if isinstance(value, type):
        return None
    try:
        shape = value.shape if hasattr(value, "dtype") else None
        return [int(size) for size in shape] if isinstance(shape, tuple) else None
    except Exception:
        return None


def described(name: str, value: Foreign) -> str:
    """The value of a variable in a few words; a text under the name of a secret is not shown."""
    parts = value if isinstance(value, (list, tuple, set)) else [value]
    texts = any(isinstance(each, (str, bytes)) for each in parts)
    return HIDDEN if texts and kind_of(name) else short(value)


def short(value: Foreign) -> str:
    """A value in a few words; a tensor by its shape and dtype."""
    if isinstance(value, torch.Tensor):
        return "%s %s" % (list(value.shape), str(value.dtype).replace("torch.", ""))
    if isinstance(value, torch.nn.Module):
        several = isinstance(value, (torch.nn.ModuleList, torch.nn.Sequential))
        return type(value).__name__ + (" of %d" % len(list(value.children())) if several else "")
    if (shape := shape_of(value)) is not None:
        return "%s %s %s" % (type(value).__name__, shape, value.dtype)
    if isinstance(value, (list, tuple)):
        parts = [short(each) for each in value[:ITEMS]] + ["..."] * (len(value) > ITEMS)
        text = ", ".join(parts)
        return ("[%s]" if isinstance(value, list) else "(%s)") % text[: 3 * VALUE]
    if isinstance(value, dict):
        return "{%s}" % ", ".join(map(repr, list(value)[:ITEMS]))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return hide_secrets(repr(value))[:VALUE]
    if isinstance(value, type):
        return value.__name__
    return "%s object" % type(value).__name__


def listed(names: Sequence[str], most: int) -> str:
    """ "a, b and 3 more"."""
    more = " and %d more" % (len(names) - most) if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shown(module: torch.nn.Module) -> str:
    """ "Linear(in_features=8, out_features=5, bias=True)", of a larger module its class."""
    try:
        text = "%s(%s)" % (type(module).__name__, module.extra_repr())
    except Exception:
        return type(module).__name__
    return (
        text if len(text) <= VALUE + 40 and not list(module.children()) else type(module).__name__
    )
