"""A training whose invalid inputs are replaced, to see whether they are the cause of a fault."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing
from ..subject.training_step import Subject
from ..values import inspect_step

SPREAD = 0.02
"""Standard deviation of the numbers that replace weights, as in many initializations."""
LOWEST, HIGHEST = 0.5, 1.5
"""Factors of perturbed vectors; none changes a sign, and 0 stays 0."""


def with_valid_batch(subject: Subject, spec: Dict[str, Any]) -> Subject:
    """The subject with zeros for the values of its batch that are not finite, and with indices
    and labels inside their tables."""
    named = containers.tensors(subject.batch).items()
    bad = {id(each) for name, each in named if inspect_step.nonfinite_and_not_mask(name, each)}

    def finite(tensor: torch.Tensor) -> torch.Tensor:
        return torch.nan_to_num(tensor, 0.0, 0.0, 0.0) if id(tensor) in bad else tensor

    def loss(module: torch.nn.Module, batch: Foreign) -> torch.Tensor:
        with ValidIndices():
            return subject.loss(module, batch)

    return subject._replace(batch=containers.mapped(subject.batch, finite), loss=loss)


def with_finite_weights(subject: Subject, spec: Dict[str, Any]) -> Subject:
    """The subject with small random numbers for parameters that are not finite, 1 in buffers."""
    module = subject.module
    with torch.no_grad():
        for _, weight in module.named_parameters():
            _replace(weight, lambda values: torch.randn_like(values) * SPREAD)
        for name, buffer in module.named_buffers():
            if inspect_step.nonfinite_and_not_mask(name, buffer):
                _replace(buffer, torch.ones_like)
    return subject


def with_other_weights(subject: Subject, spec: Dict[str, Any]) -> Subject:
    """The subject with matrices of random numbers of their own mean and spread, and vectors scaled
    at random, so that a routing by values takes other ways; constant matrices stay as they are.

    Only those named in spec["perturbed"] change: weights that get a gradient, so that training can
    reach the others. The numbers depend on spec["seed"] alone: the factory may have set its own.
    """
    draw = torch.Generator().manual_seed(spec["seed"])
    with torch.no_grad():
        for name, weight in subject.weights.items():
            if name not in spec["perturbed"]:
                continue
            if weight.dim() > 1 and weight.numel() > 1:
                mean, spread = float(weight.float().mean()), float(weight.float().std())
                weight.copy_(torch.randn(weight.shape, generator=draw) * spread + mean)
            else:
                factors = torch.rand(weight.shape, generator=draw) * (HIGHEST - LOWEST) + LOWEST
                weight.mul_(factors.to(weight))
    return subject


def _replace(values: torch.Tensor, other: Callable[[torch.Tensor], torch.Tensor]) -> None:
    if inspect_step.nonfinite(values):
        values.copy_(torch.where(torch.isfinite(values), values, other(values)))


def _valid_labels(logits: torch.Tensor, labels: torch.Tensor, ignored: int) -> torch.Tensor:
    if labels.is_floating_point() or logits.shape == labels.shape or not logits.dim():
        return labels
    classes = logits.shape[1] if logits.dim() > 1 else logits.shape[0]
    if bool((labels == ignored).all()):
        return torch.zeros_like(labels)
    return torch.where(labels == ignored, labels, labels.clamp(0, classes - 1))


class ValidIndices(TorchFunctionMode):
    """Keeps the indices of embeddings and the labels of losses inside their tables."""

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        name = observing.function_name(func)
        if name in inspect_step.CHECKED and func is not torch.embedding and len(args) > 1:
            if name == "embedding":
                args = (args[0].clamp(0, args[1].shape[0] - 1), *args[1:])
            else:
                ignored = options.get("ignore_index", inspect_step.IGNORED)
                args = (args[0], _valid_labels(args[0], args[1], ignored), *args[2:])
        return func(*args, **options)
