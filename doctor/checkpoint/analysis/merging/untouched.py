"""Tensors that no adapter multiplies: those it replaces, and those that it leaves alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from doctor._util.units import shown
from doctor.checkpoint.analysis.arithmetic import rounded
from doctor.checkpoint.analysis.equality import Difference, compare_tensors
from doctor.checkpoint.analysis.merging.adapter import Adapter
from doctor.checkpoint.analysis.merging.names import Model, pairs
from doctor.checkpoint.analysis.merging.quantized import kind_of_quantization
from doctor.checkpoint.analysis.merging.rows import blocks, matrix_of, numbers, read_rows
from doctor.checkpoint.analysis.tensor_names import part_of
from doctor.checkpoint.analysis.workers import Progress, work
from doctor.checkpoint.computed import is_computed
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records.merge import Replaced, Untouched
from doctor.checkpoint.tensors import Tensor

MOST = 20

SAME = ("equal", "cast")


def compare_untouched(
    merged: Model, base: Model, touched: Collection[str], progress: Progress | None
) -> tuple[Untouched, int]:
    """All tensors of both models but `touched` ones of the merged; and the bytes read."""
    outcomes: Counter[str] = Counter()
    casts: dict[str, None] = {}
    named: dict[str, list[str]] = {"padded": [], "changed": [], "reshaped": []}
    matched = [pair for pair in pairs(merged.index, base.index) if pair[1].name not in touched]
    matched.sort(key=lambda pair: pair[1].ranges[0])
    results: dict[str, tuple[str, Difference]] = {}

    def look(pair: tuple[str, Tensor, Tensor], opened: Sequence[OpenFiles]) -> None:
        name, now, before = pair
        result = _compare(opened[0], now, opened[1], before)
        results[name] = _padded(result, opened[0], now, opened[1], before), result

    work(matched, (merged.directory, base.directory), look, None, progress)
    for name, now, before in matched:
        outcome, result = results[name]
        outcomes[outcome] += 1
        if outcome == "cast":
            casts[shown(result.reason, 40)] = None
        if outcome in named:
            named[outcome].append(_described(name, result, now, before))
    read = sum(result.read for _, result in results.values())
    off = [pair for pair in matched if results[pair[0]][0] == "changed"]
    added, removed = _alone(merged, base, {*touched})
    return (
        Untouched(
            compared=len(matched) - outcomes["unread"],
            equal=outcomes["equal"],
            cast=outcomes["cast"],
            casts=tuple(casts)[:MOST],
            padded=tuple(named["padded"][:MOST]),
            changed=tuple(named["changed"][:MOST]),
            changed_count=len(named["changed"]),
            quantized=_quantized(merged, base, off),
            reshaped=tuple(named["reshaped"][:MOST]),
            added=tuple(shown(name, 200) for name in added[:MOST]),
            added_count=len(added),
            removed=tuple(shown(name, 200) for name in removed[:MOST]),
            removed_count=len(removed),
            copies=tuple(shown(name, 200) for name in removed[:MOST] if is_tied_copy(base, name)),
            unread=outcomes["unread"],
        ),
        read,
    )


def _quantized(merged: Model, base: Model, off: Sequence[tuple[str, Tensor, Tensor]]) -> str:
    """The kind of quantization that made the first tensors that differ, "" where none did."""
    kinds = set()
    with OpenFiles(merged.directory) as files, OpenFiles(base.directory) as base_files:
        for _, now, before in off[:MOST]:
            after, origin = matrix_of(now), matrix_of(before)
            if not (after.readable and origin.readable and len(now.shape) > 1):
                return ""
            ranges = next(blocks(after.rows, after.columns, None))
            try:
                rows = read_rows(base_files, origin, ranges), read_rows(files, after, ranges)
            except CheckpointError:
                return ""
            kinds.add(kind_of_quantization(rows[0], 0, rows[1]))
    return kinds.pop() if len(kinds) == 1 else ""


def _alone(merged: Model, base: Model, touched: set[str]) -> tuple[list[str], list[str]]:
    """Names of tensors that only one of the models has."""
    both = list(pairs(merged.index, base.index))
    here, there = {now.name for _, now, _ in both}, {before.name for _, _, before in both}
    added = {tensor.name for tensor in merged.index.tensors.values()} - here - touched
    removed = {tensor.name for tensor in base.index.tensors.values()} - there
    return sorted(added), sorted(removed, key=lambda name: (is_computed(name), name))


def is_tied_copy(base: Model, name: str) -> bool:
    """Whether a head or an embedding is tied: equal to another one of its model."""
    tensors = list(base.index.tensors.values())
    tensor = next(each for each in tensors if each.name == name)
    tied = ("embedding", "head")
    if part_of(tensor) not in tied:
        return False
    with OpenFiles(base.directory) as files:
        return any(
            _compare(files, tensor, files, other).outcome == "equal"
            for other in tensors
            if other is not tensor and other.shape == tensor.shape and part_of(other) in tied
        )


def _compare(files: OpenFiles, now: Tensor, base_files: OpenFiles, before: Tensor) -> Difference:
    try:
        return compare_tensors(files, now, base_files, before)
    except CheckpointError as error:
        return Difference("unread", error.text)


def _padded(
    result: Difference, files: OpenFiles, now: Tensor, base_files: OpenFiles, before: Tensor
) -> str:
    """The outcome; "padded" where only the number of tokens differs."""
    if result.outcome != "reshaped":
        return "changed" if result.outcome == "differs" else result.outcome
    tokens = part_of(now) in ("embedding", "head") and now.shape[1:] == before.shape[1:]
    if not (tokens and now.shape and before.shape):
        return "reshaped"
    rows = min(now.shape[0], before.shape[0])
    try:
        common = compare_tensors(files, now, base_files, before, rows)
    except CheckpointError:
        return "unread"
    return "padded" if common.outcome in ("equal", "cast") else "changed"


def _described(name: str, result: Difference, now: Tensor, before: Tensor) -> str:
    if now.shape != before.shape:
        return f"{shown(name, 200)} {list(now.shape)} for {list(before.shape)}"
    return f"{shown(name, 200)} by {result.relative:.2g} of its size"


def compare_replaced(
    merged: Model, base: Model, adapters: Sequence[Adapter]
) -> tuple[list[Replaced], set[str]]:
    """What the adapters bring whole or by rows, and the merged model's names of it."""
    results: list[Replaced] = []
    names: set[str] = set()
    for adapter in adapters:
        with (
            OpenFiles(merged.directory) as files,
            OpenFiles(base.directory) as base_files,
            OpenFiles(adapter.directory) as own_files,
        ):
            for name, tensor in adapter.saved.items():
                now, before = merged.index.find(name), base.index.find(name)
                if now is None:
                    results.append(Replaced(name=shown(name, 200), matches=False))
                    continue
                names.add(now.name)
                same = _compare(files, now, own_files, tensor).outcome in SAME
                kept = (
                    before is not None and _compare(files, now, base_files, before).outcome in SAME
                )
                results.append(Replaced(name=shown(name, 200), matches=same, as_base=kept))
            for module, rows in adapter.tokens.items():
                now = merged.index.find(f"{module}.weight")
                before = base.index.find(f"{module}.weight")
                indices = adapter.token_indices.get(module)
                if now is None or before is None or indices is None:
                    results.append(Replaced(name=shown(module, 200), matches=False))
                    continue
                names.add(now.name)
                opened = (files, base_files, own_files)
                results.append(_tokens(opened, (now, before, rows), indices))
    return results, names


def _tokens(
    opened: tuple[OpenFiles, OpenFiles, OpenFiles],
    tensors: tuple[Tensor, Tensor, Tensor],
    indices: Sequence[int],
) -> Replaced:
    """Rows that the adapter brings, in an embedding whose other rows are the base's."""
    import numpy

    merged, base, own = (matrix_of(tensor) for tensor in tensors)
    name = shown(tensors[0].name, 200)
    fits = own.rows == len(indices) and merged.columns == base.columns == own.columns
    within = all(0 <= index < min(merged.rows, base.rows) for index in indices)
    if not (fits and within and merged.readable and base.readable and own.readable):
        return Replaced(name=name, matches=False)
    try:
        found = read_rows(opened[0], merged, [(index, index + 1) for index in indices])
        brought = read_rows(opened[2], own, [(0, own.rows)])
        matches = bool((found == rounded(merged.dtype, brought)).all())
        changed = 0
        for ranges in blocks(min(merged.rows, base.rows), merged.columns, None):
            now = read_rows(opened[0], merged, ranges)
            before = rounded(merged.dtype, read_rows(opened[1], base, ranges))
            kept = ~numpy.isin(numbers(ranges), indices)
            changed += int((now != before).any(axis=1)[kept].sum())
    except CheckpointError:
        return Replaced(name=name, matches=False)
    return Replaced(name=name, matches=matches, other_rows=changed)
