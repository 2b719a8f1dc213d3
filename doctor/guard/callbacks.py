"""What the guard's callbacks for trainers have in common."""

from __future__ import annotations

from typing import Any

from .guard import Guard


class Guarded:
    """Takes the arguments of `doctor.guard.watch`; the trainer itself stops where it is wanted."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._guard = Guard(**settings)
        self._guard.stop_by_trainer()

    def close(self) -> None:
        """Remove the hooks and close the records; without it that happens at exit."""
        self._guard.close()

    @property
    def alarms(self) -> tuple[str, ...]:
        """The codes of the alarms so far."""
        return self._guard.alarms
