"""Where in a loss's graph the first values that are not finite are: beside which parameter."""

from __future__ import annotations

import math
import time
import weakref
from typing import Iterator, List, Optional, Set, Tuple

from .foreign import Foreign
from .loss_graphs import LAYOUT, kind

MOST_NODES, MOST_ELEMENTS, MOST_SECONDS = 2000, 2**26, 2.0
"""Of a graph, and of a tensor that it keeps; for reading them."""
INPUTS = frozenset(("_raw_saved_self", "_raw_saved_input", "_raw_saved_mat1"))
RESULTS = frozenset(("_raw_saved_result", "_raw_saved_result0"))
"""Names of what a node keeps that was computed; another may be a weight or a constant."""

Found = Tuple[str, "Optional[weakref.ref[Foreign]]", str]
NONE: Found = ("", None, "")


def first_seen(root: Foreign) -> Found:
    """ "in" and a parameter, if a layer's input is the first kept tensor that is not finite, with
    where it is not if no parameter made it; "after" and a parameter before it; NONE where the
    graph does not show it: it is large, or something before that value cannot be read.

    Reads values, so it waits for a device. A tensor with a hook is never unpacked.
    """
    try:
        return _first_seen(root, time.monotonic() + MOST_SECONDS)
    except (AttributeError, RuntimeError, TypeError):  # of another version of torch
        return NONE


def _first_seen(root: Foreign, deadline: float) -> Found:
    nodes = [root, *_below(root)]
    if len(nodes) > MOST_NODES:
        return NONE
    looks = {}
    for node in nodes:
        looks[node] = _look(node)
        if time.monotonic() > deadline:
            return NONE
    for node in reversed(nodes):  # the furthest from the loss first
        bad, _ = looks[node]
        before = list(_below(node)) if bad else []
        if bad and not any(looks[each][0] for each in before):
            unread = any(looks[each][1] for each in before)
            return NONE if unread else _beside(node, bad, before)
        if time.monotonic() > deadline:
            return NONE
    return NONE


def _beside(node: Foreign, names: Set[str], before: List[Foreign]) -> Found:
    own = _own(node)
    if own is not None and names & INPUTS:
        made = all(parent is not None for parent, _ in node.next_functions)
        made = made or not all(hasattr(e, "variable") or kind(e) in LAYOUT for e in before)
        inputs = () if made else (getattr(node, name) for name in sorted(names & INPUTS))
        rows = (bad_rows(saved.data) for saved in inputs)
        return "in", weakref.ref(own), next(filter(None, rows), "")
    if node.next_functions[0][0] is None and not names & RESULTS:
        return NONE  # a constant
    found = next((each.variable for each in before if hasattr(each, "variable")), None)
    return ("after", weakref.ref(found), "") if found is not None else NONE


def bad_rows(tensor: Foreign) -> str:
    """ "1 value of [16, 10], first in row 0": those that are NaN or Inf, "" for none."""
    bad = (tensor.detach() != tensor) | (tensor == math.inf)
    count = int(bad.sum())
    if not count:
        return ""
    values = f"{count} value{'s' * (count > 1)} of {list(bad.shape)}"
    return f"{values}, first in row {first_row(bad)}"


def first_row(marked: Foreign) -> int:
    """The number of the first row that has a marked value."""
    rows = marked.reshape(marked.shape[0] if marked.dim() else 1, -1).any(1)
    return int(rows.nonzero()[0])


def _own(node: Foreign) -> Foreign:
    """A parameter that the node itself gets; None for none."""
    for parent, _ in node.next_functions:
        while kind(parent) in LAYOUT:
            parent = parent.next_functions[0][0]
        if hasattr(parent, "variable"):
            return parent.variable
    return None


def _below(node: Foreign) -> Iterator[Foreign]:
    """What a node was computed from, the nearest first; one more than MOST_NODES at most."""
    open_, seen = [node], {node}
    for each in open_:
        if each is not node:
            yield each
        for parent, _ in each.next_functions:
            if parent is not None and parent not in seen and len(open_) <= MOST_NODES:
                seen.add(parent)
                open_.append(parent)


def _look(node: Foreign) -> Tuple[Set[str], bool]:
    """The names of what the node keeps for the backward pass that was computed and is not finite;
    whether it keeps what cannot be read, or a weight or a constant that is not finite."""
    bad: Set[str] = set()
    unread = False
    if kind(node) in LAYOUT:
        return bad, unread
    for name in (name for name in dir(type(node)) if name.startswith("_raw_saved_")):
        kept = getattr(node, name)
        for saved in kept if isinstance(kept, (tuple, list)) else (kept,):
            found = _is_bad(saved)
            if found and name in INPUTS | RESULTS:
                bad.add(name)
            elif found is not False:
                unread = True
    return bad, unread


def _is_bad(saved: Foreign) -> Optional[bool]:
    """Whether it has NaN or Inf, of which -Inf is that of a mask; None for what is not known."""
    if getattr(saved, "unpack_hook", saved) is not None:
        return None
    tensor = saved.data
    if tensor is None or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    plain = type(tensor).__name__ in ("Tensor", "Parameter") and not tensor.is_complex()
    if not plain or str(tensor.layout) != "torch.strided" or tensor.numel() > MOST_ELEMENTS:
        return None  # such as a part of one on several ranks, or a quantized one
    if not tensor.numel():
        return False
    largest = float(tensor.detach().amax())
    return math.isnan(largest) or largest == math.inf
