"""Tensors counted by role and dtype: one pass over 100,000 of them, from which the rest follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from doctor._util.units import shown
from doctor.checkpoint.analysis.tensor_names import kind_of, roles
from doctor.checkpoint.records import Kind, Role, Share
from doctor.checkpoint.tensors import Tensor

MOST_ROLES = 5_000
"""Roles that are kept; those of mixed dtypes come first."""

MOST_DTYPES = 100
"""Dtypes that are counted one by one; an untrusted file can invent more."""

FLOATS = ("BF16", "F16", "F32", "F64")

ORDER: tuple[Kind, ...] = ("embedding", "attention", "MLP", "norm", "head", "other")


@dataclass(slots=True)
class Total:
    """Of all tensors of one role and dtype."""

    tensors: int = 0
    parameters: int = 0
    bytes: int = 0


Totals = Mapping[tuple[str, str, int], Total]
"""(role, dtype, dimensions) -> what there is of it."""


def count(tensors: Sequence[Tensor]) -> Totals:
    """By first occurrence."""
    totals: dict[tuple[str, str, int], Total] = {}
    for tensor, role in zip(tensors, roles([each.name for each in tensors]), strict=True):
        key = role, tensor.dtype, len(tensor.shape)
        total = totals.get(key)
        if total is None:
            total = totals[key] = Total()
        total.tensors += 1
        total.parameters += tensor.elements
        total.bytes += tensor.stored_bytes if tensor.parts else tensor.end - tensor.begin
    return totals


def bytes_by_dtype(totals: Totals) -> dict[str, int]:
    """Dtype -> bytes, by first occurrence."""
    sizes: dict[str, int] = {}
    for (_, dtype, _), total in totals.items():
        sizes[dtype] = sizes.get(dtype, 0) + total.bytes
    return sizes


def listed_roles(totals: Totals) -> tuple[Role, ...]:
    """Each role with the number of its tensors of each dtype."""
    by_role: dict[str, dict[str, int]] = {}
    for (name, dtype, _), total in totals.items():
        dtypes = by_role.setdefault(name, {})
        dtypes[dtype] = dtypes.get(dtype, 0) + total.tensors
    mixed_first = sorted(by_role.items(), key=lambda item: len(item[1]) < 2)
    return tuple(Role(name=name[:500], dtypes=dtypes) for name, dtypes in mixed_first[:MOST_ROLES])


def files_by_dtype(tensors: Iterable[Tensor]) -> dict[str, str]:
    """Float dtype -> the first file of it; {} where one file has two, or all have the same."""
    of_files = {(each.file, each.dtype) for each in tensors if each.dtype in FLOATS}
    dtype_of = dict(of_files)
    first = {dtype: shown(file) for file, dtype in sorted(of_files, reverse=True)}
    return first if len(dtype_of) == len(of_files) and len(first) > 1 else {}


def shares(totals: Totals) -> tuple[Share, ...]:
    """Totals of each dtype in each part of a model, the dtype with the most bytes first."""
    single = {*list(bytes_by_dtype(totals))[:MOST_DTYPES]}
    parts: dict[tuple[str, Kind], Total] = {}
    sizes: dict[str, int] = {}
    for (name, dtype, dimensions), total in totals.items():
        dtype = dtype if dtype in single else "others"
        part = parts.setdefault((dtype, kind_of(name, dimensions)), Total())
        part.tensors += total.tensors
        part.parameters += total.parameters
        part.bytes += total.bytes
        sizes[dtype] = sizes.get(dtype, 0) + total.bytes
    order = sorted(parts, key=lambda key: (-sizes[key[0]], key[0], ORDER.index(key[1])))
    return tuple(
        Share(
            dtype=shown(key[0], 40),
            kind=key[1],
            tensors=parts[key].tensors,
            parameters=parts[key].parameters,
            bytes=parts[key].bytes,
        )
        for key in order
    )
