"""A directory of torch.distributed.checkpoint: its .metadata, and tensors in several files.

Every item of a .distcp file is a small file of torch.save; its payload is found as in any other.
Nothing is taken from .metadata but names, sizes and places, and the places are checked.
"""

from __future__ import annotations

import contextlib
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.pickle_inventory import take_inventory
from doctor.checkpoint.formats.safetensors import WIDEST, read_shard
from doctor.checkpoint.formats.torch_files import Tree, read_tree
from doctor.checkpoint.formats.weights_only import refused
from doctor.checkpoint.io.files import Directory, Source, prefetch, prefetch_files
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.layouts.dcp_chunks import Item, StoredTensor, assemble
from doctor.checkpoint.layouts.shard_index import listed
from doctor.checkpoint.pickle.nodes import attributes, mapping, members
from doctor.checkpoint.pickle.reader import read_pickle
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Shard, Tensor

LIMIT = 256 << 20
"""Bytes of .metadata that are read."""

MOST_ITEMS = 2_000_000

HEAD, TAIL = 2048, 1536
"""Bytes of an item's beginning and end that are read at once: all but its payload."""

KNOWN = re.compile(
    r"torch\.distributed\.checkpoint\.metadata\.\w+"
    r"|torch\.distributed\.checkpoint\.filesystem\._StorageInfo|torch\.serialization\._get_layout"
    r"|torch\.distributed\._shard\.sharded_tensor\.metadata\.(?:TensorProperties|MEM_FORMAT_ENCODING)"
    r"|torch\.(?:Size|bool|u?int\d+|b?float\w+|complex\d+)"
    r"|pathlib\.(?:_local\.)?(?:Pure)?(?:Posix|Windows)?Path|collections\.(?:OrderedDict|defaultdict)"
)
"""What every .metadata imports."""

FAMILIAR = re.compile(
    r"numpy\.(?:_?core\.multiarray\.(?:_reconstruct|scalar)|ndarray|dtype|dtypes\.\w+)"
    r"|numpy\.random\.(?:_pickle|bit_generator|_mt19937|_pcg64|_philox|_sfc64)\.\w+"
    r"|_io\.BytesIO|argparse\.Namespace|types\.SimpleNamespace|datetime\.\w+|uuid\.UUID"
    r"|builtins\.(?:list|dict|tuple|frozenset|slice|range|int|float|str|bytes|bool|object)"
    r"|collections\.deque|copyreg\._reconstructor|functools\.partial|torch\._C\.\w+"
    r"|(?:megatron|transformer_engine|torchtitan|torchdata|accelerate|deepspeed)\.[\w.]+"
)
"""What the objects of real checkpoints import beside what weights-only loading allows."""


@dataclass(slots=True)
class Dcp:
    """What was found in one directory."""

    under: str
    size: int = 0
    """Bytes of .metadata."""
    stored: dict[str, StoredTensor] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    """Values of pickled objects that are plain: numbers, texts, lists of them."""
    sizes: dict[str, int] = field(default_factory=dict)
    """.distcp file -> bytes."""
    problems: list[Problem] = field(default_factory=list)
    imports: dict[str, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)
    executed: dict[str, None] = field(default_factory=dict)
    """Imports that such files do not hold usually. dcp.load reads .metadata with pickle.load and
    objects with torch.load(weights_only=False)."""
    unread: str = ""
    """Why a pickle could not be read to its end."""


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
                items = _metadata(source, dcp)
        except CheckpointError as error:
            dcp.problems.append(_problem(f"{under}.metadata", error))
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
                    dcp.problems.append(_problem(under + name, error))
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


def _metadata(source: Source, dcp: Dcp) -> list[Item]:
    """Where the items lie. Raises CheckpointError."""
    if source.size > LIMIT:
        text = f"is {source.size:,} bytes, over the {LIMIT:,} that the doctor reads of it"
        raise CheckpointError("not-inspectable", text)
    dcp.size = source.size
    try:
        pickled = read_pickle(source.read(source.size, 0))
    except CheckpointError as error:
        dcp.unread = f"{dcp.under}.metadata {error.text}"
        _unpickled(dcp, error.imports)
        raise
    _unpickled(dcp, pickled.imports)
    fields = attributes(pickled.value)
    described, places = (
        mapping(fields.get("state_dict_metadata")),
        mapping(fields.get("storage_data")),
    )
    if not described or len(places) > MOST_ITEMS:
        raise CheckpointError("damaged", "does not describe any tensors")
    paths = mapping(fields.get("planner_data"))
    for name, each in described.items():
        if type(name) is str:
            dcp.stored[name] = _stored(name, paths.get(name), attributes(each))
    return [_item(dcp, attributes(key), attributes(place)) for key, place in places.items()]


def _unpickled(dcp: Dcp, imports: Iterable[str]) -> None:
    """Globals that dcp.load imports, whatever they are."""
    names = dict.fromkeys(imports)
    dcp.imports |= names
    dcp.executed |= dict.fromkeys(
        name for name in names if not (KNOWN.fullmatch(name) or FAMILIAR.fullmatch(name))
    )


def _stored(name: str, path: Any, fields: dict[str, Any]) -> StoredTensor:
    segments = tuple(members(path)) or (name,)
    if "chunks" not in fields:
        return StoredTensor(name, segments, None, {})
    chunks = {}
    for chunk in members(fields["chunks"]):
        chunk_fields = attributes(chunk)
        chunks[_lengths(chunk_fields.get("offsets"), name)] = _lengths(
            chunk_fields.get("sizes"), name
        )
    return StoredTensor(name, segments, _lengths(fields.get("size"), name), chunks)


def _lengths(value: Any, name: str) -> tuple[int, ...]:
    """A torch.Size. Raises CheckpointError."""
    lengths = tuple(members(value))
    if value is None or not all(type(each) is int and 0 <= each < WIDEST for each in lengths):
        raise CheckpointError("damaged", f"describes {shown(name)} without a shape")
    if len(lengths) > 64 or math.prod(lengths) >= WIDEST:
        raise CheckpointError("damaged", f"gives {shown(name)} a shape of more than 2^63 elements")
    return lengths


def _item(dcp: Dcp, key: dict[str, Any], place: dict[str, Any]) -> Item:
    """One entry of storage_data. Raises CheckpointError."""
    name, file = key.get("fqn"), place.get("relative_path")
    begin, length = place.get("offset"), place.get("length")
    if type(name) is not str or name not in dcp.stored or type(file) is not str:
        raise CheckpointError("damaged", "has a place of something that it does not describe")
    if not (type(begin) is int and type(length) is int and begin >= 0 and length >= 0):
        raise CheckpointError("damaged", f"gives {shown(name)} no range of bytes")
    if place.get("transform_descriptors"):
        raise CheckpointError(
            "not-inspectable", "stores tensors through transforms, such as compression"
        )
    base = posixpath.basename(file)
    if not base or base in (".", "..") or "\0" in base:
        raise CheckpointError("damaged", f"puts {shown(name)} into a file without a name")
    offset = key.get("offset")
    return Item(name, () if offset is None else _lengths(offset, name), base, begin, length)


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
            if tensor:
                dcp.refused |= dict.fromkeys(tree.refused)
                chunks.setdefault(item.name, []).append((item, _chunk(tree, item, file)))
            else:
                _unpickled(dcp, tree.refused)
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
    found = take_inventory(window, file)
    if found.incomplete and not dcp.unread:
        dcp.unread = f"{file} {found.incomplete}"
    dcp.imports |= found.imports
    _unpickled(dcp, refused(found.imports))


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
            dcp.problems.append(_problem(file, error))


def _problem(file: str, error: CheckpointError) -> Problem:
    return error.problem(file)


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
        unread=dcp.unread,
    )
    return [about, *result]
