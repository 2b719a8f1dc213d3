"""Whether an optimizer's entries can be those of the weights beside them, by their shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from doctor.checkpoint.analysis.attribution import entry_shape, is_trained
from doctor.checkpoint.records import Fit
from doctor.checkpoint.tensors import OptimizerState, Tensor

STORED = ("F32", "BF16", "F16", "F64")


def fit_optimizer(state: OptimizerState, tensors: Sequence[Tensor]) -> Fit | None:
    """None where an entry does not show its weight's shape (flat, factored, quantised).

    `tensors`: all that lie in the files of the weights, also of further state_dicts.
    """
    shapes = [entry_shape(entry) for entry in state.entries]
    weights = [tensor for tensor in tensors if is_trained(tensor)]
    if not shapes or not weights or state.masters or None in shapes:
        return None
    room = Counter(tensor.shape for tensor in weights)
    foreign = 0
    example: tuple[int, ...] = ()
    for shape, count in Counter(shape for shape in shapes if shape is not None).items():
        beyond = max(0, count - room[shape])
        foreign += beyond
        example = shape if beyond and not example else example
    left = room - Counter(shape for shape in shapes if shape is not None)
    over = Counter(shape for shape in shapes if shape is not None) - room
    grouped = {key for group in state.groups for key in group.keys}
    ungrouped = sum(entry.key not in grouped for entry in state.entries) if grouped else 0
    return Fit(
        weights=len(weights),
        foreign=foreign,
        example=example,
        resized=_resized(over, left),
        ungrouped=ungrouped,
    )


def _resized(over: Counter[tuple[int, ...]], left: Counter[tuple[int, ...]]) -> tuple[int, int]:
    """Rows before and now, where every entry beyond the weights is of one that was resized."""
    pairs = {
        (shape, other)
        for shape in over
        for other in left
        if shape and other and shape[1:] == other[1:] and over[shape] <= left[other]
    }
    rows = {(shape[0], other[0]) for shape, other in pairs}
    return rows.pop() if len(rows) == 1 and {shape for shape, _ in pairs} == over.keys() else (0, 0)
