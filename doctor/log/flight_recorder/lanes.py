"""The operations of all dumps by lane: a group's collectives, or its sends between two ranks.

In a lane, all members call the same operations in the same order, so that one sequence number means
one operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from doctor.facts.flight_recorder import Operation
from doctor.log.flight_recorder.dumps import Dump, Entry


@dataclass(slots=True, eq=False)
class Lane:
    """One order of operations, with what each of its ranks called."""

    group: str
    description: str
    ranks: tuple[int, ...]
    ends: tuple[int, int] | None = None
    """Sender and receiver (global ranks); None: collectives."""
    called: dict[int, int] = field(default_factory=dict)
    """Rank -> the last sequence number that it called; absent where that is unknown."""
    calls: dict[int, dict[int, Entry]] = field(default_factory=dict)
    """Rank -> sequence number -> entry, as far as the ring buffer reaches."""

    def pending(self, rank: int) -> list[int]:
        """What the rank called and is not complete, in order."""
        calls = self.calls.get(rank, {})
        return sorted(number for number, entry in calls.items() if not entry.complete)

    def is_complete(self, rank: int, sequence: int) -> bool:
        """The rank called it, and it is complete or was overwritten since."""
        entry = self.calls.get(rank, {}).get(sequence)
        return self.called.get(rank, -1) >= sequence and (entry is None or entry.complete)

    def operation(self, sequence: int) -> Operation:
        """The operation with this number, by the name that the first rank gave it."""
        operations = [calls[sequence] for calls in self.calls.values() if sequence in calls]
        name = operations[0].name if operations else "?"
        if self.ends:
            name = "send {}->{}".format(*self.ends)
        return Operation(
            name=name,
            group=self.group,
            description=self.description,
            sequence=sequence,
            ranks=self.ranks,
        )


def lanes_of(dumps: Mapping[int, Dump]) -> list[Lane]:
    """Every lane in which a dump has an entry."""
    groups = _groups(dumps)
    by_key: dict[tuple[str, tuple[int, int] | None], Lane] = {}
    for rank, dump in dumps.items():
        for entry in dump.entries:
            description, ranks = groups[entry.group]
            ends = _global_ends(entry, ranks)
            if ends is not None and rank not in ends:
                continue
            lane = by_key.setdefault(
                (entry.group, ends), Lane(entry.group, description, ends or ranks, ends)
            )
            lane.calls.setdefault(rank, {})[entry.sequence] = entry
    lanes = list(by_key.values())
    mixed = _mixed_groups(lanes)
    for lane in lanes:
        _align(lane, dumps, lanes)
        _fill_called(lane, dumps, mixed)
    return lanes


def _groups(dumps: Mapping[int, Dump]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name -> description and global ranks; the ranks that used it where no dump lists them."""
    used: dict[str, set[int]] = defaultdict(set)
    described: dict[str, tuple[str, tuple[int, ...]]] = {}
    for rank, dump in dumps.items():
        for entry in dump.entries:
            used[entry.group].add(rank)
        for name, group in dump.groups.items():
            if len(group.ranks) > len(described.get(name, ("", ()))[1]):
                described[name] = (group.description, group.ranks)
    return {name: ("", tuple(sorted(ranks))) for name, ranks in used.items()} | described


def _global_ends(entry: Entry, ranks: tuple[int, ...]) -> tuple[int, int] | None:
    if entry.source is None or entry.target is None:
        return None
    if max(entry.source, entry.target) < len(ranks):
        return ranks[entry.source], ranks[entry.target]
    return entry.source, entry.target


def _align(lane: Lane, dumps: Mapping[int, Dump], lanes: Iterable[Lane]) -> None:
    """Give the same operation the same number on both ends.

    torch counts a rank's point-to-point operations per group, with all peers and both directions.
    Where the lane is not alone in its group, its own operations are counted instead: from the
    start if both buffers are whole, else from what is complete on both ends.
    """
    if lane.ends is None:
        return
    others = [each for each in lanes if each is not lane and each.group == lane.group and each.ends]
    if not any(set(each.ends or ()) & set(lane.ends) for each in others):
        return
    whole = all(dumps[rank].whole for rank in lane.ends if rank in dumps)
    for rank, calls in lane.calls.items():
        entries = [calls[number] for number in sorted(calls)]
        before = 0 if whole else sum(entry.complete for entry in entries)
        lane.calls[rank] = {index - before: entry for index, entry in enumerate(entries)}
        lane.called[rank] = len(entries) - 1 - before
    if not whole:
        for rank in lane.ends:
            if rank in dumps:
                lane.called.setdefault(rank, -1)


def _mixed_groups(lanes: Iterable[Lane]) -> set[str]:
    """Groups with collectives and point-to-point operations: their status counts both."""
    kinds: dict[str, set[bool]] = defaultdict(set)
    for lane in lanes:
        kinds[lane.group].add(lane.ends is None)
        if any(e.collectives for calls in lane.calls.values() for e in calls.values()):
            kinds[lane.group].add(True)
    return {group for group, both in kinds.items() if len(both) > 1}


def _fill_called(lane: Lane, dumps: Mapping[int, Dump], mixed: set[str]) -> None:
    """The last call of each rank: of its entries, else of its status."""
    highest = max((max(calls) for calls in lane.calls.values() if calls), default=0)
    for rank in lane.ranks:
        if rank not in dumps or rank in lane.called:
            continue
        numbers = lane.calls.get(rank, {})
        collectives = [e.collectives for e in dumps[rank].entries if e.group == lane.group]
        status = _status(lane.group, dumps[rank])
        if numbers:
            lane.called[rank] = max(numbers)
        elif lane.ends is None and collectives:
            lane.called[rank] = max(collectives)
        elif status is not None and not _counts_the_other(lane, status, highest, mixed):
            lane.called[rank] = status


def _counts_the_other(lane: Lane, status: int, highest: int, mixed: set[str]) -> bool:
    """Whether the status is that of the group's other kind of operations."""
    if lane.group not in mixed:
        return False
    others = [
        entry.collectives for calls in lane.calls.values() for entry in calls.values() if lane.ends
    ]
    return bool(others) and min(abs(status - each) for each in others) < abs(status - highest)


def _status(group: str, dump: Dump) -> int | None:
    """The last sequence number that the dump's status has for the group.

    Its keys are ids, which entries translate into names. Groups and ids are numbered in the same
    order, which tells the id of a group without entries.
    """
    known = {entry.group: entry.group_id for entry in dump.entries}
    if group in known:
        return dump.called.get(known[group])
    names, ids = list(dump.groups), list(dump.called)
    if len(names) == len(ids) and all(text.isdecimal() for text in (*names, *ids)):
        by_order = dict(zip(sorted(names, key=int), sorted(ids, key=int), strict=True))
        if all(by_order.get(name, id_) == id_ for name, id_ in known.items()):
            return dump.called.get(by_order.get(group, ""))
    return dump.called.get(group) if len(names) == len(ids) == 1 else None
