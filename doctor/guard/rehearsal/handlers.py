"""Which of the program's functions handle signals."""

from __future__ import annotations

import signal
from typing import Dict


def handlers() -> Dict[str, str]:
    """Signal -> the function of Python that handles it."""
    found = {}
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP"):
        code = getattr(signal.getsignal(getattr(signal, name)), "__code__", None)
        if code is not None:
            found[name] = str(code.co_name)
    return found
