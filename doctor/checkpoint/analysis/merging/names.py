"""The same tensor under the names that several programs give it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.checkpoint.analysis.attribution import plain
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.tensors import Tensor

LEADS = 5
"""Components in front of a name that wrappers, base models and whole models differ by."""


class NameIndex:
    """Tensors by name, and by the end of their names where only one has it."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors: dict[str, Tensor] = {}
        for tensor in tensors:
            self.tensors.setdefault(plain(tensor.name), tensor)
        self._ends: dict[str, str | None] | None = None

    def find(self, name: str) -> Tensor | None:
        """The tensor of that name, or the only one whose name ends alike."""
        if tensor := self.tensors.get(name):
            return tensor
        for end in _ends(name):
            if found := self.ends.get(end):
                return self.tensors[found]
        return None

    @property
    def ends(self) -> dict[str, str | None]:
        """End of a name -> the name; None where several have it."""
        if self._ends is None:
            self._ends = {}
            for name in self.tensors:
                for end in _ends(name):
                    self._ends[end] = None if end in self._ends else name
        return self._ends


def _ends(name: str) -> Iterator[str]:
    """The name without its first components, two at least: layers.0.mlp.up_proj.weight."""
    parts = name.split(".")
    for dropped in range(min(LEADS, len(parts) - 2) + 1):
        yield ".".join(parts[dropped:])


def pairs(one: NameIndex, other: NameIndex) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Tensors of `one` with those of `other` that are called alike, each of them once."""
    taken: set[str] = set()
    for name, tensor in one.tensors.items():
        found = other.find(name)
        if found is not None and found.name not in taken:
            taken.add(found.name)
            yield name, tensor, found


@dataclass(frozen=True, slots=True)
class Model:
    """A directory and the tensors in it."""

    directory: Directory
    index: NameIndex
