"""The tensors of a batch in nested dicts, lists, tuples and dataclasses, whatever their classes."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Callable, Dict

import torch

from . import Foreign, observing

Change = Callable[[torch.Tensor], Any]


def mapped(value: Foreign, change: Change) -> Foreign:
    """The same nested containers with `change` applied to every tensor.

    They keep their classes, but for a mapping that cannot be copied, which becomes a dict.
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if is_mapping(value):
        members = dict(value.items())
        changed = {key: mapped(each, change) for key, each in members.items()}
        return changed if type(value) is dict else with_members(value, members, changed)
    if isinstance(value, tuple) and observing.has(value, "_fields"):
        return type(value)(*(mapped(each, change) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(each, change) for each in value)
    if is_record(value):
        return observing.attempt(lambda: with_fields(value, change), value)
    return value


def is_mapping(value: Foreign) -> bool:
    return type(value) is dict or all(observing.has(value, name) for name in ("items", "keys"))


def is_record(value: Foreign) -> bool:
    """Whether it is an instance of a dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def with_members(mapping: Foreign, members: Dict[Any, Any], changed: Dict[Any, Any]) -> Foreign:
    """A copy of a mapping with other members; they alone if it cannot be copied."""
    try:
        result = copy.copy(mapping)
        others = [key for key, each in changed.items() if each is not members[key]]
        for key in others:
            result[key] = changed[key]
        if shared := [key for key in others if mapping[key] is changed[key]]:
            for key in shared:  # the copy holds the same dict
                mapping[key] = members[key]
            return changed
        attributes = getattr(result, "__dict__", {})
        for key, each in members.items():  # which some classes hold as attributes too
            if attributes.get(key) is each:
                attributes[key] = changed[key]
        return result
    except Exception:  # its class allows no copy, or no assignment
        return changed


def with_fields(record: Foreign, change: Change) -> Foreign:
    """A copy of an instance of a dataclass, frozen ones included, with its tensors changed."""
    result = copy.copy(record)
    for field in dataclasses.fields(record):
        object.__setattr__(result, field.name, mapped(getattr(record, field.name), change))
    return result


def tensors(value: Foreign, name: str = "batch") -> Dict[str, torch.Tensor]:
    """Every tensor of a batch by its position: "labels", "[0]"."""
    by_name: Dict[str, torch.Tensor] = {}
    if isinstance(value, torch.Tensor):
        by_name[name] = value
    elif is_mapping(value):
        for key, each in value.items():
            by_name.update(tensors(each, member(name, key)))
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            by_name.update(tensors(each, "%s[%d]" % ("" if name == "batch" else name, index)))
    elif is_record(value):
        for field in dataclasses.fields(value):
            each = observing.attribute(value, field.name)
            by_name.update(tensors(each, member(name, field.name)))
    return by_name


def member(name: str, key: Foreign) -> str:
    return str(key) if name == "batch" else "%s.%s" % (name, key)
