"""Where in a loss's graph the first values that are not finite are: beside which parameter."""

from __future__ import annotations

import math
from typing import Iterator, List, Optional, Set, Tuple

from .foreign import Foreign
from .loss_graphs import LAYOUT, SCORES, kind

MOST_NODES, MOST_ELEMENTS = 2000, 2**26
"""Of a graph, nearest to the loss first, and of the tensors that it keeps."""


def first_seen(root: Foreign) -> Tuple[str, Foreign]:
    """ "in" and a parameter, if a layer's input is the first tensor that is not finite; "after" and
    the last parameter before it; ("", None) where no tensor of the graph shows it.

    Reads values, so it waits for a device. A tensor with a hook is never unpacked.
    """
    nodes = _nodes(root)
    bad = {node for node in nodes if _keeps_bad(node)}
    for node in reversed(nodes):  # the furthest from the loss first
        if node in bad and not any(each in bad for each in _below(node)):
            own = kind(node) in SCORES
            found = next((n.variable for n in _below(node) if hasattr(n, "variable")), None)
            return ("in" if own else "after", found) if found is not None else ("", None)
    return "", None


def _nodes(root: Foreign) -> List[Foreign]:
    open_, seen = [root], {root}
    for node in open_:
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen and len(open_) < MOST_NODES:
                seen.add(parent)
                open_.append(parent)
    return open_


def _below(node: Foreign) -> Iterator[Foreign]:
    """What a node was computed from, the nearest first."""
    open_ = [parent for parent, _ in node.next_functions if parent is not None]
    seen: Set[Foreign] = set(open_)
    for each in open_:
        yield each
        for parent, _ in each.next_functions:
            if parent is not None and parent not in seen and len(open_) < MOST_NODES:
                seen.add(parent)
                open_.append(parent)


def _keeps_bad(node: Foreign) -> bool:
    """Whether a floating-point tensor that the node keeps for the backward pass is not finite."""
    if kind(node) in LAYOUT:
        return False
    names = (name for name in dir(type(node)) if name.startswith("_raw_saved_"))
    return any(_is_bad(_saved(node, name)) for name in names)


def _saved(node: Foreign, name: str) -> Optional[Foreign]:
    try:
        saved = getattr(node, name)
        return saved.data if getattr(saved, "unpack_hook", saved) is None else None
    except (AttributeError, RuntimeError):  # freed, or of another version of torch
        return None


def _is_bad(tensor: Foreign) -> bool:
    """Whether it has NaN or Inf; -Inf is that of a mask."""
    if not hasattr(tensor, "is_floating_point") or not tensor.is_floating_point():
        return False
    if str(tensor.layout) != "torch.strided" or not 0 < tensor.numel() <= MOST_ELEMENTS:
        return False
    largest = float(tensor.detach().amax())
    return math.isnan(largest) or largest == math.inf
