"""Records of PyTorch flight-recorder dumps of all ranks, compared. Without thresholds."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section


class Operation(Section, frozen=True, kw_only=True):
    """One collective or point-to-point operation of a process group."""

    name: str
    """all_reduce, _all_gather_base, "send 0->8" (global ranks)."""
    group: str
    """The name that torch gave the group: "0" is the default one."""
    description: str = ""
    """The name that the framework gave it: TENSOR_MODEL_PARALLEL_GROUP."""
    sequence: int
    ranks: tuple[int, ...]
    """Global ranks of the group."""


class Wait(Section, frozen=True, kw_only=True):
    """The first operation of a group that some ranks called and others did not."""

    operation: Operation
    arrived: tuple[int, ...]
    missing: tuple[int, ...]
    """Ranks whose dump shows that they did not call it."""


class Variant(Section, frozen=True, kw_only=True):
    """What some ranks called."""

    value: str
    ranks: tuple[int, ...]


class Mismatch(Section, frozen=True, kw_only=True):
    """One sequence number of a group under which ranks called different things."""

    operation: Operation
    by: Literal["operation", "size", "dtype"]
    variants: tuple[Variant, ...]
    """The most frequent one first."""


Evidence = Literal["not called", "not completed", "not started", "behind", "no dump"]
"""Why a rank is named.

not called: others wait for a call that it did not make, and it waits for no other rank.
not completed: its oldest operation is complete on all other ranks.
not started: all ranks called the operation, and only its GPU did not start it.
behind: it waits for others, as its peers do; they went on with calls that it did not make.
no dump: others wait, every rank with a dump called the operation, and this rank has no dump.
"""


class Stopped(Section, frozen=True, kw_only=True):
    """A rank that others wait for."""

    rank: int
    evidence: Evidence
    operation: Operation
    """The call that is missing, or the operation that is not complete."""
    waiting: tuple[int, ...]
    """Ranks that called it, or completed it."""


class FlightRecorder(Section, frozen=True, kw_only=True):
    """The dumps of one job, compared."""

    version: str = ""
    library: str = ""
    """Version of NCCL or of the other communication library."""
    ranks: tuple[int, ...]
    """Ranks with a dump."""
    without_dump: tuple[int, ...] = ()
    """Ranks that the dumps name and that have none."""
    paths: tuple[str, ...] = ()
    """The file of each rank in `ranks`."""
    unread: dict[str, str] = {}
    """File -> why it could not be read."""
    pending: int = 0
    """Operations that were called and are not complete, on all ranks."""
    stopped: tuple[Stopped, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    waits: tuple[Wait, ...] = ()
    """One per group, the one with the most waiting ranks first."""
    hung: tuple[Wait, ...] = ()
    """Where nobody stopped: the operations in which ranks are, which all their ranks called."""
