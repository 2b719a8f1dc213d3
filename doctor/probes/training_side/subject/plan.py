"""A training that is repeated: what is built, and how it runs."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

import torch

from ..foreign import Foreign, observing
from . import build, memory, training_step
from .training_step import Subject, Training

BUILT_BEFORE = "_doctor_built"
"""Attribute set on every parameter that was built in this process."""


class Stale(Exception):
    """The user's code returned a model that may already have been trained: use a new process."""


def mark(module: torch.nn.Module) -> None:
    """Mark the parameters as built in this process."""
    for weight in module.parameters():
        setattr(weight, BUILT_BEFORE, True)


class Plan(NamedTuple):
    """One training: what is built, and how it runs."""

    subject: Dict[str, Any]
    device: torch.device
    precision: str
    recipe: str
    lr: float

    def build(self, **changes: Foreign) -> Subject:
        """The subject, initialized as in a fresh process. Raises Stale if it is not a fresh one."""
        memory.free_memory(self.device)
        subject = build.build(self.subject, self.device, self.recipe, **changes)
        if any(observing.has(weight, BUILT_BEFORE) for weight in subject.module.parameters()):
            raise Stale
        mark(subject.module)
        return subject

    def training(self, subject: Subject) -> Training:
        return training_step.Training(subject, self.device, self.precision, self.recipe, self.lr)


def read_plan(request: Dict[str, Any]) -> Plan:
    """The training described by a request; the small model by default."""
    return Plan(
        request.get("subject", {"kind": "small"}),
        torch.device(request["device"]),
        request["precision"],
        request["recipe"],
        request.get("lr", training_step.LR),
    )
