"""Tensors that keep a graph which no backward pass has freed: their activations stay in memory."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Dict, List, Set

from ..foreign import Foreign
from ..loss_graphs import nearest

LOOKS = (*range(5, 41, 5), *range(50, 501, 50))
"""Steps after which they are counted."""
SAVED = "_saved_"
"""Before the names of what a node keeps for the backward pass; custom ones have saved_tensors."""
MOST_NODES = 20_000
MOST = 10_000
"""Tensors whose graphs are looked at, once each."""


def kept(torch: ModuleType) -> int:
    """How many tensors in memory have a graph with activations."""
    names: Dict[type, List[str]] = {}
    count = 0
    for each in gc.get_objects():
        if type(each) is torch.Tensor and count < MOST:
            node = each.grad_fn
            count += node is not None and _holds(torch, node, names)
    return count


def nodes(torch: ModuleType) -> int:
    """How many nodes of graphs the tensors in memory reach: they stay after a backward pass that
    frees the activations, as of a running average of losses."""
    seen: Set[Foreign] = set()
    for each in gc.get_objects():
        if type(each) is torch.Tensor and each.grad_fn is not None:
            open_ = [each.grad_fn]
            while open_ and len(seen) < MOST_NODES:
                node = open_.pop()
                if node not in seen:
                    seen.add(node)
                    open_ += [parent for parent, _ in node.next_functions if parent is not None]
    return len(seen)


def _holds(torch: ModuleType, root: Foreign, names: Dict[type, List[str]]) -> bool:
    """Whether the nearest node that keeps tensors for a backward pass still has them."""
    for node in nearest(root):
        kind = type(node)
        if kind not in names:
            listed = [name for name in dir(kind) if name.startswith(SAVED)]
            names[kind] = listed + ["saved_tensors"] * hasattr(kind, "saved_tensors")
        for name in names[kind]:
            try:
                value = getattr(node, name)
            except (RuntimeError, AttributeError):  # a backward pass has freed them
                return False
            values = value if isinstance(value, tuple) else (value,)
            if any(isinstance(each, torch.Tensor) for each in values):
                return True
    return False
