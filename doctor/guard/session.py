"""The one guard of a process."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
from types import ModuleType

from .hooks import Hooks
from .settings import Settings
from .watch import Watch
from .writer import say

REGISTRY = "_doctor_guard_session"
"""Attribute of the torch module that holds it, whichever copy of this package made it."""


class Stopped(RuntimeError):
    """The guard was asked to stop the training at a failure, and one was observed."""


class Session:
    """Hooks and watch, from the first call until the process ends or `close`."""

    def __init__(self, torch: ModuleType, settings: Settings) -> None:
        self.torch = torch
        self.settings = settings
        self._watch_anew()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _watch_anew(self) -> None:
        self.watch = _watch(self.torch, self.settings)
        self.watch.end_if_wanted = self._end_if_wanted
        self.hooks = Hooks(self.torch, self.watch)
        self.hooks.install()

    def _forked(self) -> None:
        """In a child: a DataLoader's worker is not watched, a process that will train is."""
        if self.watch.started:
            self.hooks.deactivate()
            self.watch.started = False  # the records belong to the parent

    def _end_if_wanted(self) -> None:
        """Raise, or end this process, after an alarm that stops the training."""
        alarms = self.watch.alarms
        if not alarms.stop_wanted or self.settings.parent or alarms.trainer_stops:
            return
        alarms.stop_wanted = False
        if self.watch.writer.world > 1:
            os.kill(os.getpid(), signal.SIGTERM)  # the launcher ends the other ranks
        raise Stopped("doctor guard observed a failure, and stop=True ends the training")

    def close(self) -> None:
        """Remove the hooks and write the last records."""
        atexit.unregister(self.close)
        active = self.hooks.active
        self.hooks.remove()
        if active:
            try:
                self.watch.close("exit")
            except Exception as error:
                say(f"the last records could not be written: {error!r}")
            if not self.settings.parent and self.watch.started and self.watch.writer.rank == 0:
                self._summarize()
        if getattr(self.torch, REGISTRY, None) is self:
            delattr(self.torch, REGISTRY)

    def _summarize(self) -> None:
        codes = self.watch.alarms.codes
        outcome = f"alarms: {', '.join(codes)}" if codes else "no alarm"
        steps = self.watch.judging.tally.steps
        say(f"{steps} steps, {outcome}; see: doctor report {self.settings.out}")


def _watch(torch: ModuleType, settings: Settings) -> Watch:
    if not settings.all:
        return Watch(torch, settings)
    from .thorough import ThoroughWatch  # costs the default nothing

    return ThoroughWatch(torch, settings)


def start(settings: Settings) -> Session:
    """The guard of this process; a second call returns the first one's. Raises ImportError."""
    torch = sys.modules.get("torch")
    if torch is None:
        torch = importlib.import_module("torch")
    session: Session | None = getattr(torch, REGISTRY, None)
    if session is None:
        session = Session(torch, settings)
        setattr(torch, REGISTRY, session)
    return session
