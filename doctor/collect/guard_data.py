"""What the guard counted of the first batches of each rank, as facts of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.children import fit
from doctor.collect.guard_records import FILE, lines
from doctor.facts.data import Data, Split

TARGET = "the training's DataLoader"
MARK = b'{"kind": "data"'
MOST_RANKS = 64


class _Record(msgspec.Struct):
    split: dict[str, Any] | None = None
    reason: str = ""


_decode = msgspec.json.Decoder(_Record).decode


def read_data(directory: Path) -> Data | Unknown | None:
    """The first batches of a training, a split for each rank; None where none were counted.

    Raises OSError where the directory cannot be listed.
    """
    names = [entry.name for entry in directory.iterdir() if FILE.fullmatch(entry.name)]
    newest: dict[int, Path] = {}
    for path in sorted((directory / name for name in names), key=_written):
        newest[_rank(path)] = path
    found = [(rank, _last(newest[rank])) for rank in sorted(newest)[:MOST_RANKS]]
    splits = [(rank, each) for rank, each in found if isinstance(each, Split)]
    if splits:
        first = splits[0][0]
        named = [_named(each, rank, first) for rank, each in splits]
        return Data(target=TARGET, opened=Ended(how="ok"), splits=tuple(named))
    return next((each for _, each in found if isinstance(each, Unknown)), None)


def _named(split: Split, rank: int, first: int) -> Split:
    return split if rank == first else msgspec.structs.replace(split, name=f"rank {rank}")


def _rank(path: Path) -> int:
    match = FILE.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _last(path: Path) -> Split | Unknown | None:
    """The last record of a process."""
    found: Split | Unknown | None = None
    for line in lines(path):
        if line.startswith(MARK):
            found = _read(line)
    return found


def _read(line: bytes) -> Split | Unknown:
    try:
        record = _decode(line)
    except msgspec.DecodeError as error:
        return Unknown(reason=f"the record of the batches is not valid: {error}")
    if record.split is None:
        return Unknown(reason=f"the training's batches: {record.reason[:200]}")
    return fit(record.split, Split)
