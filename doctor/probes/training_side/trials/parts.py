"""Whether the loss depends on each part of the batch."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional

import torch

from ..foreign import Foreign, containers, observing
from ..subject import subjects
from ..subject.training_step import Subject
from . import outputs

MOST_PARTS, MOST_SAMPLES = 8, 3
"""Parts that are tried, and samples of each that are changed."""


def trial(subject: Subject) -> Dict[str, Any]:
    """Gives some samples the value that another sample has in one part, and compares the loss.

    A part that is the same for all samples, as a mask without padding, is not tried.
    """
    if not subjects.first_dimension(subject.batch):
        return {"applies": False, "reason": "no dimension of samples"}
    before = _loss(subject, subject.batch)
    if before != _loss(subject, subject.batch):
        return {"applies": False, "reason": "the loss is another one in each evaluation"}
    unused, tried = [], 0
    for name, part in list(containers.tensors(subject.batch).items())[:MOST_PARTS]:
        losses = [_loss_or_none(subject, batch) for batch in changed(subject.batch, part)]
        tried += bool(losses)
        if losses and all(loss == before for loss in losses):
            unused.append(name)
    if len(unused) == tried:
        return {"applies": False, "reason": "the loss depends on no part that could be changed"}
    return {"applies": True, "found": "unused" * bool(unused), "operation": ", ".join(unused)}


def changed(batch: Foreign, part: torch.Tensor) -> Iterator[Foreign]:
    """Batches in which one sample has another one's value in this part."""
    for sample in range(min(MOST_SAMPLES, len(part))):
        others = [n for n in range(len(part)) if not torch.equal(part[n], part[sample])]
        if others:
            copy = part.clone()
            copy[sample] = part[others[0]]
            yield _with(batch, part, copy)


def _with(batch: Foreign, part: torch.Tensor, copy: torch.Tensor) -> Foreign:
    return containers.mapped(batch, lambda each: copy if each is part else each)


def _loss_or_none(subject: Subject, batch: Foreign) -> Optional[float]:
    """None if the changed batch raises, which depends on the part, too."""
    return observing.attempt(lambda: _loss(subject, batch), None)


def _loss(subject: Subject, batch: Foreign) -> float:
    return float(outputs.loss_as_trained(subject, batch))
