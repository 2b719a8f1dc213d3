"""A process that ends with the one that started it. Linux only."""

from __future__ import annotations

import ctypes
import signal

DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG"""


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
