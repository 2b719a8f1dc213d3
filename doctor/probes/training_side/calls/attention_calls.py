"""Calls of torch's attention in which each query sees one key only: the softmax of one score is 1,
so the result does not depend on queries and keys.
"""

from __future__ import annotations

import inspect
import math
from typing import Dict, List, NamedTuple, Optional

import torch

from ..foreign import Arguments, Foreign, Options, places
from . import norm_calls

MOST_TOKENS = 4
"""Look-ups that are compared with masks: of tokens, of their kinds, of positions."""
LEAST_HIDDEN = 4
"""Different tokens that a mask hides, so that it is no choice of one."""
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


class Site(NamedTuple):
    """All calls of attention in a line."""

    keys: int
    """The most that a query sees."""
    alone: bool
    """Every sequence has one token by itself: one query and one key, with the batch first."""


class AttentionCalls:
    """The keys that queries see, for each line that calls attention."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._sites: Dict[str, Site] = {}
        self._tokens: List[torch.Tensor] = []
        """What embeddings of rows of tokens were looked up with."""
        self.inverted: Dict[str, int] = {}
        """Lines that call attention with a mask which shows the padding alone, and its token."""
        self.backward: List[str] = []
        """Lines that call attention with a mask by which each query sees the later keys alone."""
        self.masked: Optional[bool] = None
        """Whether a fused attention had a mask or was not causal; None: there was none."""

    def note(self, name: str, args: Arguments, options: Options) -> None:
        """Count the keys of a call of the function of that name, if it is one of attention."""
        if name == "embedding" and args and args[0].dim() == 2:
            self._tokens = [*self._tokens, args[0].detach()][-MOST_TOKENS:]
        if name not in ARGUMENTS:
            return
        arguments = {**dict(zip(ARGUMENTS[name], args)), **options}
        query, key = arguments["query"], arguments["key"]
        if not (query.requires_grad or key.requires_grad or "in_proj_weight" in arguments):
            return
        if name == "scaled_dot_product_attention":
            free = arguments.get("attn_mask") is not None or not arguments.get("is_causal")
            self.masked = bool(self.masked or free)
        try:
            keys, alone = visible(name, arguments), one_token(name, query, key)
        except Exception:  # nested tensors have no length
            return
        (place, _), _ = places.innermost()
        module = norm_calls.calling_module(self._model)
        label = " in ".join(filter(None, (name, place, module)))
        before = self._sites.get(label, Site(0, True))
        self._note_masks(name, arguments, label)
        self._sites[label] = Site(max(before.keys, keys), before.alone and alone)

    def _note_masks(self, name: str, arguments: Options, label: str) -> None:
        """Masks whose True means the other thing."""
        for ids in self._tokens:
            token = only_shown(ids, padding_of(name, arguments, ids.shape))
            if token is not None:
                self.inverted[label] = token
        if later_alone(name, arguments) and label not in self.backward:
            self.backward.append(label)

    def padding_alone(self) -> List[str]:
        """The lines whose mask shows the padding alone."""
        return ["%s shows token %d alone" % each for each in self.inverted.items()]

    def single(self, *, alone: bool) -> List[str]:
        """The lines of which every call is over one key; `alone`: where sequences have one token
        by themselves, else the others."""
        return [n for n, each in self._sites.items() if each.keys == 1 and each.alone is alone]


def later_alone(name: str, arguments: Options) -> bool:
    """Whether a mask hides exactly each query's own key and all before it: so the last query sees
    none, as a causal mask has it that is written for the other meaning of True."""
    mask = arguments.get("attn_mask")
    if not isinstance(mask, torch.Tensor) or mask.dim() < 2:
        return False
    hides = name != "scaled_dot_product_attention"
    hidden = mask == hides if mask.dtype == torch.bool else mask.detach() <= HIDDEN
    length = mask.shape[-1]
    whole = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril()
    return mask.shape[-2] == length > 2 and bool((hidden == whole).all())


def one_token(name: str, query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether this is the attention of a token to itself. A batch that is taken for the length, as
    nn.MultiheadAttention does without batch_first=True, is none."""
    if name == "scaled_dot_product_attention":
        return query.shape[-2] == 1 == key.shape[-2]
    module = norm_calls.running()
    samples = query.shape[1] if query.dim() == 3 else 1
    return query.shape[0] == 1 == key.shape[0] and (
        samples == 1 or bool(getattr(module, "batch_first", False))
    )


def visible(name: str, arguments: Options) -> int:
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


def most(mask: Foreign, *, hides: bool) -> float:
    """The most keys that a row of the mask leaves visible; `hides`: where a boolean one is True.
    One with one column holds for all keys alike, and chooses none."""
    if not isinstance(mask, torch.Tensor) or not mask.numel() or mask.shape[-1:] in ((), (1,)):
        return math.inf
    shown = mask != hides if mask.dtype == torch.bool else mask.detach() > HIDDEN
    return int(shown.sum(-1).max())


def padding_of(name: str, arguments: Options, shape: Foreign) -> Optional[torch.Tensor]:
    """Which keys of each sample a mask leaves visible to some query, in the shape of the tokens;
    None where no mask has a row for each sample."""
    fused = name == "scaled_dot_product_attention"
    mask = arguments.get("attn_mask" if fused else "key_padding_mask")
    if not isinstance(mask, torch.Tensor) or mask.shape[-1] != shape[1]:
        return None
    shown = mask == fused if mask.dtype == torch.bool else mask.detach() > HIDDEN
    if mask.dim() == 4 and mask.shape[0] == shape[0]:
        shown = shown.any(2).any(1)
    return shown if shown.shape == shape else None


def only_shown(ids: torch.Tensor, shown: Optional[torch.Tensor]) -> Optional[int]:
    """The one token that is visible wherever one is, and that no hidden place has: the padding."""
    if shown is None or not bool(shown.any()):
        return None
    visible_ids, hidden = torch.unique(ids[shown]), torch.unique(ids[~shown])
    one = len(visible_ids) == 1 and not bool((hidden == visible_ids[0]).any())
    return int(visible_ids[0]) if one and len(hidden) >= LEAST_HIDDEN else None
