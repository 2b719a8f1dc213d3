"""Logs of several nodes: those that all see are read once, those of one node there."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeVar

import msgspec

from doctor._util.secrets import hide_secrets
from doctor._util.text_fields import Change, map_texts
from doctor.collect.background import background
from doctor.facts.fleet import Clock
from doctor.facts.log import Log, LogEvent, LogFile, RankSeen, RootCause
from doctor.fleet.messages import Reply
from doctor.fleet.orders import Orders, opened, order, reply
from doctor.log.opening import opened_file
from doctor.log.read import FileResult, join

HEAD = 4096
"""Bytes by which a file is known on another node, with its path and inode."""
READ_SECONDS = 100_000.0
"""No bound but the deadline of the fleet."""

Identity = tuple[str, int, str]
Read = Callable[[Sequence[str], Sequence[str]], Sequence[FileResult]]
"""Reads files: which, among which."""
Timed = TypeVar("Timed", LogEvent, RootCause, RankSeen)
HIDING: Change = {
    "text": hide_secrets,
    "arguments": tuple,
    "product": hide_secrets,
    "identifier": hide_secrets,
    "node": hide_secrets,
}


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A log file as a node sees it."""

    path: str
    inode: int
    size: int
    head: str
    """Hash of its first bytes."""

    @property
    def identity(self) -> Identity:
        return self.path, self.inode, self.head


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files that a node reads, among all that are read."""

    paths: tuple[str, ...]
    among: tuple[str, ...]


class LogFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the files of a part contribute, in their order."""

    results: tuple[FileResult, ...]


def listed(path: str) -> Listed:
    """The file as it is now; one that cannot be read has no head."""
    try:
        with opened_file(path) as file:
            status = os.fstat(file.fileno())
            head = file.read(HEAD) if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        return Listed(path=path, inode=0, size=0, head="")
    digest = hashlib.sha256(head).hexdigest()[:32]
    return Listed(path=path, inode=status.st_ino, size=status.st_size, head=digest)


def deal(listings: Mapping[int, Sequence[Listed]]) -> dict[int, list[Listed]]:
    """Rank -> the files that it reads: each once, the largest first, to whom has the least.

    A file that one node alone sees is read there.
    """
    holders: dict[Identity, list[int]] = {}
    files: dict[Identity, Listed] = {}
    for rank, listing in sorted(listings.items()):
        for file in listing:
            holders.setdefault(file.identity, []).append(rank)
            files[file.identity] = file
    load = dict.fromkeys(listings, 0)
    dealt: dict[int, list[Listed]] = {rank: [] for rank in listings}
    fixed_first = sorted(files, key=lambda each: (len(holders[each]) > 1, -files[each].size))
    for identity in fixed_first:
        rank = min(holders[identity], key=lambda each: (load[each], each))
        dealt[rank].append(files[identity])
        load[rank] += files[identity].size
    return dealt


def read_part(content: msgspec.Raw, own: Sequence[Listed], read: Read) -> Reply:
    """Read files that this node listed, whatever else the order names; secrets stay here."""
    part = msgspec.json.decode(content, type=Part)
    known = {file.path for file in own}
    paths = [path for path in part.paths if path in known]
    return reply(LogFiles(results=tuple(map(_without_secrets, read(paths, part.among)))))


def _without_secrets(result: FileResult) -> FileResult:
    events, harmless, ranks = (
        map_texts(part, HIDING) for part in (result.events, result.harmless, result.ranks)
    )
    return replace(result, events=events, harmless=harmless, ranks=ranks, text=b"")


def local(listings: Mapping[int, Sequence[Listed]]) -> dict[int, set[Identity]]:
    """Rank -> the files that it alone sees, of nodes other than node 0."""
    holders = Counter(file.identity for listing in listings.values() for file in listing)
    found = {
        rank: {file.identity for file in listing if holders[file.identity] == 1}
        for rank, listing in listings.items()
        if rank
    }
    return {rank: files for rank, files in found.items() if files}


def corrections(clocks: Mapping[int, Clock]) -> dict[int, Clock]:
    """The clocks that are off by more than the error of their measurement."""
    return {rank: clock for rank, clock in clocks.items() if abs(clock.offset) > clock.error}


def on_first_clock(result: FileResult, ahead: float) -> FileResult:
    """The same with times of node 0's clock, of a file whose writer's clock is so far ahead."""

    def shifted(each: Timed) -> Timed:
        times = {
            name: time - ahead
            for name in ("time", "last_time")
            if (time := getattr(each, name, None)) is not None
        }
        return msgspec.structs.replace(each, **times)

    return replace(
        result,
        events=tuple(map(shifted, result.events)),
        harmless=tuple(map(shifted, result.harmless)),
        root_causes=tuple(map(shifted, result.root_causes)),
        ranks=tuple(map(shifted, result.ranks)),
    )


def read_all(
    orders: Orders,
    labels: Mapping[int, str],
    listings: Mapping[int, Sequence[Listed]],
    read: Read,
    absent: Mapping[str, str],
    clocks: Mapping[int, Clock],
) -> Log:
    """The log of all nodes: the files that node 0 sees in their order, then those of the others.

    `absent`: nodes that gave no listing, and why. `clocks`: of nodes whose own files are put on the
    clock of node 0; who wrote a file that several nodes see is not known.
    """
    dealt = deal(listings)
    among = tuple(dict.fromkeys(file.path for rank in sorted(listings) for file in listings[rank]))
    parts = {
        rank: Part(paths=tuple(file.path for file in files), among=among)
        for rank, files in dealt.items()
        if files
    }
    given = {rank: order("share", part) for rank, part in parts.items() if rank}
    own = background(lambda: read(parts[0].paths, among) if 0 in parts else [])
    replies = orders.ask(given, READ_SECONDS)
    found: dict[Identity, FileResult] = {}
    for rank, files in dealt.items():
        results = _results(replies.get(rank)) if rank else _own(own, orders.deadline)
        for number, file in enumerate(files):
            found[file.identity] = (
                results[number]
                if number < len(results)
                else _unread(file, f"{labels[rank]} did not read it in time")
            )
    for rank, own_files in local(listings).items():
        if rank in clocks:
            ahead = clocks[rank].offset
            found |= {each: on_first_clock(found[each], ahead) for each in own_files}
    seen_first = dict.fromkeys(
        (file.identity, rank) for rank in sorted(listings) for file in listings[rank]
    )
    silent = [unheard(node, reason) for node, reason in absent.items()]
    return join([*_ordered(found, list(seen_first), labels), *silent])


def _ordered(
    found: Mapping[Identity, FileResult],
    seen: Sequence[tuple[Identity, int]],
    labels: Mapping[int, str],
) -> list[FileResult]:
    """Each file once; one that node 0 does not see has the name of its node before the path."""
    results: dict[Identity, FileResult] = {}
    for identity, rank in seen:
        if identity not in results:
            result = found[identity]
            results[identity] = result if rank == 0 else _of_node(result, labels[rank])
    return list(results.values())


def _of_node(result: FileResult, node: str) -> FileResult:
    """The same, with the node's name before the path wherever that stands."""
    path = result.file.path

    def renamed(value: object) -> object:
        if isinstance(value, dict):
            return {key: renamed(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [renamed(each) for each in value]
        return f"{node}:{path}" if value == path else value

    return msgspec.convert(renamed(msgspec.to_builtins(result)), FileResult)


def _own(reading: Future[Sequence[FileResult]], deadline: float) -> Sequence[FileResult]:
    try:
        return reading.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        return ()


def _results(each: Reply | None) -> Sequence[FileResult]:
    found = None if each is None else opened(each, LogFiles)
    return found.results if isinstance(found, LogFiles) else ()


def _unread(file: Listed, problem: str) -> FileResult:
    return FileResult(LogFile(path=file.path, kind="text", problem=problem))


def unheard(node: str, reason: str) -> FileResult:
    """A node that gave no log: a file that could not be read, so that the report says so."""
    return FileResult(LogFile(path=f"{node}:", kind="text", problem=reason))
