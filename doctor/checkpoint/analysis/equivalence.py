"""Two models that should be equal: matched by name, compared by value, converted as declared."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.analysis.arithmetic import FLOATS, decode, rounded
from doctor.checkpoint.analysis.conversions import rotary_rows, same_convention, same_rows
from doctor.checkpoint.analysis.equality import Difference, compare_tensors
from doctor.checkpoint.analysis.exchanged import find_exchanged
from doctor.checkpoint.analysis.matching import Match, match_names
from doctor.checkpoint.analysis.merging.names import Model
from doctor.checkpoint.analysis.merging.untouched import is_tied_copy
from doctor.checkpoint.analysis.relations import relation
from doctor.checkpoint.analysis.statistics import layer_of
from doctor.checkpoint.analysis.tensor_names import is_norm, part_of, role
from doctor.checkpoint.analysis.workers import Progress, work
from doctor.checkpoint.dtypes import BITS, HALVES
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.gather import fill
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records.equality import Differing, Equality
from doctor.checkpoint.tensors import Tensor

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

MOST = 20

MOSTLY = 9
"""For each tensor of a file that is equal, so many differ where the file is another one."""

LARGEST = 1 << 31
"""Bytes of a tensor that is held whole to undo a conversion of its order."""

SQUARE = "transposed square matrices"
ADDED = "1 was added to the norms of one of the two, which models of the same names do not have"

TRIES = 3
"""Tensors of a role for which conversions are tried in vain, before they are no more."""


@dataclass(slots=True)
class _Found:
    equal: int = 0
    converted: Counter[str] = field(default_factory=Counter)
    differing: list[Differing] = field(default_factory=list)
    unlike: list[Tensor] = field(default_factory=list)
    """Those that differ and are no parts of a whole."""
    alike: list[Tensor] = field(default_factory=list)
    """Those that are equal, at once or after a conversion."""
    reshaped: list[str] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    in_vain: Counter[str] = field(default_factory=Counter)
    """Role -> tensors that no conversion made equal."""
    read: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def compare_models(
    one: Model,
    other: Model,
    *,
    other_path: str,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Equality:
    """Every tensor of `one` beside its counterpart in `other`."""
    began = time.perf_counter()
    matches, here, there = match_names(one.index, other.index)
    matches.sort(key=lambda match: match.one[0].ranges[0])
    found = _Found()

    def look(match: Match, opened: Sequence[OpenFiles]) -> None:
        try:
            _look(match, opened[0], opened[1], found)
        except (CheckpointError, MemoryError) as error:
            with found.lock:
                found.unread[error.text if isinstance(error, CheckpointError) else "too large"] += 1

    work(matches, (one.directory, other.directory), look, threads, progress)
    found.unlike.sort(key=lambda each: each.name)
    there_all = [match.other[0] for match in matches if match.single]
    exchanged = find_exchanged(one.directory, found.unlike, other.directory, there_all)
    found.differing.sort(key=lambda each: each.name)
    found.reshaped.sort()
    return Equality(
        other=other_path,
        compared=len(matches) - sum(found.unread.values()),
        equal=found.equal,
        converted=dict(found.converted.most_common(MOST)),
        differing=tuple(found.differing[:MOST]),
        differing_count=len(found.differing),
        **_where(found),
        exchanged={shown(here, 200): shown(there, 200) for here, there in exchanged.items()},
        reshaped=tuple(found.reshaped[:MOST]),
        reshaped_count=len(found.reshaped),
        here=tuple(shown(name, 200) for name in here[:MOST]),
        here_count=len(here),
        there=tuple(shown(name, 200) for name in there[:MOST]),
        there_count=len(there),
        separate=tuple(shown(name, 200) for name in _separate((one, here), (other, there))),
        unread=dict(found.unread.most_common(MOST)),
        bytes=found.read,
        seconds=time.perf_counter() - began,
    )


def _where(found: _Found) -> dict[str, Any]:
    """What the tensors that differ have in common, where the others do not have it."""
    files, others = (Counter(each.file for each in some) for some in (found.unlike, found.alike))
    layers, rest = ({layer_of(each) for each in some} for some in (found.unlike, found.alike))
    whole = all(MOSTLY * others[file] <= count for file, count in files.items())
    apart = "" not in layers and (rest - {""}) - layers
    return {
        "differing_roles": tuple(sorted({shown(role(each.name), 200) for each in found.unlike}))[
            :10
        ],
        "differing_layers": tuple(sorted(layers, key=int)) if apart else (),
        "differing_files": tuple(map(shown, files)) if whole and others.keys() - files else (),
    }


def _separate(*sides: tuple[Model, Sequence[str]]) -> Iterator[str]:
    """Heads and embeddings in one of the two alone that no other tensor of it is equal to."""
    for model, alone in sides:
        for name in alone[:MOST]:
            tensor = model.index.find(name)
            tied = tensor is not None and part_of(tensor) in ("embedding", "head")
            if tensor is not None and tied and not is_tied_copy(model, tensor.name):
                yield name


def _look(match: Match, one_files: OpenFiles, other_files: OpenFiles, found: _Found) -> None:
    """Compare one match and note the result. Raises CheckpointError."""
    one, other = _joined(match.one, match.other), _joined(match.other, match.one)
    result = compare_tensors(one_files, one, other_files, other)
    applied = [] if match.single else ["split or fused projections"]
    if result.outcome == "cast":
        applied.append(f"cast of {result.reason}")
    outcome: str = result.outcome
    if outcome in ("differs", "reshaped") and found.in_vain[role(match.name)] < TRIES:
        conversion, result.reason = _conversion(one, other, one_files, other_files, result.reason)
        if conversion:
            applied, outcome = [*applied, conversion], "cast"
        else:
            found.in_vain[role(match.name)] += 1
    with found.lock:
        found.read += result.read
        _note(found, match.name, one, result, outcome, ", ".join(applied))
        if match.single and outcome != "unread":
            (found.unlike if outcome == "differs" else found.alike).append(one)


def _note(
    found: _Found, name: str, one: Tensor, result: Difference, outcome: str, applied: str
) -> None:
    if outcome == "unread":
        found.unread[result.reason] += 1
    elif outcome == "reshaped":
        found.reshaped.append(f"{shown(name, 200)}: {result.reason}")
    elif outcome == "differs":
        found.differing.append(_differing(name, one, result))
    elif applied:
        found.converted[applied] += 1
    else:
        found.equal += 1


def _differing(name: str, one: Tensor, result: Difference) -> Differing:
    relative = result.relative
    return Differing(
        name=shown(name, 300),
        elements=result.elements,
        of=one.elements,
        dimensions=len(one.shape),
        largest=result.largest if math.isfinite(result.largest) else 0.0,
        relative=relative if math.isfinite(relative) else None,
        reason=result.reason if result.outcome == "differs" else "",
    )


def _joined(tensors: tuple[Tensor, ...], counterpart: tuple[Tensor, ...]) -> Tensor:
    """Parts end to end in the shape of the whole: all of them are in C order."""
    if len(tensors) == 1:
        return tensors[0]
    return msgspec.structs.replace(
        tensors[0],
        shape=counterpart[0].shape,
        elements=counterpart[0].elements,
        parts=tuple(part for tensor in tensors for part in tensor.ranges),
    )


def _conversion(
    one: Tensor, other: Tensor, one_files: OpenFiles, other_files: OpenFiles, reason: str
) -> tuple[str, str]:
    """The conversion after which the two are equal, "" for none; and why they differ."""
    if _is_padded(one, other):
        rows = min(one.shape[0], other.shape[0])
        result = compare_tensors(one_files, one, other_files, other, rows)
        return "padded vocabulary" * (result.outcome in ("equal", "cast")), reason
    if one.elements != other.elements or not can_be_held(one, other):
        return "", reason
    here, there = values_of(one_files, one), values_of(other_files, other)
    named_alike = same_convention(one.name, other.name)
    if here.ndim == 2 and same_values(here.T, there):
        square = here.shape == there.shape and named_alike
        return SQUARE if square else "transposed", reason
    if here.shape != there.shape:
        return "other shape" * same_values(here.ravel(), there.ravel()), reason
    if is_norm(one) and (same_values(here + 1, there) or same_values(here, there + 1)):
        return ("", ADDED) if named_alike else ("norms with 1 added", reason)
    return _other_order(one, other, here, there, reason)


def _other_order(
    one: Tensor, other: Tensor, here: Array, there: Array, reason: str
) -> tuple[str, str]:
    """Rows in another order: of rotary heads where the two are of different programs."""
    for half in ("", *HALVES):
        first, second = (rounded(half, each) if half else each for each in (here, there))
        if rows := rotary_rows(first, second) or rotary_rows(second, first):
            text = f"permuted rotary halves of heads of {rows:,} rows"
            if not same_convention(one.name, other.name):
                return text, reason
            return "", f"{text}, which models of the same names do not have"
        if same_rows(first, second):
            tokens = part_of(one) in ("embedding", "head")
            return "", f"the same rows in another order{', as of tokens' * tokens}"
    return "", reason or relation(here, there)


def _is_padded(one: Tensor, other: Tensor) -> bool:
    tokens = part_of(one) in ("embedding", "head")
    return (
        tokens
        and len(one.shape) == len(other.shape) > 0
        and one.shape[1:] == other.shape[1:]
        and one.shape[0] != other.shape[0]
    )


def can_be_held(*tensors: Tensor) -> bool:
    return all(
        tensor.dtype in FLOATS and tensor.strides is None and tensor.elements * 4 <= LARGEST
        for tensor in tensors
    )


def values_of(files: OpenFiles, tensor: Tensor) -> Array:
    data = bytearray(tensor.elements * BITS[tensor.dtype] // 8)
    fill(files, tensor.ranges, data, 0)
    return decode(tensor.dtype, data).reshape(tensor.shape)


def same_values(one: Array, other: Array) -> bool:
    """Equal, or one the other rounded to a half precision."""
    if one.shape != other.shape:
        return False
    if (one == other).all():
        return True
    return any(
        bool((rounded(half, one) == rounded(half, other)).all())
        and bool((rounded(half, one) == one).all() or (rounded(half, other) == other).all())
        for half in HALVES
    )
