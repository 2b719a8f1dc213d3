"""What a collection has at work from its beginning: everything that need not wait for torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint
from doctor.collect import clock, early
from doctor.collect.ahead import Ahead, start_ahead
from doctor.collect.background import background
from doctor.collect.before_torch import BeforeTorch, run_before_torch
from doctor.collect.children import Children
from doctor.collect.driver import Sections, driver_seconds, read_driver
from doctor.collect.host import read_host
from doctor.collect.interpreter import choose
from doctor.collect.places import read_job_checkpoint, read_shape, roles, start_place
from doctor.collect.torch_child import ReportProgress, TorchChild
from doctor.collect.workers import Siblings, count_siblings
from doctor.facts.facts import Facts
from doctor.facts.machine import Host, Place
from doctor.facts.training import ModelShape
from doctor.facts.views import find_target
from doctor.job.expect import Expect
from doctor.job.job import Job
from doctor.job.run_options import RunOptions


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
