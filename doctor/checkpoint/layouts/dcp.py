"""A directory of torch.distributed.checkpoint: its .metadata, and tensors in several files.

Every item of a .distcp file is a small file of torch.save; its payload is found as in any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.pickle_inventory import take_inventory
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.formats.torch_files import Tree, read_tree
from doctor.checkpoint.formats.weights_only import refused
from doctor.checkpoint.io.files import Directory, Source, prefetch, prefetch_files
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.layouts.dcp_chunks import Item, assemble
from doctor.checkpoint.layouts.dcp_metadata import Dcp, read_metadata, record_imports
from doctor.checkpoint.layouts.shard_index import listed
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Shard, Tensor

HEAD, TAIL = 2048, 1536
"""Bytes of an item's beginning and end that are read at once: all but its payload."""


@dataclass(slots=True)
class Window:
    """An item of a .distcp file as a file of its own; its two ends are read at once."""

    source: Source
    begin: int
    size: int
    head: bytes = b""
    tail: bytes = b""

    def read(self, size: int, offset: int) -> bytes:
        size = max(0, min(size, self.size - offset))
        if offset + size <= HEAD or self.size <= HEAD:
            self.head = self.head or self.source.read(min(HEAD, self.size), self.begin)
            return self.head[offset : offset + size]
        first = max(self.size - TAIL, 0)
        if offset >= first:
            self.tail = self.tail or self.source.read(self.size - first, self.begin + first)
            return self.tail[offset - first : offset - first + size]
        return self.source.read(size, self.begin + offset)


def read_dcp(directory: Directory, under: str, stage: Stage, include: Callable[[str], bool]) -> Dcp:
    """All tensors of the directory `under`, and those objects whose names are `wanted`.

    What is wrong is in `problems`.
    """
    dcp = Dcp(under)
    with stage(f"read {shown(under)}.metadata"):
        try:
            with directory.open(f"{under}.metadata") as source:
                items = read_metadata(source, dcp)
        except CheckpointError as error:
            dcp.problems.append(error.problem(f"{under}.metadata"))
            dcp.unread = dcp.unread or f"{under}.metadata {error.text}"
            return dcp
    chunks: dict[str, list[tuple[Item, Tensor]]] = {}
    missing: dict[str, int] = {}
    names = sorted({item.file for item in items})
    prefetch_files(directory, [under + name for name in names])
    for name in names:
        in_file = [item for item in items if item.file == name]
        with stage(f"read {shown(under + name)}"):
            try:
                with directory.open(under + name) as source:
                    dcp.sizes[under + name] = source.size
                    _items(dcp, source, under + name, in_file, include, chunks)
            except CheckpointError as error:
                if error.kind == "missing":
                    missing[name] = len(in_file)
                else:
                    dcp.problems.append(error.problem(under + name))
    _report_missing(dcp, missing)
    for name, pieces in chunks.items():
        with _recording_errors(dcp, f"{under}.metadata"):
            dcp.tensors[name], ordered = assemble(dcp.stored[name], pieces)
            if not ordered:
                text = (
                    f"{shown(name)} is divided along an inner dimension: its parts are not in C "
                    "order, and another division of it cannot be compared with it"
                )
                note = Problem(kind="note", file=shown(f"{under}.metadata"), text=text)
                dcp.problems.append(note)
    _report_unplaced(dcp, items)
    return dcp


def _items(
    dcp: Dcp,
    source: Source,
    file: str,
    items: list[Item],
    include: Callable[[str], bool],
    chunks: dict[str, list[tuple[Item, Tensor]]],
) -> None:
    """Find the payloads of one file's items."""
    outside = [item for item in items if item.begin + item.length > source.size]
    if outside:
        names = sorted({item.name for item in outside})
        end = max(item.begin + item.length for item in outside)
        text = (
            f"is cut short: {source.size:,} of at least {end:,} bytes, without all of "
            f"{listed(names)}"
        )
        dcp.problems.append(Problem(kind="damaged", file=shown(file), text=text))
    objects = [item for item in items if dcp.stored[item.name].shape is None]
    prefetch(source, [(item.begin, item.begin + item.length) for item in objects])
    embedded = _embedded_safetensors(dcp, source, file, items)
    for item in sorted(items, key=lambda item: item.begin):
        window = Window(source, item.begin, item.length)
        tensor = dcp.stored[item.name].shape is not None
        if tensor and embedded is not None:
            if item.name in embedded:
                chunks.setdefault(item.name, []).append((item, embedded[item.name]))
            continue
        if item.begin + item.length > source.size or not (tensor or include(item.name)):
            _inventory(dcp, window, file)
            continue
        with _recording_errors(dcp, file):
            try:
                tree = read_tree(window, file)
            except CheckpointError:
                _inventory(dcp, window, file)
                raise
            dcp.imports |= dict.fromkeys(tree.imports)
            dcp.actions |= tree.actions
            if tensor:
                dcp.refused |= dict.fromkeys(tree.refused)
                chunks.setdefault(item.name, []).append((item, _chunk(tree, item, file)))
            else:
                record_imports(dcp, tree.refused)
                dcp.objects[item.name] = tree.value


def _embedded_safetensors(
    dcp: Dcp, source: Source, file: str, items: list[Item]
) -> dict[str, Tensor] | None:
    """The tensors of a file that has them in one safetensors file behind its objects.

    FileSystemWriter(serialization_format=SAFETENSORS) writes so, and gives every tensor the place
    where that file begins. None: every item is a file of torch.save.
    """
    begins = {item.begin for item in items if dcp.stored[item.name].shape is not None}
    if len(begins) != 1 or (begin := begins.pop()) > source.size:
        return None
    if source.read(9, begin)[8:] != b"{":
        return None
    shard = read_shard(Window(source, begin, source.size - begin), file)
    dcp.problems += shard.problems
    return {
        tensor.name: msgspec.structs.replace(
            tensor, begin=tensor.begin + begin, end=tensor.end + begin
        )
        for tensor in shard.tensors
    }


def _inventory(dcp: Dcp, window: Window, file: str) -> None:
    """The globals of an item that is not read for its content, or that cannot be."""
    inventory = take_inventory(window, file)
    if inventory.incomplete and not dcp.unread:
        dcp.unread = f"{file} {inventory.incomplete}"
    dcp.imports |= inventory.imports
    dcp.actions |= inventory.actions
    record_imports(dcp, refused(inventory.imports))


def _chunk(tree: Tree, item: Item, file: str) -> Tensor:
    tensor = tree.tensor(tree.value, item.name)
    if tensor is None:
        raise CheckpointError("damaged", f"has no tensor where {shown(item.name)} should be")
    begin, end = tensor.begin + item.begin, tensor.end + item.begin
    if end > item.begin + item.length:
        raise CheckpointError("damaged", f"has {shown(item.name)} beyond the end of its item")
    return msgspec.structs.replace(tensor, file=file, begin=begin, end=end)


def _report_missing(dcp: Dcp, missing: dict[str, int]) -> None:
    if missing:
        text = (
            f"names {len(missing) + len(dcp.sizes)} files, {len(missing)} of them missing, with "
            f"{sum(missing.values()):,} items: {listed(sorted(missing))}"
        )
        file = f"{dcp.under}.metadata"
        dcp.problems.append(Problem(kind="missing", file=shown(file), text=text))


def _report_unplaced(dcp: Dcp, items: list[Item]) -> None:
    """Tensors for which storage_data has no place at all."""
    placed = {item.name for item in items}
    lost = [
        name
        for name, stored in dcp.stored.items()
        if stored.shape is not None and 0 not in stored.shape and name not in placed
    ]
    if lost:
        text = f"describes {len(lost):,} tensors without saying where they are: {listed(lost)}"
        file = f"{dcp.under}.metadata"
        dcp.problems.append(Problem(kind="damaged", file=shown(file), text=text))


@contextlib.contextmanager
def _recording_errors(dcp: Dcp, file: str) -> Iterator[None]:
    """Errors of one item become problems, ten per file at most; the others are read."""
    try:
        yield
    except CheckpointError as error:
        count = sum(problem.file == shown(file) for problem in dcp.problems)
        if count < 10:
            dcp.problems.append(error.problem(file))


def shards(dcp: Dcp, tensors: list[Tensor]) -> list[Shard]:
    """The files, each with those of the tensors that begin in it."""
    of: dict[str, list[Tensor]] = {file: [] for file in dcp.sizes}
    for tensor in tensors:
        of[tensor.file].append(tensor)
    result = [
        Shard(file, dcp.sizes[file], tuple(sorted(inside, key=lambda each: each.begin)))
        for file, inside in of.items()
    ]
    file = f"{dcp.under}.metadata"
    about = Shard(
        file,
        dcp.size,
        problems=tuple(dcp.problems),
        readable=all(problem.kind == "note" for problem in dcp.problems),
        imports=tuple(dcp.imports),
        refused=tuple(dcp.refused),
        executed=tuple(dcp.executed),
        actions=dcp.actions,
        unread=dcp.unread,
    )
    return [about, *result]
