"""Shards of a model beside each other, with the index that names them or without."""

from __future__ import annotations

import contextlib
import re
from collections import Counter

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.safetensors import read_shard
from doctor.checkpoint.io.files import Directory, LocalDirectory, prefetch_files
from doctor.checkpoint.layouts.layout import Layout
from doctor.checkpoint.layouts.shard_index import listed, read_index
from doctor.checkpoint.records import Problem
from doctor.checkpoint.records.problems import ProblemKind

WHOLE = {".safetensors": "model.safetensors", ".bin": "pytorch_model.bin"}
"""The file of a model that is saved whole."""

KINDS = {".safetensors": "safetensors shards", ".bin": "pytorch_model.bin shards"}

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{3,6})-of-(?P<count>\d{3,6})(?P<ends>\.[a-z]+)")


def shard_count(name: str) -> int | None:
    """How many shards there are, by the name of one of them."""
    shard = _SHARD.fullmatch(name)
    return int(shard["count"]) if shard else None


def numbered_shards(names: list[str]) -> list[str]:
    """The shards of the largest numbered set."""
    parts = {name: shard for name in names if (shard := _SHARD.fullmatch(name))}
    sets = Counter((shard["stem"], shard["count"]) for shard in parts.values())
    if not sets:
        return []
    best, _ = max(sets.items(), key=lambda item: item[1])
    return [name for name, shard in parts.items() if (shard["stem"], shard["count"]) == best]


def unindexed_layout(directory: Directory, files: list[str], ends: str) -> Layout:
    """Numbered shards that lie alone."""
    text = "there is no index: transformers cannot load shards without one"
    problems = [Problem(kind="no-index", file="", text=text), *missing_shards(files)]
    return Layout(directory, KINDS[ends], tuple(files), problems=tuple(problems))


def missing_shards(files: list[str]) -> list[Problem]:
    """What the count in the names of shards says of their number."""
    count = shard_count(files[0]) or 0
    if count <= len(files):
        return []
    text = f"{count - len(files)} of {count} shards are missing"
    return [Problem(kind="missing", file="", text=text)]


def stray_shards(single: str, names: list[str]) -> tuple[Problem, ...]:
    """Shards that lie beside the whole file."""
    stray = [name for name in names if shard_count(name)]
    if not stray:
        return ()
    text = f"lies beside shards that no index names: {listed(stray)}"
    return (Problem(kind="stray", file=single, text=text),)


def indexed_layout(directory: Directory, names: list[str], index: str, ends: str) -> Layout:
    """The shards that an index names; the files on disk where it names none of them."""
    files = [name for name in names if name.endswith(ends) and name[0] != "."]
    shards, kind = numbered_shards(files), KINDS[ends]
    try:
        weight_map, total_size = read_index(directory, index)
    except CheckpointError as error:
        problem = error.problem(index)
        return Layout(directory, kind, tuple(shards), problems=(problem,))
    named = sorted(set(weight_map.values()))
    prefetch_files(directory, named)
    absent = [name for name in named if not directory.exists(name)]
    complete = shards if shards and shard_count(shards[0]) == len(shards) else []
    on_disk = tuple(complete or [name for name in files if name == WHOLE[ends]])
    if len(absent) == len(named) and on_disk:
        loads = on_disk[0] == WHOLE[ends]  # from_pretrained prefers it to an index
        text = f"names none of the {len(on_disk)} files that are here, which are a complete set"
        if loads:
            text = f"names shards of which none is here, beside {WHOLE[ends]}, the whole model"
        state: ProblemKind = "stale-index" if loads else "foreign-index"
        problem = Problem(kind=state, file=shown(index), text=text)
        return Layout(directory, kind, on_disk, problems=(problem,))
    if left_out := _left_out(directory, weight_map, total_size, files):
        others = sorted({*left_out.values()})
        text = (
            f"names {len(named):,} of the {len(named) + len(others):,} shards, and its total_size "
            f"is that of all: {len(left_out):,} tensors of {listed(others)} are not in it"
        )
        problem = Problem(kind="short-index", file=shown(index), text=text)
        every, whole = tuple(sorted([*named, *others])), weight_map | left_out
        return Layout(directory, kind, every, index, whole, total_size, (problem,))
    return Layout(
        directory,
        kind,
        tuple(name for name in named if name not in set(absent)),
        index,
        weight_map,
        total_size,
        (
            *_absent(directory, index, absent, len(named)),
            *_strays(index, named, files, WHOLE[ends]),
        ),
    )


def _left_out(
    directory: Directory, weight_map: dict[str, str], total_size: int | None, files: list[str]
) -> dict[str, str]:
    """Tensor -> file of the shards that complete the index's own series, whose names it lacks and
    with which the bytes of all tensors are its total_size; {} where that is not so."""
    named = sorted(set(weight_map.values()))
    parts = [_SHARD.fullmatch(name) for name in named]
    series = {(part["stem"], part["count"], part["ends"]) for part in parts if part}
    ends = ".safetensors"
    if not total_size or len(series) != 1 or not all(parts) or not named[0].endswith(ends):
        return {}
    stem, count, _ = next(iter(series))
    every = [
        name for name in files if re.fullmatch(rf"{re.escape(stem)}-\d+-of-{count}{ends}", name)
    ]
    strays = {name for name in files if name in WHOLE.values() or shard_count(name)} - set(every)
    if strays or len(every) != int(count) or not set(named) < set(every):
        return {}
    shards = []
    for name in every:
        with contextlib.suppress(CheckpointError), directory.open(name) as source:
            shards.append(read_shard(source, name))
    tensors = [tensor for shard in shards if not shard.problems for tensor in shard.tensors]
    others = {each.name: each.file for each in tensors if each.file not in set(named)}
    apart = len({tensor.name for tensor in tensors}) == len(tensors)
    fits = sum(tensor.stored_bytes for tensor in tensors) == total_size
    complete = len(shards) == len(every) and apart and fits
    return others if complete and others.keys().isdisjoint(weight_map) else {}


def _absent(directory: Directory, index: str, absent: list[str], total: int) -> list[Problem]:
    if not absent:
        return []
    broken = " (links to files that are not there)" if _linked(directory, absent) else ""
    text = f"names {total} files, {len(absent)} of them missing{broken}: {listed(absent)}"
    return [Problem(kind="missing", file=shown(index), text=text)]


def _linked(directory: Directory, names: list[str]) -> bool:
    return isinstance(directory, LocalDirectory) and any(
        (directory.path / n).is_symlink() for n in names
    )


def _strays(index: str, named: list[str], files: list[str], whole: str) -> list[Problem]:
    """Weights that the index does not name, and shards missing from its own count."""
    problems: list[Problem] = []
    stray = {name for name in set(files) - set(named) if name == whole or shard_count(name)}
    if whole in stray:
        text = "lies beside the shards of an index, and transformers loads it instead of them"
        problems.append(Problem(kind="stray", file=whole, text=text))
    if others := sorted(stray - {whole}):
        text = f"names none of the stray shards {listed(others)}"
        problems.append(Problem(kind="stray", file=shown(index), text=text))
    counts = {shard_count(name) or 0 for name in named}
    if len(counts) == 1 and (count := counts.pop()) and count != len(named) and not others:
        text = f"names {len(named)} files whose names say that there are {count}"
        problems.append(Problem(kind="stale-index", file=shown(index), text=text))
    return problems
