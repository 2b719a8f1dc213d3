"""What the pickles of one file import, and what unpickling them does."""

from __future__ import annotations

from dataclasses import dataclass, field

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.pickle.nodes import NO_ACTIONS, Actions, Pickled


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

    def add(self, pickled: Pickled | CheckpointError) -> None:
        """One more pickle, or as much as there is of it."""
        self.imports |= dict.fromkeys(pickled.imports)
        self.actions |= pickled.actions
        if isinstance(pickled, Pickled):
            self.protocol = max(self.protocol, pickled.protocol)

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
