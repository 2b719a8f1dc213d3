"""What explains an error besides the call that raised it, as doctor.facts.observations.

Each function of `OBSERVERS` looks at one kind of error and returns records, [] if it has nothing to
say.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from . import raised_getters, raised_names, raised_objects, raised_optimizers

Records = List[Dict[str, Any]]


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


OBSERVERS: List[Callable[..., Records]] = [
    raised_getters.getter,
    *raised_names.OBSERVERS,
    *raised_objects.OBSERVERS,
    *raised_optimizers.OBSERVERS,
]
