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
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
MOST_NODES = 20_000
MOST = 10_000
"""Tensors whose graphs are looked at, once each."""


class Graphs:
    """Looks at the graphs in memory, again and again."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.before = 0
        """Number of the first node after the previous look."""

    def look(self) -> Dict[str, int]:
        """What is in memory now."""
        tensors = _with_graphs(self.torch)
        found = {
            "graphs": kept(self.torch, tensors),
            "nodes": older(tensors, self.before),
            "hooks": hooks(self.torch),
        }
        with self.torch.enable_grad():
            node = self.torch.zeros(1, device="cpu", requires_grad=True).clone().grad_fn
        self.before = node._sequence_nr()
        return found


def _with_graphs(torch: ModuleType) -> List[Foreign]:
    """The nodes that made tensors in memory; not those of views that torch refuses to look at."""
    found = []
    for each in gc.get_objects():
        if type(each) is torch.Tensor:
            try:
                node = each.grad_fn
            except RuntimeError:  # a view of unbind() whose base was changed in place
                continue
            if node is not None:
                found.append(node)
    return found


def kept(torch: ModuleType, roots: List[Foreign]) -> int:
    """How many of them have a graph with activations."""
    names: Dict[type, List[str]] = {}
    return sum(_holds(torch, node, names) for node in roots[:MOST])


def older(roots: List[Foreign], before: int) -> int:
    """How many nodes of graphs that were made before this one they reach: these stay after a
    backward pass that frees the activations, as of a running average of losses. Nodes are numbered
    as they are made; a graph that is long in one step has none."""
    seen: Set[Foreign] = set()
    open_ = list(roots)
    while open_ and len(seen) < MOST_NODES:
        node = open_.pop()
        if node not in seen:
            seen.add(node)
            open_ += [parent for parent, _ in node.next_functions if parent is not None]
    return sum(node._sequence_nr() < before for node in seen)


def hooks(torch: ModuleType) -> int:
    """Most hooks of one module: one that each evaluation registers again makes them more."""
    kinds: Dict[type, bool] = {}
    most = 0
    for each in gc.get_objects():
        kind = type(each)
        if kind not in kinds:
            kinds[kind] = issubclass(kind, torch.nn.Module)
        if kinds[kind]:
            held = each.__dict__
            most = max(most, sum(len(held.get(name) or ()) for name in HOOKS))
    return most


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
