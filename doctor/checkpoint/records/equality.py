"""Two checkpoints that should hold the same values."""

from __future__ import annotations

from doctor._util.records import Section


class Differing(Section, frozen=True, kw_only=True):
    """A tensor with other values than its counterpart, after every known conversion."""

    name: str
    elements: int
    """That differ."""
    of: int
    largest: float
    """Magnitude of the largest difference."""
    relative: float | None
    """Norm of the difference by that of the counterpart; None where that is 0."""
    reason: str = ""
    """What would explain it, where that is known."""


class Equality(Section, frozen=True, kw_only=True):
    """One checkpoint beside another, matched by the names that conversions give."""

    other: str
    compared: int = 0
    equal: int = 0
    """Byte for byte."""
    converted: dict[str, int] = {}
    """Conversion after which tensors are equal -> their number."""
    differing: tuple[Differing, ...] = ()
    """The first twenty, in the order of their names."""
    differing_count: int = 0
    exchanged: dict[str, str] = {}
    """Of the first twenty that differ -> the tensor of the other that has these values."""
    reshaped: tuple[str, ...] = ()
    """Tensors of other shapes, with both; the first twenty."""
    reshaped_count: int = 0
    here: tuple[str, ...] = ()
    """Only in the checkpoint; the first twenty."""
    here_count: int = 0
    there: tuple[str, ...] = ()
    """Only in the other; the first twenty."""
    there_count: int = 0
    unread: dict[str, int] = {}
    """Why tensors could not be compared -> their number."""
    bytes: int = 0
    """Bytes read, of both."""
    seconds: float = 0.0
