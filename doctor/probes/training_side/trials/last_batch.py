"""Whether the step takes as few samples as the last batch of an epoch has."""

from __future__ import annotations

from typing import Any, Dict

import torch

from ...wire import describe
from ..foreign import Foreign, containers, observing, places, stack_frames
from ..subject import subjects
from ..subject.training_step import Subject
from . import outputs

MESSAGE = 160
"""Characters of an error that are kept."""


def trial(subject: Subject) -> Dict[str, Any]:
    """The loss of the first samples of the batch, as many as the last batch has.

    A view with the batch size in it, a recurrent state of the batch before, and a batch norm of one
    sample raise here, in a training at the end of its first epoch. No further row is read.
    """
    if not subject.last:
        return {"applies": False, "reason": "no DataLoader whose last batch is smaller"}
    if not subjects.first_dimension(subject.batch) or not _of_tensors(subject.batch):
        return {"applies": False, "reason": "the batch is not made of tensors of one length alone"}
    outputs.loss_as_trained(subject, subject.batch)
    fewer = containers.mapped(
        subject.batch, lambda each: each[: subject.last] if each.dim() else each
    )
    try:
        outputs.loss_as_trained(subject, fewer)
    except Exception as error:
        samples = "%d sample%s" % (subject.last, "s" * (subject.last > 1))
        return {
            "applies": True,
            "found": "last",
            "operation": "%s: %s" % (samples, _said(error)),
            "place": _place(error),
        }
    return {"applies": True, "found": ""}


def _of_tensors(batch: Foreign) -> bool:
    """Texts, numbers for each sample and objects cannot be cut."""
    if isinstance(batch, torch.Tensor):
        return True
    if observing.has(batch, "items"):
        return all(map(_of_tensors, batch.values()))
    return isinstance(batch, (list, tuple)) and all(map(_of_tensors, batch))


def _said(error: Exception) -> str:
    """The error; of the user's own code its type, as its message may quote a row."""
    frames = stack_frames.frames_of(error)
    last = frames[-1] if frames else None
    of_torch = last is not None and last.library and last.file.startswith(places.TORCH)
    raised = last is not None and "raise" in last.code
    compiled = isinstance(error, RuntimeError) and not raised  # torch's own, in C++
    return describe(error)[:MESSAGE] if of_torch or compiled else type(error).__name__


def _place(error: Exception) -> str:
    used = [frame for frame in stack_frames.frames_of(error) if not frame.library]
    return "%s (`%s`)" % (used[-1].place, used[-1].code) if used else ""
