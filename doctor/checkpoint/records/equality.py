"""Two checkpoints that should hold the same values."""

from __future__ import annotations

from doctor._util.records import Section
from doctor.checkpoint.records.merge import TokenizerChange


class Differing(Section, frozen=True, kw_only=True):
    """A tensor with other values than its counterpart, after every known conversion."""

    name: str
    elements: int
    """That differ."""
    of: int
    dimensions: int = 0
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
    differing_roles: tuple[str, ...] = ()
    """Their names once layer numbers are removed; the first ten."""
    differing_layers: tuple[str, ...] = ()
    """The numbers of their layers, where all lie in numbered ones and not in each of these."""
    differing_files: tuple[str, ...] = ()
    """Of several files, those that hold them, where nearly all of what is in these differs."""
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
    separate: tuple[str, ...] = ()
    """Of those in one of the two alone: heads that are not the embedding of the same model."""
    tokenizer: TokenizerChange | None = None
    """None: one of the two has no tokenizer.json."""
    unread: dict[str, int] = {}
    """Why tensors could not be compared -> their number."""
    bytes: int = 0
    """Bytes read, of both."""
    seconds: float = 0.0
