"""The probes that run, their deadlines and what they answer."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.checkpoint.io.urls import redact_urls
from doctor.checkpoint.records import Checkpoint
from doctor.collect.child import CUT, Answer, Child, probe_command

T = TypeVar("T")


class Children:
    """Every child of this run, so that an interrupt leaves none behind."""

    def __init__(self, budget: float | None = None) -> None:
        """`budget`: the seconds from now on that all of them may take."""
        self._until = math.inf if budget is None else time.monotonic() + budget
        self._running: list[Child] = []
        self._closed = False

    def start(
        self, python: str, probe: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Child:
        """Start a probe, "training_side/torch_stages", with `env` on top of the environment.

        Raises OSError where `python` cannot be started.
        """
        if self._closed:
            raise OSError("the run was interrupted")
        if time.monotonic() >= self._until:
            raise OSError(CUT)
        command = probe_command(python, probe, *arguments)
        child = Child(command, {**environment(), **(env or {})})
        self._running.append(child)
        child.until = self._until
        return child

    def ask(
        self,
        probe: str,
        *arguments: str,
        seconds: float,
        on_enter: Callable[[str], None] = lambda stage: None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
    ) -> Answer:
        """One answer of a probe under the doctor's own interpreter, which is ended then."""
        try:
            child = self.start(sys.executable, f"doctor_side/{probe}", *arguments)
        except OSError as error:
            return Answer(Ended(how="error", detail=str(error)))
        try:
            return child.wait(seconds, on_enter, on_note)
        finally:
            child.kill()

    def interrupt(self) -> None:
        """Kill every process group that is left."""
        self._closed = True
        for child in self._running:
            child.kill_group()


def environment() -> dict[str, str]:
    """The environment of a probe: the user's, less what would hide a probe's siblings from it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def background(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a thread that does not keep the doctor alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def read(answer: Answer, key: str, kind: type[T]) -> T | Unknown:
    """The part of an answer that is a `kind`; Unknown with the reason if it is not there."""
    if answer.answer is None:
        return Unknown(reason=answer.ended.detail or answer.ended.how)
    return fit(answer.answer.get(key), kind)


def read_checkpoint(answer: Answer) -> Checkpoint | Unknown:
    """What the probe said of a checkpoint; how it died may hold an address and its secrets."""
    said = answer.answer or {}
    found = fit(said, Unknown) if "reason" in said else read(answer, "checkpoint", Checkpoint)
    return Unknown(reason=redact_urls(found.reason)) if isinstance(found, Unknown) else found


def fit(data: Any, kind: type[T]) -> T | Unknown:
    """`data` of a probe as a `kind`: strictly, a probe is not trusted either."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        return Unknown(reason=f"the probe's answer is no {kind.__name__}: {error}")
