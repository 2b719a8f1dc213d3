"""Tensors that a model trains with and that are not among its parameters.

Imported by own_stages.py; standard library and torch only, Python 3.9.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Set, Tuple

import torch

MOST = 1000
"""Members of a list or dict that are looked at."""


def unregistered(subject: Any) -> List[str]:
    """Names of leaf tensors with a gradient that attributes of the model's modules hold, in plain
    lists or dicts or directly, and that are neither parameters of the model nor in a group of the
    user's optimizer."""
    module = subject.module
    ids: Set[int] = {id(each) for each in module.parameters()}
    if subject.update is not None:
        groups = subject.update.optimizer.param_groups
        ids |= {id(each) for group in groups for each in group["params"]}
    names = []
    torchs_own = vars(torch.nn.Module())
    for prefix, part in module.named_modules():
        for attribute, value in list(vars(part).items()):
            if attribute not in torchs_own:
                name = "%s.%s" % (prefix, attribute) if prefix else attribute
                names += [found for found, leaf in leaves(name, value) if id(leaf) not in ids]
    return names


def leaves(name: str, value: Any) -> Iterator[Tuple[str, torch.Tensor]]:
    """The leaf tensors with a gradient in a tensor, a module, or a list or dict of them."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_leaf and value.grad is not None:
            yield name, value
    elif isinstance(value, torch.nn.Module):
        for inner, weight in value.named_parameters():
            yield from leaves("%s.%s" % (name, inner), weight)
    else:
        for key, each in members(value):
            if isinstance(each, (torch.Tensor, torch.nn.Module)):
                yield from leaves("%s[%r]" % (name, key), each)


def members(value: Any) -> Iterable[Tuple[Any, Any]]:
    """Indices or keys, and the members of a list or dict; of anything else nothing."""
    if isinstance(value, (list, tuple)):
        return enumerate(value[:MOST])
    return list(value.items())[:MOST] if isinstance(value, dict) else ()
