"""One flight-recorder dump, from a pickle or JSON: read as data, nothing is unpickled.

The fields are those of torch's FlightRecorder, versions 2.1 to 2.10: older dumps lack `pg_config`,
`pg_status` and `is_p2p`, and name the sequence number `seq_id`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import mapping, members
from doctor.checkpoint.pickle.reader import LARGEST, read_pickle

MOST_RANKS = 1 << 20
"""No job has more. A larger number is not a rank."""

NAMED = 200
"""Characters of a name that are kept."""

KEYS = (b"pg_config", b"pg_status", b"collective_seq_id", b"nccl_comm_state", b"comm_lib_version")
"""One of them is near the start of every dump."""

RANK_IN_NAME = re.compile(r"(\d+)(?:\.\w{1,8})?$")
POINT_TO_POINT = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")


class DumpError(Exception):
    """A file that is not a readable dump; the text states why."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as one dump describes it."""

    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation that a rank called."""

    group: str
    group_id: str
    """The key of the group in `pg_status`."""
    sequence: int
    """Counts the collectives of the group, or the point-to-point operations where it is one."""
    collectives: int
    """Collectives of the group that were called before or with this operation."""
    name: str
    source: int | None
    """Rank in the group that sends; None: a collective."""
    target: int | None
    state: str
    sizes: str
    """Of the inputs, as text: "[[2048, 5120]]"."""
    dtypes: str
    order: int
    """Increases with every call of the rank."""

    @property
    def point_to_point(self) -> bool:
        return self.source is not None

    @property
    def complete(self) -> bool:
        return self.state == "completed"


@dataclass(slots=True)
class Dump:
    """The dump of one rank."""

    rank: int | None
    path: str
    version: str = ""
    library: str = ""
    groups: dict[str, Group] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    called: dict[str, int] = field(default_factory=dict)
    """Group id -> the last sequence number called, of collectives or of point-to-point calls."""

    @property
    def whole(self) -> bool:
        """Nothing was overwritten in the ring buffer."""
        return bool(self.entries) and self.entries[0].order == 0


def is_dump(name: str, head: bytes) -> bool:
    """Whether the first 4 KiB of a file are those of a dump."""
    pickled = head[:1] == b"\x80" or (head[:2] in (b"(d", b"}q") and b"\n" in head)
    text = head.lstrip()[:1] == b"{"
    named = RANK_IN_NAME.search(name) is not None or name.endswith((".json", ".pickle", ".pkl"))
    return named and (pickled or text) and any(key in head for key in KEYS)


def read_dump(path: Path) -> Dump:
    """The dump in a file. Raises DumpError or OSError."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    dump = parse_dump(data, str(path))
    if dump.rank is None:
        match = RANK_IN_NAME.search(path.name)
        dump.rank = _number(match[1]) if match else None
    return dump


def parse_dump(data: bytes, path: str) -> Dump:
    """The dump in these bytes. Raises DumpError."""
    if len(data) > LARGEST:
        raise DumpError(f"exceeds the {LARGEST >> 20} MiB that are read of a dump")
    content = _content(data)
    dump = Dump(
        rank=_number(content.get("rank")),
        path=path,
        version=_text(content.get("version")),
        library=_text(content.get("nccl_version") or content.get("comm_lib_version")),
        groups=dict(_groups(content.get("pg_config"))),
    )
    if not any(key in content for key in ("entries", "pg_config", "pg_status")):
        raise DumpError("is not a flight-recorder dump")
    for group_id, status in mapping(content.get("pg_status")).items():
        last = _number(mapping(status).get("last_enqueued_collective"), MOST)
        if last is not None:
            dump.called[_text(group_id)] = last
    for index, record in enumerate(members(content.get("entries"))):
        entry = _entry(mapping(record), index)
        if entry is not None:
            dump.entries.append(entry)
    dump.entries.sort(key=lambda entry: entry.order)
    return dump


MOST = 1 << 60


def _content(data: bytes) -> dict[object, object]:
    if data.lstrip()[:1] == b"{":
        try:
            content = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            raise DumpError("is malformed JSON") from None
    else:
        try:
            content = read_pickle(data).value
        except CheckpointError as error:
            raise DumpError(error.text) from None
    if not mapping(content):
        raise DumpError("is not a flight-recorder dump")
    return mapping(content)


def _groups(config: object) -> list[tuple[str, Group]]:
    groups = []
    for name, record in mapping(config).items():
        fields = mapping(record)
        ranks = fields.get("ranks")
        if isinstance(ranks, str):
            ranks = re.findall(r"\d{1,7}", ranks)
        numbers = (_number(rank) for rank in members(ranks))
        group = Group(
            _text(fields.get("desc")), tuple(rank for rank in numbers if rank is not None)
        )
        groups.append((_text(fields.get("name") or name), group))
    return groups


def _entry(record: dict[object, object], index: int) -> Entry | None:
    """One entry; None where it has no sequence number."""
    group_id = _text(record.get("pg_id", "0"))
    group = [_text(part) for part in members(record.get("process_group"))] or [group_id]
    name = _text(record.get("profiling_name")).rpartition(":")[2]
    ends = POINT_TO_POINT.match(name)
    collectives = _number(record.get("collective_seq_id", record.get("seq_id")), MOST)
    point_to_point = record.get("is_p2p", ends is not None) is True
    if point_to_point and not ends:  # the end of a batch: its parts have entries of their own
        return None
    sequence = collectives
    if point_to_point and "p2p_seq_id" in record:
        sequence = _number(record["p2p_seq_id"], MOST)
    if sequence is None:
        return None
    source, target = _ends(ends) if ends and point_to_point else (None, None)
    return Entry(
        group=group[0],
        group_id=group_id,
        sequence=sequence,
        collectives=collectives or 0,
        name=name,
        source=source,
        target=target,
        state="completed" if record.get("retired") is True else _text(record.get("state")),
        sizes=sys.intern(_listed(record.get("input_sizes"))),
        dtypes=sys.intern(_listed(record.get("input_dtypes"))),
        order=_number(record.get("record_id", record.get("id")), MOST) or index,
    )


def _ends(match: re.Match[str]) -> tuple[int, int]:
    """ "send 0->1" and "recv 1<-0" are both from 0 to 1."""
    first, second = int(match[2]), int(match[4])
    return (first, second) if match[3] == "->" else (second, first)


def _number(value: object, most: int = MOST_RANKS) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    number = value if type(value) is int else None
    return number if number is not None and 0 <= number < most else None


def _text(value: object) -> str:
    return str(value)[:NAMED] if isinstance(value, str | int) else ""


def _listed(value: object, depth: int = 3) -> str:
    """Nested lists of numbers and names, shortened; a pickle's list may contain itself."""
    if isinstance(value, str | int):
        return str(value)[:50]
    if not depth:
        return "..."
    inner = ", ".join(_listed(part, depth - 1) for part in members(value)[:8])
    return f"[{inner}]"[:200]
