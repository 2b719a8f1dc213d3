"""Rows of tokens as documents: packed rows are split, padding is left out.

A batch is read as the model gets it: `input_ids` with `labels`, `attention_mask`, `position_ids`,
`seq_idx` or `cu_seq_lens_q`, or a pair of tensors of tokens and targets; see `views` for others.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import views
from .views import LABELS, TOKENS, is_tokens

BINS = 10
MASKS = ("loss_mask", "loss_weights", "assistant_masks")
ANSWERS = "completion_mask"
"""Of the answers of preferences, whose labels a loss makes of their tokens."""
POSITIONS = ("position_ids", "input_pos")
BORDERS = ("cu_seq_lens_q", "cu_seqlens", "cu_seqlens_q", "cu_seq_lens")


class Tokens(NamedTuple):
    """A batch of tokens: tensors of B x T on the CPU."""

    ids: torch.Tensor
    labels: Optional[torch.Tensor]
    """Of the same shape, negative where nothing is trained; None: of another shape, or absent."""
    mask: Optional[torch.Tensor]
    others: Dict[str, torch.Tensor]
    """The remaining tensors by name."""
    foreign_labels: bool = False
    """There are labels, and they are of another shape."""


class Document(NamedTuple):
    """One document without padding."""

    row: int
    ids: torch.Tensor
    labels: Optional[torch.Tensor]
    after: torch.Tensor
    """Tokens of the row behind the document, which are padding or the next document."""

    @property
    def trained(self) -> torch.Tensor:
        assert self.labels is not None
        return self.labels >= 0


def tokens_of(batch: Foreign) -> Optional[Tokens]:
    """The tokens of a batch; None if it has none."""
    batch = views.of(batch)
    named = named_tensors(batch)
    name = next((each for each in TOKENS if each in named and is_tokens(named[each])), None)
    if name is None:
        return _pair(batch)
    ids = host(named[name])
    mask = views.mask_of(named, ids)
    mask = host(mask) if mask is not None else None
    others = {key: host(each) for key, each in named.items() if key not in (name, *LABELS)}
    label = next((each for each in LABELS if each in named), None)
    labels = host(named[label]) if label else None
    foreign = labels is not None and (labels.shape != ids.shape or labels.is_floating_point())
    if "decoder_input_ids" in named:
        foreign = labels is not None
    answers = others.get(ANSWERS)
    if (labels is None or foreign) and answers is not None and answers.shape == ids.shape:
        labels, foreign = ids.masked_fill(answers == 0, -100), False
    if labels is not None and not foreign:
        labels = _without_masked(labels, others)
    return Tokens(ids, None if foreign else labels, mask, others, foreign)


def without(tokens: Optional[Tokens], left_out: Set[int]) -> Optional[Tokens]:
    """The tokens with these labels as ones that are not trained."""
    if tokens is None or tokens.labels is None or not left_out:
        return tokens
    ignored = torch.isin(tokens.labels, torch.tensor(sorted(left_out), dtype=tokens.labels.dtype))
    return tokens._replace(labels=tokens.labels.masked_fill(ignored, -100))


def named_tensors(batch: Foreign) -> Dict[str, torch.Tensor]:
    if not containers.is_mapping(batch) and not containers.is_record(batch):
        return {}
    return {str(key): each for key, each in containers.tensors(batch).items()}


def _pair(batch: Foreign) -> Optional[Tokens]:
    """(tokens, targets), as loops without a library have them, or tokens alone."""
    parts = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    if not parts or len(parts) > 2 or not all(map(is_tokens, parts)):
        return None
    ids = host(parts[0])
    if len(parts) == 1:
        return Tokens(ids, None, None, {})
    labels = host(parts[1])
    return Tokens(ids, labels, None, {}) if labels.shape == ids.shape else None


def _without_masked(labels: torch.Tensor, others: Dict[str, torch.Tensor]) -> torch.Tensor:
    for name in MASKS:
        mask = others.get(name)
        if mask is not None and mask.shape == labels.shape:
            return torch.where(mask != 0, labels, torch.full_like(labels, -100))
    return labels


def is_constant(value: torch.Tensor) -> bool:
    flat = value.reshape(-1)
    return flat.numel() > 1 and bool((flat == flat[0]).all())


def host(value: torch.Tensor) -> torch.Tensor:
    return observing.plain(value).cpu()


def documents(tokens: Tokens, first_row: int, pad: Optional[int]) -> Iterator[Document]:
    """The documents of a batch; rows count from `first_row`."""
    for number in range(len(tokens.ids)):
        ids = tokens.ids[number]
        labels = tokens.labels[number] if tokens.labels is not None else None
        for start, end in _spans(tokens, number, pad):
            part = labels[start:end] if labels is not None else None
            yield Document(first_row + number, ids[start:end], part, ids[end:])


def row_of(tokens: Tokens, number: int) -> Tokens:
    """One row as a batch of its own; borders of other rows are left out."""
    part = slice(number, number + 1)
    rows = len(tokens.ids)
    others = {
        name: each[part] if each.shape[:1] == tokens.ids.shape[:1] else each
        for name, each in tokens.others.items()
        if rows == 1 or name not in BORDERS
    }
    labels = tokens.labels[part] if tokens.labels is not None else None
    mask = tokens.mask[part] if tokens.mask is not None else None
    return Tokens(tokens.ids[part], labels, mask, others, tokens.foreign_labels)


def is_packed(tokens: Tokens) -> bool:
    """Whether some row holds several documents, by what marks their borders."""
    return any(len(list(_spans(tokens, row, None))) > 1 for row in range(len(tokens.ids)))


def _spans(tokens: Tokens, row: int, pad: Optional[int]) -> List[Tuple[int, int]]:
    """Start and end of each document of a row."""
    low, high = text_of_row(tokens, row, pad)
    cuts = [cut for cut in borders(tokens, row) if low < cut < high]
    spans = list(zip([low, *cuts], [*cuts, high])) if high > low else []
    return spans[:-1] if len(spans) > 1 and _is_filling(tokens, row, *spans[-1]) else spans


def _is_filling(tokens: Tokens, row: int, start: int, end: int) -> bool:
    """Whether the last document is padding with positions of its own: one token, and no label."""
    labels = tokens.labels[row, start:end] if tokens.labels is not None else None
    alike = bool((tokens.ids[row, start:end] == tokens.ids[row, start]).all())
    return alike and labels is not None and not bool((labels >= 0).any())


def text_of_row(tokens: Tokens, row: int, pad: Optional[int]) -> Tuple[int, int]:
    """Start and end of the row without padding."""
    ids = tokens.ids[row]
    if tokens.mask is not None:
        used = torch.nonzero(tokens.mask[row])
        return (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
    labels = tokens.labels[row] if tokens.labels is not None else None
    if pad is None or labels is None:
        return 0, len(ids)
    text = torch.nonzero((ids != pad) | (labels >= 0))
    return (int(text[0]), int(text[-1]) + 1) if len(text) else (0, 0)


def borders(tokens: Tokens, row: int) -> List[int]:
    """Where a new document begins within a row."""
    others = tokens.others
    for name in BORDERS:
        if name in others and others[name].dim() == 1 and len(tokens.ids) == 1:
            return [int(each) for each in others[name]]
    for name in ("seq_idx", "document_ids"):
        if name in others and others[name].shape == tokens.ids.shape:
            return _changes(others[name][row])
    if tokens.mask is not None and int(tokens.mask[row].max()) > 1:
        return _changes(tokens.mask[row])
    positions = next((others[name] for name in POSITIONS if name in others), None)
    if positions is not None and positions.shape == tokens.ids.shape:
        each = positions[row]
        fresh = (each[1:] == 0) & (each[:-1] > 0)
        return [int(at) + 1 for at in torch.nonzero(fresh)]
    return []


def lacks_borders(tokens: Tokens) -> bool:
    """Whether lengths say that the row holds several documents, and its positions run on."""
    positions = next((tokens.others[name] for name in POSITIONS if name in tokens.others), None)
    if len(tokens.ids) != 1 or positions is None or borders(tokens, 0):
        return False
    width = tokens.ids.shape[1]
    counts = [each for name, each in tokens.others.items() if "len" in name and each.dim() == 1]
    several = any(len(each) > 1 and int(each.sum()) == width for each in counts)
    return several and int(positions.max()) == width - 1


def _changes(marks: torch.Tensor) -> List[int]:
    return [int(at) + 1 for at in torch.nonzero(marks[1:] != marks[:-1])]


def runs(ids: torch.Tensor, token: int) -> Tuple[int, int]:
    """How many times the token begins and ends a row."""
    other = torch.nonzero(ids != token)
    if not len(other):
        return len(ids), len(ids)
    return int(other[0]), len(ids) - 1 - int(other[-1])


def quantiles(lengths: List[int]) -> Dict[str, Any]:
    ordered = sorted(lengths)
    last = len(ordered) - 1
    width = max(1, -(-ordered[-1] // BINS))
    bins = Counter(-(-each // width) * width for each in ordered)
    return {
        "type": "Lengths",
        "histogram": [[end, bins[end]] for end in range(width, ordered[-1] + width, width)],
        "p50": ordered[round(0.5 * last)],
        "p95": ordered[round(0.95 * last)],
        "longest": ordered[-1],
    }
