"""The mode in which a factory leaves its model, and a loss trains it: in evaluation, dropout and
statistics are off."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Dict, Iterator, Set

import torch

from . import subjects

EVALUATES, TRAINS = re.compile(r"\.eval\(\s*\)"), re.compile(r"\.train\(|Trainer\(")


def left_in_evaluation(module: torch.nn.Module, spec: Dict[str, Any]) -> str:
    """Kinds of modules that the mode makes inactive, where the user's file calls eval() and train()
    nowhere, and all parameters train: "BatchNorm2d, Dropout2d"; else "".

    Where some are frozen, their norms stay in evaluation on purpose; models of transformers come
    in evaluation mode, and their Trainer changes that.
    """
    if module.training or subjects.transformers_like(module) is not None:
        return ""
    if not all(weight.requires_grad for weight in module.parameters()):
        return ""
    try:
        with open(spec["file"], encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return ""
    if not EVALUATES.search(text) or TRAINS.search(text):
        return ""
    kinds = {type(each).__name__ for each in module.modules() if _matters(each)}
    return ", ".join(sorted(kinds)[:3])


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
    parts = [each for each in model.modules() if training and each.training and _matters(each)]
    with contextlib.ExitStack() as hooks:
        for part in parts:
            hooks.callback(part.register_forward_pre_hook(note).remove)
        yield
    if active:
        kinds.clear()


def _matters(module: torch.nn.Module) -> bool:
    if isinstance(module, torch.nn.modules.dropout._DropoutNd):
        return module.p > 0
    return isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and bool(
        module.track_running_stats
    )
