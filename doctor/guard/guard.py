"""The guard of a process, as a context manager: what the package, the callbacks and a loop hold."""

from __future__ import annotations

from typing import Any

from .foreign import Foreign
from .session import start
from .settings import Settings


class Guard:
    """The guard of this process, as a context manager.

    The arguments are those of `doctor.guard.watch`. On leaving, the hooks are removed and the
    records closed.
    """

    def __init__(self, **settings: Any) -> None:
        for name in ("ignore", "expect_no_grad"):
            settings[name] = tuple(settings.get(name, ()))
        self._session = start(Settings(**settings))

    @property
    def alarms(self) -> tuple[str, ...]:
        """The codes of the alarms so far."""
        return self._session.watch.alarms.codes

    def step(self, loss: Foreign, *, learning_rate: float | None = None) -> None:
        """Report a step that no torch.optim optimizer takes; `loss` is a scalar or a number."""
        session = self._session
        session.hooks.switch.safely(session.watch.reported.step, loss, learning_rate)
        session.watch.end_if_wanted()

    @property
    def stop_wanted(self) -> bool:
        """Whether an alarm asks a trainer to end the training."""
        return self._session.watch.alarms.stop_wanted

    def stop_by_trainer(self) -> None:
        """From now on the caller reads `stop_wanted`; nothing is raised."""
        self._session.watch.alarms.trainer_stops = True

    def write(self) -> None:
        """Write the counts so far."""
        if self._session.watch.started:
            self._session.hooks.switch.safely(self._session.watch.judging.write_state)

    def close(self) -> None:
        """Remove the hooks and close the records."""
        self._session.close()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
