"""How far the clock is off, and how fast a core is: measured beside other work, in seconds.

A time service is only asked; the clock stays as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from typing import NamedTuple

PLACES = "/usr/bin:/bin:/usr/sbin:/sbin"
"""Where the system's own programs are: PATH may name others."""
ANSWER_SECONDS = 2.0
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
ROUNDS = 5000
"""Of a core's work: 3 ms on a core of 3 GHz."""


class Service(NamedTuple):
    """A program that tells how far the clock is off."""

    command: tuple[str, ...]
    answers: str
    """What its output has where a service answers."""
    offset: str
    """The offset: a number in seconds, or times with units."""


SERVICES = (
    Service(("chronyc", "-n", "tracking"), "Leap status", r"System time +: ([\d.]+) seconds"),
    Service(
        ("timedatectl", "timesync-status"),
        "Root distance",
        r"Offset: [+-]?([\d.]+[a-z]+(?: [\d.]+[a-z]+)*)",
    ),
)
UNSET = re.compile(r"Leap status +: Not synchronised")


def measure() -> dict[str, object]:
    """Fields of Host."""
    return {"core_speed": core_speed(), "busy": busy(), **clock()}


def core_speed() -> tuple[float, float] | None:
    """Rounds of SHA-512 per second of processor time, measured twice; None: not offered here."""
    if not hasattr(hashlib, "pbkdf2_hmac"):
        return None
    first, second = (_rate() for _ in range(2))
    return first, second


def _rate() -> float:
    before = time.thread_time()
    hashlib.pbkdf2_hmac("sha512", b"doctor", b"doctor", ROUNDS)
    return ROUNDS / max(time.thread_time() - before, 1e-9)


def busy() -> float | None:
    """Processes that run or wait, per processor of the machine, over the last minute."""
    try:
        return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    except OSError:
        return None


def clock() -> dict[str, object]:
    """How far the clock is off by the first service that answers."""
    for service in SERVICES:
        text = _ask(service.command)
        if service.answers not in text:
            continue
        found = re.search(service.offset, text)
        offset = None if found is None or UNSET.search(text) else seconds(found[1])
        return {"clock_service": service.command[0], "clock_offset": offset}
    return {"clock_service": ""}


def _ask(command: tuple[str, ...]) -> str:
    program = shutil.which(command[0], path=PLACES)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            env={"LC_ALL": "C", "PATH": PLACES},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def seconds(text: str) -> float | None:
    """ "0.000012", "4.523ms" and "1min 3.2s" in seconds."""
    total = 0.0
    for part in text.split():
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", part)
        if found is None or (found[2] or "s") not in UNITS:
            return None
        total += float(found[1]) * UNITS[found[2] or "s"]
    return total
