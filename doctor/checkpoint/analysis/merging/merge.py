"""A merged model beside its base and the adapters: every weight that they change, and the rest."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence

import msgspec

from doctor._util.processors import usable_processors
from doctor._util.units import shown
from doctor.checkpoint.analysis.arithmetic import narrower
from doctor.checkpoint.analysis.merging import deviation, mistakes, projection
from doctor.checkpoint.analysis.merging.adapter import Adapter
from doctor.checkpoint.analysis.merging.layers import layers
from doctor.checkpoint.analysis.merging.names import Model
from doctor.checkpoint.analysis.merging.products import Update, is_of_experts, joined, part_update
from doctor.checkpoint.analysis.merging.rows import (
    Matrix,
    Sides,
    blocks,
    matrix_of,
    numbers,
    read_rows,
    split,
)
from doctor.checkpoint.analysis.merging.targets import Target, find_targets
from doctor.checkpoint.analysis.merging.untouched import compare_replaced, compare_untouched
from doctor.checkpoint.analysis.processes import look_at_all
from doctor.checkpoint.analysis.statistics import layer_of
from doctor.checkpoint.analysis.tensor_names import part_of
from doctor.checkpoint.analysis.workers import Progress
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records.merge import AdapterUse, Merge, MergedWeight
from doctor.checkpoint.tensors import Tensor

SAMPLE = 1 << 16
"""Elements of each weight that are compared, unless all are."""

MEASURED = 8
"""Where all rows are read, one of so many blocks is measured, and others that are not alike."""

MOST = 20_000
FEW = 10


LEAST_BYTES = 1 << 26
"""Of the base for a further process: less takes as long as its start."""


class _Found(msgspec.Struct):
    """What the comparison of targets gave."""

    weights: list[MergedWeight] = []
    unread: list[str] = []
    misfits: dict[int, list[str]] = {}
    zero: dict[int, int] = {}
    read: int = 0

    def add(self, other: _Found) -> None:
        """What the comparison of further targets gave."""
        self.weights += other.weights
        self.unread += other.unread
        for number, texts in other.misfits.items():
            self.misfits.setdefault(number, []).extend(texts)
        for number, count in other.zero.items():
            self.zero[number] = self.zero.get(number, 0) + count
        self.read += other.read


def examine_merge(
    merged: Model | None,
    base: Model,
    adapters: Sequence[Adapter],
    *,
    base_path: str,
    every: bool = False,
    progress: Progress | None = None,
) -> Merge:
    """`merged` None: only whether the adapters fit the base. `every`: all rows, not a sample."""
    began = time.perf_counter()
    found = _Found()
    targets, unmatched = find_targets(merged, base, adapters, found.unread)

    def look(target: Target, opened: Sequence[OpenFiles]) -> _Found:
        return _examine(target, opened, adapters, merged is not None, every)

    models = [(merged or base).directory, base.directory]
    directories = [*models, *(each.directory for each in adapters)]
    size = sum(target.base.stored_bytes for target in targets) if merged else 0
    count = min(usable_processors(), 1 + size // LEAST_BYTES)
    looked = look_at_all(targets, directories, look, _Found, count, progress)
    for number, result in sorted(looked, key=lambda pair: pair[0]):
        if isinstance(result, str):
            result = _Found(unread=[f"{targets[number].base.name[:300]}: {result}"])
        found.add(result)
    found.weights.sort(key=lambda each: each.name)
    if merged:
        _explain_unlike(found, targets, adapters, directories)
    replaced, changed_names = compare_replaced(merged, base, adapters) if merged else ([], set())
    touched = {target.merged.name for target in targets if target.merged is not None}
    untouched = (
        compare_untouched(merged, base, touched | changed_names, progress) if merged else None
    )
    return Merge(
        base=base_path,
        adapters=tuple(
            _use(number, adapter, unmatched, found) for number, adapter in enumerate(adapters)
        ),
        weights=tuple(found.weights[:MOST]),
        unread=tuple(found.unread[:20]),
        unread_count=len(found.unread),
        replaced=tuple(replaced),
        untouched=untouched[0] if untouched else None,
        layers=layers(found.weights),
        bytes=found.read + (untouched[1] if untouched else 0),
        sampled=not every,
        seconds=time.perf_counter() - began,
    )


def _explain_unlike(
    found: _Found,
    targets: Sequence[Target],
    adapters: Sequence[Adapter],
    directories: Sequence[Directory],
) -> None:
    """Name what the first weights hold that their updates do not explain."""
    unlike = [at for at, weight in enumerate(found.weights) if mistakes.is_unlike(weight)]
    if not unlike:
        return
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(OpenFiles(each)) for each in directories]
        for at in unlike[: mistakes.MOST]:
            with contextlib.suppress(CheckpointError, MemoryError):
                text = mistakes.explain(found.weights[at], targets, adapters, opened)
                found.weights[at] = msgspec.structs.replace(found.weights[at], instead=text)


def _examine(
    target: Target,
    opened: Sequence[OpenFiles],
    adapters: Sequence[Adapter],
    merged: bool,
    every: bool,
) -> _Found:
    files, base_files, *factor_files = opened
    found, updates = _Found(), []
    for number, part in target.parts:
        try:
            update = part_update(adapters[number], number, part, target.base, factor_files[number])
        except (CheckpointError, MemoryError) as error:
            if isinstance(error, CheckpointError) and error.kind == "damaged":
                found.misfits[number] = [f"{part.factors.module}: {error.text}"]
            else:
                found.unread.append(_unread(target, error))
            return found
        if update.is_zero:
            found.zero[number] = found.zero.get(number, 0) + 1
        updates.append(update)
    if merged:
        try:
            weight, found.read = _compare(target, joined(updates), base_files, files, every)
            found.weights.append(weight)
        except (CheckpointError, MemoryError) as error:
            found.unread.append(_unread(target, error))
    return found


def _unread(target: Target, error: CheckpointError | MemoryError) -> str:
    text = error.text if isinstance(error, CheckpointError) else "too large for the memory"
    return f"{target.base.name[:300]}: {text}"


def _compare(
    target: Target, updates: Sequence[Update], base_files: OpenFiles, files: OpenFiles, every: bool
) -> tuple[MergedWeight, int]:
    """The record, and the bytes that were read. Raises CheckpointError."""
    if target.merged is None:
        raise CheckpointError("missing", "the merged model has no tensor of that name")
    experts = is_of_experts(target.parts[0][1].factors, target.base)
    before, after = _matrix(target.base, experts), _matrix(target.merged, experts)
    if not (before.readable and after.readable):
        raise CheckpointError("note", f"stored as {target.base.dtype} and {target.merged.dtype}")
    rows = min(before.rows, after.rows)
    if before.columns != after.columns or (before.rows != after.rows and not _grows(target)):
        text = f"its shape is {list(target.merged.shape)}, the base's {list(target.base.shape)}"
        raise CheckpointError("note", text)
    sides = Sides(base_files, before, files, after, rows)
    sums, read = deviation.Sums(), _column_norms(updates, base_files, before)
    if projection.is_possible(updates):
        _measure_and_project(sides, updates, sums)
    else:
        _measure(sides, updates, sums, every)
    return _record(target, updates, sums), read * 2 + sides.read


def _measure(
    sides: Sides, updates: Sequence[Update], sums: deviation.Sums, every: bool = False
) -> list[int]:
    """Rows spread over the weight; with `every`, what is left of all others, too."""
    looked: list[int] = []
    for number, ranges in enumerate(blocks(sides.rows, sides.columns, None if every else SAMPLE)):
        one, other = sides.at(ranges)
        if not sums.elements:
            sums.grid = narrower(sides.merged.dtype, other)
        at = numbers(ranges)
        measured = not (every and number % MEASURED)
        if measured or not deviation.is_alike(sums, one, other, updates, at):
            deviation.add(sums, one, other, updates, at)
            looked.extend(at.tolist())
    return looked


def _measure_and_project(sides: Sides, updates: Sequence[Update], sums: deviation.Sums) -> None:
    """Rows spread over the weight, and those of all whose projection is not alike."""
    looked = _measure(sides, updates, sums)
    if len(looked) == sides.rows:
        return
    residual, base = (each / sums.elements * sides.columns for each in (sums.residual, sums.base))
    off = projection.unlike(projection.project(sides, updates), looked, residual, base)
    for ranges in split(off, sides.columns):
        deviation.add(sums, *sides.at(ranges), updates, numbers(ranges))


def _column_norms(updates: Sequence[Update], files: OpenFiles, base: Matrix) -> int:
    """Measure them where DoRA needs them: from all rows. Elements that were read."""
    products = [product for update in updates for product in update.column_norms]
    if not products:
        return 0
    for ranges in blocks(base.rows, base.columns, None):
        values, rows = read_rows(files, base, ranges), numbers(ranges)
        for product in products:
            assert product.norms is not None
            product.norms.add(values + product.delta(rows))
    return base.rows * base.columns // 2


def _matrix(tensor: Tensor, experts: bool) -> Matrix:
    return Matrix((tensor,), max(tensor.shape[-1], 1)) if experts else matrix_of(tensor)


def _grows(target: Target) -> bool:
    """Whether the number of rows is that of tokens, which models are padded and resized by."""
    return part_of(target.base) in ("embedding", "head")


def _record(target: Target, updates: Sequence[Update], sums: deviation.Sums) -> MergedWeight:
    def root(squares: float) -> float:
        return math.sqrt(squares / sums.elements) if sums.elements else 0.0

    scale, explained = deviation.scale(sums)
    kept = sums.kept / sums.update if sums.update else 1.0
    return MergedWeight(
        name=target.base.name[:500],
        layer=layer_of(target.base)[:9],
        kind=part_of(target.base),
        elements=sums.elements,
        base=root(sums.base),
        update=root(sums.update),
        moved=root(sums.moved),
        residual=root(sums.residual),
        bound=root(sums.bound),
        mismatch=root(sums.mismatch),
        lost=min(1.0, max(0.0, 1.0 - kept)),
        changed=sums.changed,
        expected=sums.expected,
        scale=_finite(scale),
        explained=_finite(explained) or 0.0,
        factors=tuple(_finite(each) or 0.0 for each in deviation.factors(sums)),
        adapters=tuple(update.adapter for update in updates),
        grid=sums.grid,
        quantized=sums.quantized or sums.requantized,
        requantized=bool(sums.requantized),
        nonfinite=sums.nonfinite,
        rows=sums.rows,
        rows_off=sums.rows_off,
        first_off=sums.first_off,
        residual_of_others=root(sums.residual_of_others),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _use(
    number: int, adapter: Adapter, unmatched: dict[int, list[str]], found: _Found
) -> AdapterUse:
    factors = list(adapter.factors.values())
    incomplete = [each.module for each in factors if not each.whole]
    misfits, none = found.misfits.get(number, []), unmatched.get(number, [])
    return AdapterUse(
        path=shown(adapter.path, 300),
        method=adapter.method,
        weight=adapter.weight,
        unsupported=adapter.unsupported,
        converted=adapter.converted,
        rank=adapter.rank,
        alpha=adapter.alpha,
        modules=len(factors) - len(incomplete),
        patterns=adapter.patterns,
        base=adapter.base_name,
        revision=adapter.revision,
        unmatched=tuple(shown(name, 200) for name in none[:FEW]),
        unmatched_count=len(none),
        misfits=tuple(shown(text, 300) for text in misfits[:FEW]),
        misfit_count=len(misfits),
        incomplete=tuple(shown(name, 200) for name in incomplete[:FEW]),
        zero=found.zero.get(number, 0),
        unscaled=sum(each.whole and each.scale is None for each in factors),
        unscaled_reason=adapter.unscaled_reason,
    )
