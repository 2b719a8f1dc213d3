"""Activations, kept from the forward to the backward pass: measured by a run, else estimated.

The estimate counts bytes as Korthikanti et al. 2022 (arXiv:2205.05198) do: for a layer in 16 bit
s*b*h * (34 + 5*a*s/h), where the second term is the attention matrix, which flash and SDPA kernels
do not keep, and 2*s*b*h where a layer is checkpointed. Their 34 is 11 (attention) + 19 (a
feed-forward part of width 4h) + 4 (norms). This estimate counts the feed-forward part by its actual
width and gate; for the rest it uses what autograd kept in Llama of transformers 5.23, measured on
the CPU, which is more than the paper's fused kernels keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from doctor._util.records import Unknown
from doctor._util.units import gib
from doctor.facts.own_model import MemoryPoint, OwnModel
from doctor.facts.training import ModelShape
from doctor.job.job import Job, Precision

REST = {"amp": 30, "16 bit": 20, "fp32": 32}
"""Bytes per token and hidden element that attention and norms keep in a layer."""
LOGITS = 10
"""Bytes per token and vocabulary entry: fp32 logits, log-probabilities and gradient (measured: 6
kept, and 4 for the gradient)."""
EAGER = 5
"""The paper's factor of a*s*s*b, where the attention matrix is kept."""


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes of activations on one GPU."""

    bytes: float
    basis: str
    """How they are known: measured or estimated, for which batch and length."""
    peak: float | None = None
    """Measured: the peak of a whole step on one GPU in bytes, including the state."""

    @property
    def measured(self) -> bool:
        return self.peak is not None


def activations(
    job: Job,
    precision: Precision,
    shape: ModelShape | Unknown | None,
    own: OwnModel | Unknown | None,
) -> Activations | None:
    """Measured if the user's own step was, else estimated; None if neither is possible."""
    return measured(job, own) or estimated(job, precision, shape)


def measured(job: Job, own: OwnModel | Unknown | None) -> Activations | None:
    """A line through the peaks at two batches, evaluated at the job's batch and length."""
    if not isinstance(own, OwnModel) or not own.whole or not isinstance(own.points, tuple):
        return None
    points = sorted(own.points, key=lambda point: point.batch)
    if not points or len({point.length for point in points}) > 1:
        return None
    low, high = points[0], points[-1]
    batch = job.batch_size or high.batch
    if low.batch == high.batch:
        return _as_measured(job, high) if batch == high.batch else None
    slope = max(0.0, (high.peak_bytes - low.peak_bytes) / (high.batch - low.batch))
    scale, note = _length_scale(job, high)
    size = slope * batch * scale
    state = high.peak_bytes - slope * high.batch
    basis = f"measured at batches {low.batch} and {high.batch}{note}, batch {batch}"
    return Activations(size, basis, peak=state + size)


def _as_measured(job: Job, point: MemoryPoint) -> Activations | None:
    """One point; None if the job has another length."""
    if job.seq_len and point.length and job.seq_len != point.length:
        return None
    return Activations(0.0, f"measured at batch {point.batch}", peak=float(point.peak_bytes))


def _length_scale(job: Job, point: MemoryPoint) -> tuple[float, str]:
    """The job's length over the measured one, and a note: with SDPA memory is proportional."""
    if not job.seq_len or not point.length or job.seq_len == point.length:
        return 1.0, ""
    note = f" of {point.length:,} tokens, scaled to {job.seq_len:,}"
    return job.seq_len / point.length, note


def estimated(
    job: Job, precision: Precision, shape: ModelShape | Unknown | None
) -> Activations | None:
    """By the formula above; None without shape, batch size and sequence length."""
    if not isinstance(shape, ModelShape) or job.batch_size is None or job.seq_len is None:
        return None
    tokens = job.batch_size * job.seq_len
    width = 2 if job.pure_bf16 else 4
    layer = tokens * _layer(job, precision, shape)
    logits = LOGITS * tokens * shape.vocabulary
    if job.checkpointing:
        total = shape.layers * width * tokens * shape.hidden + layer + logits
        how = "checkpointing"
    else:
        total, how = shape.layers * layer + logits, "no checkpointing"
    basis = f"estimated for batch {job.batch_size} of {job.seq_len:,} tokens, {how}"
    return Activations(float(total), basis)


def _layer(job: Job, precision: Precision, shape: ModelShape) -> float:
    """Bytes that one layer keeps for one token."""
    kind = "16 bit" if job.pure_bf16 else "fp32" if precision == "fp32" else "amp"
    value = 2 if precision == "fp32" else 1
    hidden, inner = shape.hidden, shape.intermediate
    forward = 2 * hidden + 8 * inner if shape.gated else 3 * hidden + 4 * inner
    matrix = EAGER * shape.heads * (job.seq_len or 0) if shape.attention == "eager" else 0
    return REST[kind] * hidden + value * (forward + matrix)


def describe(activations: Activations) -> str:
    """ "12.3 GiB of activations (estimated ...)"."""
    if activations.measured:
        return f"peak {gib(activations.peak or 0)} ({activations.basis})"
    return f"{gib(activations.bytes)} of activations ({activations.basis})"
