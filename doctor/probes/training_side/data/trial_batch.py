"""A batch of other tokens in the form of the user's: its names, masks, positions and containers."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

from ..foreign import Foreign, containers, observing
from .documents import POSITIONS
from .views import LABELS, TOKENS


class NotMeasurable(Exception):
    """The message says why."""


Form = Callable[[torch.Tensor, torch.Tensor, torch.device, int], Any]


def form_of(batch: Foreign) -> Form:
    """A function that puts tokens and labels in the form of the user's batch."""
    if containers.is_mapping(batch):
        names = _names(batch)
        return lambda ids, labels, device, documents: {
            names[0]: ids.to(device),
            **({names[1]: labels.to(device)} if names[1] else {}),
            **{n: each.to(device) for n, each in _beside(batch, ids, documents).items()},
        }
    if isinstance(batch, torch.Tensor):
        return lambda ids, labels, device, documents: ids.to(device)
    kind = type(batch) if isinstance(batch, (list, tuple)) else tuple
    if len(batch) == 1:
        return lambda ids, labels, device, documents: kind([ids.to(device)])
    return lambda ids, labels, device, documents: kind([ids.to(device), labels.to(device)])


def has_labels(batch: Foreign) -> bool:
    """Whether it has a label for each token, by its name or as the second one of two tensors."""
    if containers.is_mapping(batch):
        return bool(_names(batch)[1])
    return isinstance(batch, (list, tuple)) and len(batch) > 1


def _beside(batch: Foreign, ids: torch.Tensor, documents: int) -> Dict[str, torch.Tensor]:
    """Masks and positions, where the user's batch has them."""
    rows, length = ids.shape
    made: Dict[str, torch.Tensor] = {}
    for name in MASKS:
        mask = batch.get(name)
        square = isinstance(mask, torch.Tensor) and mask.shape[-1:] == mask.shape[-2:-1]
        if square or (isinstance(mask, torch.Tensor) and mask.dim() < 3):
            made[name] = _mask_like(mask, rows, length, documents)
    for name in POSITIONS:
        if name in batch:
            made[name] = (torch.arange(length) % (length // documents)).repeat(rows, 1)
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in batch:
            made[name] = torch.zeros_like(ids)
    number = (torch.arange(length) // (length // documents)).repeat(rows, 1)
    return {**{name: number for name in numbering(batch) if name not in made}, **made}


def numbering(batch: Foreign) -> List[str]:
    """Fields beside the tokens that number the documents of each row."""
    ids, known = batch[_names(batch)[0]], (*TOKENS, *LABELS, *MASKS)
    return [n for n, each in batch.items() if n not in known and numbers_documents(each, ids)]


def numbers_documents(value: Foreign, ids: torch.Tensor) -> bool:
    """Whether it has 0, 0, 0, 1, 1, 2 beside the tokens of each row."""
    if not isinstance(value, torch.Tensor) or value.shape != ids.shape or value.dim() != 2:
        return False
    steps = value[:, 1:].long() - value[:, :-1].long()
    plain = not value.is_floating_point() and value.dtype != torch.bool
    return plain and bool((value[:, 0] == 0).all() and ((steps == 0) | (steps == 1)).all())


MASKS = ("attention_mask", "mask")


def _mask_like(real: torch.Tensor, rows: int, length: int, documents: int) -> torch.Tensor:
    """A mask of the same kind: ones for each token, or which token each one sees."""
    if real.dim() < 3:
        return torch.ones(rows, length, dtype=real.dtype)
    document = torch.arange(length) // (length // documents)
    sees = torch.tril(document[:, None] == document)
    shape = (rows, *[1] * (real.dim() - 3), length, length)
    if real.is_floating_point():  # added to the scores
        return torch.where(sees, 0.0, torch.finfo(real.dtype).min).to(real.dtype).expand(shape)
    return sees.to(real.dtype).expand(shape)


def _names(batch: Foreign) -> Tuple[str, str]:
    tokens = next((name for name in TOKENS if name in batch), None)
    if tokens is None:
        raise NotMeasurable("the batch has no tokens by a known name")
    shape = batch[tokens].shape
    named = [n for n in LABELS if n in batch and observing.attribute(batch[n], "shape") == shape]
    return tokens, next(iter(named), "")
