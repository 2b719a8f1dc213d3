"""Modules that the loss of a step turns to evaluation before it trains them."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Set

import torch


@contextlib.contextmanager
def turned_off(model: torch.nn.Module, kinds: Set[str]) -> Iterator[None]:
    """Adds the kinds of modules that are in training mode before a loss, and that each pass with
    gradients inside of it calls after model.eval()."""
    active: Set[str] = set()

    def note(module: torch.nn.Module, args: Any) -> None:
        if torch.is_grad_enabled():
            off = not module.training and not model.training
            (kinds if off else active).add(type(module).__name__)

    training = model.training
    parts = [each for each in model.modules() if training and each.training and matters(each)]
    with contextlib.ExitStack() as hooks:
        for part in parts:
            hooks.callback(part.register_forward_pre_hook(note).remove)
        yield
    if active:
        kinds.clear()


def matters(module: torch.nn.Module) -> bool:
    """Whether the mode of this module changes what it computes."""
    if isinstance(module, torch.nn.modules.dropout._DropoutNd):
        return module.p > 0
    return isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and bool(
        module.track_running_stats
    )
