"""The files of a checkpoint and the tensors in them."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section

Kind = Literal["norm", "attention", "MLP", "embedding", "head", "other"]
"""A part of a model."""


class Files(Section, frozen=True, kw_only=True):
    """The files that hold the weights."""

    count: int
    bytes: int
    """Size of all of them."""
    largest: int
    """Bytes."""
    others: tuple[str, ...] = ()
    """Files of the same save without weights: optimizer, scheduler, random states."""
    by_dtype: dict[str, str] = {}
    """Where each file has one float dtype, and they differ: dtype -> the first file of it."""
    lone_shard: bool = False
    """One shard of several was named; the others were not read."""


class Role(Section, frozen=True, kw_only=True):
    """Tensors that share a name once layer numbers are removed."""

    name: str
    dtypes: dict[str, int]
    """dtype -> number of tensors."""


class Norm(Section, frozen=True, kw_only=True):
    """A norm's weight, or a similar vector, and how it compares with its initial value."""

    name: str
    dtype: str
    size: int
    """Elements."""
    value: Literal["ones", "zeros", "other", "nonfinite", "unread"]
    """ones and zeros: every element, bit for bit. nonfinite: NaN or Inf is among what was read."""
    distance: float | None = None
    """The largest from 1.0 of what was read of one whose value is other; None where unknown."""


class Share(Section, frozen=True, kw_only=True):
    """Totals of the tensors of one dtype in one part of the model."""

    dtype: str
    kind: Kind
    tensors: int
    parameters: int
    bytes: int


class BatchStatistics(Section, frozen=True, kw_only=True):
    """The running statistics of one model's batch norms."""

    state: str
    """What its names begin with: the name of a further state_dict or module, "" for the model."""
    copy: bool
    """It is an average or another copy of the model."""
    layers: int
    initial: int
    """Of these, those with a mean of 0 and a variance of 1 everywhere, as they are initialized."""


class Contents(Section, frozen=True, kw_only=True):
    """The tensors in the files; all zero where only the sizes of the files are known."""

    tensors: int = 0
    parameters: int = 0
    """Elements of all tensors, as stored: fewer than the model's where weights are packed."""
    dtypes: dict[str, int] = {}
    """dtype -> bytes."""
    roles: tuple[Role, ...] = ()
    norms: tuple[Norm, ...] = ()
    initialized_to_one: tuple[Norm, ...] = ()
    """Other parameters whose initial value is 1.0: Mamba's D, LayerScale, IA3 vectors."""
    shares: tuple[Share, ...] = ()
    """By dtype and part of the model."""
    statistics: tuple[BatchStatistics, ...] = ()
