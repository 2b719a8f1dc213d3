"""A healthy rehearsal as facts, and what it becomes when a part of it is another."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor import catalog
from doctor._util.records import Unknown
from doctor.facts.facts import Facts, without_machine
from doctor.facts.rehearsal import (
    Agreement,
    Attempt,
    Protection,
    Rehearsal,
    RehearsedStage,
)
from doctor.facts.rehearsal_resume import Lost, Resumed, SampleOrder
from doctor.facts.rehearsal_runs import (
    Evaluated,
    HostMemory,
    OnDisk,
    RehearsedRank,
    RehearsedRun,
    SavedFile,
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
