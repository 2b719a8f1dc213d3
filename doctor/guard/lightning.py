"""The guard as a callback of Lightning's Trainer, under both names of the package."""

from __future__ import annotations

import importlib
import sys

from .callbacks import Guarded
from .foreign import Foreign

PACKAGE = "lightning.pytorch" if "lightning" in sys.modules else "pytorch_lightning"
Callback: Foreign = importlib.import_module(PACKAGE + ".callbacks").Callback


class GuardCallback(Guarded, Callback):  # type: ignore[misc]
    """Trainer(callbacks=[GuardCallback()]); the arguments are those of `doctor.guard.watch`."""

    def on_train_batch_end(self, trainer: Foreign, *arguments: Foreign) -> None:
        """Stop where an alarm asks for it."""
        if self._guard.stop_wanted:
            trainer.should_stop = True

    def on_train_end(self, trainer: Foreign, *arguments: Foreign) -> None:
        """Write the counts; the hooks stay for another fit()."""
        self._guard.write()
