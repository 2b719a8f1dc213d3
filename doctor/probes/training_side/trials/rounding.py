"""Whether the gradient of a matrix consists of rounding errors."""

from __future__ import annotations

from typing import Any, Dict

import torch

from ..foreign import containers
from ..subject import build, training_step
from ..subject.training_step import Subject

FAINT = 1e-5
"""Of the median norm of the matrices' gradients, below which one is looked at. Our own number."""
SHRINKS = 0.1
"""Norm in float64 as a share of that in float32, at most, of rounding errors: float64 has nine more
digits, but for the epsilon of a division. Our own number."""
MOST_NAMES = 3


def trial(subject: Subject) -> Dict[str, Any]:
    """Computes the gradients in float32, and once more in float64 where one is faint.

    Vectors are left out: a bias before a batch norm, or of the keys of attention, is redundant, and
    no fault; so is the direction of one value, of which weight norm trains the length.
    """
    norms = _norms(subject)
    known = sorted(norm for norm in norms.values() if norm)
    limit = FAINT * known[len(known) // 2] if known else 0.0
    faint = {name: norm for name, norm in norms.items() if 0.0 < norm < limit}
    if not faint:
        return {"applies": True, "found": ""}
    wide = subject._replace(
        module=subject.module.double(),
        batch=containers.mapped(
            subject.batch, lambda each: each.double() if each.is_floating_point() else each
        ),
    )
    torch.set_default_dtype(torch.float64)
    exact = _norms(wide)
    found = [name for name, norm in faint.items() if exact.get(name, norm) < SHRINKS * norm]
    kind = "rounding" if found else ""
    return {"applies": True, "found": kind, "operation": ", ".join(found[:MOST_NAMES])}


def _norms(subject: Subject) -> Dict[str, float]:
    """Norm of the gradient of each matrix."""
    for weight in subject.weights.values():
        weight.grad = None
    build.seed_generators(build.SEED)
    training_step.backpropagate(subject.loss(subject.module, subject.batch))
    return {
        name: float(weight.grad.norm())
        for name, weight in subject.weights.items()
        if weight.grad is not None and weight.dim() > 1 and not _is_direction(name, weight)
    }


def _is_direction(name: str, weight: torch.Tensor) -> bool:
    return weight[0].numel() == 1 and name.endswith(("original1", "weight_v"))
