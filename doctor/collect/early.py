"""The process that imports torch, started before the command line is parsed.

`import torch` takes longer than everything that `doctor run` does itself, and where nothing names
an interpreter, it is known without a parser. Whether the process is used is decided later: `take`
hands it over to the collection, `end` kills it where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from doctor.collect.child import Child, environment, probe_command
from doctor.collect.interpreter import known

PROBE = "training_side.stages.torch_stages"
OTHER = ("--python", "--config", "--facts", "--help", "-h")
"""Options that may name an interpreter, or after which none is needed. A job file that was found,
rather than named, may set none."""
VARIABLES = ("DOCTOR_PYTHON", "DOCTOR_CONFIG")
_waiting: dict[str, Child] = {}
"""At most one process, by its interpreter."""


def start(words: Sequence[str]) -> None:
    """Start it for `doctor run` with these words, unless they may name another interpreter."""
    if any(word.startswith(OTHER) for word in words) or any(map(os.environ.get, VARIABLES)):
        return
    if (choice := known(os.environ)) is None:
        return
    try:
        child = Child(probe_command(choice[0], PROBE), environment())
    except OSError:  # started again by the collection, which reports it
        return
    _waiting[choice[0]] = child


def take(python: str) -> Child | None:
    """The process, if it is of this interpreter."""
    child = _waiting.pop(python, None)
    end()
    return child


def end() -> None:
    """Kill the process unless it was taken."""
    while _waiting:
        _waiting.popitem()[1].kill()
