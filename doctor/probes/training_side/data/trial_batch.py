"""A batch of other tokens in the form of the user's: its names, masks, positions and containers."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from .documents import POSITIONS, Tokens, borders
from .views import LABELS, MASKS, PADDING_MASKS, TOKENS


class NotMeasurable(Exception):
    """The message says why."""


class Cut(NamedTuple):
    """Part of a row of the user's batch, whose own mask is tried as it is."""

    row: int
    start: int
    length: int
    trained: Tuple[int, ...]
    """Places within the part whose labels are trained."""
    borders: Tuple[int, ...]
    """Places at which further documents begin."""


Form = Callable[[torch.Tensor, torch.Tensor, torch.device, int], Any]


def form_of(batch: Foreign, cut: Optional[Cut] = None) -> Form:
    """A function that puts tokens and labels in the form of the user's batch."""
    if containers.is_mapping(batch):
        names = _names(batch)
        return lambda ids, labels, device, documents: {
            names[0]: ids.to(device),
            **({names[1]: labels.to(device)} if names[1] else {}),
            **{n: each.to(device) for n, each in _beside(batch, ids, documents, cut).items()},
        }
    if isinstance(batch, torch.Tensor):
        return lambda ids, labels, device, documents: ids.to(device)
    kind = type(batch) if isinstance(batch, (list, tuple)) else tuple
    if len(batch) == 1:
        return lambda ids, labels, device, documents: kind([ids.to(device)])
    return lambda ids, labels, device, documents: kind([ids.to(device), labels.to(device)])


def own_masks(batch: Foreign) -> List[str]:
    """Fields that say which keys each token sees: one of our own would acquit them."""
    if not containers.is_mapping(batch):
        return []
    ids = batch[_names(batch)[0]]
    widths = (ids.shape[-1], ids.shape[-1] - 1)  # the loss may leave out the last token
    return [
        str(name) for name, each in batch.items()
        if isinstance(each, torch.Tensor) and name not in (*TOKENS, *LABELS)
        and each.dim() > 1 and each.shape != ids.shape and each.shape[-1] in widths
        and (each.shape[-2] == each.shape[-1] or (each.dim() > 2 and each.shape[-2] == 1))
    ]  # fmt: skip


def cut_of(batch: Foreign, real: Tokens, length: int) -> Optional[Cut]:
    """The part of the row with the most labels; None for a batch without a mask of its own."""
    if not own_masks(batch) or real.labels is None:
        return None
    width = real.ids.shape[1]
    if width < length:
        raise NotMeasurable("the mask of the batch has %d positions alone" % width)
    trained = real.labels >= 0
    row = int(trained.sum(1).argmax())
    at = [int(each) for each in torch.nonzero(trained[row])]
    cuts = [each for each in borders(real, row) if 0 < each < width]
    middle = cuts[0] if cuts else (at[0] if at else 0) - 2 + length // 2
    start = max(0, min(middle - length // 2, width - length))
    inside = tuple(each - start for each in at if 2 <= each - start < length - 4)
    if not inside:
        raise NotMeasurable("no label is trained where the mask of the batch was to be tried")
    found = tuple(each - start for each in cuts if 0 < each - start < length)
    return Cut(row, start, length, inside, found)


def has_labels(batch: Foreign) -> bool:
    """Whether it has a label for each token, by its name or as the second one of two tensors."""
    if containers.is_mapping(batch):
        return bool(_names(batch)[1])
    return isinstance(batch, (list, tuple)) and len(batch) > 1


def _beside(
    batch: Foreign, ids: torch.Tensor, documents: int, cut: Optional[Cut]
) -> Dict[str, torch.Tensor]:
    """Masks and positions, where the user's batch has them."""
    rows, length = ids.shape
    made: Dict[str, torch.Tensor] = {}
    for name in (*MASKS, *PADDING_MASKS):
        mask = batch.get(name)
        if isinstance(mask, torch.Tensor) and mask.dim() < 3:
            made[name] = torch.full((rows, length), name in MASKS, dtype=mask.dtype)
        elif isinstance(mask, torch.Tensor) and cut is None:
            raise NotMeasurable("%s has a form that is not tried" % name)
    for name in POSITIONS:
        if name in batch:
            made[name] = (torch.arange(length) % (length // documents)).repeat(rows, 1)
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in batch:
            made[name] = torch.zeros_like(ids)
    number = (torch.arange(length) // (length // documents)).repeat(rows, 1)
    made = {**{name: number for name in numbering(batch) if name not in made}, **made}
    return made if cut is None else {**made, **_parts(batch, list(made), cut, rows)}


def _parts(batch: Foreign, names: List[str], cut: Cut, rows: int) -> Dict[str, torch.Tensor]:
    """These fields, and the masks, as the batch has them in the part of its row."""
    ids = batch[_names(batch)[0]]
    fields = {n: batch[n] for n in (*names, *own_masks(batch))}
    return {n: _part(each, ids, cut, rows) for n, each in fields.items()
            if each.shape[-1] in (ids.shape[-1], ids.shape[-1] - 1)}  # fmt: skip


def _part(value: torch.Tensor, ids: torch.Tensor, cut: Cut, rows: int) -> torch.Tensor:
    width = value.shape[-1]
    inside = slice(cut.start, cut.start + cut.length - (ids.shape[-1] - width))
    part = value[..., inside]
    if value.shape != ids.shape and value.shape[-2] == width:
        part = part[..., inside, :]
    if value.shape != ids.shape and (value.dim() == 2 or len(value) % len(ids)):
        return part  # one for all rows
    heads = len(value) // len(ids)
    own = part[cut.row * heads : (cut.row + 1) * heads]
    return own.repeat(rows, *[1] * (own.dim() - 1))


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


def _names(batch: Foreign) -> Tuple[str, str]:
    tokens = next((name for name in TOKENS if name in batch), None)
    if tokens is None:
        raise NotMeasurable("the batch has no tokens by a known name")
    shape = batch[tokens].shape
    named = [n for n in LABELS if n in batch and observing.attribute(batch[n], "shape") == shape]
    return tokens, next(iter(named), "")
