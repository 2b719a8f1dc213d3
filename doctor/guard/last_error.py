"""The exception that ends the program, as text without secrets."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, Optional

from .secrets import hide_secrets

LONGEST = 2000
"""Characters of a message that are kept."""


def uncaught() -> Optional[BaseException]:
    """The exception that nobody caught. Python keeps it until the end, for debuggers."""
    return getattr(sys, "last_value", None)


def last_error() -> Dict[str, Any]:
    """Class, message and moment (milliseconds since 1970) of the exception that nobody caught;
    {} where there was none."""
    error = uncaught()
    if error is None:
        return {}
    try:
        message = str(error)
    except Exception:  # of the user's class
        message = ""
    return {
        "error": type(error).__name__[:LONGEST],
        "message": hide_secrets(message)[:LONGEST],
        "moment": int(time.time() * 1000),
    }
