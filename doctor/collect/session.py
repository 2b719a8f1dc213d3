"""What a collection has at work from its beginning: everything that need not wait for torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from doctor._util.records import Ended, Unknown
from doctor._util.units import printable
from doctor.checkpoint.records import Checkpoint
from doctor.collect import clock, early
from doctor.collect.ahead import Ahead, start_ahead
from doctor.collect.background import background
from doctor.collect.before_torch import BeforeTorch, run_before_torch
from doctor.collect.children import Children, fit, read, read_checkpoint
from doctor.collect.driver import Sections, driver_seconds, read_driver
from doctor.collect.host import read_host
from doctor.collect.interpreter import choose
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.collect.workers import Siblings, count_siblings
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.machine import Place
from doctor.facts.training import ModelShape
from doctor.facts.views import find_target
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

PLACE_SECONDS = 8.0
CHECKPOINT_SECONDS = 120.0

Role = Literal["output", "cache", "temporary", "expected"]


@dataclass(frozen=True, slots=True)
class Session:
    """The processes of a collection, and who hears of its progress.

    `child` imports torch, `why` says how its interpreter was chosen; `siblings` are the same for
    the job's other GPUs. `started` is in monotonic seconds.
    """

    children: Children
    report_progress: ReportProgress
    started: float
    host: Host
    timing: Future[dict[str, Any]]
    child: TorchChild
    why: str
    driver: Future[Sections]
    siblings: Future[Siblings]
    ahead: Future[Ahead]
    before: Future[BeforeTorch]
    is_slow: Callable[[Facts], bool]
    places: tuple[Future[Place], ...]
    checkpoint: Future[Checkpoint | Unknown | None]
    shape: Future[ModelShape | Unknown | None]


def begin(
    job: Job,
    options: RunOptions,
    expect: Expect,
    children: Children,
    report_progress: ReportProgress,
    held: Mapping[str, int],
    is_slow: Callable[[Facts], bool],
) -> Session:
    """Start torch's import first, which takes longest, then all that can run beside it."""
    started = time.monotonic()
    path, why = choose(job.python, os.environ)
    child = TorchChild(children, path, started=early.take(path))
    host = read_host()
    nvidia = find_target(job, host, Unknown(reason="not imported yet")).kind == "nvidia"
    seconds = driver_seconds(host)
    driver = background(lambda: read_driver(children, seconds, held) if nvidia else (None, None))
    siblings = background(
        lambda: Siblings(children, path, count_siblings(job, options, host, driver.result()[1]))
    )
    ahead = background(lambda: start_ahead(children, path, job, options, driver=driver.result()[0]))
    before = background(lambda: run_before_torch(children, job, options, host, *driver.result()))
    return Session(
        children=children,
        report_progress=report_progress,
        started=started,
        host=host,
        timing=background(clock.measure),
        child=child,
        why=why,
        driver=driver,
        siblings=siblings,
        ahead=ahead,
        before=before,
        is_slow=is_slow,
        places=tuple(start_place(children, *role) for role in roles(job, expect, os.environ)),
        checkpoint=background(lambda: read_job_checkpoint(children, job.checkpoint)),
        shape=background(lambda: read_shape(children, job.hf or job.checkpoint)),
    )


def roles(job: Job, expect: Expect, environ: Mapping[str, str]) -> list[tuple[Role, str, bool]]:
    """The directories to examine: role, path, and whether the user named it for output."""
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    cache = job.cache_dir or environ.get("HF_HOME") or f"{caches}/huggingface"
    return [
        ("output", job.output_dir or job.working_dir, job.output_dir is not None),
        ("cache", printable(cache), False),
        ("temporary", environ.get("TMPDIR") or "/tmp", False),  # noqa: S108 - not written to
        *(("expected", path, False) for path in expect.disk),
    ]


def start_place(children: Children, role: Role, path: str, named: bool) -> Future[Place]:
    return background(lambda: _place(children, role, path, named))


def _place(children: Children, role: Role, path: str, named: bool) -> Place:
    arguments = (role, path, "named" if named else "assumed")
    answer = children.run_probe("place", *arguments, seconds=PLACE_SECONDS)
    content = {key: value for note in answer.notes for key, value in note.get("place", {}).items()}
    content |= (answer.answer or {}).get("place", {})
    fixed = {"type": "Place", "role": role, "path": path, "named": named, "looked": answer.ended}
    place = fit(content | fixed, Place)
    if isinstance(place, Unknown):
        ended = Ended(how="error", detail=place.reason)
        return Place(role=role, path=path, named=named, looked=ended)
    return place


def read_shape(children: Children, path: str | None) -> ModelShape | Unknown | None:
    if path is None or "://" in path:
        return None
    answer = children.run_probe("shape", path, seconds=PLACE_SECONDS)
    content = answer.answer or {}
    if content.get("absent") is True:
        return None
    return fit(content, Unknown) if "reason" in content else read(answer, "shape", ModelShape)


def read_job_checkpoint(children: Children, path: str | None) -> Checkpoint | Unknown | None:
    if path is None:
        return None
    return read_checkpoint(children.run_probe("checkpoint", path, seconds=CHECKPOINT_SECONDS))
