"""The guard as a callback of transformers' Trainer."""

from __future__ import annotations

from transformers import TrainerCallback

from .callbacks import Guarded
from .foreign import Foreign


class GuardCallback(Guarded, TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Trainer(..., callbacks=[GuardCallback()]); the arguments are those of `doctor.guard.watch`.

    With stop=True the Trainer ends after the step, and saves as its arguments say.
    """

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
