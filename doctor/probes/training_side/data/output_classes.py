"""Targets against the outputs of a model: classes that its loss refuses, and targets that it
stretches over them."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..foreign import Foreign, containers, observing
from .agreement import label_of
from .relations import relation
from .views import LABELS

MOST_ROWS = 5


def beyond(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batches: List[Foreign]
) -> Optional[Dict[str, Any]]:
    """The record Indices; None where every class has an output, or the loss takes others, too."""
    labels = [label_of(each) for each in batches]
    if any(e is None or e.is_floating_point() or not e.numel() for e in labels):
        return None
    classes = [each for each in labels if each is not None]
    width = outputs_of(module, loss, batches[0], classes[0].dim())
    highest = max((int(each.max()) for each in classes), default=0)
    if width is None or width < 2 or highest < width:
        return None
    worst = batches[max(range(len(classes)), key=lambda n: int(classes[n].max()))]
    if not refuses(module, loss, worst) or refuses(module, loss, clamped(worst, width)):
        return None
    unfit = {int(one) for each in classes for one in torch.unique(each[each >= width])}
    over = [(each >= width).reshape(len(each), -1).any(1) for each in classes]
    rows = torch.nonzero(torch.cat(over))[:, 0].tolist()
    return {
        "type": "Indices", "kind": "classes", "entries": width, "table": "the model's output",
        "highest": highest, "beyond": len(rows), "rows": rows[:MOST_ROWS],
        "alone": unfit == {highest} and highest > width,
    }  # fmt: skip


def broadcast(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> List[Dict[str, Any]]:
    """A record where one output for each row, rows x 1, meets targets of rows, and the loss differs
    from that of targets of rows x 1."""
    target = label_of(batch)
    if target is None or not target.is_floating_point() or target.dim() not in (1, 2):
        return []
    rows = len(target)
    other = {1: (rows, 1), 2: (rows,)}[target.dim()]
    if rows < 2 or target.numel() != rows or other not in shapes_of(module, loss, batch):
        return []
    values = [value_of(module, loss, each) for each in (batch, reshaped(batch, other))]
    same = None in values or torch.allclose(torch.tensor(values[0]), torch.tensor(values[1]))
    return [] if same else [relation("target broadcast", 1, 1, (), (), (rows,))]


def value_of(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> Optional[float]:
    """The loss, from the same random numbers each time; None where it is refused."""
    with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of such targets
        torch.manual_seed(0)
        return observing.attempt(lambda: float(loss(module, batch).mean()), None)


def reshaped(batch: Foreign, shape: Sequence[int]) -> Foreign:
    return with_target(batch, lambda target: target.reshape(shape))


def outputs_of(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign, dimensions: int
) -> Optional[int]:
    """The outputs for each class of so many dimensions; None where the module returns others."""
    shapes = [each for each in shapes_of(module, loss, batch) if len(each) == dimensions + 1]
    return shapes[0][1] if len(shapes) == 1 else None


def shapes_of(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> List[Tuple[int, ...]]:
    """The shapes of the tensors that the module returns while the loss of a batch is computed."""
    shapes: List[Tuple[int, ...]] = []

    def look(_module: Foreign, _inputs: Foreign, output: Foreign) -> None:
        if isinstance(output, torch.Tensor):
            shapes.append(tuple(output.shape))

    handle = module.register_forward_hook(look)
    try:
        with torch.no_grad():
            observing.attempt(lambda: loss(module, batch), None)
    finally:
        handle.remove()
    return shapes


def refuses(module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign) -> bool:
    with torch.no_grad():
        return observing.attempt(lambda: loss(module, batch) is None, True)


def clamped(batch: Foreign, width: int) -> Foreign:
    """The batch with classes below the width."""
    return with_target(batch, lambda target: target.clamp(max=width - 1))


def with_target(batch: Foreign, change: Callable[[torch.Tensor], torch.Tensor]) -> Foreign:
    if containers.is_mapping(batch):
        name = next(name for name in LABELS if name in batch)
        return {**batch, name: change(batch[name])}
    return type(batch)([*batch[:-1], change(batch[-1])])
