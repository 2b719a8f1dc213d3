"""Tensors of two models that stand for each other, by the names that conversions give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from doctor.checkpoint.analysis.conversions import common_name, dialect, expert_parts, parts_of
from doctor.checkpoint.analysis.merging.names import NameIndex
from doctor.checkpoint.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Match:
    """Tensors of one model that stand for those of the other: one for one, or parts for a whole."""

    name: str
    one: tuple[Tensor, ...]
    other: tuple[Tensor, ...]

    @property
    def single(self) -> bool:
        return len(self.one) == len(self.other) == 1


def match_names(one: NameIndex, other: NameIndex) -> tuple[list[Match], list[str], list[str]]:
    """Counterparts, and the names that only one of the two has."""
    here, there = _renamed(one, other), _renamed(other, one)
    keys = {tensor.name: name for name, tensor in there.tensors.items()}
    matches: list[Match] = []
    left = dict(there.tensors)
    rest: dict[str, Tensor] = {}
    for name, tensor in here.tensors.items():
        counterpart = there.find(name)
        key = keys[counterpart.name] if counterpart else ""
        if counterpart is None or key not in left:
            rest[name] = tensor
            continue
        del left[key]
        matches.append(Match(name, (tensor,), (counterpart,)))
    matches += _fused(rest, left, swapped=False)
    matches += _fused(left, rest, swapped=True)
    return matches, sorted(rest), sorted(left)


def _renamed(index: NameIndex, other: NameIndex) -> NameIndex:
    renamed, inner = NameIndex(()), dialect(index.tensors, other.tensors)
    for tensor in index.tensors.values():
        renamed.tensors.setdefault(common_name(tensor.name, inner), tensor)
    return renamed


def _fused(whole: dict[str, Tensor], parts: dict[str, Tensor], *, swapped: bool) -> Iterator[Match]:
    """Tensors of `whole` that lie in pieces in `parts`; both lose what was matched."""
    for name, tensor in list(whole.items()):
        candidates: list[Sequence[str]] = [*parts_of(name)]
        if len(tensor.shape) == 3 and tensor.shape[0] <= 4096:
            candidates += expert_parts(name, tensor.shape[0])
        for names in candidates:
            pieces = tuple(parts[each] for each in names if each in parts)
            if len(pieces) == len(names) and _add_up(tensor, pieces):
                del whole[name]
                for each in names:
                    del parts[each]
                yield Match(name, *((pieces, (tensor,)) if swapped else ((tensor,), pieces)))
                break


def _add_up(whole: Tensor, pieces: Sequence[Tensor]) -> bool:
    plain = all(piece.strides is None for piece in (whole, *pieces))
    alike = len({piece.dtype for piece in pieces}) == 1
    return plain and alike and sum(piece.elements for piece in pieces) == whole.elements
