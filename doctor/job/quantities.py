"""The values of the job's flags as people write them: times, shapes, their bounds.

Without the records of the job, so that the help of a command starts without them.
"""

from __future__ import annotations

import re

MOST = 10**7
"""No job has more GPUs, samples, tokens or layers."""
SHORTEST, LONGEST = 1.0, 86_400.0
"""Seconds of a budget: no examination takes a day. Our own numbers."""


def parse_seconds(text: str) -> float:
    """Seconds of "8", "8s" or "1.5m". Raises ValueError."""
    match = re.fullmatch(r"(\d{1,5}(?:\.\d{1,3})?)\s*(s|m)?", text.strip())
    seconds = float(match[1]) * (60 if match[2] == "m" else 1) if match else 0.0
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"{text!r} is not a time of 1 s to 24 h; write seconds, such as 8 or 8s")
    return seconds


def parse_attention(text: str) -> tuple[int, ...]:
    """The shape that "1,32,2048,128" names, as in `Job.attention`. Raises ValueError."""
    shape = tuple(int(part) for part in text.split(",") if part.strip().isdecimal())
    if len(shape) != 4 or text.count(",") != 3 or not all(0 < size < 2**20 for size in shape):
        raise ValueError(f"{text!r} is not batch,heads,tokens,head_dim, as in 1,32,2048,128")
    return shape
