"""Watches a training from inside its process: standard library and the torch already imported.

    import doctor.guard
    doctor.guard.watch()

or, for a loop whose optimizer is not one of torch.optim,

    with doctor.guard.Guard() as guard:
        for batch in batches:
            guard.step(loss)

`hooks` notices what torch does, `watch` gets it, `optimizer_watch` measures a step, `judging`
counts and judges it by `rules` and `look_rules`, `alarms` and `writer` put it out: one file of
JSON lines for each process, which `doctor.collect.guard_records` reads.
It runs in the user's process: syntax of Python 3.9, no import of the doctor and none of torch, no
wait for a device but at the first alarm, and an error of its own switches it off.
"""

from __future__ import annotations

from typing import Any

from .foreign import Foreign
from .session import Stopped, start
from .settings import Settings

__all__ = ["Guard", "Stopped", "watch"]


class Guard:
    """The guard of this process, as a context manager.

    The arguments are those of `watch`. On leaving, the hooks are removed and the records closed.
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
        session.hooks.switch.safely(session.watch.step_reported, loss, learning_rate)
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


def watch(
    *,
    out: str = "doctor-guard",
    stop: bool = False,
    ignore: tuple[str, ...] = (),
    all: bool = False,
    expect_no_grad: tuple[str, ...] = (),
    protect: bool = False,
    shared: bool = False,
) -> Guard:
    """Watch the training of this process until it ends; a second call changes nothing.

    `out` is the directory of the records, for `doctor report`. `stop` ends the training at the
    first failure, `ignore` are codes that raise no alarm, `all` evaluates the codes that are off
    by default, `expect_no_grad` are patterns of parameters that need no gradient, `protect` lets
    fused optimizers leave out steps whose gradients are not finite, `shared` lets other users read
    the records.
    """
    return Guard(
        out=out,
        stop=stop,
        ignore=ignore,
        all=all,
        expect_no_grad=expect_no_grad,
        protect=protect,
        shared=shared,
    )


def __getattr__(name: str) -> Foreign:
    if name == "GuardCallback":
        from .transformers import GuardCallback  # imports transformers

        return GuardCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
