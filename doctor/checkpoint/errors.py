"""The error that every reader of a checkpoint raises."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.checkpoint.actions import NO_ACTIONS, Actions
from doctor.checkpoint.records import Problem, ProblemKind


class CheckpointError(Exception):
    """A file that cannot be used: the kind of a Problem, and its text."""

    def __init__(self, kind: ProblemKind, text: str) -> None:
        super().__init__(text)
        self.kind: ProblemKind = kind
        self.text = text
        self.imports: tuple[str, ...] = ()
        """Globals that the file's pickle names up to where it breaks, "module.name"."""
        self.actions: Actions = NO_ACTIONS
        """What unpickling it does with them up to there."""
        self.ends: tuple[int, ...] = ()
        """Where unpicklers that are less strict would end it."""

    def problem(self, file: str) -> Problem:
        """The error as a Problem of `file`, whose name is escaped."""
        return Problem(kind=self.kind, file=shown(file), text=self.text)
