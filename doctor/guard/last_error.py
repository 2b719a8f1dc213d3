"""The exception that ends the program, as text without secrets."""

from __future__ import annotations

import re
import sys
import time
from typing import Any, Dict, Optional

from .secrets import hide_secrets

LONGEST = 2000
"""Characters of a message that are kept."""
CLASS = re.compile(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|Warning)\b")
"""At the beginning of the line with the class of an error."""
MOST_READ = 50_000
"""Characters of each end of a message that are looked at."""
ORIGINAL = "Original Traceback (most recent call last):"
"""What torch puts before the traceback of another process."""


def uncaught() -> Optional[BaseException]:
    """The exception that nobody caught. Python keeps it until the end, for debuggers."""
    return getattr(sys, "last_value", None)


def last_error() -> Dict[str, Any]:
    """Class, message and moment (milliseconds since 1970) of the exception that nobody caught;
    {} where there was none."""
    error = uncaught()
    if error is None:
        return {}
    return {
        "error": type(error).__name__[:LONGEST],
        "message": text_of(error)[:LONGEST],
        "moment": int(time.time() * 1000),
    }


def _cut(text: str) -> str:
    """Its beginning and its end, which is where a worker's error is."""
    return text if len(text) <= 2 * MOST_READ else text[:MOST_READ] + text[-MOST_READ:]


def text_of(error: BaseException) -> str:
    """Its message without secrets; of an error that a worker of a DataLoader raised, without the
    traceback between its first line and its last one."""
    try:
        message = hide_secrets(_cut(str(error)))
    except Exception:  # of the user's class
        return ""
    head, _, trace = message.partition(ORIGINAL)
    lines = [line for line in trace.splitlines() if line.strip()]
    begins = [n for n, line in enumerate(lines) if not line.startswith(" ")]
    named = [n for n in begins if CLASS.match(lines[n])]
    begins = named or begins
    return "\n".join([head.rstrip(), *lines[begins[-1] :]]) if begins else message
