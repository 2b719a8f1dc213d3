"""Classes beyond the outputs of a model, where its loss refuses them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import torch

from ..foreign import Foreign, containers, observing
from .agreement import label_of
from .views import LABELS

MOST_ROWS = 5


def beyond(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batches: List[Foreign]
) -> Optional[Dict[str, Any]]:
    """The record Indices; None where every class has an output, or the loss takes others, too."""
    labels = [label_of(each) for each in batches]
    if any(e is None or e.dim() != 1 or e.is_floating_point() or not len(e) for e in labels):
        return None
    classes = [each for each in labels if each is not None]
    width = outputs_of(module, loss, batches[0])
    highest = max((int(each.max()) for each in classes), default=0)
    if width is None or width < 2 or highest < width:
        return None
    worst = batches[max(range(len(classes)), key=lambda n: int(classes[n].max()))]
    if not refuses(module, loss, worst) or refuses(module, loss, clamped(worst, width)):
        return None
    rows = torch.nonzero(torch.cat(classes) >= width)[:, 0].tolist()
    return {
        "type": "Indices", "kind": "classes", "entries": width, "table": "the model's output",
        "highest": highest, "beyond": len(rows), "rows": rows[:MOST_ROWS],
    }  # fmt: skip


def outputs_of(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> Optional[int]:
    """The width of what the module returns for rows; None if that is no table of rows x outputs."""
    widths: List[int] = []

    def look(_module: Foreign, _inputs: Foreign, output: Foreign) -> None:
        if isinstance(output, torch.Tensor) and output.dim() == 2:
            widths.append(output.shape[1])

    handle = module.register_forward_hook(look)
    try:
        with torch.no_grad():
            observing.attempt(lambda: loss(module, batch), None)
    finally:
        handle.remove()
    return widths[0] if len(widths) == 1 else None


def refuses(module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign) -> bool:
    with torch.no_grad():
        return observing.attempt(lambda: loss(module, batch) is None, True)


def clamped(batch: Foreign, width: int) -> Foreign:
    """The batch with classes below the width."""
    if containers.is_mapping(batch):
        name = next(name for name in LABELS if name in batch)
        return {**batch, name: batch[name].clamp(max=width - 1)}
    return type(batch)([*batch[:-1], batch[-1].clamp(max=width - 1)])
