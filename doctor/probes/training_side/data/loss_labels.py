"""Labels that a loss makes of the batch's own tokens, where the batch has none beside them."""

from __future__ import annotations

from typing import FrozenSet, List, NamedTuple, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, observing
from .documents import Tokens, host

LOSSES = ("cross_entropy", "nll_loss")
TARGET = 1
"""The place of the target among their arguments."""
LEAST = 16
"""Targets that are compared. Our own number."""


class OwnLabels(NamedTuple):
    """Every token is a label, but for these."""

    left_out: FrozenSet[int]
    shifted: bool
    """The loss leaves the first token out: it predicts the next ones."""

    def labels_of(self, ids: torch.Tensor) -> torch.Tensor:
        ignored = torch.tensor(sorted(self.left_out), dtype=ids.dtype)
        return ids.masked_fill(torch.isin(ids, ignored), -100)


def of_step(
    tokens: Optional[Tokens],
    looked_up: List[Tuple[torch.Tensor, torch.Tensor]],
    classed: List[Tuple[torch.Tensor, torch.Tensor, int]],
) -> Optional[OwnLabels]:
    """By the first step: the model reads the tokens as they are, and its only loss of classes has
    them as targets. None where it masks them first, or predicts anything else."""
    if tokens is None or tokens.labels is not None or tokens.foreign_labels or len(classed) != 1:
        return None
    widths = (tokens.ids, tokens.ids[:, :-1])
    if not any(torch.equal(each, ids) for _, ids in looked_up for each in widths):
        return None
    _, target, ignored = classed[0]
    wanted = part_of(tokens.ids, target, ignored)
    if wanted is None:
        return None
    plain = target.reshape(-1)
    left_out = frozenset(wanted.reshape(-1)[plain == ignored].tolist())
    used = set(plain[plain != ignored].tolist())
    shifted = wanted.shape[1] < tokens.ids.shape[1]
    return OwnLabels(left_out, shifted) if not left_out & used and len(plain) >= LEAST else None


def part_of(ids: torch.Tensor, target: torch.Tensor, ignored: int) -> Optional[torch.Tensor]:
    """The part of the tokens that the targets are, but for those that are ignored."""
    plain = target.reshape(-1)
    for part in (ids, ids[:, 1:]):
        flat = part.reshape(-1)
        if flat.shape == plain.shape and bool(((flat == plain) | (plain == ignored)).all()):
            return part
    return None


class Given(TorchFunctionMode):
    """Calls of a loss with these labels in place of the tokens that it made its own of."""

    def __init__(self, ids: torch.Tensor, labels: torch.Tensor) -> None:
        super().__init__()
        self._ids, self._labels = ids, labels

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = dict(kwargs or {})
        if observing.function_name(func) in LOSSES:
            named = "target" in options
            target = options["target"] if named else args[TARGET]
            made = self._changed(target, int(options.get("ignore_index", -100)))
            if named:
                options["target"] = made
            else:
                args = (*args[:TARGET], made, *args[TARGET + 1 :])
        return func(*args, **options)

    def _changed(self, target: torch.Tensor, ignored: int) -> torch.Tensor:
        plain = host(target)
        part = None if plain.is_floating_point() else part_of(self._ids, plain, ignored)
        if part is None:
            return target
        labels = self._labels[:, self._labels.shape[1] - part.shape[1] :].reshape(plain.shape)
        return torch.where(plain == ignored, plain, labels).to(target.device)
