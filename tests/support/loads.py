"""Loads of GPUs, as facts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from shims import clock_stopped_until

from doctor._util.records import Ended, Unknown
from doctor.checks.gpu.load import SPEED
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, TorchGpu
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpus
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Verdict

OK = Ended(how="ok")

NOBODY = Unknown(reason="NVML hung")

Make = Callable[..., tuple[Worker, ...]]

AT = "\ndef entered(stage):\n    if stage == 'calibration':\n        "


HANG = "open(__file__ + '.hangs', 'w').close(); time.sleep(600)"


@contextlib.contextmanager
def short_deadline(worker: Worker, folder: Path) -> Iterator[None]:
    """Give every request to this process half a second from when its interpreter in the folder
    hangs."""
    request = worker.child.request
    worker.child.imported()
    hangs = folder / "sitecustomize.py.hangs"
    with pytest.MonkeyPatch.context() as patch, clock_stopped_until(hangs.exists):
        patch.setattr(worker.child, "request", lambda seconds, **fields: request(0.5, **fields))
        yield


def facts(job: Job, count: int, python: str, options: RunOptions | None = None) -> Facts:
    listed = tuple(
        TorchGpu(index=i, uuid=f"GPU-{i}", name="GPU", capability=(9, 0), memory_total=1)
        for i in range(count)
    )
    return Facts(
        job=job,
        options=options or RunOptions(),
        host=Host(system="Linux", nvidia_devices=count),
        interpreter=Interpreter(path=python, chosen="test", importing=OK),
        torch=Unknown(reason="not asked"),
        cuda=Cuda(started=OK, gpus=listed),
        places=(),
    )


H200, L40S, T4 = "NVIDIA H200", "NVIDIA L40S", "Tesla T4"


def load(name: str = H200, rate: float | None = 780.0, index: int = 0, **fields: Any) -> Load:
    known: dict[str, Any] = {
        "device": f"cuda:{index}",
        "uuid": f"GPU-{index}",
        "name": name,
        "ended": OK,
        "matmul": {"bf16": rate * 1e12} if rate else {},
        "size": 8192,
        "to_device": 55e9,
        "products": 100,
        "differing": 0,
    }
    return Load(**{**known, **fields})


def watched(index: int = 0, **fields: Any) -> Watched:
    known: dict[str, Any] = {"samples": 30, "mask": 4, "link": (5, 16), "link_max": (5, 16)}
    return Watched(uuid=f"GPU-{index}", **{**known, **fields})


def speed(
    *loads: Load,
    watches: Any = None,
    gpus: JobGpus | Unknown = NOBODY,
    driver: Driver | Unknown | None = None,
) -> Verdict:
    around = (watched(),) if watches is None else watches
    return SPEED.judge(load=loads, watched=around, job_gpus=gpus, driver=driver)
