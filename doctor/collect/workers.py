"""One torch process per GPU of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import Facts
from doctor.facts.machine import Cuda, Interpreter


@dataclass(frozen=True, slots=True)
class Worker:
    """A device and the torch process that works on it."""

    device: str
    uuid: str | None
    name: str
    child: TorchChild


def start_workers(children: Children, first: TorchChild, facts: Facts) -> tuple[Worker, ...]:
    """A process for each GPU of the job, `first` for the first one; with --quick the only one."""
    cuda, python = facts.cuda, facts.interpreter
    if not isinstance(cuda, Cuda) or not cuda.started.ok or not isinstance(python, Interpreter):
        return ()
    gpus = cuda.gpus[: 1 if facts.options.quick else facts.job.gpus]
    return tuple(
        Worker(
            device=f"cuda:{gpu.index}",
            uuid=gpu.uuid,
            name=gpu.name,
            child=TorchChild(children, python.path) if number else first,
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
