"""Which ranks the others wait for.

A rank that waits stands at an operation that another rank did not call. Following these waits leads
to the ranks that wait for nobody: they stopped, and every other wait is a consequence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from doctor.facts.flight_recorder import Evidence, FlightRecorder, Mismatch, Stopped, Variant, Wait
from doctor.log.flight_recorder.dumps import Dump, Entry
from doctor.log.flight_recorder.lanes import Lane, lanes_of

SAME_SIZE = frozenset(
    {"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"}
)
"""Operations that need the same size on every rank."""

MOST_WAITS = 100
"""Waits and mismatches that are recorded."""


_Pending = tuple[Lane, int]
"""A lane and the number of an operation in it."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """The first operation of a lane that some ranks called and others did not."""

    lane: Lane
    sequence: int
    arrived: tuple[int, ...]
    missing: tuple[int, ...]

    def is_before(self, other: _Wait, rank: int) -> bool:
        """Whether the rank called this operation before the other one."""
        first = self.lane.calls.get(rank, {}).get(self.sequence)
        second = other.lane.calls.get(rank, {}).get(other.sequence)
        return first is not None and second is not None and first.order < second.order


def analyze(dumps: Mapping[int, Dump], unread: Mapping[str, str]) -> FlightRecorder:
    """The dumps, by rank, compared."""
    lanes = lanes_of(dumps)
    waits = _waits(lanes)
    named = {rank for dump in dumps.values() for g in dump.groups.values() for rank in g.ranks}
    first = next(iter(dumps.values()), Dump(None, ""))
    oldest = _oldest(lanes)
    stopped = _stopped(waits, oldest, dumps)
    return FlightRecorder(
        version=first.version,
        library=first.library,
        ranks=tuple(sorted(dumps)),
        without_dump=tuple(sorted(named - set(dumps))),
        paths=tuple(dumps[rank].path for rank in sorted(dumps)),
        unread=dict(unread),
        pending=sum(not entry.complete for dump in dumps.values() for entry in dump.entries),
        stopped=tuple(sorted(stopped, key=lambda each: each.rank)),
        mismatches=tuple(_mismatches(lanes)[:MOST_WAITS]),
        waits=tuple(
            Wait(
                operation=wait.lane.operation(wait.sequence),
                arrived=wait.arrived,
                missing=wait.missing,
            )
            for wait in waits[:MOST_WAITS]
        ),
        hung=() if stopped or waits else _hung(oldest),
    )


def _waits(lanes: list[Lane]) -> list[_Wait]:
    """Per lane, the first operation that some rank waits in and another did not call."""
    waits = []
    for lane in lanes:
        if len(lane.called) < 2 or min(lane.called.values()) == max(lane.called.values()):
            continue
        sequence = min(lane.called.values()) + 1
        arrived = tuple(rank for rank in lane.ranks if lane.called.get(rank, -1) >= sequence)
        if not any(number >= sequence for rank in arrived for number in lane.pending(rank)):
            continue  # complete without them, as a small send is
        missing = tuple(r for r in lane.ranks if r in lane.called and r not in arrived)
        waits.append(_Wait(lane, sequence, arrived, missing))
    return sorted(waits, key=lambda wait: -len(wait.arrived))


def _oldest(lanes: list[Lane]) -> dict[int, _Pending]:
    """Rank -> the lane and number of its oldest operation that is not complete."""
    oldest: dict[int, tuple[int, Lane, int]] = {}
    for lane in lanes:
        for rank, calls in lane.calls.items():
            for number in lane.pending(rank)[:1]:
                order = calls[number].order
                if rank not in oldest or order < oldest[rank][0]:
                    oldest[rank] = order, lane, number
    return {rank: (lane, number) for rank, (_, lane, number) in oldest.items()}


def _stopped(
    waits: list[_Wait], oldest: Mapping[int, _Pending], dumps: Mapping[int, Dump]
) -> list[Stopped]:
    """The ranks that stopped, each once, with the strongest evidence."""
    by_rank = defaultdict(list)
    for wait in waits:
        for rank in wait.arrived:
            by_rank[rank].append(wait)
    named = [*_not_completed(oldest), *_missing(waits, by_rank), *_without_dump(oldest, dumps)]
    suspects = {each.rank for each in named}
    reachable = _reachable(suspects, by_rank, oldest, dumps)
    named = [
        each
        for each in named
        if each.evidence == "not completed"
        or not any(
            other in reachable[each.rank] and each.rank not in reachable[other]
            for other in suspects
        )
    ]
    named += _behind(waits, by_rank, oldest)
    if not named and not waits:
        named += _not_started(oldest)
    return list({each.rank: each for each in reversed(named)}.values())


def _not_completed(oldest: Mapping[int, _Pending]) -> Iterator[Stopped]:
    """Ranks whose oldest operation is complete on all others."""
    for rank, (lane, number) in oldest.items():
        others = tuple(other for other in lane.ranks if other != rank and other in lane.called)
        if others and all(lane.is_complete(other, number) for other in others):
            yield _record(rank, "not completed", lane, number, others)


def _missing(waits: list[_Wait], by_rank: Mapping[int, list[_Wait]]) -> Iterator[Stopped]:
    """Ranks that did not call what others wait in, and wait for no call of others."""
    for wait in waits:
        for rank in wait.missing:
            if rank not in by_rank:
                yield _record(rank, "not called", wait.lane, wait.sequence, wait.arrived)


def _reachable(
    ranks: Iterable[int],
    by_rank: Mapping[int, list[_Wait]],
    oldest: Mapping[int, _Pending],
    dumps: Mapping[int, Dump],
) -> dict[int, set[int]]:
    """Each of these ranks -> the ranks that it waits for, directly or through others.

    A rank waits for those that did not call what it is in, for those that called it and are held
    up by an earlier operation, and for those without a dump.
    """
    direct: dict[int, set[int]] = defaultdict(set)
    for rank, waits in by_rank.items():
        direct[rank] |= {missing for wait in waits for missing in wait.missing}
    for rank, (lane, number) in oldest.items():
        for other in lane.ranks:
            elsewhere = other in oldest and oldest[other] != (lane, number)
            if other not in dumps or (elsewhere and not lane.is_complete(other, number)):
                direct[rank].add(other)
    reachable: dict[int, set[int]] = defaultdict(set)
    for rank in ranks:
        todo = list(direct.get(rank, ()))
        while todo:
            other = todo.pop()
            if other not in reachable[rank]:
                reachable[rank].add(other)
                todo += direct.get(other, ())
    return reachable


def _behind(
    waits: list[_Wait], by_rank: Mapping[int, list[_Wait]], oldest: Mapping[int, _Pending]
) -> Iterator[Stopped]:
    """Ranks whose own wait does not explain why they did not call something.

    Calls do not block the host: where peers that wait like this rank called it nevertheless, this
    rank would have called it as well.
    """
    for wait in waits:
        for rank in wait.missing:
            waits_itself = rank in oldest
            if waits_itself and (
                _same_wait_went_on(rank, wait, oldest) or _group_went_on(rank, wait, by_rank)
            ):
                yield _record(rank, "behind", wait.lane, wait.sequence, wait.arrived)


def _same_wait_went_on(rank: int, wait: _Wait, oldest: Mapping[int, _Pending]) -> bool:
    """Whether all others of the group with the same oldest operation, two at least, called it."""
    same = [
        other for other in wait.lane.ranks if other != rank and oldest.get(other) == oldest[rank]
    ]
    return len(same) > 1 and set(same) <= set(wait.arrived)


def _group_went_on(rank: int, wait: _Wait, by_rank: Mapping[int, list[_Wait]]) -> bool:
    """Whether a majority of the group called it, each after a call in which it waits for others."""
    return len(wait.arrived) > max(1, len(wait.missing)) and all(
        any(set(other.missing) - {rank} and other.is_before(wait, peer) for other in by_rank[peer])
        for peer in wait.arrived
    )


def _without_dump(oldest: Mapping[int, _Pending], dumps: Mapping[int, Dump]) -> Iterator[Stopped]:
    """Ranks without a dump, in the oldest operation of ranks with one, which all of them called."""
    for lane, number in dict.fromkeys(oldest.values()):
        present = tuple(rank for rank in lane.ranks if rank in dumps)
        all_called = all(lane.called.get(rank, -1) >= number for rank in present)
        if all_called and not any(lane.is_complete(rank, number) for rank in present):
            for rank in lane.ranks:
                if rank not in dumps:
                    yield _record(rank, "no dump", lane, number, present)


def _not_started(oldest: Mapping[int, _Pending]) -> Iterator[Stopped]:
    """Ranks whose GPU did not start what most of the others started."""
    for lane, number in dict.fromkeys(oldest.values()):
        states = {r: calls[number].state for r, calls in lane.calls.items() if number in calls}
        started = tuple(rank for rank, state in states.items() if state == "started")
        late = [rank for rank, state in states.items() if state == "scheduled"]
        if len(started) > len(late):
            for rank in late:
                yield _record(rank, "not started", lane, number, started)


def _record(
    rank: int, evidence: Evidence, lane: Lane, number: int, waiting: tuple[int, ...]
) -> Stopped:
    return Stopped(rank=rank, evidence=evidence, operation=lane.operation(number), waiting=waiting)


def _hung(oldest: Mapping[int, _Pending]) -> tuple[Wait, ...]:
    """The oldest operations, with the ranks that are in them; all their ranks called them."""
    ranks: dict[_Pending, list[int]] = defaultdict(list)
    for rank, pending in oldest.items():
        ranks[pending].append(rank)
    ordered = sorted(ranks.items(), key=lambda each: -len(each[1]))
    return tuple(
        Wait(operation=lane.operation(number), arrived=tuple(sorted(arrived)), missing=())
        for (lane, number), arrived in ordered[:MOST_WAITS]
    )


def _mismatches(lanes: list[Lane]) -> list[Mismatch]:
    mismatches = []
    for lane in lanes:
        if lane.ends is None and (mismatch := _first_mismatch(lane)):
            mismatches.append(mismatch)
    return mismatches


def _first_mismatch(lane: Lane) -> Mismatch | None:
    """The first sequence number under which the ranks called different things."""
    numbers = sorted({number for calls in lane.calls.values() for number in calls})
    for number in numbers:
        calls = {rank: each[number] for rank, each in lane.calls.items() if number in each}
        if len(calls) < 2 or all(entry.complete for entry in calls.values()):
            continue
        for by in ("operation", "size", "dtype"):
            values: dict[str, list[int]] = defaultdict(list)
            for rank, entry in calls.items():
                values[_value(entry, by)].append(rank)
            if len(values) > 1:
                ordered = sorted(values.items(), key=lambda each: (-len(each[1]), each[1]))
                return Mismatch(
                    operation=lane.operation(number),
                    by=by,
                    variants=tuple(
                        Variant(value=value, ranks=tuple(sorted(ranks))) for value, ranks in ordered
                    ),
                )
    return None


def _value(entry: Entry, by: Literal["operation", "size", "dtype"]) -> str:
    if by == "operation":
        return entry.name
    if entry.name not in SAME_SIZE:
        return ""
    return entry.sizes if by == "size" else entry.dtypes
