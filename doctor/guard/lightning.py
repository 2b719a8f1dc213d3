"""The guard as a callback of Lightning's Trainer, under both names of the package."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .foreign import Foreign
from .guard import Guard

PACKAGE = "lightning.pytorch" if "lightning" in sys.modules else "pytorch_lightning"
Callback: Foreign = importlib.import_module(PACKAGE + ".callbacks").Callback


class GuardCallback(Callback):  # type: ignore[misc]
    """Trainer(callbacks=[GuardCallback()]); the arguments are those of `doctor.guard.watch`."""

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

    def on_train_batch_end(self, trainer: Foreign, *arguments: Foreign) -> None:
        """Stop where an alarm asks for it."""
        if self._guard.stop_wanted:
            trainer.should_stop = True

    def on_train_end(self, trainer: Foreign, *arguments: Foreign) -> None:
        """Write the counts; the hooks stay for another fit()."""
        self._guard.write()
