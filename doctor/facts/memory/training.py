"""Bytes per parameter of a training: in memory, and in a checkpoint of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from doctor._util.records import Unknown
from doctor._util.units import count, gb, gib
from doctor.checkpoint.records import Checkpoint
from doctor.facts.own_model import OwnModel
from doctor.job.job import Job, Optimizer, Precision

STATES: dict[Optimizer, tuple[str, int, bool]] = {
    "adamw": ("Adam moments", 2, False),
    "adamw-8bit": ("Adam moments", 2, True),
    "adafactor": ("Adafactor rows and columns", 0, False),
    "sgd": ("no state for SGD", 0, False),
    "sgd-momentum": ("momentum", 1, False),
    "lion": ("Lion momentum", 1, False),
    "lion-8bit": ("Lion momentum", 1, True),
}
"""State of an optimizer per trainable parameter: name, count of numbers, and whether these take
8 bits instead of the weights' dtype. Adafactor without a first moment keeps one row and one column
of each matrix, which is negligible."""


@dataclass(frozen=True, slots=True)
class Part:
    """One row of the table: `per_parameter` bytes for each of `parameters`."""

    kind: Literal["weights", "gradients", "optimizer"]
    name: str
    per_parameter: int
    parameters: int

    @property
    def bytes(self) -> int:
        return self.per_parameter * self.parameters


@dataclass(frozen=True, slots=True)
class Size:
    """The number of parameters of the model."""

    parameters: int
    trainable: int
    basis: str
    """Where the number comes from: an option, or the user's model."""


def model_size(job: Job, checkpoint: Checkpoint | Unknown | None) -> Size | Unknown | None:
    """From --params, else from the checkpoint; None if neither is given."""
    if job.params is not None:
        parameters, basis = job.params, "--params"
    elif checkpoint is None:
        return None
    elif isinstance(checkpoint, Unknown):
        return Unknown(reason=f"the checkpoint's size could not be read: {checkpoint.reason}")
    elif checkpoint.not_inspectable or not checkpoint.contents.parameters:
        return Unknown(reason="the checkpoint's parameters could not be counted: --params N")
    elif checkpoint.model.adapter or checkpoint.layout.endswith("PEFT adapter"):
        return Unknown(reason="the checkpoint holds an adapter, not the whole model: --params N")
    elif checkpoint.files.lone_shard:
        return Unknown(reason="the checkpoint is one shard of several: --params N")
    elif checkpoint.model.quantized:
        return Unknown(reason="the checkpoint is quantized, its parameters are packed: --params N")
    else:
        parameters, basis = checkpoint.contents.parameters, "--checkpoint"
    trainable = parameters if job.trainable is None else min(job.trainable, parameters)
    return Size(parameters, trainable, basis)


def weight_width(job: Job) -> int:
    """Bytes of a trainable weight: bf16 in the pure-bf16 recipe, else fp32."""
    return 2 if job.pure_bf16 else 4


def state_width(job: Job) -> int:
    """Bytes that the optimizer keeps for a trainable parameter."""
    _, numbers, in_bytes = STATES[job.optimizer]
    return numbers * (1 if in_bytes else weight_width(job))


def _state_name(job: Job, kind: str) -> str:
    name, numbers, in_bytes = STATES[job.optimizer]
    times = f"{numbers} x " if numbers > 1 else ""
    return f"{name} ({times}{'8 bit' if in_bytes else kind})"


def training_parts(job: Job, precision: Precision, size: Size) -> tuple[Part, ...]:
    """What a training keeps during the whole run, without activations.

    amp: fp32 weights, gradients and optimizer state of the trained parameters, and the
    low-precision copies that autocast keeps from the forward to the backward pass. Frozen weights
    need no fp32 master copy: they count once, in the precision of the computation.
    """
    width, trainable, frozen = weight_width(job), size.trainable, size.parameters - size.trainable
    kind = "bf16" if job.pure_bf16 else "fp32"
    copies = precision != "fp32" and not job.pure_bf16
    parts = (
        Part("weights", f"trained weights ({kind})", width, trainable),
        Part("gradients", f"gradients ({kind})", width, trainable),
        Part("optimizer", _state_name(job, kind), state_width(job), trainable),
        Part("weights", f"autocast copies ({precision})", 2 if copies else 0, trainable),
        Part("weights", f"frozen weights ({precision})", 4 if precision == "fp32" else 2, frozen),
    )
    return tuple(part for part in parts if part.bytes)


def table(parts: tuple[Part, ...], shards: int = 1, rest: str = "activations not counted") -> str:
    """The parts as lines of plain text, with their sum and the share of one shard."""
    rows = [
        f"  {part.name}: {part.per_parameter} B x {count(part.parameters)} = {gib(part.bytes)}"
        for part in parts
    ]
    total = sum(part.bytes for part in parts)
    rows.append(f"  sum: {gib(total)}, {rest}")
    if shards > 1:
        rows.append(f"  per GPU, over {shards} shards: {gib(total / shards)}")
    return "\n".join(rows)


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes of one checkpoint of the job: `weights` alone, and `total` with optimizer state."""

    weights: int
    total: int
    basis: str
    """How the sizes are known."""
    measured: bool = False
    """By a trial save; else they follow from the number of parameters."""


def saved_size(
    job: Job, checkpoint: Checkpoint | Unknown | None, own: OwnModel | Unknown | None = None
) -> Saved | Unknown | None:
    """The size of one checkpoint on disk; None if the size of the model is not stated.

    A trial save decides if it covered all layers and --params is not given. With --trainable only
    the trained part is saved, as for adapters.
    """
    if job.params is None and (measured := _measured(own)):
        return measured
    size = model_size(job, checkpoint)
    if not isinstance(size, Size):
        return size
    width = weight_width(job)
    moments = state_width(job) * size.trainable
    if job.trainable is None and isinstance(checkpoint, Checkpoint) and job.params is None:
        weights, basis = checkpoint.files.bytes, "as large as --checkpoint"
    else:
        weights, basis = width * size.trainable, f"{count(size.trainable)} parameters x {width} B"
    state = f"{STATES[job.optimizer][0]} {state_width(job)} B each"
    return Saved(weights, weights + moments, f"weights {basis}, {state}")


def _measured(own: OwnModel | Unknown | None) -> Saved | None:
    """What torch.save writes of the user's own training."""
    if not isinstance(own, OwnModel) or not own.whole or own.saved_weights is None:
        return None
    weights, optimizer = own.saved_weights, own.saved_optimizer or 0
    basis = f"trial save: weights {gb(weights)}, Adam moments {gb(optimizer)}"
    return Saved(weights, weights + optimizer, basis, measured=True)
