"""Graphs: the nodes of train and those of the evaluation, the nodes that edges name, and graphs of
a
batch whose edges were joined without moving their numbers."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Dict, List, NamedTuple, Optional

import torch

from ..foreign import Foreign, containers, observing
from .documents import host
from .relations import Relations, relation

PARTS = ("train_mask", "val_mask", "valid_mask", "test_mask")
NODES = ("x", "pos", "z", "nodes", "node_feat", "node_features", "node_attr", "feat", "atoms")
EDGES = ("edge_index", "edges", "edge_list", "edge_idx", "edge_indices", "bonds")
OWNERS = ("batch", "batch_index", "batch_idx", "batch_vec", "node_batch", "graph_id", "graph_ids",
          "graph_idx", "graph_index", "segment_ids", "membership")  # fmt: skip
"""Names of the number of each node's graph."""
OF_EDGES = ("edge_attr", "edge_weight", "edge_type", "edge_features")
LEAST_EDGES = 4


class Joined(NamedTuple):
    """Several graphs as one."""

    edges: torch.Tensor
    """2 x edges."""
    owners: torch.Tensor
    """The graph of each node."""


def of_batches(batches: List[Foreign], *, evaluated: bool = False) -> List[Dict[str, Any]]:
    """Records on the first graph, which a dict or an object like PyG's holds, and on all joined
    ones. `evaluated`: in training, the links of the graph may be the ones that are predicted."""
    if not batches:
        return []
    found = [*of_first(batches[0]), *of_joined(batches)]
    return [*found, *of_links(batches[0])] if evaluated else found


def of_links(graph: Foreign) -> List[Dict[str, Any]]:
    """Links that are to be predicted, and stand among the edges of the graph that the model
    gets."""
    edges, asked = part(graph, "edge_index"), part(graph, "edge_label_index")
    labels = part(graph, "edge_label")
    if not is_edges(edges) or not is_edges(asked) or len(edges) != 2 or len(asked) != 2:
        return []
    if labels is not None and len(labels) == asked.shape[1]:
        asked = asked[:, labels > 0]
    width = 1 + int(max(edges.max(), asked.max())) if asked.numel() else 1
    known = torch.isin(asked[0] * width + asked[1], edges[0] * width + edges[1])
    return (
        [relation("links in graph", int(known.sum()), asked.shape[1])] if bool(known.any()) else []
    )


def of_first(graph: Foreign) -> List[Dict[str, Any]]:
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
        attributes = next((e for e in (part(graph, n) for n in OF_EDGES) if e is not None), None)
        if attributes is not None and len(attributes) != edges.shape[1]:
            counts = (len(attributes), edges.shape[1])
            found.append(relation("edges without features", 1, 1, (), (), counts))
    return found


def of_joined(batches: List[Foreign]) -> List[Dict[str, Any]]:
    """Graphs with an edge to another one of their batch, and graphs without an edge behind the
    first one of a batch whose edges all name numbers that a single graph has."""
    relations = Relations()
    first = 0
    for batch in batches:
        joined = joined_in(batch)
        if joined is None:
            continue
        counts = torch.bincount(joined.owners)
        highest = int(joined.edges.max())
        within = highest < int(counts.max())
        named = set(joined.owners[joined.edges.reshape(-1)].tolist()) if within else set()
        for graph in range(1, len(counts)):
            relations.count("edges not moved", within and graph not in named, first + graph)
        if int(counts.max()) <= highest < len(joined.owners):
            ends = joined.owners[joined.edges]
            crossing = set(ends[0][ends[0] != ends[1]].tolist())
            for graph in range(len(counts)):
                relations.count("edges between graphs", graph in crossing, first + graph)
        first += len(counts)
    return relations.records()


def joined_graphs(batch: Foreign) -> int:
    """How many graphs were joined to this batch, 0 for none."""
    count = observing.attribute(batch, "num_graphs")
    joined = None if isinstance(count, int) else joined_in(batch)
    return int(joined.owners.max()) + 1 if joined is not None else (
        count if isinstance(count, int) else 0)  # fmt: skip


def joined_in(batch: Foreign) -> Optional[Joined]:
    """The graphs of a batch by their names, or of a tuple by their values."""
    if isinstance(batch, (list, tuple)):
        return observing.attempt(lambda: joined_of(list(containers.tensors(batch).values())), None)
    edges = next((e for e in (part(batch, name) for name in EDGES) if is_edges(e)), None)
    nodes = next((e for e in (part(batch, name) for name in NODES) if e is not None), None)
    owners = next((e for e in (part(batch, name) for name in OWNERS) if owns(e, nodes)), None)
    if edges is None or nodes is None or owners is None:
        return None
    return Joined(edges if len(edges) == 2 else edges.T, owners)


def joined_of(parts: List[torch.Tensor]) -> Optional[Joined]:
    """One part of 2 x edges, one that numbers the graphs, and nodes of as many rows."""
    each = [host(one) for one in parts if one.dim()]
    edges = [one for one in each if is_edges(one) and len(one) == 2]
    owners = [
        one
        for one in each
        if any(owns(one, nodes) for nodes in each if nodes.dim() == 2 and len(nodes) == len(one))
    ]
    return Joined(edges[0], owners[0]) if len(edges) == len(owners) == 1 else None


def is_edges(value: Any) -> bool:
    """Whether it is pairs of whole numbers, several of them."""
    if value is None or value.is_floating_point() or value.dim() != 2 or value.dtype == torch.bool:
        return False
    return 2 in value.shape and value.numel() >= 2 * LEAST_EDGES and int(value.min()) >= 0


def owns(value: Any, nodes: Any) -> bool:
    """Whether it gives each node the number of its graph: 0, 0, 0, 1, 1, 2."""
    if value is None or nodes is None or value.dim() != 1 or len(value) != len(nodes):
        return False
    if value.is_floating_point() or value.dtype == torch.bool or len(value) < 2:
        return False
    steps = value[1:] - value[:-1]
    return int(value[0]) == 0 and bool(((steps == 0) | (steps == 1)).all()) and bool(steps.any())


def part(graph: Foreign, name: str) -> Any:
    held = containers.is_mapping(graph) and name in graph
    value = graph[name] if held else observing.attribute(graph, name)
    return host(value) if isinstance(value, torch.Tensor) and value.dim() else None
