"""What `doctor rehearse` adds to the guard in each process of a rehearsed command.

`begin` runs when Python starts: `audit` records what is written, read and called outside, `doors`
refuse uploads. `observe` runs when torch has been imported: `observer` records steps, saves,
evaluations and loads, and `state` the hashes of everything that a checkpoint must restore.
"""

from __future__ import annotations

from types import ModuleType

from .settings import from_environment


def begin() -> None:
    """Install what does not need torch."""
    settings = from_environment()
    if settings is not None:
        from . import audit, doors

        doors.install(audit.install(settings))


def observe(torch: ModuleType) -> None:
    """Install what needs torch."""
    settings = from_environment()
    if settings is not None:
        from . import observer

        observer.install(torch, settings)
