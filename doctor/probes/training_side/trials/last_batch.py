"""Whether the step takes as few samples as the last batch of an epoch has."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ...wire import describe
from ..foreign import Foreign, observing, places, stack_frames
from ..foreign.stack_frames import Frame
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
    try:
        outputs.loss_as_trained(subject, subjects.rows_of(subject.batch, slice(subject.last)))
    except Exception as error:
        frames = stack_frames.frames_of(error)
        samples = "%d sample%s" % (subject.last, "s" * (subject.last > 1))
        return {
            "applies": True,
            "found": "last",
            "operation": "%s: %s" % (samples, _message(error, frames)),
            "place": _place(frames),
        }
    return {"applies": True, "found": ""}


def _of_tensors(batch: Foreign) -> bool:
    """Texts, numbers for each sample and objects cannot be cut."""
    if isinstance(batch, torch.Tensor):
        return True
    if observing.has(batch, "items"):
        return all(map(_of_tensors, batch.values()))
    return isinstance(batch, (list, tuple)) and all(map(_of_tensors, batch))


def _message(error: Exception, frames: List[Frame]) -> str:
    """The error; of the user's own code its type, as its message may quote a row."""
    last = frames[-1] if frames else None
    of_torch = last is not None and last.library and last.file.startswith(places.TORCH)
    raised = last is not None and "raise" in last.code
    compiled = isinstance(error, RuntimeError) and not raised  # torch's own, in C++
    return describe(error)[:MESSAGE] if of_torch or compiled else type(error).__name__


def _place(frames: List[Frame]) -> str:
    used = [frame for frame in frames if not frame.library]
    return "%s (`%s`)" % (used[-1].place, used[-1].code) if used else ""
