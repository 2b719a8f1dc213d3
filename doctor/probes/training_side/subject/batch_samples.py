"""The samples of a batch that make the loss non-finite, each by itself."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Set

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing
from . import subjects
from .training_step import Training

MAX_SAMPLES = 8


class Reads(TorchFunctionMode):
    """Whether a function gets one of these tensors: a loss may use other data than its batch."""

    def __init__(self, tensors: Any) -> None:
        super().__init__()
        self.read = False
        self._ids: Set[int] = {id(each) for each in tensors}

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        for each in (*args, *options.values()):
            members = each if isinstance(each, (list, tuple)) else (each,)
            self.read = self.read or any(id(it) in self._ids for it in members)
        return func(*args, **options)


def samples_of(training: Training, seconds: float) -> Dict[str, Any]:
    """{"samples": indices, "batch": their number}: each makes the loss non-finite by itself.

    The batch is cut in halves, and each half that still does it again. {} if the loss has no
    batch or does not read it, or does not work on a part of it.
    """
    count = subjects.first_dimension(training.subject.batch)
    if not count or count < 2:
        return {}
    deadline = time.monotonic() + seconds
    bad: List[int] = []
    pending = [(0, count)]
    while pending and len(bad) < MAX_SAMPLES:
        low, high = pending.pop(0)
        faulty = (low, high) == (0, count) or _is_faulty(training, low, high)
        if faulty is None or time.monotonic() > deadline:
            return {}
        if not faulty:
            continue
        if high - low == 1:
            bad.append(low)
        else:
            middle = (low + high) // 2
            pending[:0] = [(low, middle), (middle, high)]
    return {"samples": bad, "batch": count, "more_samples": bool(pending)}


def _is_faulty(training: Training, low: int, high: int) -> Optional[bool]:
    """Whether a part of the batch makes the loss non-finite; None if it is not read, or cannot be
    a batch."""
    subject = training.subject
    part = subjects.rows_of(subject.batch, slice(low, high))
    reads = Reads(containers.tensors(part).values())
    try:
        with torch.no_grad(), training.autocast(), reads:
            loss = subject.loss(subject.module, part)
    except Exception:
        return None
    return not bool(torch.isfinite(observing.plain(loss)).all()) if reads.read else None
