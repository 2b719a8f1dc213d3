"""What the process that reads data sends beside its counts."""

from __future__ import annotations

from typing import Any, Dict

from ... import wire
from ..foreign import Foreign
from . import reading


def code_of(request: Dict[str, Any]) -> str:
    """The text of the file of a factory."""
    try:
        with open(request.get("file") or "", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def note(**fields: Foreign) -> None:
    wire.send(note={"data": fields})


def unknown(reason: str) -> Dict[str, Any]:
    return {"type": "Unknown", "reason": reason}


def named(error: Exception) -> Dict[str, Any]:
    """The record Problem; the doctor's own messages are kept, they quote no row."""
    problem = reading.problem_of(error)
    if type(error).__name__ in ("NotData", "NotAFactory"):
        problem["error"] = str(error)
    return problem
