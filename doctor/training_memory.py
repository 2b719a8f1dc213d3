"""Bytes per parameter of a training: in memory, and in a checkpoint of it."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.checkpoint_sections import Checkpoint
from doctor.job import Job, Precision
from doctor.sections import Unknown
from doctor.units import count, gib

ADAM_MOMENTS = 2
"""Adam and AdamW keep two numbers for every trainable parameter, in the weights' dtype."""


@dataclass(frozen=True, slots=True)
class Part:
    """One row of the table: so many bytes for so many parameters."""

    name: str
    per_parameter: int
    parameters: int

    @property
    def bytes(self) -> int:
        return self.per_parameter * self.parameters


@dataclass(frozen=True, slots=True)
class Size:
    """The model's parameters and who told them."""

    parameters: int
    trainable: int
    said: str


def model_size(job: Job, checkpoint: Checkpoint | Unknown | None) -> Size | Unknown | None:
    """From --params, else from the checkpoint; None if neither was named."""
    if job.params is not None:
        parameters, said = job.params, "--params"
    elif checkpoint is None:
        return None
    elif isinstance(checkpoint, Unknown):
        return Unknown(reason=f"the checkpoint's size could not be read: {checkpoint.reason}")
    elif checkpoint.not_inspectable or not checkpoint.parameters:
        return Unknown(reason="the checkpoint's parameters could not be counted: --params N")
    elif checkpoint.adapter or checkpoint.layout.endswith("PEFT adapter"):
        return Unknown(reason="the checkpoint is an adapter's, not the whole model's: --params N")
    elif checkpoint.lone_shard:
        return Unknown(reason="the checkpoint is one shard of several: --params N")
    elif checkpoint.quantized:
        return Unknown(reason="the checkpoint is quantised, its parameters are packed: --params N")
    else:
        parameters, said = checkpoint.parameters, "--checkpoint"
    trainable = parameters if job.trainable is None else min(job.trainable, parameters)
    return Size(parameters, trainable, said)


def weight_width(job: Job) -> int:
    """Bytes of a trainable weight: bf16 in the pure-bf16 recipe, else fp32."""
    return 2 if job.pure_bf16 else 4


def training_parts(job: Job, precision: Precision, size: Size) -> tuple[Part, ...]:
    """What a training keeps for the whole run, without activations.

    amp: fp32 weights, gradients and Adam moments of what is trained, and the low-precision copies
    that autocast keeps from the forward to the backward pass. Frozen weights need no fp32 master:
    they are counted once, in the precision of the computation.
    """
    width, trainable, frozen = weight_width(job), size.trainable, size.parameters - size.trainable
    kind = "bf16" if job.pure_bf16 else "fp32"
    copies = precision != "fp32" and not job.pure_bf16
    parts = (
        Part(f"trained weights ({kind})", width, trainable),
        Part(f"gradients ({kind})", width, trainable),
        Part(f"Adam moments (2 x {kind})", ADAM_MOMENTS * width, trainable),
        Part(f"autocast copies ({precision})", 2 if copies else 0, trainable),
        Part(f"frozen weights ({precision})", 4 if precision == "fp32" else 2, frozen),
    )
    return tuple(part for part in parts if part.bytes)


def table(parts: tuple[Part, ...], shards: int = 1) -> str:
    """The parts as lines of plain text, with their sum for each of the shards."""
    rows = [
        f"  {part.name}: {part.per_parameter} B x {count(part.parameters)} = {gib(part.bytes)}"
        for part in parts
    ]
    total = sum(part.bytes for part in parts)
    rows.append(f"  sum: {gib(total)}, activations not counted")
    if shards > 1:
        rows.append(f"  per GPU, over {shards} shards: {gib(total / shards)}")
    return "\n".join(rows)


@dataclass(frozen=True, slots=True)
class Saved:
    """One checkpoint of the job: `weights` alone, and with the optimizer's state."""

    weights: int
    total: int
    said: str


def saved_size(job: Job, checkpoint: Checkpoint | Unknown | None) -> Saved | Unknown | None:
    """What one checkpoint takes on disk; None if nothing tells the size of the model.

    With --trainable only the trained part is saved, as adapters are.
    """
    size = model_size(job, checkpoint)
    if not isinstance(size, Size):
        return size
    width = weight_width(job)
    moments = ADAM_MOMENTS * width * size.trainable
    if job.trainable is None and isinstance(checkpoint, Checkpoint) and job.params is None:
        weights, said = checkpoint.bytes, "as large as --checkpoint"
    else:
        weights, said = width * size.trainable, f"{count(size.trainable)} parameters x {width} B"
    return Saved(weights, weights + moments, f"weights {said}, Adam moments {2 * width} B each")
