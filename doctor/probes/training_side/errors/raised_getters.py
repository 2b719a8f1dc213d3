"""An AttributeError inside of a property, which the __getattr__ of a class hides: torch.nn.Module
reports the property itself as absent.
"""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..foreign import places, stack_frames

SECONDS = 3.0
"""Limit of a getter that is called again, in a thread that is abandoned then."""
Observer = Callable[..., Dict[str, str]]
INNER = "inner "
"""Begins the kind of what was observed at the error inside of the getter."""


def observe(
    error: Any, owner: Any, name: str, model: Any, observers: Tuple[Observer, ...]
) -> Dict[str, str]:
    """The getter that hides its error, and what `observers` see of that error, after `INNER`; {} if
    the class of `owner` has no property of that name."""
    getter = getter_of(owner, name)
    if getter is None or "has no attribute '%s'" % name not in str(error):
        return {}
    _, place = places.line_of_function(getter)
    observed = {"getter": name, "owner": type(owner).__name__, "getter at": place}
    inner = error_of(getter, owner)
    frames = stack_frames.frames_of(inner) if inner is not None else []
    user = next((each for each in reversed(frames) if not each.library), None)
    if not isinstance(inner, AttributeError) or user is None:
        return observed
    observed.update({INNER + "place": user.place, INNER + "code": user.code})
    observed[INNER + "message"] = str(inner)[:400]
    for observer in observers:
        about = observer(inner, frames, user, model)
        observed.update((INNER + kind, text) for kind, text in about.items())
    return observed


def getter_of(owner: Any, name: str) -> Optional[Callable[[Any], Any]]:
    """The function of a property of that name in the class of this object."""
    stored = inspect.getattr_static(type(owner), name, None)
    if isinstance(stored, property):
        return stored.fget
    return stored.func if isinstance(stored, functools.cached_property) else None


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
