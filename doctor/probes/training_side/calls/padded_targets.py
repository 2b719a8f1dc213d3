"""Losses that are taken over padding: what fills rows up to the length of the longest one."""

from __future__ import annotations

from typing import Dict, Iterator, List, Set

import torch

from ..foreign import Foreign, Options, containers, observing

CLASSES = ("cross_entropy", "nll_loss")
VALUES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
          "binary_cross_entropy_with_logits")  # fmt: skip
SHARE, LEAST, ROWS = 0.1, 8, 2
"""Of the targets, how many are padding; how many at least; and rows that have some. Our own
numbers."""


class PaddedTargets:
    """What is known of padding: the index that an embedding has for it, masks and lengths of the
    batch."""

    def __init__(self, module: torch.nn.Module, batch: Foreign = None) -> None:
        self._indices: Dict[int, Set[int]] = {}
        """Size of an embedding -> its padding_idx."""
        for each in module.modules():
            if isinstance(each, torch.nn.Embedding) and each.padding_idx is not None:
                self._indices.setdefault(each.num_embeddings, set()).add(each.padding_idx)
        self._batch = [observing.plain(each) for each in containers.tensors(batch).values()]

    def counted(
        self, name: str, value: torch.Tensor, target: torch.Tensor, options: Options
    ) -> bool:
        """Whether a loss is a mean or a sum over padding, too."""
        weighted = any(options.get(each) is not None for each in ("weight", "pos_weight"))
        if options.get("reduction", "mean") == "none" or weighted:
            return False
        value, target = observing.plain(value), observing.plain(target)
        if name in CLASSES and not target.is_floating_point():
            ignored = options.get("ignore_index", -100)
            classes = int(value.shape[1] if value.dim() > 1 else value.shape[0])
            declared = self._indices.get(classes, set()) - {ignored}
            return any(_in_runs(target, index) for index in declared) or any(
                _fills(target, places, ignored) for places in self._places(target)
            )
        if name in VALUES and target.is_floating_point() and value.shape == target.shape:
            return any(_is_empty(value, target, places) for places in self._places(target))
        return False

    def _places(self, target: torch.Tensor) -> Iterator[torch.Tensor]:
        """Where rows are filled up, [samples, positions]: both sides of each mask, and what lies
        beyond a length."""
        for each in self._batch:
            if each.dim() == 2 and _fits(each, target) and _is_mask(each):
                yield from (side for side in (each == 0, each != 0) if _is_at_an_end(side))
            elif each.dim() == 1 and not each.is_floating_point() and each.dtype != torch.bool:
                length = _length(target, len(each))
                if length > 1 and 0 < int(each.min()) < int(each.max()) == length:
                    yield torch.arange(length, device=each.device) >= each[:, None]


def _length(target: torch.Tensor, samples: int) -> int:
    """Positions of each sample; 0 where the targets have no such dimension."""
    if target.dim() > 1 and target.shape[0] == samples:
        return int(target.shape[1])
    flat = target.dim() == 1 and samples and target.numel() % samples == 0
    return target.numel() // samples if flat else 0


def _fits(mask: torch.Tensor, target: torch.Tensor) -> bool:
    return _length(target, mask.shape[0]) == mask.shape[1]


def _is_mask(tensor: torch.Tensor) -> bool:
    values: List[float] = torch.unique(tensor).tolist()
    return [float(each) for each in values] == [0.0, 1.0]


def _is_at_an_end(places: torch.Tensor) -> bool:
    """Whether the places are the last ones of each row, in rows of several lengths."""
    counts = places.sum(1)
    length = places.shape[1]
    last = torch.arange(length, device=places.device) >= length - counts[:, None]
    several = int((counts > 0).sum()) >= ROWS and bool((counts < length).all())
    return several and torch.equal(last, places)


def _fills(target: torch.Tensor, places: torch.Tensor, ignored: int) -> bool:
    """Whether these targets are all one class, which no other target has, and are not ignored."""
    target = target.reshape(places.shape) if target.numel() == places.numel() else target
    if target.shape != places.shape or int(places.sum()) < LEAST:
        return False
    inside, others = target[places], target[~places]
    index = inside[0]
    same = bool((inside == index).all()) and not bool((others == index).any())
    return same and int(index) != ignored and inside.numel() >= SHARE * target.numel()


def _in_runs(target: torch.Tensor, index: int) -> bool:
    """Whether many targets are this one, next to each other."""
    flat = target.reshape(-1) == index
    pairs = int((flat[1:] & flat[:-1]).sum())
    return pairs >= LEAST and float(flat.float().mean()) >= SHARE


def _is_empty(value: torch.Tensor, target: torch.Tensor, places: torch.Tensor) -> bool:
    """Whether all targets there are exactly 0, most others are not, and predictions are compared
    with them."""
    if target.shape[:2] != places.shape or int(places.sum()) < LEAST:
        return False
    inside, others = target[places], target[~places]
    empty = not bool(inside.any()) and float((others != 0).float().mean()) > 0.5
    compared = float((value[places] != 0).float().mean()) > 0.5
    return empty and compared and int(places.sum()) >= SHARE * places.numel()
