"""Graphs: the nodes of train and those of the evaluation, and the nodes that edges name."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Dict, List

import torch

from ..foreign import Foreign, containers, observing
from .documents import host
from .relations import relation

PARTS = ("train_mask", "val_mask", "valid_mask", "test_mask")


def of_batches(batches: List[Foreign]) -> List[Dict[str, Any]]:
    """Records on the first graph, which a dict or an object like PyG's holds."""
    if not batches:
        return []
    graph = batches[0]
    masks = {name: part(graph, name) for name in PARTS}
    found = []
    for one, other in combinations(masks, 2):
        ours, theirs = masks[one], masks[other]
        if ours is None or theirs is None or ours.shape != theirs.shape:
            continue
        if ours.dtype != torch.bool or theirs.dtype != torch.bool:
            continue
        both = int((ours & theirs).sum())
        if both:
            found.append(relation("parts share nodes", both, int(theirs.sum()), (one, other)))
    nodes, edges = part(graph, "x"), part(graph, "edge_index")
    if nodes is not None and edges is not None and edges.dim() == 2 and len(edges) == 2:
        beyond = int(((edges >= len(nodes)) | (edges < 0)).any(0).sum())
        if beyond:
            found.append(relation("edge beyond", beyond, edges.shape[1], (), (), (len(nodes),)))
    return found


def part(graph: Foreign, name: str) -> Any:
    held = containers.is_mapping(graph) and name in graph
    value = graph[name] if held else observing.attribute(graph, name)
    return host(value) if isinstance(value, torch.Tensor) and value.dim() else None
