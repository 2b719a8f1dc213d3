"""The mode in which a factory leaves its model: in evaluation, dropout and statistics are off."""

from __future__ import annotations

import re
from typing import Any, Dict

import torch

from . import subjects
from .turned_off import matters

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
    kinds = {type(each).__name__ for each in module.modules() if matters(each)}
    return ", ".join(sorted(kinds)[:3])
