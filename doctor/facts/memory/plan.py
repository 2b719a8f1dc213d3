"""The memory of the job on its fullest GPU: required bytes by part, and free bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from doctor._util.records import Unknown
from doctor._util.units import gib
from doctor.checkpoint.records import Checkpoint
from doctor.facts.host import Host
from doctor.facts.memory.activations import Activations, activations
from doctor.facts.memory.room import training_room
from doctor.facts.memory.training import Part, Size, model_size, training_parts
from doctor.facts.own_model import OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target

if TYPE_CHECKING:
    from doctor.facts.facts import Facts

WIDTH = 48
KINDS = ("weights", "gradients", "optimizer", "activations")


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes on one GPU. `state` lasts the whole run; `need` includes activations if known."""

    size: Size
    chosen: Chosen
    parts: tuple[Part, ...]
    shards: int
    activations: Activations | None
    free: float
    where: str
    """What `free` is free of: a GPU or the host, in words."""

    @property
    def state(self) -> float:
        return sum(part.bytes for part in self.parts) / self.shards

    @property
    def need(self) -> float:
        activations = self.activations
        if activations is None:
            return self.state
        if activations.peak is not None and self.shards == 1:
            return activations.peak
        return self.state + activations.bytes

    @property
    def bar(self) -> tuple[tuple[str, float], ...]:
        """Bytes per kind of part, then the free bytes; nothing is below 0."""
        sums = dict.fromkeys(KINDS, 0.0)
        for part in self.parts:
            sums[part.kind] += part.bytes / self.shards
        sums["activations"] = max(0.0, self.need - self.state)
        rows = [(kind, size) for kind, size in sums.items() if size]
        return (*rows, ("free", max(0.0, self.free - self.need)))


def plan(
    job: Job,
    target: Target,
    chosen: Chosen | Unknown,
    job_gpus: JobGpus | Unknown,
    checkpoint: Checkpoint | Unknown | None,
    host: Host | Unknown,
    shape: ModelShape | Unknown | None = None,
    own: OwnModel | Unknown | None = None,
) -> Plan | Unknown | None:
    """None if the size of the model is not stated."""
    size = model_size(job, checkpoint)
    if size is None and isinstance(own, OwnModel) and own.whole and own.parameters:
        trained = own.parameters if own.trainable is None else own.trainable
        size = Size(own.parameters, trained, own.description)
    if size is None and isinstance(own, OwnModel) and own.all_parameters and job.lora is None:
        size = Size(own.all_parameters, own.all_parameters, f"all layers of {own.description}")
    if not isinstance(size, Size):
        return size
    room = training_room(target, job_gpus, host)
    if isinstance(chosen, Unknown):
        return chosen
    if isinstance(room, Unknown):
        return room
    parts = training_parts(job, chosen.precision, size)
    known = activations(job, chosen.precision, shape, own)
    return Plan(size, chosen, parts, max(1, job.shards), known, *room)


def plan_of(facts: Facts) -> Plan | Unknown | None:
    """The plan of the job in the facts."""
    return plan(
        facts.job,
        facts.target,
        facts.chosen,
        facts.job_gpus,
        facts.checkpoint,
        facts.host,
        facts.shape,
        facts.own,
    )


def draw(bar: tuple[tuple[str, float], ...]) -> str:
    """The bar in plain text: a line with each part as its first letter, and a legend."""
    total = sum(size for _, size in bar) or 1.0
    ends, letters, last = 0.0, "", 0
    for name, size in bar:
        ends += size
        end = round(ends / total * WIDTH)
        letters += ("." if name == "free" else name[0]) * (end - last)
        last = end
    legend = ", ".join(f"{name} {gib(size)}" for name, size in bar)
    return f"  [{letters}]\n  {legend}"
