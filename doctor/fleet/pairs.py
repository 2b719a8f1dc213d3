"""All-reduces of two nodes each, in at most three rounds: a bad node shows in two of them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

import msgspec

from doctor._util.records import Ended
from doctor.collect.background import background
from doctor.collect.children import Children
from doctor.collect.peers import result_of
from doctor.collect.torch_child import TorchChild
from doctor.facts.load import AllReduce
from doctor.facts.meeting import Pair
from doctor.fleet.messages import Reply
from doctor.fleet.orders import NO_ANSWER, Orders, opened, order, reply

SECONDS = {"gloo": 30.0, "nccl": 90.0}
"""For one pair, without the import of torch. On eight B200 NCCL took 55 s (NVIDIA/nccl#1646)."""
IMPORT_SECONDS = 60.0
ROUNDS = 3
UNFINISHED = "not finished before the deadline of the fleet"

Two = tuple[int, int]


class Share(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node's part in a pair."""

    prefix: str
    rank: int
    backend: str


def take_part(python: str, host: str, port: int, content: msgspec.Raw) -> Reply:
    """One all-reduce with another node; the record, or how it ended."""
    share = msgspec.json.decode(content, type=Share)
    return reply(reduce(python, host, port, share))


def reduce(python: str, host: str, port: int, share: Share) -> AllReduce:
    """This node's part, in a process that is killed at its deadline."""
    if share.backend not in SECONDS or share.rank not in (0, 1):
        raise ValueError("not a part in a pair")
    seconds = SECONDS[share.backend]
    children = Children()
    try:
        with tempfile.TemporaryDirectory(prefix="doctor-", ignore_cleanup_errors=True) as directory:
            child = TorchChild(children, python)
            child.imported()
            answer = child.request(
                seconds,
                stage="reduce",
                device="cuda:0" if share.backend == "nccl" else "cpu",
                backend=share.backend,
                rank=share.rank,
                ranks=2,
                store=os.path.join(directory, "ranks"),  # noqa: PTH118 - part of a message
                host=host,
                port=port,
                prefix=share.prefix,
                within=2 * seconds,
                notes=0.0,
            )
            return result_of(answer, share.backend, True, share.rank, 2)
    finally:
        children.interrupt()


def run_pairs(
    orders: Orders, labels: Mapping[int, str], python: str, host: str, port: int, backend: str
) -> tuple[Pair, ...]:
    """The pairs of all rounds; rank 0 takes part, too.

    No round begins without the time for a pair. Pairs of the first one are then returned as not
    tried.
    """
    ranks = (0, *orders.ranks)
    done: list[tuple[Two, Pair]] = []
    for attempt in range(ROUNDS):
        pairs = next_pairs(ranks, done)
        if not pairs:
            break
        left = orders.deadline - time.monotonic()
        if left < SECONDS[backend]:
            why = f"not tried: {max(0.0, left):.0f} s were left, {SECONDS[backend]:g} s required"
            cut = _cut_off(why, backend)
            pairs = [] if done else pairs
            done += [(two, _pair(labels[two[0]], labels[two[1]], attempt, [cut])) for two in pairs]
            break
        done += _round(orders, labels, (python, host, port), backend, attempt, pairs)
    return tuple(pair for _, pair in done)


def next_pairs(ranks: Sequence[int], done: Sequence[tuple[Two, Pair]]) -> list[Two]:
    """Who is paired next: neighbours, then fast with slow, then those that failed with good ones.

    No pair is repeated.
    """
    met = {two for two, _ in done}
    if not done:
        return [(ranks[i], ranks[i + 1]) for i in range(0, len(ranks) - 1, 2)]
    rounds = {pair.attempt for _, pair in done}
    if len(rounds) == 1:
        speed = {rank: pair.rate or 0.0 for two, pair in done for rank in two if pair.good}
        ordered = sorted(ranks, key=lambda rank: -speed.get(rank, 0.0))
        return _matched(ordered, reversed(ordered), met)
    failed = {rank for two, pair in done for rank in two if not pair.good}
    good = [rank for rank in ranks if rank not in failed]
    return _matched(sorted(failed), good, met)


def _matched(some: Iterable[int], others: Iterable[int], met: set[Two]) -> list[Two]:
    """Each of some with the first of the others that it has not met, each used once."""
    free, used, found = list(others), set[int](), []
    for one in some:
        partner = next(
            (
                each
                for each in free
                if each != one and each not in used and _two(one, each) not in met
            ),
            None,
        )
        if partner is None or one in used:
            continue
        used |= {one, partner}
        found.append(_two(one, partner))
    return found


def _two(one: int, other: int) -> Two:
    return (one, other) if one < other else (other, one)


def _round(
    orders: Orders,
    labels: Mapping[int, str],
    local: tuple[str, str, int],
    backend: str,
    attempt: int,
    pairs: Sequence[Two],
) -> list[tuple[Two, Pair]]:
    """All pairs of a round at once."""
    run = os.urandom(8).hex()
    parts = {
        rank: Share(prefix=f"doctor-pair-{run}-{first}-{second}", rank=number, backend=backend)
        for first, second in pairs
        for number, rank in enumerate((first, second))
    }
    own = background(lambda: reduce(*local, parts[0])) if 0 in parts else None
    given = {rank: order("pair", part) for rank, part in parts.items() if rank}
    replies = orders.ask(given, IMPORT_SECONDS + SECONDS[backend])
    is_over = time.monotonic() >= orders.deadline
    results = {
        rank: _cut_off(UNFINISHED, backend)
        if is_over and each is NO_ANSWER
        else _result(each, backend)
        for rank, each in replies.items()
    }
    if own is not None:
        results[0] = _own_result(own, orders.deadline, backend)
    return [
        (two, _pair(labels[two[0]], labels[two[1]], attempt, [results[rank] for rank in two]))
        for two in pairs
    ]


def _own_result(own: Future[AllReduce], deadline: float, backend: str) -> AllReduce:
    try:
        return own.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        return _cut_off(UNFINISHED, backend)


def _cut_off(why: str, backend: str) -> AllReduce:
    """Nothing is known of it: the time of the whole fleet was over."""
    return AllReduce(backend=backend, p2p=True, ended=Ended(how="budget", detail=why), ranks=2)


def _result(each: Reply, backend: str) -> AllReduce:
    found = opened(each, AllReduce)
    if isinstance(found, AllReduce):
        return found
    how = Ended(how="error", detail=each.failed or "its answer is malformed")
    return AllReduce(backend=backend, p2p=True, ended=how, ranks=2)


def _pair(first: str, second: str, attempt: int, results: Sequence[AllReduce]) -> Pair:
    """What both say: the error of the one that failed, the slower rate."""
    bad = [each for each in results if not each.ended.ok or each.wrong]
    failed = min(bad, key=lambda each: each.ended.how == "budget", default=None)
    shown = failed or min(results, key=lambda each: each.rate or 0.0)
    return Pair(
        first=first,
        second=second,
        attempt=attempt,
        ended=shown.ended,
        wrong=shown.wrong,
        rate=None if failed else shown.rate,
    )
