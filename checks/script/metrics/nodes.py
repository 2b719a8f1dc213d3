"""Which nodes of a graph a loss counts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.rendering import expanded, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

ONE_GRAPH = {
    "Planetoid", "WebKB", "WikipediaNetwork", "Actor", "WikiCS", "CoraGraphDataset",
    "CiteseerGraphDataset", "PubmedGraphDataset",
}  # fmt: skip
"""Datasets of one graph that come with masks of training, validation and test."""
OF_TRAINING_NODES = ("train_mask", "train_idx", "train_index", "split_idx", "trn_mask", "idx_train")
ALL_NODES = re.compile(r"(?:\w+\.)+y|.*\.ndata\['?(?:label|labels|y)'?\]")
TRAIN = re.compile(r"(?:\w+\.)*(?:train|trn)_(?:mask|idx|index)\b")
REST = re.compile(r"(?:\w+\.)*(?:val|valid|test)_(?:mask|idx|index)\b")


def _mask_not_used(reading: Training) -> Iterator[Match]:
    """A loss of all nodes of the graph on which masks hold some out; train_mask is elsewhere."""
    if reading.mentions("subgraph", "loader", "sampler", "ignore_index", "node_norm"):
        return
    for number, _ in loss_calls(reading):
        call = reading.calls[number]
        looped = call.loops or any(reading.calls[n].loops for n in _sites(reading, call))
        if len(call.args) == 2 and looped and not call.keywords.keys() - {"weight"}:
            graph = _graph_of(reading, call)
            if graph and _has_masks(reading) and not _is_masked(reading, graph, call):
                yield Match(call.span, "the loss counts all nodes: train_mask is not used in it")


def _graph_of(reading: Training, call: Call) -> str:
    """data of criterion(out, data.y), where out = model(data.x, data.edge_index)."""
    logits, labels = (render(reading, value) for value in call.args)
    graph = labels.removesuffix(".y")
    if not re.fullmatch(r"\w+\.y", labels) or "train" in graph:
        return ""
    whole = re.compile(rf"[\w.]+\({graph}\.x,{graph}\.(?:edge_index|adj_t)\b[^\[\]]*\)")
    made = objects.last_definition(reading, logits, call)
    return graph if len(made) == 1 and whole.fullmatch(render(reading, made[0])) else ""


def _sites(reading: Training, call: Call) -> list[int]:
    """Calls of the function that computes the loss."""
    return objects.sites(reading, call.scope) if call.scope else []


def _has_masks(reading: Training) -> bool:
    """The file has nodes for training, and others."""
    known = {a.target for a in reading.assignments}
    known |= {n for v, _, _ in reading.expressions for n in v.all_names}
    known |= {n for loop in reading.loops if loop.iterable for n in loop.iterable.all_names}
    return any(map(TRAIN.fullmatch, known)) and any(map(REST.fullmatch, known))


def _is_masked(reading: Training, graph: str, call: Call) -> bool:
    """Something in the loop, or behind the loss, reads the mask; or labels are changed."""
    own = [a for a in reading.assignments if a.scope == call.scope]
    near = [render(reading, a.value) for a in own if not call.loops or call.loops[-1] in a.loops]
    near += [render(reading, v) for v, span, scope in reading.expressions
             if scope == call.scope and span.order >= call.span.order]  # fmt: skip
    changed = f"{graph}.y[]" in reading.script.identifiers or any(
        a.target.startswith(f"{graph}.y") for a in reading.assignments
    )
    return changed or any(TRAIN.search(text) for text in near)


def nodes_held_out(reading: Training) -> Iterator[Match]:
    """The loss of a graph counts nodes that masks hold out."""
    yield from _mask_not_used(reading)
    masks = {n for v, _, _ in reading.expressions for n in v.all_names
             if n.endswith((".test_mask", ".val_mask"))}  # fmt: skip
    masks |= {n for c in reading.comparisons for n in (c.left.name, c.right.name)
              if n.endswith((".test_mask", ".val_mask"))}  # fmt: skip
    if not (masks or _masks_of_name(reading)) or reading.mentions(*OF_TRAINING_NODES):
        return
    for number, _ in loss_calls(reading):
        call = reading.calls[number]
        texts = [render(reading, v) for v in call.args[:1]]
        texts += [expanded(reading, v, call, 1) for v in call.args[1:2]]
        if len(texts) == 2 and ALL_NODES.fullmatch(texts[1]) and "[" not in texts[0]:
            yield Match(call.span, "the loss counts all nodes, also those of test_mask")


def _masks_of_name(reading: Training) -> bool:
    """A benchmark with one graph, whose masks the file reads under a name that it composes."""
    graphs = [call.name for call in reading.named(*ONE_GRAPH)]
    return any(name.startswith(("torch_geometric.", "dgl.")) for name in graphs)
