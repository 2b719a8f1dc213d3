"""Tensors in the tree that a torch file's pickle describes.

What others call (`read_tree` and `read_torch` are in torch_files.py):

    tree = read_tree(source, file)              # a zip or a legacy file; raises CheckpointError
    mapping(tree.value)                         # nodes.mapping: the dictionary at the top
    tree.tensor(node, name) -> Tensor | None    # where this node's bytes are; None: no tensor.
                                                # Raises CheckpointError where it is damaged
    tree.tensors(node, prefix) -> list[Tensor]  # all below a node; names joined by "."
    tree.weights() -> list[Tensor]              # the model's, in every shape of file that is known
    tree.optimizers() -> list[node]             # each {"state": {...}, "param_groups": [...]}
    tree.step() -> int | None                   # global_step, iter_num, iteration, ...
    tree.imports, tree.refused                  # globals; those that weights-only loading refuses
    tree.problems                               # grows while tensors are requested

A node is a plain value (int, float, str, dict, list, ...) or one of nodes.py; use `mapping(node)`
for dictionaries, `attributes(node)` for objects, `members(node)` for lists, tuples and sets:

    for optimizer in tree.optimizers():
        for key, entry in mapping(mapping(optimizer)["state"]).items():
            for slot, node in mapping(entry).items():
                tensor = tree.tensor(node, slot)      # or node is an int or a float

Keys of dictionaries may be any node; take them only where `type(key) is str` or `int`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from doctor._util.units import shown
from doctor.checkpoint.actions import Actions
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_children import Path, children, holds
from doctor.checkpoint.formats.torch_tensors import (
    INNER,
    OPAQUE,
    PLAIN,
    TYPED,
    WRAPPER,
    Place,
    inside,
    is_tensor,
    plain,
)
from doctor.checkpoint.formats.weights_only import refused
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.pickle.nodes import (
    DEEPEST,
    Global,
    ObjectNode,
    Pickled,
    attributes,
    mapping,
    members,
)
from doctor.checkpoint.records import Problem, ProblemKind
from doctor.checkpoint.tensors import Tensor

LONGEST_NAME = 2_000
MOST_PROBLEMS = 20
WEIGHTS = (
    "state_dict", "model_state_dict", "model_state", "model", "module", "net", "network", "params",
    "weights",
)  # fmt: skip
"""Where checkpoints keep the model among other things."""
WRITERS = {
    "Lightning checkpoint": {"pytorch-lightning_version", "state_dict"},
    "nanoGPT checkpoint": {"model", "model_args", "iter_num"},
}
"""Programs, and keys at the top of what they save."""
STEPS = ("global_step", "global_steps", "iter_num", "iteration", "step", "steps")
"""Where they keep how many steps the run had taken."""
SCALERS = re.compile(r"scaler|MixedPrecision|^amp(?:_|$)")
"""Names of what holds a GradScaler's state; also those of Lightning's plugins."""
OTHERS = ("optim", "sched", "scaler", "rng", "random_state", "callbacks", "loops", "hyper_param")
"""Words in the names of what is beside the weights."""


@dataclass(slots=True)
class Tree:
    """What a torch file holds."""

    source: Source
    file: str
    pickled: Pickled
    place: Place
    errors: list[Problem] = field(default_factory=list)
    unusual: dict[str, int] = field(default_factory=dict)
    """Kinds of tensors whose bytes are not those of one plain tensor, and how many."""
    behind: bytes = b""
    """What lies behind the first pickle of data.pkl."""
    extra: list[tuple[str, Any]] = field(default_factory=list)
    """Records of the zip that torch.save did not write, by name."""
    nested_unread: str = ""
    """Why files of torch.save inside the pickle could not be read; "" where they were."""

    @property
    def value(self) -> Any:
        """The node at the top."""
        return self.pickled.value

    @property
    def imports(self) -> tuple[str, ...]:
        """Globals that unpickling would import, "module.name"."""
        return self.pickled.imports

    @property
    def actions(self) -> Actions:
        """What unpickling does with them."""
        return self.pickled.actions

    @property
    def refused(self) -> tuple[str, ...]:
        """Those that torch.load(weights_only=True) refuses."""
        return refused(self.imports)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the tensors that were requested."""
        notes = [
            Problem(kind="note", file=shown(self.file), text=f"holds {count:,} {kind}")
            for kind, count in self.unusual.items()
        ]
        if (protocol := self.pickled.protocol) > 2:
            text = (
                f"is pickled with protocol {protocol}; torch.load(weights_only=True) reads only 2"
            )
            notes.append(Problem(kind="note", file=shown(self.file), text=text))
        return (*self.errors, *notes)

    def tensor(self, node: object, name: str) -> Tensor | None:
        """Where the bytes of a node are; None for what is no plain tensor.

        Raises CheckpointError.
        """
        for _ in range(DEEPEST):
            if type(node) is not ObjectNode:
                return None
            if node.name in PLAIN:
                return plain(node.name, node.args, name, self.file, self.place)
            inner = inside(node)
            if inner is None:
                return None
            node = inner
        return None

    def tensors(self, node: object, prefix: str = "") -> list[Tensor]:
        """All tensors below a node. What is damaged is in `problems`."""
        return list(_walk(self, node, prefix))

    def weights(self) -> list[Tensor]:
        """The model's tensors, under the names that its state_dict gives them."""
        return self.weights_and_further()[0]

    def weights_and_further(self) -> tuple[list[Tensor], list[Tensor]]:
        """The model's tensors, and those of other state_dicts beside them (ema, discriminator)."""
        top = mapping(self.value)
        if attributes(self.value) and not top:
            return self.tensors(self.value), []
        if _is_optimizer(top):
            return [], []
        for key in WEIGHTS:
            inner = top.get(key)
            if is_tensor(inner) or not (mapping(inner) or attributes(inner)):
                continue
            if tensors := self.tensors(inner):
                return tensors, self.tensors(
                    {
                        other: top[other]
                        for other in top
                        if other != key
                        and type(other) is str
                        and not is_tensor(top[other])
                        and not _is_other_state(other, top[other])
                    }
                )
        others = [key for key in top if type(key) is str and _is_other_state(key, top[key])]
        if not others:
            return self.tensors(self.value), []
        return self.tensors({key: top[key] for key in top if key not in set(others)}), []

    def optimizers(self) -> list[object]:
        """The optimizers' state_dicts."""
        return list(_optimizers(self.value))

    def step(self) -> int | None:
        """Steps that the run had taken; None where the file has no counter."""
        top = mapping(self.value)
        for key in STEPS:
            if type(value := top.get(key)) is int and 0 <= value < 1 << 53:
                return value
        return None

    def epoch(self) -> int:
        """The run's, 0 where the file has none."""
        value = mapping(self.value).get("epoch")
        return value if type(value) is int and 0 < value < 1 << 53 else 0

    def scale(self) -> float | None:
        """The scale of a GradScaler, whose state this is or lies in it; None where none does."""
        top = mapping(self.value)
        states = [top, *(top[key] for key in top if type(key) is str and SCALERS.search(key))]
        for state in map(mapping, states):
            value = state.get("scale")
            if "growth_factor" in state and isinstance(value, float | int):
                return float(value)
        return None

    def writer(self) -> str:
        """The program that wrote it, by the keys at its top; "" where they fit none."""
        top = mapping(self.value)
        return next((name for name, keys in WRITERS.items() if keys <= top.keys()), "")

    def add_problem(self, kind: ProblemKind, text: str) -> None:
        """Keep a problem, and not too many."""
        if len(self.errors) < MOST_PROBLEMS:
            self.errors.append(Problem(kind=kind, file=shown(self.file), text=text))


def _is_optimizer(items: dict[object, object]) -> bool:
    return "param_groups" in items and "state" in items


def _optimizers(value: object) -> Iterator[object]:
    """At the top, below any key, or two levels below what is called an optimizer."""
    top = mapping(value)
    if _is_optimizer(top):
        yield value
        return
    for key, held in top.items():
        inner = mapping(held)
        if _is_optimizer(inner):
            yield held
        elif type(key) is str and "optim" in key.lower():
            each = [*inner.values(), *members(held)]
            yield from (one for one in each[:1000] if _is_optimizer(mapping(one)))


def _is_other_state(key: str, value: object) -> bool:
    """Whether this is kept beside the weights, such as an optimizer's state."""
    lower = key.lower()
    if is_tensor(value):
        return "rng_state" in lower
    return any(word in lower for word in OTHERS) or _is_optimizer(mapping(value))


def _walk(tree: Tree, node: Any, prefix: str) -> Iterator[Tensor]:
    """Every container once, in the order of the pickle, however they hold each other."""
    start: Path = (None, prefix) if prefix else None
    pending: list[tuple[object, Path, int]] = [(node, start, 0)]
    visited: dict[int, object] = {}
    while pending:
        node, path, depth = pending.pop()
        if is_tensor(node) and (tensor := _one(tree, node, path)):
            yield tensor
            continue
        if id(node) in visited:
            continue
        visited[id(node)] = node
        below = [(child, name, depth + 1) for child, name in children(node, path) if holds(child)]
        if below and depth >= DEEPEST:
            tree.add_problem(
                "not-inspectable", f"holds objects more than {DEEPEST} deep in each other"
            )
            continue
        pending += reversed(below)


def _one(tree: Tree, node: ObjectNode, path: Path) -> Tensor | None:
    try:
        tensor = tree.tensor(node, _name(path))
    except CheckpointError as error:
        tree.add_problem(error.kind, error.text)
        return None
    if node.name not in PLAIN and (kind := _kind(node, tensor)):
        tree.unusual[kind] = tree.unusual.get(kind, 0) + 1
    return tensor


def _kind(node: ObjectNode, tensor: Tensor | None) -> str:
    """The note about a tensor that is not a plain one; "" for none."""
    while tensor and node.name in INNER:
        node = node.args[0]
    function = node.args[0] if node.name in TYPED and node.args else node.function
    name = function.text if type(function) is Global else ""
    if tensor is None:
        return OPAQUE.get(name, "")
    if name != WRAPPER:
        return ""
    whole = node.args[2][2:3]
    sharded = bool(whole) and tuple(members(whole[0])) != tensor.shape
    return "shards of distributed tensors, with the shards' shapes" if sharded else ""


def _name(path: Path) -> str:
    parts: list[str] = []
    length = 0
    while path is not None:
        path, part = path
        parts.append(part)
        length += len(part) + 1
        if length > LONGEST_NAME:
            raise CheckpointError(
                "not-inspectable", f"has a tensor with a name over {LONGEST_NAME:,} long"
            )
    return ".".join(reversed(parts))
