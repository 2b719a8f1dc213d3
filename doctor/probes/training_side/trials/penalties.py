"""A part of the loss that depends on the weights alone, and not on the batch."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..calls.loss_calls import TO_MINIMIZE
from ..foreign import Foreign
from ..subject import subjects
from ..subject.training_step import Subject
from . import outputs

LOSSES = (*TO_MINIMIZE, "binary_cross_entropy", "binary_cross_entropy_with_logits")
DOMINATES = 100.0
"""Times the loss of the data. Our own number: usual penalties are a small part of it."""
LEAST, ROUNDING, MORE = 4, 2e-7, 1.01
"""Samples, a share of the loss, and a factor of the weights that shows in what depends on them."""


def trial(subject: Subject) -> Dict[str, Any]:
    """Evaluates the loss with all samples and with each half of them, then with larger weights."""
    count = subjects.first_dimension(subject.batch)
    if not count or count < LEAST:
        return {"applies": False, "reason": "no batch of %d samples" % LEAST}
    whole, first, last = (
        _parts(subject, subjects.rows_of(subject.batch, rows))
        for rows in (slice(None), slice(count // 2), slice(count // 2, None))
    )
    if whole is None or first is None or last is None:
        return {"applies": False, "reason": "not one loss of torch"}
    loss, data, name = whole
    rests = [one - other for one, other, _ in (whole, first, last)]
    moved = abs(first[1] - last[1]) > 3 * ROUNDING * abs(loss)
    if not moved or max(rests) - min(rests) > ROUNDING * abs(loss):
        return {"applies": True, "found": ""}
    if rests[0] < DOMINATES * abs(data):
        return {"applies": True, "found": ""}
    with torch.no_grad():
        for weight in subject.weights.values():
            weight.mul_(MORE)
    larger = _parts(subject, subject.batch)
    with torch.no_grad():
        for weight in subject.weights.values():
            weight.div_(MORE)
    if larger is None or abs(larger[0] - larger[1] - rests[0]) < 1e-3 * rests[0]:
        return {"applies": True, "found": ""}
    text = "%s is %.4g of a loss of %.6g" % (name, data, loss)
    return {"applies": True, "found": "penalty", "operation": text, "place": ""}


def _parts(subject: Subject, batch: Foreign) -> Optional[Tuple[float, float, str]]:
    """The loss, and the only loss function of torch in it with its value; None of others."""
    seen: List[Tuple[float, str]] = []

    def note(name: str, args: Any, options: Dict[str, Any], result: Any) -> None:
        if name in LOSSES and isinstance(result, torch.Tensor) and result.dim() == 0:
            seen.append((float(result), name))

    loss = float(outputs.evaluate(subject, batch, note))
    return (loss, *seen[0]) if len(seen) == 1 else None
