"""A layout -> what its files hold: each file by the reader for its content."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.analysis.norms import read_scattered, read_vectors
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.pickle_inventory import take_inventory
from doctor.checkpoint.formats.safetensors import read_shard, unreadable
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.io.file_type import LOOK, describe_file_type, in_place_of_weights, short_text
from doctor.checkpoint.io.files import Directory, Source, prefetch_files
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.layouts.archive import KIND, OBJECTS
from doctor.checkpoint.layouts.file_names import PICKLED, TORCH
from doctor.checkpoint.layouts.layout import FileGroup, Layout
from doctor.checkpoint.records import Norm, Problem
from doctor.checkpoint.tensors import OptimizerState, Shard, Tensor

PICKLES = (b"PK\x03\x04", *(b"\x80" + bytes([protocol]) for protocol in range(1, 6)))

MOST_BESIDE = 2_000
"""Files beside the weights that are looked into."""


@dataclass(slots=True)
class LayoutContents:
    """What a checkpoint's files hold."""

    shards: list[Shard] = field(default_factory=list)
    """Of weights, in the order of the layout."""
    others: list[Shard] = field(default_factory=list)
    """Of an optimizer's state."""
    norms: list[Norm] = field(default_factory=list)
    initialized_to_one: list[Norm] = field(default_factory=list)
    pickles: int = 0
    """Files that are pickles or hold some."""
    ordered: bool = False
    """Every file keeps the tensors in the order of the model's modules, as torch.save does."""

    @property
    def all_shards(self) -> list[Shard]:
        return [*self.shards, *self.others]

    beside: list[Inventory] = field(default_factory=list)
    """Pickled files that hold neither weights nor an optimizer's state."""


def read_layout(layout: Layout, stage: Stage) -> LayoutContents:
    """Headers, norms and the optimizer's state. What is wrong is in the shards' problems."""
    contents = LayoutContents()
    for file in layout.files:
        _weights(layout.directory, file, stage, contents)
    contents.ordered = bool(contents.shards) and contents.pickles == len(contents.shards)
    for group in layout.groups:
        _group(layout.directory, group, stage, contents)
    for number, file in enumerate(layout.states):
        shard = _state(layout.directory, file, stage, contents)
        if layout.kind == KIND and len(layout.states) > 1:
            shard = replace(shard, optimizer=_with_prefix(shard.optimizer, f"{number}:"))
        contents.others.append(shard)
    for file in layout.modules:
        contents.others.append(_module(layout.directory, file, stage, contents))
    contents.beside += read_beside(layout, stage, {shard.file for shard in contents.all_shards})
    return contents


def read_beside(layout: Layout, stage: Stage, known: Set[str]) -> list[Inventory]:
    """The pickles of all files of the directory that were not read otherwise."""
    names = [name for name in layout.pickles if name not in known]
    for under in dict.fromkeys(group.under for group in layout.groups):
        if under:
            with contextlib.suppress(CheckpointError):
                inside = layout.directory.inside(under).names()
                names += [under + name for name in inside if PICKLED.fullmatch(name)]
    names = [name for name in dict.fromkeys(names) if name not in known]
    prefetch_files(layout.directory, names[:MOST_BESIDE])
    inventories = [_inventory(layout.directory, name, stage) for name in names[:MOST_BESIDE]]
    inventories += [Inventory(name, incomplete="was not read") for name in names[MOST_BESIDE:]]
    if layout.kind == KIND:
        inventories.append(Inventory("data", incomplete=OBJECTS))
    return [one for one in inventories if one.pickles or one.incomplete]


def _inventory(directory: Directory, file: str, stage: Stage) -> Inventory:
    with stage(f"read {shown(file)}"):
        try:
            with directory.open(file) as source:
                return take_inventory(source, file)
        except CheckpointError as error:
            unread = error.text if error.kind == "not-inspectable" else ""
            return Inventory(file, incomplete=unread)


def _weights(directory: Directory, file: str, stage: Stage, contents: LayoutContents) -> None:
    shard = _read(directory, file, stage, contents, with_norms=True)
    contents.shards.append(shard)


def _state(directory: Directory, file: str, stage: Stage, contents: LayoutContents) -> Shard:
    """An optimizer's file; what is wrong with it is a note, since the weights are whole."""
    shard = _read(directory, file, stage, contents)
    return replace(shard, tensors=(), problems=_as_notes(shard.problems))


def _module(directory: Directory, file: str, stage: Stage, contents: LayoutContents) -> Shard:
    """Weights of a further module, under the name of its directory or file."""
    shard = _read(directory, file, stage, contents)
    prefix = f"{file.partition('/')[0].partition('.')[0]}."
    return replace(shard, tensors=(), further=_named(shard.tensors, prefix))


def _read(
    directory: Directory,
    file: str,
    stage: Stage,
    contents: LayoutContents,
    *,
    with_norms: bool = False,
) -> Shard:
    """One file, counted as a pickle where it is one; what cannot be opened is in its problems."""
    with stage(f"read {shown(file)}"):
        try:
            with directory.open(file) as source:
                shard = read_file(source, file)
                if with_norms:
                    norms, at_one = read_vectors(source, shard.tensors)
                    contents.norms += norms
                    contents.initialized_to_one += at_one
        except CheckpointError as error:
            return _unopened(file, error)
    contents.pickles += bool(shard.imports or shard.pickled)
    return shard


def _named(tensors: Iterable[Tensor], prefix: str) -> tuple[Tensor, ...]:
    return tuple(msgspec.structs.replace(each, name=prefix + each.name) for each in tensors)


def _unopened(file: str, error: CheckpointError) -> Shard:
    unread = error.text if PICKLED.fullmatch(file) and error.kind != "missing" else ""
    return replace(unreadable(file, 0, error), unread=unread)


def _as_notes(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(
        Problem(kind="note", file=problem.file, text=problem.text)
        if problem.kind == "not-inspectable"
        else problem
        for problem in problems
    )


def read_file(source: Source, file: str) -> Shard:
    """One file by its first bytes; one that is called .safetensors is read as such."""
    first = source.read(min(LOOK, source.size), 0)
    if file.endswith(".safetensors"):
        shard = read_shard(source, file)
        return shard if shard.readable else _with_pickles(shard, source, first)
    if first.startswith(b"GGUF"):
        from doctor.checkpoint.formats.gguf import read_gguf

        return read_gguf(source, file)
    if first.startswith(PICKLES):
        from doctor.checkpoint.formats.torch_files import read_torch

        return replace(read_torch(source, file), pickled=True)
    if other := in_place_of_weights(first):
        problem = Problem(kind="disguised", file=shown(file), text=f"is {other}")
        shard = Shard(file, source.size, problems=(problem,), readable=False)
        return replace(shard, unread=problem.text) if file.endswith(TORCH) else shard
    file_type = describe_file_type(first)
    if file.endswith((*TORCH, ".gguf")) and first[8:9] != b"{":
        return _unknown_content(source, file, first, file_type)
    shard = read_shard(source, file)
    return shard if shard.readable else _with_pickles(shard, source, first)


def _with_pickles(shard: Shard, source: Source, first: bytes) -> Shard:
    """A file that cannot be read under its name, with what it imports if it is a pickle."""
    if not first.startswith(PICKLES):
        return shard
    from doctor.checkpoint.formats.torch_files import with_inventory

    return with_inventory(shard, source)


def _unknown_content(source: Source, file: str, first: bytes, file_type: str | None) -> Shard:
    from doctor.checkpoint.formats.torch_files import with_inventory

    text = f"is {file_type or _describe_unknown(file, first)}"
    error = CheckpointError("not-inspectable" if first else "damaged", text)
    shard = with_inventory(unreadable(file, source.size, error), source)
    if not shard.pickled:
        return _replaced_by_text(shard, first)
    error = CheckpointError("not-inspectable", "is a pickle that torch.save did not write")
    return replace(shard, problems=(error.problem(file),))


def _replaced_by_text(shard: Shard, first: bytes) -> Shard:
    """A file that is a short text and nothing else, as a placeholder is; others as they are."""
    text = short_text(first) if shard.size <= LOOK and shard.file.endswith(TORCH) else None
    if not text:
        return shard
    problem = Problem(kind="disguised", file=shown(shard.file), text=f"is {text}, no weights")
    return replace(shard, problems=(problem,), unread=problem.text)


def _describe_unknown(file: str, first: bytes) -> str:
    if not first:
        return "empty"
    if file.endswith(".gguf"):
        return "no GGUF file"
    return "no file of torch.save: neither a zip archive nor a pickle"


def _group(directory: Directory, group: FileGroup, stage: Stage, contents: LayoutContents) -> None:
    if group.reader in ("ranks", "components"):
        _ranks(directory, group, stage, contents)
        return
    if group.reader == "dcp":
        from doctor.checkpoint.layouts.dcp_state import read_directory as reader
    else:
        from doctor.checkpoint.layouts.deepspeed import read_engine as reader
    shards, states = reader(directory, group.under, stage)
    contents.pickles += len(shards) + len(states)
    if group.state:
        shards, states = [], [*shards, *states]
    contents.others += [
        replace(one, tensors=(), problems=_as_notes(one.problems)) for one in states
    ]
    contents.shards += shards
    if group.reader == "deepspeed" and len(shards) == len(contents.shards) == 1:
        contents.ordered = True
    with stage(f"read the norms of {shown(group.under or directory.address, 300)}"):
        norms, at_one = read_scattered(directory, [t for shard in shards for t in shard.tensors])
    contents.norms += norms
    contents.initialized_to_one += at_one


def _ranks(directory: Directory, group: FileGroup, stage: Stage, contents: LayoutContents) -> None:
    """Files with the same names in each: the rank's number or the component comes before them."""
    several = len(group.files) > 1
    components = group.reader == "components"
    for number, file in enumerate(group.files):
        before = len(contents.norms), len(contents.initialized_to_one)
        _weights(directory, file, stage, contents)
        if not several:
            continue
        prefix = f"{file.partition('/')[0]}." if components else f"rank.{number}."
        shard = contents.shards[-1]
        state = _with_prefix(shard.optimizer, prefix)
        contents.shards[-1] = replace(shard, tensors=_named(shard.tensors, prefix), optimizer=state)
        for norms, count in zip((contents.norms, contents.initialized_to_one), before, strict=True):
            norms[count:] = [
                msgspec.structs.replace(norm, name=prefix + norm.name) for norm in norms[count:]
            ]


def _with_prefix(state: OptimizerState | None, prefix: str) -> OptimizerState | None:
    """An optimizer's state with keys that differ from those of other ranks."""
    if state is None:
        return None
    groups = tuple(
        replace(
            group,
            keys=tuple(f"{prefix}{key}" for key in group.keys),
            names=tuple(prefix + name for name in group.names),
        )
        for group in state.groups
    )
    entries = tuple(replace(entry, key=f"{prefix}{entry.key}") for entry in state.entries)
    return replace(state, groups=groups, entries=entries, masters=_named(state.masters, prefix))
