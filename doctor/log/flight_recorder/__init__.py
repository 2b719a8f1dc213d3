"""Dumps of PyTorch's flight recorder, one per rank -> `doctor.facts.flight_recorder`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from doctor._util.errors import reason_of
from doctor._util.records import Unknown
from doctor._util.units import printable, visible
from doctor.facts.flight_recorder import FlightRecorder
from doctor.log.flight_recorder.analysis import analyze
from doctor.log.flight_recorder.dumps import Dump, DumpError, is_dump, read_dump

__all__ = ["is_dump", "read_dumps", "split_dumps"]

MOST_DUMPS = 20_000

HEAD = 4096


def split_dumps(paths: Iterable[str]) -> tuple[list[Path], list[str]]:
    """The dumps among the files, and the others."""
    dumps, others = [], []
    for path in paths:
        if path != "-" and _begins_as_dump(Path(path)):
            dumps.append(Path(path))
        else:
            others.append(path)
    return dumps, others


def _begins_as_dump(path: Path) -> bool:
    """Regular files only: to open a pipe would wait for its writer."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return is_dump(path.name, file.read(HEAD))
    except OSError:
        return False


def read_dumps(paths: Iterable[Path]) -> FlightRecorder | Unknown:
    """The dumps of one job, compared. Unknown: none of them could be read."""
    dumps: dict[int, Dump] = {}
    unread: dict[str, str] = {}
    for path in sorted(paths)[:MOST_DUMPS]:
        name = visible(printable(str(path)))
        try:
            dump = read_dump(path)
        except (DumpError, OSError) as error:
            unread[name] = reason_of(error)
            continue
        if dump.rank is None:
            unread[name] = "neither the file's name nor the dump contains the rank"
        elif dump.rank in dumps:
            unread[name] = f"rank {dump.rank} has another dump: {dumps[dump.rank].path}"
        else:
            dump.path = name
            dumps[dump.rank] = dump
    if not dumps:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(unread.items())[:3])
        return Unknown(reason=f"no flight-recorder dump could be read: {reasons or 'no file'}")
    return analyze(dumps, unread)
