"""Copies between the job's GPUs, and an all-reduce over all of them."""

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
from doctor.collect.background import background
from doctor.collect.child import Child
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children, NotStartedError, fit, unless_cut_off
from doctor.collect.workers import Worker, end, restart
from doctor.facts.load import AllReduce, PeerCopy, Peers

BEGIN_SECONDS = 30.0
"""Processes that start CUDA on eight GPUs at once wait for each other."""
PEER_SECONDS = 10.0
REDUCE_SECONDS = 45.0
"""Without progress. NCCL takes ten seconds to start on eight GPUs, more from a slow disk."""
ALL_REDUCE_SECONDS = 120.0
"""In all: on eight B200 NCCL took 55 s to start, 52 of them for its kernels (NVIDIA/nccl#1646)."""
GRACE = 5.0
"""For the other ranks to report their errors, once one has failed."""
MOST_ERRORS = 3
"""Ranks whose errors are reported."""
ALL_PAIRS = 4
"""Up to this number, every GPU writes to every other; beyond it, to its two neighbours."""
WITHOUT_P2P = {"NCCL_P2P_DISABLE": "1"}


Copies = tuple[PeerCopy, ...] | Unknown | None
"""Those between the GPUs, why they were left out, or None: not made yet, or nothing to copy to."""


def try_peers(
    children: Children, workers: tuple[Worker, ...], backend: str = "nccl", copies: Copies = None
) -> Peers | Unknown:
    """An all-reduce, which is repeated without P2P if it fails, and copies if there are none."""
    if copies is None:
        copies = copy_around(children, len(workers))
    allowed = os.environ.get("NCCL_P2P_DISABLE", "0") in ("", "0")
    allowed = allowed and os.environ.get("NCCL_P2P_LEVEL") not in ("LOC", "0")
    reductions = [reduce(workers, backend, p2p=allowed)]
    if allowed and not correct(reductions[0]):
        python = workers[0].child.python
        fresh = restart(children, python, workers, WITHOUT_P2P)
        try:
            reductions.append(reduce(fresh, backend, p2p=False))
        finally:
            end(fresh)
    peers = _with_copies(copies, Peers(reductions=tuple(reductions)))
    calls = [copy.ended for copy in peers.copies] + [each.ended for each in reductions]
    return unless_cut_off(peers, *calls)


def without_reductions(copies: Copies, reason: Unknown) -> Peers | Unknown:
    """The copies alone, and why no all-reduce was run."""
    if not isinstance(copies, tuple):
        return reason
    peers = Peers(copies=copies, unread={"reductions": reason.reason})
    return unless_cut_off(peers, *(copy.ended for copy in copies))


def _with_copies(copies: tuple[PeerCopy, ...] | Unknown, peers: Peers) -> Peers:
    if isinstance(copies, Unknown):
        return msgspec.structs.replace(peers, unread={"copies": copies.reason})
    return msgspec.structs.replace(peers, copies=copies)


def correct(reduction: AllReduce) -> bool:
    """Whether it ended in time with the correct sum on every rank."""
    return reduction.ended.ok and reduction.wrong == 0


def pairs(count: int) -> Iterator[tuple[int, int]]:
    """Source and target of every copy that is tried among `count` GPUs."""
    for source in range(count):
        for target in range(count):
            distance = (target - source) % count
            if distance and (count <= ALL_PAIRS or distance in (1, count - 1)):
                yield source, target


@dataclass(slots=True)
class _Endpoint:
    """The process of one GPU, and the handle of its buffer."""

    index: int
    child: Child
    ended: Ended
    handle: str = ""

    def request(self, **fields: object) -> Answer:
        self.child.send(fields)
        answer = self.child.wait(PEER_SECONDS)
        if not self.child.alive:
            self.ended = answer.ended
        return answer

    def start(self) -> None:
        """Wait until it has a context and a buffer, and read the handle."""
        self.ended = self.child.wait(BEGIN_SECONDS).ended
        if self.ended.ok:
            answer = self.request(do="offer")
            self.ended, self.handle = answer.ended, str((answer.answer or {}).get("handle", ""))


def copy_around(children: Children, count: int) -> tuple[PeerCopy, ...]:
    """Write from each GPU to others and compare there. A hang or a crash ends the series."""
    endpoints: list[_Endpoint] = []
    try:
        for index in range(count):
            try:
                child = children.start(sys.executable, "doctor_side.peers", str(index))
            except NotStartedError as error:
                refused = error.ended
                return tuple(PeerCopy(source=s, target=t, ended=refused) for s, t in pairs(count))
            endpoints.append(_Endpoint(index, child, Ended(how="ok")))
        for started in [background(each.start) for each in endpoints]:
            started.result()
        copies: list[PeerCopy] = []
        for number, (source, target) in enumerate(pairs(count)):
            copies.append(_copy(endpoints[source], endpoints[target], number))
            if copies[-1].ended.how in ("timeout", "signal", "budget"):
                break
        return tuple(copies)
    finally:
        for each in endpoints:
            each.child.kill_group()
        for each in endpoints:
            each.child.kill()


def _copy(source: _Endpoint, target: _Endpoint, seed: int) -> PeerCopy:
    copy = PeerCopy(source=source.index, target=target.index, ended=source.ended)
    for each in (source, target):
        if not each.ended.ok:
            return msgspec.structs.replace(copy, ended=each.ended)
    written = source.request(do="write", target=target.index, handle=target.handle, seed=seed)
    if not written.ended.ok:
        return msgspec.structs.replace(copy, ended=written.ended)
    verified = target.request(do="verify", seed=seed)
    content = (written.answer or {}) | (verified.answer or {})
    fixed = {"type": "PeerCopy", "source": source.index, "target": target.index}
    section = fit(content | fixed | {"ended": verified.ended}, PeerCopy)
    if isinstance(section, PeerCopy):
        return section
    return msgspec.structs.replace(copy, ended=Ended(how="error", detail=section.reason))


def reduce(
    workers: tuple[Worker, ...],
    backend: str,
    *,
    p2p: bool,
    seconds: float = REDUCE_SECONDS,
    total: float = ALL_REDUCE_SECONDS,
) -> AllReduce:
    """One all-reduce. If a rank fails, the others are ended, as they would wait for it.

    `seconds` without progress, `total` in all.
    """
    with tempfile.TemporaryDirectory(prefix="doctor-", ignore_cleanup_errors=True) as directory:
        common: dict[str, Any] = {
            "backend": backend,
            "ranks": len(workers),
            "store": os.path.join(directory, "ranks"),  # noqa: PTH118 - part of a message
            "within": 2 * total,
            "notes": total - seconds,
        }

        def run_rank(rank: int, worker: Worker) -> AllReduce:
            fields = {**common, "device": worker.device, "rank": rank}
            answer = worker.child.request(
                seconds, on_note=lambda note: None, stage="reduce", **fields
            )
            return result_of(answer, backend, p2p, rank, len(workers))

        running = [background(partial(run_rank, *each)) for each in enumerate(workers)]
        failed = any(not correct(each.result()) for each in as_completed(running))
        if failed:
            wait(running, GRACE)
        ended = [each.result() for each in running if each.done()]
        for worker in workers if failed else ():
            worker.child.abort()
        wait(running)
    return _worst(ended)


def _worst(results: list[AllReduce]) -> AllReduce:
    """The rank that was killed by a signal, else all errors together, else the slowest rank.

    The error of one rank may be a lost connection to another: only all of them show the cause.
    """
    failed = [each for each in results if not correct(each)]
    if not failed:
        return min(results, key=lambda each: each.rate or 0.0)
    first = next((each for each in failed if each.ended.how in ("signal", "budget")), failed[0])
    if first.ended.how != "error":
        return first
    details = [each.ended.detail for each in failed if each.ended.how == "error"]
    ended = msgspec.structs.replace(first.ended, detail="; ".join(details[:MOST_ERRORS]))
    return msgspec.structs.replace(first, ended=ended)


def result_of(answer: Answer, backend: str, p2p: bool, rank: int, ranks: int) -> AllReduce:
    fixed = {"type": "AllReduce", "backend": backend, "p2p": p2p, "ranks": ranks}
    content = (answer.answer or {}).get("reduce")
    measured = content if isinstance(content, dict) else {}
    section = fit(measured | fixed | {"ended": answer.ended_with_stage}, AllReduce)
    if isinstance(section, AllReduce) and (measured or not section.ended.ok):
        ended = section.ended if section.ended.ok else _with_rank(rank, section.ended)
        return msgspec.structs.replace(section, ended=ended)
    invalid = "the answer is not a valid AllReduce"
    reason = section.reason if isinstance(section, Unknown) else invalid
    ended = _with_rank(rank, Ended(how="error", detail=reason))
    return AllReduce(backend=backend, p2p=p2p, ended=ended, ranks=ranks)


def _with_rank(rank: int, ended: Ended) -> Ended:
    return msgspec.structs.replace(ended, detail=f"rank {rank}: {ended.detail}")
