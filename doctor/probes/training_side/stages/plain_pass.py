"""One forward and backward pass as the user's code itself computes, without the doctor's autocast.

Under autocast a conversion to half precision copies values: what changes them in place then does
not change what the backward pass reads, and dtypes meet that otherwise do not fit.
"""

from __future__ import annotations

import math
import os
import re
import sys
import time
from typing import Any, Dict, Iterator

from ... import wire
from ..errors import tracebacks
from ..foreign.observing import plain
from ..subject import training_step
from ..subject.kept_batch import KeptBatch
from ..subject.training_step import Subject

HALF = re.compile(
    r"\bautocast\b|\bGradScaler\b|\bmixed_precision\b|\b(?:bf16|fp16)\b|\bb?f?16-(?:mixed|true)\b"
)
"""What a training in half precision has in its code, but for the dtype of a tensor."""
MOST_FILES, MOST_BYTES = 200, 1 << 20


def ended(subject: Subject) -> Dict[str, Any]:
    """How the pass ended, as a doctor.facts Ended; values that are not finite are an error."""
    started = time.perf_counter()
    kept = KeptBatch(subject.batch)
    result: Dict[str, Any] = {"how": "ok"}
    try:
        with wire.stage("forward and backward without autocast"):
            clear(subject)
            loss = subject.loss(subject.module, subject.batch)
            training_step.backpropagate(loss)
            if not is_finite(subject, float(plain(loss))):
                result = {"how": "error", "detail": "the loss or a gradient is not finite"}
    except Exception as error:
        result = {"how": "error", "detail": tracebacks.explained(error)}
    finally:
        kept.restore()
        clear(subject)
    return dict(result, seconds=time.perf_counter() - started)


def clear(subject: Subject) -> None:
    for weight in subject.weights.values():
        weight.grad = None


def is_finite(subject: Subject, loss: float) -> bool:
    gradients = (weight.grad for weight in subject.weights.values() if weight.grad is not None)
    sums = (float(plain(each).float().sum()) for each in gradients)
    return math.isfinite(loss) and all(map(math.isfinite, sums))


def half_asked(spec: Dict[str, Any]) -> str:
    """The file of the user's code that computes in half precision by itself: "train.py"; "" where
    nothing of it is seen."""
    for path in own_files(spec):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(MOST_BYTES)
        except OSError:
            continue
        if HALF.search(text):
            return os.path.basename(path)
    return ""


def own_files(spec: Dict[str, Any]) -> Iterator[str]:
    """The file of the factory, and the imported ones beside and below it."""
    file = os.path.realpath(os.path.join(spec["directory"], spec["file"]))
    yield file
    root = os.path.dirname(file) + os.sep
    modules = [getattr(each, "__file__", None) for each in list(sys.modules.values())]
    paths = {os.path.realpath(path) for path in modules if isinstance(path, str)} - {file}
    beside = (path for path in sorted(paths) if path.startswith(root))
    yield from [path for path in beside if "site-packages" not in path][:MOST_FILES]
