"""The graph of autograd: its operations, and the leaves that they were computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Optional

import torch

from . import Foreign, observing

if TYPE_CHECKING:
    from torch.autograd.graph import Node


def nodes(root: Optional[Node]) -> Iterator[Node]:
    """The operations of a graph, from its end on."""
    pending = [] if root is None else [root]
    visited = set(pending)
    while pending:
        node = pending.pop()
        yield node
        for successor, _ in node.next_functions:
            if successor is not None and successor not in visited:
                visited.add(successor)
                pending.append(successor)


def leaf_of(node: Foreign) -> Optional[torch.Tensor]:
    """The leaf whose gradient this operation accumulates; None of any other operation."""
    leaf = observing.attribute(node, "variable")
    return leaf if isinstance(leaf, torch.Tensor) else None


def leaves(root: Optional[Node]) -> Iterator[torch.Tensor]:
    """The leaf tensors of a graph."""
    yield from (leaf for leaf in map(leaf_of, nodes(root)) if leaf is not None)
