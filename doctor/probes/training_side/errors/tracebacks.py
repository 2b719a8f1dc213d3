"""Errors of the user's code as texts, without libraries' frames and secrets of the environment."""

from __future__ import annotations

import re
import traceback
from typing import Any, Dict, List, Optional

from ... import wire
from ...secrets import hide_secrets
from ..foreign import stack_frames
from ..foreign.stack_frames import HIDDEN, is_library
from . import raised

USER_FRAMES, LIBRARY_FRAMES = 8, 2
"""Frames of a traceback to report: of the user's files, and the last ones of libraries."""
WRITTEN_FOR_THE_USER = ("NotAFactory", "NotBuilt", "BadFiles", "Unsupported", "NotPossible")
"""Errors whose message is complete without a traceback."""
ORIGINAL = "Original Traceback"
ANOMALY = " Hint: enable anomaly detection"
"""What repeat_step.py has done already."""
FILE = re.compile(r'^ +File "([^"]*)", line \d+')
MESSAGE_LINES = 6


def explained(error: BaseException) -> str:
    """The error in one line, with secrets of the environment removed."""
    complete = type(error).__name__ in WRITTEN_FOR_THE_USER
    inner = of_worker(error)
    text = "%s (in a worker of the DataLoader)" % inner[-1] if inner else wire.describe(error)
    place = getattr(error, "doctor_place", "")
    text = text.partition(ANOMALY)[0]
    return hide_secrets(str(error) if complete else text + place)


def scene(error: BaseException, module: Any = None) -> Optional[Dict[str, Any]]:
    """The error as a doctor.facts.raised.Raised; None if its message is complete."""
    if type(error).__name__ in WRITTEN_FOR_THE_USER:
        return None
    found: Optional[Dict[str, Any]] = without_secrets_in(raised.scene(error, module))
    return found


def joined(fields: Dict[str, Any], more: Dict[str, Any]) -> Dict[str, Any]:
    """The error with what its repetition showed."""
    observations = [*fields["observations"], *more.get("observations", [])]
    caller = fields.get("function", "") if "function" in more else ""
    together = {**fields, **more, "observations": observations, "caller": caller}
    return {key: without_secrets_in(value) for key, value in together.items()}


def without_secrets_in(value: Any) -> Any:
    """Nested lists and dicts whose texts have no secrets of the environment."""
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, dict):
        return {key: without_secrets_in(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_secrets_in(each) for each in value]
    return value


def of_worker(error: BaseException) -> List[str]:
    """The lines of the traceback in the message of an error that a DataLoader passes on from a
    worker, the error last; [] for any other."""
    lines = [line for line in str(error).splitlines() if line.strip(" ^~")]
    starts = [index for index, line in enumerate(lines) if line.startswith(ORIGINAL)]
    if not starts:
        return []
    inner = lines[starts[-1] + 1 :]
    ends = [index for index, line in enumerate(inner) if not line.startswith(" ")]
    return inner[: ends[0] + 1] if ends else []


def tail(error: BaseException) -> str:
    """The traceback: frames of the user's files, the last ones of libraries, and the error."""
    if type(error).__name__ in WRITTEN_FOR_THE_USER:
        if error.__cause__ is None:
            return ""
        error = error.__cause__
    if inner := of_worker(error):
        return hide_secrets("\n".join(["Traceback (most recent call last):", *users(inner)]))
    whole = traceback.TracebackException.from_exception(error, limit=None)
    frames = [
        frame
        for frame in whole.stack
        if not (frame.filename.startswith(HIDDEN) or frame.name in stack_frames.MODULE_CALLERS)
    ]
    used = [index for index, frame in enumerate(frames) if not is_library(frame.filename)]
    shown = set(used[-USER_FRAMES:]) | set(range(len(frames))[-LIBRARY_FRAMES:])
    if not used:
        shown = set(range(len(frames))[-USER_FRAMES:])
    whole.stack = traceback.StackSummary.from_list([frames[index] for index in sorted(shown)])
    whole.__cause__ = whole.__context__ = None
    lines = [line for line in "".join(whole.format()).splitlines() if line.strip(" ^~")]
    head, last = lines[: 1 + 2 * len(shown)], lines[1 + 2 * len(shown) :]
    return hide_secrets("\n".join([*head, *last[:MESSAGE_LINES]]) if frames else "")


def users(lines: List[str]) -> List[str]:
    """The lines of a traceback without the frames of libraries, unless it has no others."""
    starts = [index for index, line in enumerate(lines) if FILE.match(line)]
    frames = [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines) - 1])]
    own = [frame for frame in frames if not is_library(FILE.match(frame[0])[1])]  # type: ignore[index]
    return [line for frame in (own or frames)[-USER_FRAMES:] for line in frame] + lines[-1:]
