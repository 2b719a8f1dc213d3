"""The index of a sharded checkpoint, and whether it and the shards agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, json_object, read_whole
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Shard

LIMIT = 128 << 20
"""Bytes of an index that are read; one of 94,000 tensors has about 9 million."""

MOST_FILES = 10_000
"""Files that an index may name; the largest models have a few hundred."""

SPLIT = "DCP_SHARDING_INFO"
"""In __metadata__: torch's distributed export stores parts of a tensor under its full name."""


class Metadata(msgspec.Struct):
    """Of an index."""

    total_size: msgspec.Raw = msgspec.Raw(b"null")


class Index(msgspec.Struct):
    """What is read of an index."""

    weight_map: dict[str, str]
    metadata: Metadata | None = None

    @property
    def total_size(self) -> int | None:
        """Bytes of all tensors; None where it is not a number."""
        text = bytes(self.metadata.total_size) if self.metadata else b""
        return int(text) if text.isdigit() and len(text) < 20 else None


_INDEX = msgspec.json.Decoder(Index)


def read_index(directory: Directory, name: str) -> tuple[dict[str, str], int | None]:
    """Tensor -> file name, and total_size.

    Raises CheckpointError, also for a name outside the directory.
    """
    data = read_whole(directory, name, LIMIT)
    total_size = None
    try:
        index = _INDEX.decode(data)
        weight_map: object = index.weight_map
        total_size = index.total_size
    except (ValueError, RecursionError, MemoryError):
        weight_map = json_object(data).get("weight_map")  # says what is wrong with it
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError("damaged", "has no weight_map")
    if {*map(type, weight_map.values())} != {str}:
        raise CheckpointError("damaged", "has a weight_map that does not map names to files")
    files = set(weight_map.values())
    if len(files) > MOST_FILES:
        raise CheckpointError("damaged", f"names {len(files):,} files, more than a checkpoint has")
    for file in files:
        if not _inside(file):
            raise CheckpointError(
                "damaged", f"names {shown(file)}, which is not a file of this directory"
            )
    return weight_map, total_size


def sizes_differ(
    index: str | None,
    total_size: int | None,
    weight_map: dict[str, str] | None,
    shards: Sequence[Shard],
) -> list[Problem]:
    """A note where the index gives another size than the tensors of its shards have.

    Only for complete safetensors: files of torch.save keep tied weights twice.
    """
    files = {shard.file for shard in shards if shard.readable}
    if index is None or not total_size or not index.endswith(".safetensors.index.json"):
        return []
    if set((weight_map or {}).values()) != files:
        return []
    size = sum(tensor.stored_bytes for shard in shards for tensor in shard.tensors)
    if size == total_size:
        return []
    text = f"has a total_size of {total_size:,} bytes; the tensors of its shards have {size:,}"
    return [Problem(kind="note", file=shown(index), text=text)]


def _inside(file: str) -> bool:
    parts = file.replace("\\", "/").split("/")
    return not ("" in parts or ".." in parts or "." in parts or "\0" in file)


def disagreements(
    index: str | None, weight_map: dict[str, str] | None, shards: Sequence[Shard]
) -> list[Problem]:
    """Tensors that are in two shards, and those that the index and the shards do not share."""
    if weight_map is not None and _agree(weight_map, shards):
        return []
    where: dict[str, str] = {}
    twice: list[str] = []
    for shard in shards:
        for tensor in shard.tensors:
            if where.setdefault(tensor.name, shard.file) != shard.file:
                twice.append(tensor.name)
    split = any(SPLIT in shard.metadata for shard in shards)
    problems = [] if split else _some("twice", "", twice, "in two shards")
    if index is None or weight_map is None:
        return problems
    whole = {shard.file for shard in shards if shard.readable}
    absent = [name for name, file in weight_map.items() if file in whole and name not in where]
    moved = [name for name, file in weight_map.items() if name in where and where[name] != file]
    return [
        *problems,
        *_some("missing", index, absent, "in the index and not in the shard it names"),
        *_some("stale-index", index, [] if twice else moved, "in another shard than it says"),
        *_some("stale-index", index, where.keys() - weight_map.keys(), "in a shard and not in it"),
    ]


def _agree(weight_map: dict[str, str], shards: Sequence[Shard]) -> bool:
    """Whether the index names every tensor, in its shard, and no other."""
    return len(weight_map) == sum(len(shard.tensors) for shard in shards) and all(
        [weight_map.get(tensor.name) for tensor in shard.tensors]
        == [shard.file] * len(shard.tensors)
        for shard in shards
    )


def _some(
    kind: Literal["twice", "missing", "stale-index"], file: str, names: Iterable[str], text: str
) -> list[Problem]:
    affected = sorted(names)
    if not affected:
        return []
    count = f"{len(affected):,} tensors are" if len(affected) > 1 else "1 tensor is"
    message = f"{count} {text}: {listed(affected)}"
    if file:
        message = f"disagrees with the shards: {message}"
    return [Problem(kind=kind, file=shown(file), text=message)]


def listed(names: Sequence[str]) -> str:
    """The first three names, and how many more."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(shown(name) for name in names[:3]) + more
