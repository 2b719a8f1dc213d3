"""DeepSpeed's universal form: a directory for each parameter, a file for each of its slots.

zero/NAME/fp32.pt and zero/NAME/exp_avg.pt hold {"param": tensor}, zero/NAME/step.pt the step, and
zero/optimizer_state.pt the groups, whose parameters are flat vectors without names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.actions import NO_ACTIONS, Actions
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.scalars import read_scalar
from doctor.checkpoint.formats.torch_files import Tree, read_tree
from doctor.checkpoint.formats.weights_only import refused
from doctor.checkpoint.io.files import Directory, Source
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.layouts.zero import rate
from doctor.checkpoint.pickle.nodes import mapping, members
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Entry, Group, OptimizerState, Shard, Tensor

UNDER = "zero/"

MOST = 20_000
"""Parameters whose files are read."""


@dataclass(slots=True)
class _Contents:
    """What the files hold."""

    size: int = 0
    entries: list[Entry] = field(default_factory=list)
    masters: list[Tensor] = field(default_factory=list)
    groups: list[dict[Any, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    imports: dict[str, None] = field(default_factory=dict)
    actions: Actions = NO_ACTIONS


def read_universal(directory: Directory, under: str, stage: Stage) -> Shard:
    """The optimizer's state below `under`, by the parameters' names."""
    contents = _Contents()
    file = under + UNDER
    with stage(f"read {shown(file)}"):
        try:
            names = directory.inside(file.rstrip("/")).names()
            _groups(directory, f"{file}optimizer_state.pt", contents)
        except CheckpointError as error:
            return Shard(file, 0, problems=(error.problem(file),), readable=False)
    parameters = [name for name in names if name.endswith("/")]
    for name in parameters[:MOST]:
        with stage(f"read {shown(file + name)}"):
            _parameter(directory, file + name, name.rstrip("/"), contents)
    if len(parameters) > MOST:
        text = f"has {len(parameters):,} parameters; the first {MOST:,} were read"
        contents.problems.append(Problem(kind="note", file=shown(file), text=text))
    keys = tuple(entry.key for entry in contents.entries)
    options = contents.groups or [{}]
    groups = [_group(each, () if number else keys) for number, each in enumerate(options)]
    return Shard(
        file,
        contents.size,
        problems=tuple(contents.problems),
        readable=not contents.problems,
        imports=tuple(contents.imports),
        refused=refused(contents.imports),
        actions=contents.actions,
        unread=next((problem.text for problem in contents.problems if problem.kind != "note"), ""),
        optimizer=OptimizerState(
            file, tuple(groups), tuple(contents.entries), tuple(contents.masters)
        ),
        pickled=True,
    )


def _group(options: dict[object, object], keys: tuple[str, ...]) -> Group:
    """Its parameters are not known: the first group of the file is given all of them."""
    lr, weight_decay, initial_lr = (
        rate(options.get(name)) for name in ("lr", "weight_decay", "initial_lr")
    )
    return Group(keys, (), lr, weight_decay, initial_lr)


def _groups(directory: Directory, file: str, contents: _Contents) -> None:
    if directory.exists(file):
        with directory.open(file) as source:
            tree = _tree(source, file, contents)
            state = mapping(tree.value)
            contents.groups += [mapping(each) for each in members(state.get("param_groups"))][:1000]


def _tree(source: Source, file: str, contents: _Contents) -> Tree:
    tree = read_tree(source, file)
    contents.size += source.size
    contents.imports |= dict.fromkeys(tree.imports)
    contents.actions |= tree.actions
    return tree


def _parameter(directory: Directory, under: str, name: str, contents: _Contents) -> None:
    """The slots of one parameter. What is wrong with a file is a problem of it."""
    slots: dict[str, Tensor] = {}
    step: float | None = None
    try:
        files = directory.inside(under.rstrip("/")).names()
    except CheckpointError as error:
        contents.problems.append(error.problem(under))
        return
    for file in (name for name in files if name.endswith(".pt")):
        slot = file.removesuffix(".pt")
        try:
            with directory.open(under + file) as source:
                tree = _tree(source, under + file, contents)
                held = tree.value if slot == "step" else mapping(tree.value).get("param")
                tensor = tree.tensor(held, slot)
                if slot == "step":
                    step = read_scalar(source, tensor) if tensor else rate(held)
                elif tensor is not None:
                    slots[slot] = tensor
        except CheckpointError as error:
            contents.problems.append(error.problem(under + file))
    if master := slots.pop("fp32", None):
        contents.masters.append(msgspec.structs.replace(master, name=name))
    if slots:
        contents.entries.append(Entry(name, step, slots))
