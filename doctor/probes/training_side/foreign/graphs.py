"""The graph of autograd: its operations, and the leaves that they were computed from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

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


def passes_on(node: Foreign) -> bool:
    """Whether it computes nothing: the zeros come from what reads its result."""
    return bool(PASSING.fullmatch(node.name()))


PASSING = re.compile(
    r"(Cat|Stack|View|UnsafeView|ReshapeAlias|Add|Sub|Transpose|Permute|Expand|Clone|ToCopy|"
    r"Squeeze|Unsqueeze|Split|SplitWithSizes|Chunk|Unbind|T|Alias|Repeat)Backward\d*"
)


def readers(node: Foreign, parents: Dict[Any, List[Any]]) -> List[Node]:
    """The nearest operations that compute something and read the result of this one."""
    pending, visited, nearest = list(parents.get(node, ())), {node}, []
    while pending:
        each = pending.pop()
        if each in visited:
            continue
        visited.add(each)
        if passes_on(each):
            pending += parents.get(each, ())
        else:
            nearest.append(each)
    return nearest


def parents_of(nodes: Any) -> Dict[Any, List[Any]]:
    """Node -> the nodes that its gradient comes from."""
    parents: Dict[Any, List[Any]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                parents.setdefault(following, []).append(node)
    return parents
