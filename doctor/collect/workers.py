"""One torch process per GPU of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from doctor._util.records import Unknown
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter
from doctor.facts.machine import Gpu
from doctor.facts.views import visible_gpus
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

Gpus = tuple[Gpu, ...] | Unknown | None


@dataclass(frozen=True, slots=True)
class Worker:
    """A device and the torch process that works on it."""

    device: str
    uuid: str | None
    name: str
    child: TorchChild


class Siblings:
    """Processes for the job's other GPUs, which import torch while the first process does."""

    def __init__(self, children: Children, python: str, count: int) -> None:
        self._idle = [TorchChild(children, python) for _ in range(count)]

    def take(self) -> TorchChild | None:
        """One that is not in use yet; None if there is none."""
        return self._idle.pop(0) if self._idle else None

    def end(self) -> None:
        """End those that no GPU needs."""
        while child := self.take():
            child.abort()
            child.end()


def count_siblings(job: Job, options: RunOptions, host: Host, gpus: Gpus) -> int:
    """GPUs of the job beyond the first, as NVML lists them; a process sees one MIG slice."""
    if options.quick or not isinstance(gpus, tuple):
        return 0
    visible = visible_gpus(gpus, host.visible_devices)[: job.gpus]
    return 0 if any(gpu.slice for gpu in visible) else max(0, len(visible) - 1)


def start_workers(
    children: Children, first: TorchChild, facts: Facts, siblings: Siblings | None = None
) -> tuple[Worker, ...]:
    """A process for each GPU of the job, `first` for the first one; with --quick the only one."""
    cuda, python = facts.cuda, facts.interpreter
    if not isinstance(cuda, Cuda) or not cuda.started.ok or not isinstance(python, Interpreter):
        return ()
    gpus = cuda.gpus[: 1 if facts.options.quick else facts.job.gpus]

    def next_child() -> TorchChild:
        return (siblings and siblings.take()) or TorchChild(children, python.path)

    return tuple(
        Worker(
            device=f"cuda:{gpu.index}",
            uuid=gpu.uuid,
            name=gpu.name,
            child=next_child() if number else first,
        )
        for number, gpu in enumerate(gpus)
    )


def restart(
    children: Children, python: str, workers: tuple[Worker, ...], env: Mapping[str, str]
) -> tuple[Worker, ...]:
    """New processes for the same devices, with `env` on top of the environment."""
    return tuple(
        Worker(each.device, each.uuid, each.name, TorchChild(children, python, env))
        for each in workers
    )


def end(workers: tuple[Worker, ...]) -> None:
    """End them all, so that they leave no context and no memory on a GPU."""
    for worker in workers:
        worker.child.abort()
    for worker in workers:
        worker.child.end()
