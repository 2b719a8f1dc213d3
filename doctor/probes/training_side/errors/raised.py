"""What an error shows: the line, the module, the call that raised and its arguments.

Nothing is called but signatures and representations; `scene` returns the fields of
doctor.facts.raised.Raised.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import torch

from ..foreign import descriptions, stack_frames
from . import raised_names, raised_objects

Records = List[Dict[str, Any]]
MESSAGE = 4000


def scene(error: BaseException, model: Optional[torch.nn.Module] = None) -> Dict[str, Any]:
    """The fields of doctor.facts.raised.Raised that the traceback shows."""
    frames = stack_frames.frames_of(error)
    fields: Dict[str, Any] = {
        "type": "Raised",
        "errors": [kind.__name__ for kind in type(error).__mro__[:-1]],
        "message": str(error)[:MESSAGE],
    }
    used = [index for index, frame in enumerate(frames) if not frame.library]
    inner = frames[used[-1] + 1 :] if used else frames
    if used:
        fields.update(place=frames[used[-1]].place, code=frames[used[-1]].code)
    called = [frame for frame in inner if frame.name not in stack_frames.CALLERS]
    try:  # the user's objects may do anything
        fields.update(module_fields(frames, model))
        if called and used:
            fields.update(
                function=called[0].qualified, operands=descriptions.operands(called[0].passed())
            )
    except Exception:
        fields.pop("function", None)
    user = frames[used[-1]] if used else None
    fields["observations"] = observe(error, frames, user, model)
    return fields


def module_fields(frames: List[Any], model: Optional[torch.nn.Module]) -> Dict[str, Any]:
    """The innermost module whose forward was running: its path and what it is."""
    running = stack_frames.running_modules(frames)
    if not running:
        return {}
    inner = running[-1]
    root = model if model is not None else running[0]
    path = next((name for name, each in root.named_modules() if each is inner), None)
    return {"module": path, "module_type": descriptions.shown(inner)}


def observe(error: BaseException, frames: List[Any], user: Optional[Any], model: Any) -> Records:
    """Everything that the observers see; one that fails itself is said."""
    records: Records = []
    for observer in OBSERVERS:
        try:
            records += observer(error, frames, user, model)
        except Exception as failure:  # the user's objects may do anything
            reason = type(failure).__name__
            records.append({"type": "Unread", "kind": observer.__name__, "reason": reason})
    return records


OBSERVERS: List[Callable[..., Records]] = [*raised_names.OBSERVERS, *raised_objects.OBSERVERS]
"""What explains an error besides the call that raised it, as doctor.facts.observations: each looks
at one kind of error and returns records, [] if it has nothing to say."""
