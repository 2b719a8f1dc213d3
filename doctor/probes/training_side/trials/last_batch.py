"""Whether the step takes the last batch of an epoch, which has fewer samples than the others."""

from __future__ import annotations

from typing import Any, Dict

from ...wire import describe
from ..foreign import stack_frames
from ..subject.training_step import Subject
from . import outputs

MESSAGE = 160
"""Characters of an error that are kept."""


def trial(subject: Subject) -> Dict[str, Any]:
    """The loss of that batch, beside that of the first one.

    A view with the batch size in it, a recurrent state of the batch before, and a batch norm of one
    sample raise here, in a training at the end of its first epoch.
    """
    if subject.last is None:
        return {"applies": False, "reason": "no DataLoader whose last batch is smaller"}
    outputs.loss_as_trained(subject, subject.batch)
    try:
        samples, batch = subject.last()
    except Exception as error:  # its message may quote rows
        return {"applies": False, "reason": "the batch raised %s" % type(error).__name__}
    try:
        outputs.loss_as_trained(subject, batch)
    except Exception as error:
        used = [frame for frame in stack_frames.frames_of(error) if not frame.library]
        place = "%s (`%s`)" % (used[-1].place, used[-1].code) if used else ""
        plural = "s" * (samples > 1)
        said = "%d sample%s: %s" % (samples, plural, describe(error)[:MESSAGE])
        return {"applies": True, "found": "last", "operation": said, "place": place}
    return {"applies": True, "found": ""}
