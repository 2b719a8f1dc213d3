"""Copies between the job's GPUs and a sum over all of them, and what they told."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import as_completed, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.collect.child import Answer, Child
from doctor.collect.children import Children, NotStartedError, background, fit, unless_cut_off
from doctor.collect.workers import Worker, again, end
from doctor.facts.load import AllReduce, PeerCopy, Peers

BEGIN_SECONDS = 30.0
"""Eight processes that start CUDA on eight GPUs at once wait for each other."""
PEER_SECONDS = 10.0
REDUCE_SECONDS = 45.0
"""NCCL's start takes ten seconds on eight GPUs, more with its libraries on a slow disk."""
GRACE = 1.0
"""For the others to say what they know, once a rank has failed."""
SAYING = 3
"""Ranks whose errors are told."""
ALL_PAIRS = 4
"""Up to so many GPUs each writes to each; more write to their neighbours, both ways round."""
WITHOUT_P2P = {"NCCL_P2P_DISABLE": "1"}


def try_peers(
    children: Children, workers: tuple[Worker, ...], backend: str = "nccl"
) -> Peers | Unknown:
    """Copies in every tried pair, and the sum; a sum that fails is tried once without P2P."""
    copies = copy_around(children, len(workers))
    allowed = os.environ.get("NCCL_P2P_DISABLE", "0") in ("", "0")
    reductions = [reduce(workers, backend, p2p=allowed)]
    if allowed and not right(reductions[0]):
        python = workers[0].child.python
        fresh = again(children, python, workers, WITHOUT_P2P)
        try:
            reductions.append(reduce(fresh, backend, p2p=False))
        finally:
            end(fresh)
    peers = Peers(copies=copies, reductions=tuple(reductions))
    calls = [copy.ended for copy in copies] + [each.ended for each in reductions]
    return unless_cut_off(peers, *calls)


def right(reduction: AllReduce) -> bool:
    """It came back in time, with the right sum on every rank."""
    return reduction.ended.ok and reduction.wrong == 0


def pairs(count: int) -> Iterator[tuple[int, int]]:
    """Source and target of every copy that is tried among so many GPUs."""
    for source in range(count):
        for target in range(count):
            apart = (target - source) % count
            if apart and (count <= ALL_PAIRS or apart in (1, count - 1)):
                yield source, target


@dataclass(slots=True)
class _End:
    """The process of one GPU, by its index, and the handle of its buffer."""

    index: int
    child: Child
    ended: Ended
    handle: str = ""

    def ask(self, **request: object) -> Answer:
        self.child.send(request)
        answer = self.child.wait(PEER_SECONDS)
        if not self.child.alive:
            self.ended = answer.ended
        return answer

    def begin(self) -> None:
        """Wait for its context and buffer."""
        self.ended = self.child.wait(BEGIN_SECONDS).ended
        if self.ended.ok:
            offered = self.ask(do="offer")
            self.ended, self.handle = offered.ended, str((offered.answer or {}).get("handle", ""))


def copy_around(children: Children, count: int) -> tuple[PeerCopy, ...]:
    """Write from each GPU into others and read there. A hang or a crash ends the series."""
    ends: list[_End] = []
    try:
        for index in range(count):
            try:
                child = children.start(sys.executable, "doctor_side/peers", str(index))
            except NotStartedError as error:
                refused = error.ended
                return tuple(PeerCopy(source=s, target=t, ended=refused) for s, t in pairs(count))
            ends.append(_End(index, child, Ended(how="ok")))
        for begun in [background(each.begin) for each in ends]:
            begun.result()
        found: list[PeerCopy] = []
        for number, (source, target) in enumerate(pairs(count)):
            found.append(_copy(ends[source], ends[target], number))
            if found[-1].ended.how in ("timeout", "signal", "budget"):
                break
        return tuple(found)
    finally:
        for each in ends:
            each.child.kill_group()
        for each in ends:
            each.child.kill()


def _copy(source: _End, target: _End, seed: int) -> PeerCopy:
    copy = PeerCopy(source=source.index, target=target.index, ended=source.ended)
    for each in (source, target):
        if not each.ended.ok:
            return msgspec.structs.replace(copy, ended=each.ended)
    wrote = source.ask(do="write", target=target.index, handle=target.handle, seed=seed)
    if not wrote.ended.ok:
        return msgspec.structs.replace(copy, ended=wrote.ended)
    seen = target.ask(do="verify", seed=seed)
    told = (wrote.answer or {}) | (seen.answer or {})
    known = {"type": "PeerCopy", "source": source.index, "target": target.index}
    full = fit(told | known | {"ended": seen.ended}, PeerCopy)
    if isinstance(full, PeerCopy):
        return full
    return msgspec.structs.replace(copy, ended=Ended(how="error", detail=full.reason))


def reduce(
    workers: tuple[Worker, ...], backend: str, *, p2p: bool, seconds: float = REDUCE_SECONDS
) -> AllReduce:
    """One all-reduce; the first rank that fails ends the others, which would wait for it."""
    with tempfile.TemporaryDirectory(prefix="doctor-", ignore_cleanup_errors=True) as folder:
        request: dict[str, Any] = {
            "backend": backend,
            "ranks": len(workers),
            "store": os.path.join(folder, "ranks"),  # noqa: PTH118 - goes into a message
            "within": 2 * seconds,
        }

        def ask(rank: int, worker: Worker) -> AllReduce:
            device = worker.device
            answer = worker.child.ask(seconds, stage="reduce", device=device, rank=rank, **request)
            return _told(answer, backend, p2p, rank, len(workers))

        running = [background(partial(ask, rank, at)) for rank, at in enumerate(workers)]
        failed = any(not right(done.result()) for done in as_completed(running))
        if failed:
            wait(running, GRACE)
        ended = [each.result() for each in running if each.done()]
        for worker in workers if failed else ():
            worker.child.abort()
        wait(running)
    return _worst(ended)


def _worst(told: list[AllReduce]) -> AllReduce:
    """What a rank told that died by itself, else what all that failed say, else the slowest.

    An error of one is a lost connection to the others: only all of them tell the cause.
    """
    failed = [each for each in told if not right(each)]
    if not failed:
        return min(told, key=lambda each: each.rate or 0.0)
    first = next((each for each in failed if each.ended.how in ("signal", "budget")), failed[0])
    if first.ended.how != "error":
        return first
    said = [each.ended.detail for each in failed if each.ended.how == "error"]
    ended = msgspec.structs.replace(first.ended, detail="; ".join(said[:SAYING]))
    return msgspec.structs.replace(first, ended=ended)


def _told(answer: Answer, backend: str, p2p: bool, rank: int, ranks: int) -> AllReduce:
    known = {"type": "AllReduce", "backend": backend, "p2p": p2p, "ranks": ranks}
    measured = (answer.answer or {}).get("reduce")
    told = measured if isinstance(measured, dict) else {}
    full = fit(told | known | {"ended": answer.placed}, AllReduce)
    if isinstance(full, AllReduce) and (told or not full.ended.ok):
        ended = full.ended if full.ended.ok else _of_rank(rank, full.ended)
        return msgspec.structs.replace(full, ended=ended)
    reason = getattr(full, "reason", "the answer is no record of a sum")
    ended = _of_rank(rank, Ended(how="error", detail=reason))
    return AllReduce(backend=backend, p2p=p2p, ended=ended, ranks=ranks)


def _of_rank(rank: int, ended: Ended) -> Ended:
    return msgspec.structs.replace(ended, detail=f"rank {rank}: {ended.detail}")
