"""What the pickles of one file import, and what unpickling them does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from doctor.checkpoint.actions import NO_ACTIONS, Actions


@dataclass(slots=True)
class Inventory:
    """The pickles of one file."""

    file: str
    pickles: int = 0
    imports: dict[str, None] = field(default_factory=dict)
    """Globals that they name, "module.name"."""
    actions: Actions = NO_ACTIONS
    """What unpickling them does with these."""
    protocol: int = 0
    """The highest."""
    incomplete: str = ""
    """Why they could not be read to their ends, to follow the file's name; "" where they were."""

    def add(self, imports: Iterable[str], actions: Actions, protocol: int = 0) -> None:
        """What one more pickle imports and does, or as much as there is of it."""
        self.imports |= dict.fromkeys(imports)
        self.actions |= actions
        self.protocol = max(self.protocol, protocol)

    def merge(self, other: Inventory) -> None:
        """What another one lists, if it has any pickles."""
        if other.pickles:
            self.pickles += other.pickles
            self.imports |= other.imports
            self.actions |= other.actions
            self.protocol = max(self.protocol, other.protocol)
            self.incomplete = self.incomplete or other.incomplete

    def break_off(self, reason: str) -> None:
        """Keep the first reason."""
        self.incomplete = self.incomplete or reason
