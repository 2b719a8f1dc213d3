"""The guard as a callback of transformers' Trainer."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from .foreign import Foreign
from .guard import Guard


class GuardCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Trainer(..., callbacks=[GuardCallback()]); the arguments are those of `doctor.guard.watch`.

    With stop=True the Trainer ends after the step, and saves as its arguments say.
    """

    def __init__(self, **settings: Any) -> None:
        self._guard = Guard(**settings)
        self._guard.stop_by_trainer()

    def close(self) -> None:
        """Remove the hooks and close the records; without it that happens at exit."""
        self._guard.close()

    @property
    def alarms(self) -> tuple[str, ...]:
        """The codes of the alarms so far."""
        return self._guard.alarms

    def on_step_end(
        self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign
    ) -> Foreign:
        """Stop where an alarm asks for it."""
        if self._guard.stop_wanted:
            control.should_training_stop = True
        return control

    def on_train_end(
        self, args: Foreign, state: Foreign, control: Foreign, **kwargs: Foreign
    ) -> None:
        """Write the counts; the hooks stay for another train()."""
        self._guard.write()
