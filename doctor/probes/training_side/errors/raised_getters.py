"""An AttributeError inside of a property, which the __getattr__ of a class hides: torch.nn.Module
reports the property itself as absent.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional

from ..foreign import places, stack_frames
from . import raised_names

SECONDS = 3.0
"""Limit of a getter that is called again, in a thread that is abandoned then."""


def getter(error: Any, frames: List[Any], user: Any, model: Any) -> List[Dict[str, Any]]:
    """The getter that hides its error, and what is absent there."""
    owner, name = getattr(error, "obj", None), getattr(error, "name", None)
    hiding = raised_names.getter_of(error)
    if hiding is None:
        return []
    _, place = places.line_of_function(hiding)
    record = {"type": "Getter", "name": name, "owner": type(owner).__name__, "place": place}
    inner = error_of(hiding, owner)
    below = stack_frames.frames_of(inner) if inner is not None else []
    own = next((each for each in reversed(below) if not each.library), None)
    if not isinstance(inner, AttributeError) or own is None:
        return [record]
    record.update(message=str(inner)[:400], line={"place": own.place, "code": own.code})
    absent = raised_names.attributes(inner, below, own, model)
    return [record, *raised_names.none(inner, below, own, model), *absent]


def error_of(getter: Callable[[Any], Any], owner: Any) -> Optional[BaseException]:
    """What the getter raises when it is called again; None if it returns, or takes too long."""
    errors: List[BaseException] = []

    def call() -> None:
        try:
            getter(owner)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return errors[0] if errors else None
