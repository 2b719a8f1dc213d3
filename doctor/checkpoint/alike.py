"""Tensors by what they have in common: a hundred thousand tensors are a few hundred kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from doctor.checkpoint.names import Kind, kind_of, role
from doctor.checkpoint.tensors import Tensor

_ZEROS = bytes.maketrans(b"123456789", b"000000000")


class Alike(NamedTuple):
    """Tensors of one role, dtype, shape and size."""

    role: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    """Bytes that each takes."""
    elements: int
    """That each has."""
    tensors: int
    """How many there are."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.role, len(self.shape))


def alike(tensors: Iterable[Tensor]) -> list[Alike]:
    """Every tensor counted once; in the order in which the first of each kind came."""
    every = list(tensors)
    names = roles([tensor.name for tensor in every])
    found = Counter(
        [
            (name, tensor.dtype, tensor.shape, stored(tensor), tensor.elements)
            for name, tensor in zip(names, every, strict=True)
        ]
    )
    return [Alike(*key, count) for key, count in found.items()]


def stored(tensor: Tensor) -> int:
    """Bytes that a tensor takes in its file or files."""
    if tensor.parts:
        return sum(part.end - part.begin for part in tensor.parts)
    return tensor.end - tensor.begin


def roles(names: list[str]) -> list[str]:
    """`role` of each name, for many at once.

    Names that differ in digits alone have the same role, unless digits are left in it.
    """
    text = "\n".join(names)
    alike = text.encode().translate(_ZEROS).split(b"\n") if text.isascii() else []
    if len(alike) != len(names):
        return list(map(role, names))
    known = {key: role(name) for key, name in dict(zip(alike, names, strict=True)).items()}
    clear = {key: text for key, text in known.items() if not any(map(str.isdigit, text))}
    return [clear.get(key) or role(name) for key, name in zip(alike, names, strict=True)]
