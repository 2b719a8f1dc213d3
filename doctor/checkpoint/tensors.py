"""What every reader gives: tensors, and where their bytes are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from doctor.sections import Problem

BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element, by safetensors' names of the dtypes."""


class Tensor(NamedTuple):
    """One tensor and its bytes: `begin` and `end` count from the start of `file`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    file: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One file: its tensors, in the order of their bytes, and what is wrong with it."""

    file: str
    size: int
    tensors: tuple[Tensor, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    readable: bool = True
    """The header was read; its tensors are all there are."""
