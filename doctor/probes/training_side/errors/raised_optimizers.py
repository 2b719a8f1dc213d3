"""Parameters of optimizers, and keys of state dicts, where they are refused."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

Records = List[Dict[str, Any]]
MOST = 100
"""Names in a record."""


def modules_of(user: Any) -> Dict[str, torch.nn.Module]:
    """The modules among the variables of the user's function."""
    held = user.locals.items() if user is not None else ()
    return {name: value for name, value in held if isinstance(value, torch.nn.Module)}


def counts(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    if "empty parameter list" not in str(error):
        return []
    flags = {n: [p.requires_grad for p in m.parameters()] for n, m in modules_of(user).items()}
    return [
        {"type": "ParameterCount", "model": name, "parameters": len(f), "trainable": sum(f)}
        for name, f in flags.items()
    ]


def shared(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """Parameters that two groups of an optimizer share, by their names."""
    adding = [frame for frame in frames if frame.name == "add_param_group"]
    if not adding or "more than one parameter group" not in str(error):
        return []
    known = adding[-1].locals.get("param_set") or set()
    group = adding[-1].locals.get("param_group") or {}
    both = {id(each) for each in group.get("params", ()) if each in known}
    weights = (pair for each in modules_of(user).values() for pair in each.named_parameters())
    names = sorted({name for name, weight in weights if id(weight) in both})
    return [{"type": "SharedParameters", "names": names[:MOST]}] if names else []


def state_keys(error: Any, frames: List[Any], user: Any, model: Any) -> Records:
    """Keys of a state dict that the model lacks, and that only the model has."""
    loading = [frame for frame in frames if frame.name == "load_state_dict"]
    if not loading or "loading state_dict" not in str(error):
        return []
    keys = {
        kind: [str(each) for each in loading[-1].locals.get(kind + "_keys") or ()][:MOST]
        for kind in ("missing", "unexpected")
    }
    return [{"type": "StateKeys", **keys}] if any(keys.values()) else []


OBSERVERS: List[Callable[..., Records]] = [counts, shared, state_keys]
