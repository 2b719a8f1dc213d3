"""Ends a probe when the doctor that started it is gone, whatever the probe is doing.

The doctor holds the other end of a pipe, which nobody writes to, and the kernel closes it however
the doctor ends. On Linux the kernel then kills the probe's process group by itself: a library that
is blocked in the driver may hold Python's lock, and no code of the probe would run. The usual
signal for this, PR_SET_PDEATHSIG, is sent when the *thread* ends that started the probe.
"""

import fcntl
import os
import select
import signal
import threading

VARIABLE = "DOCTOR_PARENT_PIPE"
"""The number of the pipe's descriptor; removed before any code of the user runs."""


def end_with_parent() -> None:
    """Kill this process group when the other end closes; without the variable, do nothing."""
    name = os.environ.pop(VARIABLE, "")
    if not name.isdigit() or os.getpgrp() != os.getsid(0):
        return
    pipe = int(name)
    os.set_inheritable(pipe, False)
    try:
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    except (OSError, AttributeError):  # macOS, and kernels that have no such signal
        threading.Thread(target=_wait, args=(pipe,), daemon=True).start()
        return
    if select.select([pipe], [], [], 0)[0]:  # it was closed before the signal was asked for
        _end()


def _wait(pipe: int) -> None:
    while not select.select([pipe], [], [])[0]:
        pass
    _end()


def _end() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
