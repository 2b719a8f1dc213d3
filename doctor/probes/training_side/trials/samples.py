"""Whether the output of one sample depends on another one of the batch."""

from __future__ import annotations

import functools
import math
from typing import Any, Dict, List, NamedTuple, Set, Tuple

import torch

from ..foreign import containers
from ..foreign.module_hooks import module_hooks
from ..subject import subjects
from ..subject.training_step import Subject
from . import outputs
from .outputs import Operation

SOFTMAX = ("softmax", "log_softmax")
CLEAR, SLIGHT = 1e-4, 1e-6
"""Share of the largest output by which others change; an untrained attention over the samples has
almost the same weights for all of them."""
VIEWS = ("view", "reshape")
Softmaxes = List[Tuple[str, Tuple[int, ...], int, str]]
"""Name, shape, axis and place of each softmax."""
INDEXING = {"__getitem__": 1, "index_select": 2, "gather": 2, "index_add": 2, "index_add_": 2,
            "scatter_add": 2, "scatter_add_": 2, "scatter": 2, "scatter_": 2}  # fmt: skip
"""Functions that take rows by number -> the place of the numbers in their arguments."""


def trial(subject: Subject) -> Dict[str, Any]:
    """Changes the first sample and compares the outputs of the others.

    The axis of the batch is the one that follows its size. Only a softmax over it, a layer that
    takes it for time, and a view that exchanges it are named: graph networks, contrastive losses
    and capacities of experts mix samples on purpose. A one-dimensional tensor, a label for each
    sample, proves the layout; labels [n, values] do not, which series with the time first have: a
    layer that takes the samples for time is named there if the second axis is mixed, too.
    """
    count = subjects.first_dimension(subject.batch)
    if not count or count < 3:
        return {"applies": False, "reason": "no batch of three samples or more"}
    shorter = subjects.rows_of(subject.batch, slice(count - 1))
    over: List[Operation] = []
    offsets: List[Operation] = []
    calls: List[Layer] = []
    calls_of_fewer: List[Layer] = []
    joined: Set[int] = set()
    softmaxes: Softmaxes = []

    def note(name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if name in SOFTMAX:
            note_softmax(softmaxes, name, args, options)
        elif name in VIEWS and (text := _exchanged(name, args[0], result, count, joined)):
            over.append(Operation(text, outputs.place()))
        elif name in INDEXING and (text := _leaves_out(name, args, options, count)):
            offsets.append(Operation(text, outputs.place()))
        joined.update(_joined(name, args, result, count))

    with module_hooks(subject.module, functools.partial(_note_layer, calls)):
        whole = outputs.forward(subject, subject.batch, note)
    fewer: Softmaxes = []
    note_fewer = functools.partial(_note_only_softmax, fewer)
    with module_hooks(subject.module, functools.partial(_note_layer, calls_of_fewer)):
        part = outputs.forward(subject, shorter, note_fewer)
    layers = _over_samples(calls, calls_of_fewer, count)
    over = [*over_samples(softmaxes, fewer, count), *over]
    changed = containers.mapped(
        subject.batch, lambda each: outputs.changed_at(0, each) if each.dim() else each
    )
    other = outputs.forward(subject, changed)
    followed = _followed(part, {name: whole[name] for name in whole if name in other}, count)
    if not followed:
        return {"applies": False, "reason": "no axis of the output follows the number of samples"}
    least = SLIGHT if over else CLEAR
    moved = any(
        set(outputs.differing(whole[name], other[name], axis, least)) - {0}
        for name, axis in followed.items()
    )
    if not moved:
        return {"applies": True, "found": ""}
    labelled = any(each.dim() == 1 for each in containers.tensors(subject.batch).values())
    all_late = not labelled and len(layers) == len(calls) > 0
    late = all_late and _is_no_series(subject, calls, whole, count)
    named = over * labelled + layers * (labelled or late)
    kind = "offset" if labelled and offsets and not named else "samples"
    suspected = layers[0].name if layers else ""
    operation, place = ([*named, *offsets * labelled] or [Operation("", suspected)])[0]
    return {"applies": True, "found": kind, "operation": operation, "place": place}


def _followed(
    part: Dict[str, torch.Tensor], whole: Dict[str, torch.Tensor], count: int
) -> Dict[str, int]:
    """The axis of each output that follows the number of samples."""
    axes = {
        name: outputs.axis_of(tuple(part[name].shape), tuple(value.shape), (count - 1, count))
        for name, value in whole.items()
        if name in part
    }
    return {name: axis for name, axis in axes.items() if axis >= 0}


def note_softmax(calls: Softmaxes, name: str, args: Any, options: Dict[str, Any]) -> None:
    """Note what a softmax gets and its axis, which torch chooses where none is passed."""
    value = args[0]
    axis = options.get("dim", args[1] if len(args) > 1 else None)
    if axis is None:
        axis = 0 if value.dim() in (0, 1, 3) else 1
    if value.dim() > 1:
        shape = tuple(value.shape)
        calls.append((name, shape, axis % value.dim(), outputs.place()))


def _note_only_softmax(
    calls: Softmaxes, name: str, args: Any, options: Dict[str, Any], result: Any
) -> None:
    if name in SOFTMAX:
        note_softmax(calls, name, args, options)


def over_samples(calls: Softmaxes, fewer: Softmaxes, count: int) -> List[Operation]:
    """The softmaxes over the axis that has one entry less where the batch has one sample less, and
    which no other axis follows; one of [samples, samples] is meant, as in a contrastive loss."""
    found = []
    for (name, shape, axis, place), (_, other, _, _) in zip(calls, fewer):
        differing = [n for n, pair in enumerate(zip(shape, other)) if pair[0] != pair[1]]
        several = math.prod(shape) > shape[axis] and len(other) == len(shape)
        if differing == [axis] and several and (shape[axis], other[axis]) == (count, count - 1):
            text = "%s over the samples (dim %d) of %s" % (name, axis, list(shape))
            found.append(Operation(text, place))
    return found if len(calls) == len(fewer) else []


def _leaves_out(name: str, args: Any, options: Dict[str, Any], count: int) -> str:
    """What a wrong offset shows: rows of [samples * nodes, ...] are taken by numbers that reach no
    row of the last sample; "" of others, and of a table that is no value of the batch."""
    if isinstance(args[0], torch.nn.Parameter):
        return ""
    rows = args[0].shape[0] if args[0].dim() > 1 else 0
    index = options.get("index", args[INDEXING[name]] if len(args) > INDEXING[name] else None)
    if not isinstance(index, torch.Tensor) or index.dtype != torch.int64 or index.dim() > 2:
        return ""
    nodes = rows // count
    if rows % count or nodes < 2 or index.numel() < 2 * count or int(index.max()) >= rows - nodes:
        return ""
    reached = int(index.max()) // nodes + 1
    return "numbers of rows that reach %d of the %d samples" % (reached, count)


def _takes_for_another_axis(value: torch.Tensor, result: torch.Tensor, count: int) -> bool:
    """Whether [samples, steps, ...] is viewed as [steps, samples, ...], which keeps the order of
    the values, as transpose() does not."""
    before, after = tuple(value.shape), tuple(result.shape)
    if len(before) < 3 or len(after) < 3 or before[0] != count or before[1] in (1, count):
        return False
    return after[:2] == (before[1], before[0])


def _joined(name: str, args: Any, result: Any, count: int) -> List[int]:
    """The steps of [samples, steps, ...] that flatten() or a view joins to [samples * steps, ...];
    at most one number."""
    if name not in (*VIEWS, "flatten") or args[0].dim() < 2 or not result.dim():
        return []
    before = tuple(args[0].shape)
    kept = before[0] == count and before[1] not in (1, count)
    return [before[1]] * (kept and result.shape[0] == count * before[1])


def _exchanged(
    name: str, value: torch.Tensor, result: torch.Tensor, count: int, joined: Set[int]
) -> str:
    """Which axes a view exchanges: of [samples, steps, ...], or of its rows that were joined."""
    after = tuple(result.shape)
    if _takes_for_another_axis(value, result, count):
        return "%s() that exchanges axes" % name
    if len(after) < 2 or after[1] != count or after[0] not in joined:
        return ""
    if not value.dim() or value.shape[0] != after[0] * count:
        return ""
    rows = "[%d * %d] rows as [%d, %d]" % (count, after[0], after[0], count)
    return "%s() that exchanges axes, %s" % (name, rows)


class Layer(NamedTuple):
    """A call of a recurrent or attention layer: what reads which axis as time."""

    text: str
    first: int
    time_first: bool
    """Whether it reads the first axis as time, where the second one has several entries:
    [samples, 1, width] may be one sequence whose steps are the samples, as the turns of one
    dialog."""
    attends: bool


def _note_layer(
    found: List[Layer], name: str, layer: torch.nn.Module, args: Any, options: Any
) -> None:
    if not isinstance(layer, (torch.nn.RNNBase, torch.nn.MultiheadAttention)):
        return
    value = args[0] if args else None
    sizes = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
    several = len(sizes) == 3 and sizes[1] not in (1, sizes[0])
    text = "%s (%s without batch_first) reads samples as time" % (name, type(layer).__name__)
    late = getattr(layer, "batch_first", True) is False
    attends = isinstance(layer, torch.nn.MultiheadAttention)
    found.append(Layer(text, sizes[0] if sizes else 0, late and several, attends))


def _over_samples(layers: List[Layer], fewer: List[Layer], count: int) -> List[Operation]:
    """Those that take the samples for time: the first axis follows their number."""
    return [
        Operation(one.text, "")
        for one, other in zip(layers, fewer)
        if one.time_first and one.first and one.first * (count - 1) == other.first * count
    ]


def _is_no_series(
    subject: Subject, calls: List[Layer], whole: Dict[str, torch.Tensor], count: int
) -> bool:
    """Whether the first axis holds no time, nor the second one samples: tokens that attend over it,
    or rows of several places that are joined with it; and no output has entries for the second
    axis that stay the same if another one changes. One series of numbers may mix both."""
    tensors = [each for each in containers.tensors(subject.batch).values() if each.dim() > 1]
    tokens = not any(each.is_floating_point() for each in tensors)
    if not all(each.first > count or (tokens and each.attends) for each in calls):
        return False
    widths = {each.shape[1] for each in tensors if len(each) == count} - {1}
    for width in widths:
        changed = containers.mapped(subject.batch, functools.partial(_other_column, count, width))
        other = outputs.forward(subject, changed)
        if width == count or any(
            name not in other or _kept_apart(value, other[name], count, width)
            for name, value in whole.items()
        ):
            return False
    return bool(widths)


def _other_column(count: int, width: int, value: torch.Tensor) -> torch.Tensor:
    """The value with another first entry of its second axis, if it has these sizes."""
    if value.dim() < 2 or tuple(value.shape[:2]) != (count, width):
        return value
    return outputs.changed_at(0, value.transpose(0, 1)).transpose(0, 1)


def _kept_apart(one: torch.Tensor, other: torch.Tensor, count: int, width: int) -> bool:
    if one.shape != other.shape or len(one) == count * width:
        return one.shape != other.shape or _kept_apart(
            one.reshape(count, width, -1), other.reshape(count, width, -1), count, width
        )
    for axis, size in enumerate(one.shape):
        if size == width and not set(outputs.differing(one, other, axis)) - {0}:
            return True
        if axis < 2 and width < size != count and size % width == 0:
            return True  # in an order that is not known
    return False
