"""The running probes, and their answers as sections of the facts."""

from __future__ import annotations

import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from doctor._util.records import Ended, Unknown
from doctor.checkpoint.io.urls import redact_urls
from doctor.checkpoint.records import Checkpoint
from doctor.collect.background import background
from doctor.collect.child import CUT_OFF, Child, environment, probe_command
from doctor.collect.child_messages import Answer
from doctor.facts.facts import Facts

T = TypeVar("T")

msgspec.json.Decoder(Facts)
"""Makes msgspec build its information on every section during the import, in one thread.

Otherwise it is built at the first use of a type, without a lock: if two threads convert a type for
the first time at once, the process dies of SIGSEGV.
"""


START_SECONDS = 10.0
"""How long the end of a run waits for a process that is being started: a program may lie on a
network that does not answer."""
INTERRUPTED = Ended(how="error", detail="the run was interrupted")


class NotStartedError(Exception):
    """A probe could not be started; `ended` says why."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.detail)
        self.ended = ended


class Children:
    """All children of a run, so that none outlives it."""

    def __init__(self, budget: float | None = None) -> None:
        """`budget`: seconds from now in which all of them must end."""
        self._budget_end = math.inf if budget is None else time.monotonic() + budget
        self._running: list[Child] = []
        self._starting = 0
        self._changed = threading.Condition()
        self._interrupted = threading.Event()

    def start(
        self, python: str, probe: str, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Child:
        """Start a probe, "doctor_side.nvml", with `env` on top of the environment.

        Raises NotStartedError if `python` cannot be started or the budget is spent.
        """
        if self._interrupted.is_set():
            raise NotStartedError(INTERRUPTED)
        if time.monotonic() >= self._budget_end:
            raise NotStartedError(CUT_OFF)
        command = probe_command(python, probe, *arguments)
        # In a thread: a signal raises in the main thread, and a process that was just started there
        # would belong to nobody.
        work = functools.partial(self._start, command, {**environment(), **(env or {})})
        try:
            child = background(work).result()
        except OSError as error:
            raise NotStartedError(Ended(how="error", detail=str(error))) from error
        if self._interrupted.is_set():  # by another thread in the meantime
            child.kill()
            raise NotStartedError(INTERRUPTED)
        return child

    def adopt(self, child: Child) -> None:
        """Add a probe that was started before this run."""
        child.budget_end = self._budget_end
        self._running.append(child)

    def _start(self, command: Sequence[str], env: Mapping[str, str]) -> Child:
        with self._changed:
            if self._interrupted.is_set():
                raise NotStartedError(INTERRUPTED)
            self._starting += 1
        try:
            child = Child(command, env)
            child.budget_end = self._budget_end
            self._running.append(child)
            return child
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()

    def run_probe(
        self,
        probe: str,
        *arguments: str,
        seconds: float,
        on_enter: Callable[[str], None] = lambda stage: None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
        keep: bool = False,
    ) -> Answer:
        """Run a probe under the doctor's own interpreter for one answer, and end it.

        `keep`: a probe that answered stays until the run ends.
        """
        try:
            child = self.start(sys.executable, f"doctor_side.{probe}", *arguments)
        except NotStartedError as error:
            return Answer(error.ended)
        answer = None
        try:
            answer = child.wait(seconds, on_enter, on_note)
            return answer
        finally:
            if not (keep and answer and answer.ended.ok):
                child.kill()

    def interrupt(self) -> None:
        """Kill all remaining process groups, also of those that are being started."""
        self._interrupted.set()
        with self._changed:
            self._changed.wait_for(lambda: not self._starting, START_SECONDS)
        for child in self._running:
            child.kill_group()


def read(answer: Answer, key: str, kind: type[T]) -> T | Unknown:
    """The part of an answer under `key`; Unknown with the reason if it is missing or malformed."""
    if answer.answer is None:
        return Unknown(reason=answer.ended.detail or answer.ended.how)
    return fit(answer.answer.get(key), kind)


def unless_cut_off(section: T, *calls: Ended | None) -> T | Unknown:
    """The section, or Unknown if --budget cut off one of the calls it was read from.

    Nothing can be concluded from such a section: the missing part was not examined.
    """
    cut = next((each for each in calls if each is not None and each.how == "budget"), None)
    return Unknown(reason=cut.detail) if cut else section


def read_checkpoint(answer: Answer) -> Checkpoint | Unknown:
    """The checkpoint section; reasons are redacted, as they may hold a URL with secrets."""
    content = answer.answer or {}
    section = (
        fit(content, Unknown) if "reason" in content else read(answer, "checkpoint", Checkpoint)
    )
    return Unknown(reason=redact_urls(section.reason)) if isinstance(section, Unknown) else section


def fit(data: object, kind: type[T]) -> T | Unknown:
    """`data` of a probe as a `kind`, or Unknown: probes are untrusted, so types must match."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        return Unknown(reason=f"the probe's answer is not a valid {kind.__name__}: {error}")
