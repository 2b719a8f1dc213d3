"""A healthy rehearsal as facts, and what it becomes when a part of it is another."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor import catalog
from doctor._util.records import Unknown
from doctor.facts.facts import Facts, without_machine
from doctor.facts.rehearsal import (
    Accessed,
    Agreement,
    Attempt,
    Batches,
    Protection,
    Rehearsal,
    RehearsedStage,
    TriedBatch,
)
from doctor.facts.rehearsal_resume import Lost, Resumed, SampleOrder
from doctor.facts.rehearsal_runs import (
    Evaluated,
    HostMemory,
    KeptGraphs,
    OnDisk,
    RehearsedRank,
    RehearsedRun,
    SavedFile,
    Waiting,
)
from doctor.job.job import Job
from doctor.judge.check import Finding
from doctor.judge.engine import examine

CHECKS = catalog.of_families("RHS")

WORDS: tuple[Any, ...] = ("runs", "agrees", "saves", "evaluates", "stops", "continues")

RANK = RehearsedRank(
    rank=0, world=1, steps=12, seconds=(0.1, 0.1), ended=True, resident=2**29,
    evaluations=(Evaluated(step=4, seconds=0.1, calls=2, samples=8, memory=(2**20, 2**20)),),
)  # fmt: skip

DISK = OnDisk(path="last.pt", bytes=2**20)

SAVED = SavedFile(step=4, what="torch.save", path="/o/last.pt", seconds=0.1)

RUN = RehearsedRun(
    name="run", code=0, seconds=10.0, ranks=(RANK,), saved=(SAVED,), written=2**20,
    checkpoints=(DISK,), memory=HostMemory(loading=3 * 2**30, running=4 * 2**30, free=10 * 2**30),
)  # fmt: skip

STOPPED = msgspec.structs.replace(
    RUN, name="stop", code=-15, signalled=9.0, signal="SIGTERM", saved_after_signal=True
)

CONTINUED = msgspec.structs.replace(RUN, name="resume")

RESUMED = Resumed(
    saved_step=4, newest_step=4, looked=True, opened="last.pt", steps=8, expected_steps=8,
    compared=9, order=SampleOrder(steps=8, samples=48, same=True),
)  # fmt: skip

HEALTHY = Rehearsal(
    protection=Protection(landlock=7, mounts=True, network="closed"),
    output="/o", takes_output=True, free=2**40, runs=(RUN, STOPPED, CONTINUED), resumed=RESUMED,
    stages=tuple(RehearsedStage(name=name, tried=True) for name in WORDS),
    agreement=Agreement(
        ranks=2, replicated=True, steps=(0, 1, 4), batches=2, distinct=2, whole=9, epoch=(8, 8)
    ),
)  # fmt: skip


def facts(rehearsal: Rehearsal | Unknown | None, guard: Any = None) -> Facts:
    return without_machine("a test", job=Job(device="cpu"), rehearsal=rehearsal, guard=guard)


def findings(rehearsal: Any, guard: Any = None) -> dict[str, Finding]:
    return {each.check.code: each for each in examine(CHECKS, facts(rehearsal, guard))}


def changed(**fields: Any) -> Rehearsal:
    return msgspec.structs.replace(HEALTHY, **fields)


def with_run(**fields: Any) -> Rehearsal:
    return changed(runs=(msgspec.structs.replace(RUN, **fields), STOPPED, CONTINUED))


def with_rank(**fields: Any) -> Rehearsal:
    return with_run(ranks=(msgspec.structs.replace(RANK, **fields),))


def with_stop(**fields: Any) -> Rehearsal:
    return changed(runs=(RUN, msgspec.structs.replace(STOPPED, **fields), CONTINUED))


def with_continued(**fields: Any) -> Rehearsal:
    return changed(runs=(RUN, STOPPED, msgspec.structs.replace(CONTINUED, **fields)))


def resumed(*lost: Lost, **fields: Any) -> Rehearsal:
    return changed(resumed=msgspec.structs.replace(RESUMED, lost=lost, **fields))


def attempt(**fields: Any) -> Attempt:
    values: dict[str, Any] = {"run": "run", "kind": "write", "what": "open", "path": "/real/a.pt"}
    return Attempt(**values | fields)


NAMED = Lost(kind="weights", names=("head.weight",), count=1, of=6)


def lost(kind: Any, **fields: Any) -> Lost:
    return msgspec.structs.replace(NAMED, kind=kind, **fields)


def agreed(**fields: Any) -> Rehearsal:
    return changed(agreement=msgspec.structs.replace(HEALTHY.agreement, **fields))


def held(**fields: Any) -> HostMemory:
    values = {"loading": 30, "running": 40, "free": 100}
    return HostMemory(**{key: value * 2**30 for key, value in {**values, **fields}.items()})


def of_factory(*tried: TriedBatch, **fields: Any) -> Rehearsal:
    values: dict[str, Any] = {"read": 41, "of": 41, "tried": tried}
    return changed(trained="in a loop", batches=Batches(**values | fields))


def accessed(*usable: bool | None) -> Rehearsal:
    return changed(accessed=tuple(Accessed(target="hf://org/model", usable=u) for u in usable))


def ordered(**fields: Any) -> Rehearsal:
    return resumed(order=SampleOrder(**{"steps": 8, "samples": 48} | fields))


def waits(rank: int, collective: str = "barrier", number: int = 5, **fields: Any) -> Waiting:
    values = {"place": f"train.py:{rank}", "collective": collective, "number": number}
    return Waiting(**{"rank": rank, "inside": True, **values, **fields})


def hangs(*waiting: Waiting, still: float = 99.0) -> Rehearsal:
    ranks = (msgspec.structs.replace(RANK, ended=False),)
    return with_run(cut="deadline", code=None, ranks=ranks, waiting=waiting, still=still)


def turning(loop: str) -> Waiting:
    return Waiting(rank=0, place="a.py:5 in decode", loop=loop)


def cut_off(**rank: Any) -> Rehearsal:
    ranks = (msgspec.structs.replace(RANK, **rank),)
    return with_run(cut="deadline", code=None, ranks=ranks)


def evaluating(*waiting: Waiting, **fields: Any) -> Rehearsal:
    rank = msgspec.structs.replace(RANK, evaluating=4, **fields)
    return with_run(cut="deadline", code=None, ranks=(rank,), waiting=waiting, still=99.0)


def apart(error: str, *waiting: Waiting) -> Rehearsal:
    """Rank 0 is in an evaluation when the run ends with an error, or is ended."""
    first = msgspec.structs.replace(RANK, world=2, evaluating=8, error=error)
    ranks = first, msgspec.structs.replace(RANK, rank=1, world=2)
    how: dict[str, Any] = {"code": 1} if error else {"code": None, "cut": "deadline"}
    return with_run(ranks=ranks, waiting=waiting, still=99.0, **how)


def uneven(epoch: tuple[int, ...]) -> Rehearsal:
    """Rank 0 is in an evaluation after step 8, and the ranks' samplers have these lengths."""
    ranks = apart("gloo: Connection reset by peer").runs[0].ranks
    agreement = msgspec.structs.replace(HEALTHY.agreement, epoch=epoch)
    return msgspec.structs.replace(with_run(ranks=ranks, code=1), agreement=agreement)


def state_in(path: str) -> OnDisk:
    return msgspec.structs.replace(DISK, path=path, optimizer=True)


def in_grace(*, ended: bool, **fields: Any) -> Rehearsal:
    """It was killed at the end of the grace period."""
    ranks = (msgspec.structs.replace(RANK, ended=ended),)
    return with_stop(cut="grace", code=None, ranks=ranks, **fields)


def named(path: str) -> OnDisk:
    return msgspec.structs.replace(DISK, path=path)


def weights_alone(optimizer: bool = False, **fields: Any) -> Rehearsal:
    disk = (msgspec.structs.replace(DISK, optimizer=optimizer),)
    stopped = msgspec.structs.replace(STOPPED, checkpoints=disk)
    found = resumed(from_start=True, opened="", **fields)
    return msgspec.structs.replace(found, runs=(RUN, stopped, CONTINUED))


def keeping(*graphs: int) -> Rehearsal:
    """Tensors with graphs that are in memory after each fifth step."""
    looks = enumerate(graphs, 1)
    return with_rank(kept=tuple(KeptGraphs(step=5 * n, graphs=count) for n, count in looks))


def left_evaluating(*kinds: str) -> Rehearsal:
    found = Evaluated(step=4, seconds=0.1, calls=2, samples=8, left=kinds)
    return with_rank(evaluations=(found,))


def in_last_interval(*saves: int) -> Rehearsal:
    """A signal after the save at step 6, which the command does not heed."""
    saved = tuple(SavedFile(step=step, what="torch.save") for step in saves)
    stopped = msgspec.structs.replace(STOPPED, code=0, stopped_at=7)
    return changed(runs=(msgspec.structs.replace(RUN, saved=saved), stopped, CONTINUED))


def parted(
    error: str, *, gone: bool = False, exchanging: bool = True, epoch: tuple[int, ...] = ()
) -> Rehearsal:
    """Rank 0 fails in backward(), rank 1 is in a collective or has ended."""
    ranks = (
        msgspec.structs.replace(RANK, world=2, error=error),
        msgspec.structs.replace(RANK, rank=1, world=2, ended=gone),
    )
    waiting = (
        Waiting(rank=0, place="a.py:37", ended=True, exchanging=exchanging),
        Waiting(rank=1, place="a.py:43", collective="all_reduce", inside=not gone, ended=gone),
    )
    found = with_run(code=1, ranks=ranks, waiting=waiting)
    agreement = msgspec.structs.replace(found.agreement, epoch=epoch)
    return msgspec.structs.replace(found, agreement=agreement)


SEVENTH = msgspec.structs.replace(RANK, steps=7)
GROWS = Evaluated(
    step=1, seconds=1, calls=12, samples=48, memory=tuple(2**27 * n for n in range(12)), of=300_000
)
LONGEST = TriedBatch(name="longest", samples=4, length=512)


def at_step(step: int) -> SavedFile:
    """A save after this step."""
    return msgspec.structs.replace(SAVED, step=step)


def without_a_step(**stopped: Any) -> Rehearsal:
    """A continued run that ends well and takes no step."""
    rank = msgspec.structs.replace(RANK, steps=0)
    continued = msgspec.structs.replace(CONTINUED, ranks=(rank,))
    runs = (RUN, msgspec.structs.replace(STOPPED, **stopped), continued)
    return changed(runs=runs, resumed=None)


def stopped_after(save: int, **fields: Any) -> Rehearsal:
    """Stopped within step 12, without a save after the signal; the last one was after `save`."""
    return with_stop(saved_after_signal=False, saved=(at_step(save),), **fields)
