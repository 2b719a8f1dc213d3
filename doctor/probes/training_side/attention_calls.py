"""Calls of torch's attention in which each query sees one key only: the softmax of one score is 1,
so the result does not depend on queries and keys.

Imported by loss_calls.py; standard library and torch only, Python 3.9.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Dict, List

import torch
import wire

places = wire.sibling("places")
norm_calls = wire.sibling("norm_calls")

HIDDEN = -1e4
"""A score that is added to hide a key: -inf, or the lowest number of a half precision."""
ARGUMENTS = {
    "scaled_dot_product_attention": (
        "query", "key", "value", "attn_mask", "dropout_p", "is_causal",
    ),
    "multi_head_attention_forward": tuple(
        inspect.signature(torch.nn.functional.multi_head_attention_forward).parameters
    ),
}  # fmt: skip


class AttentionCalls:
    """The most keys that a query sees, for each line that calls attention."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._keys: Dict[str, int] = {}

    def note(self, name: str, args: Any, options: Dict[str, Any]) -> None:
        """Count the keys of a call of the function of that name, if it is one of attention."""
        if name not in ARGUMENTS:
            return
        arguments = {**dict(zip(ARGUMENTS[name], args)), **options}
        query, key = arguments["query"], arguments["key"]
        if not (query.requires_grad or key.requires_grad or "in_proj_weight" in arguments):
            return
        (place, _), _ = places.innermost()
        module = norm_calls.calling_module(self._model)
        site = " in ".join(filter(None, (name, place, module)))
        self._keys[site] = max(self._keys.get(site, 0), visible(name, arguments))

    def single(self) -> List[str]:
        """The lines of which every call is over one key."""
        return [site for site, keys in self._keys.items() if keys == 1]


def visible(name: str, arguments: Dict[str, Any]) -> int:
    """The most keys that a query sees."""
    query, key, mask = arguments["query"], arguments["key"], arguments.get("attn_mask")
    if name == "scaled_dot_product_attention":
        keys = int(key.shape[-2])
        first_only = bool(arguments.get("is_causal")) and query.shape[-2] == 1
        return int(min(keys, 1 if first_only else keys, most(mask, hides=False)))
    more = (arguments.get("bias_k") is not None) + bool(arguments.get("add_zero_attn"))
    padding = arguments.get("key_padding_mask")
    least = min(most(mask, hides=True), most(padding, hides=True))
    return int(min(key.shape[0], least) + more)


def most(mask: Any, *, hides: bool) -> float:
    """The most keys that a row of the mask leaves visible; `hides`: where a boolean one is True."""
    if not isinstance(mask, torch.Tensor) or not mask.numel():
        return math.inf
    shown = mask != hides if mask.dtype == torch.bool else mask.detach() > HIDDEN
    return int(shown.sum(-1).max())
