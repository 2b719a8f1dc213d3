"""Known errors, crashes and hangs of a training step, with their fixes."""

from __future__ import annotations

from doctor.errors.causes import BY_ID
from doctor.judge.known_errors import OF_LIBRARIES

ERRORS = (
    BY_ID["element0-no-grad"],
    BY_ID["amp-bf16-grads-with-scaler"],
    BY_ID["amp-fp16-weights"],
    BY_ID["precision-not-in-torch"],
    *OF_LIBRARIES,
)
"""Of the doctor's own small model; the first that has the message counts."""

CRASHED = (
    "Check TOR004, LD_LIBRARY_PATH and LD_PRELOAD first, then reinstall torch in a fresh "
    "environment: incompatible libraries crash like this. If it crashes there too, suspect the "
    "driver or the GPU: dmesg shows an Xid for a GPU that failed."
)
HUNG = (
    "Run again with nothing else on the machine. If it hangs again in a fresh environment, suspect "
    "the driver or the GPU: dmesg shows an Xid for a GPU that failed."
)
