"""Whether a loss counts the padding of measured targets, by its gradient there, where the lengths
or the mask of the batch say what is padding."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import torch

from ..foreign import Foreign, containers
from .documents import host
from .given import label_name
from .places import LENGTHS, SEVERAL
from .relations import relation
from .views import LABELS, MASKS

STEPS = ("padding_mask", "pad_mask", "valid", "valid_mask", *MASKS)


def of_batch(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], batch: Foreign
) -> List[Dict[str, Any]]:
    """The relation of the first target for which it does."""
    if not containers.is_mapping(batch):
        return []
    named = {name: each for name, each in containers.tensors(batch).items() if each.dim()}
    label = label_name(batch, named)
    for name, each in named.items():
        measured = each.is_floating_point() and each.dim() > 1 and (name in LABELS or name == label)
        padded = padding_of(each, named) if measured else None
        if padded is None:
            continue
        target = each.detach().clone().requires_grad_()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            value = loss(module, {**batch, name: target})
            (slope,) = torch.autograd.grad(value, [target], allow_unused=True)
        counted = (host(each if slope is None else slope) != 0).reshape(*padded.shape, -1).any(2)
        if slope is not None and bool(counted[padded].any()):
            part = int((counted & padded).sum())
            return [relation("padding in loss", part, int(counted.sum()), (name,))]
    return []


def padding_of(target: torch.Tensor, named: Dict[str, torch.Tensor]) -> Optional[torch.Tensor]:
    """Rows x steps, true behind each row's length; None where none is stated, or all are equal."""
    rows, steps = target.shape[:2]
    fields = {name: host(each) for name, each in named.items() if not each.is_floating_point()}
    lengths = next((fields[n] for n in LENGTHS if n in fields), None)
    if lengths is None:
        mask = next((fields[n] for n in STEPS if n in fields), None)
        if mask is None or mask.shape != (rows, steps) or bool((mask.long().diff(dim=1) > 0).any()):
            return None  # it leaves out more than what stands behind the end
        lengths = mask.long().sum(1)
    if lengths.shape != (rows,) or len(torch.unique(lengths)) < SEVERAL:
        return None
    return torch.arange(steps)[None] >= lengths[:, None] if int(lengths.max()) == steps else None
