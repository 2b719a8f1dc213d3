"""Where one run ended and the next one was appended to the same file.

A process ends with one traceback from its first line on; a second one of the same program is
of another process. Its ranks may be those of one run, so a file with ranks has no such place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from doctor.log.tracebacks import Traceback, split_prefix

EARLIER = "earlier_run"
"""Group of an event that an earlier run of the same file ended with."""
CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct")
OF_OTHERS = ("peer-lost", "nccl-error", "nccl-timeout", "nccl-versions-differ")
"""Classes of what a process reports because another one of the same run ended."""
STOPPED, STARTED_AGAIN = "interrupted", 100
"""The class of a Ctrl-C, and lines below it that are of a run that was started afterwards. Our own
number: what processes print when they are ended takes fewer."""
ANOTHER_JOB, ENDED_BY_OTHERS = 500, {"scheduler-ended", STOPPED}
"""Lines below the account of a launcher that are of another job, and with what that may end. Our
own number: other nodes write their own accounts."""


class Occurrence(Protocol):
    """An event while lines may still be added to it."""

    name: str
    harmless: bool
    groups: dict[str, str]
    number: int
    last_line: int
    recovered: bool
    former: Self | None

    def join(self, later: Self) -> None: ...


@dataclass(slots=True)
class Appended:
    """The last traceback with which a process of a program ended."""

    _program: str = ""
    _is_chained: bool = False

    def read(self, text: str) -> None:
        """One line that may say that the next traceback is of the same exception."""
        if CHAINED.search(text):
            self._is_chained = True

    def begins_after(self, traceback: Traceback | None, text: str, name: str) -> bool:
        """Whether the process that this traceback ended was started after another had ended."""
        if traceback is None or traceback.ignored or not traceback.program:
            return False
        again = self._program == traceback.program and not self._is_chained
        self._program, self._is_chained = traceback.program, False
        return again and not split_prefix(text)[0] and name not in OF_OTHERS


_E = TypeVar("_E", bound=Occurrence)


def apart(
    events: Sequence[_E], earlier: int, lines: int, *, ranked: bool, account: int
) -> list[_E]:
    """The events of a file of so many lines, of which the first ones, `earlier`, seem to be of runs
    before its last one. What ended those is no failure of that one; where the file has ranks, or
    the account of a launcher at a line, the processes are those of one run."""
    harmful = [each for each in events if not each.harmless]
    if not ranked and not account:
        again = [each for each in harmful if each.name == STOPPED]
        again = [each for each in again if lines - each.last_line > STARTED_AGAIN]
        _settle([*again, *(each for each in harmful if each.number < earlier)])
        return list(events)
    later = {each.name for each in harmful if each.last_line > account} - ENDED_BY_OTHERS
    if account and lines - account > ANOTHER_JOB and not later:
        _settle(each for each in harmful if each.last_line <= account)
    for event in reversed(events):
        if event.former:
            event.former.join(event)
    return [event for event in events if event.former is None]


def _settle(events: Iterable[Occurrence]) -> None:
    for event in events:
        event.groups[EARLIER], event.recovered = "1", True
