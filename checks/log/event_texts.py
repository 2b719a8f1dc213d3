"""How an event of a log is told: where it is, what it says, and what helps."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from doctor._util.records import Unknown
from doctor.errors.cause import Cause
from doctor.errors.fitted import MEMORY, fitted
from doctor.errors.match import MOST, with_message
from doctor.errors.memory_numbers import describe_oom
from doctor.facts.interpreter import Torch
from doctor.facts.log import Log, LogEvent
from doctor.judge.known_errors import further
from doctor.judge.place import Place
from doctor.log.collector import PACKAGE
from doctor.log.tracebacks import bare_exception

CAUGHT = re.compile(r"Caught \w{1,60} in (?:DataLoader worker|pin memory|replica)")
"""What a wrapper says of an exception of another process or thread."""
LONGEST = 300
"""Characters of a line that a summary repeats."""


def refined(row: Cause, event: LogEvent) -> Cause:
    """The row that says more about this line than its class."""
    if not row.messages and (causes := causes_of(row, event)):
        return causes[0]
    first = next(iter(_rows_of(event)), row)
    return row if first.code or first.role == "harmless" else first


def _rows_of(event: LogEvent) -> tuple[Cause, ...]:
    """The rows of its lines; the program's own line, where it failed, may decide which leads."""
    return with_message(text_of(event), around=event.groups.get("source", ""))


def text_of(event: LogEvent) -> str:
    """The lines of an event: later ones of the same message may say more than the first."""
    return "\n".join(event.excerpt) or event.text


def commands_of(row: Cause, event: LogEvent) -> tuple[str, ...]:
    """The row's commands for what the event names, and the check that finds it before a run."""
    check = (_found_by(row.next_check),) if row.next_check else ()
    return (*fitted(row, text_of(event)).commands, *check)


def _found_by(code: str) -> str:
    """The command that evaluates a check, with what it cannot do without."""
    if code.startswith("CKP"):
        return "doctor scan DIRECTORY"
    needed = {"MEM001": " --params 8B", "SMK005": " --model FILE.py:FUNCTION"}.get(code, "")
    return f"doctor run --only {code}{needed}"


def detail_of(row: Cause, event: LogEvent) -> str:
    if row.id == MEMORY and (described := describe_oom(event.text)):
        return described.summary
    text = event.text
    if CAUGHT.search(text):  # the worker's own exception is among the lines below
        own = (line for line in event.excerpt if line != text and bare_exception(line))
        text = next(own, text)
    if not row.messages and not causes_of(row, event):
        text += "; cause not known"
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST].rsplit(" ", 1)[0] + " ..."


def fix_of(row: Cause, event: LogEvent, log: Log, torch: Torch | Unknown) -> str:
    """The remedy for what the event says and for the versions of the log or of the facts."""
    if (named := refined(row, event)) is not row:
        return fitted(named, f"{text_of(event)}{_asked(event)}").fix
    if (of_event := fitted(row, text_of(event))).fix != row.fix:
        return of_event.fix
    for remedy in row.remedies:
        version = log.versions.get(remedy.package, "")
        if not version and remedy.package == "torch" and isinstance(torch, Torch):
            version = torch.version
        if version and _holds(version, remedy.since, remedy.until):
            return remedy.fix
    return row.fix


def _asked(event: LogEvent) -> str:
    package = event.groups.get(PACKAGE, "")
    return f"\nasked by {package}" if package else ""


def causes_of(row: Cause, event: LogEvent) -> tuple[Cause, ...]:
    """The causes that have the line as their message, of the same rows as `doctor explain`; the
    class itself first, unless it is for exceptions of no class."""
    others = [each for each in _rows_of(event) if each.fix and each.id != row.id]
    return (*((row,) if row.messages else ()), *others)[:MOST]


def also_of(causes: Iterable[Cause]) -> tuple[str, ...]:
    """A line for each cause that is no class: that one has a check of its own."""
    return further(each for each in causes if not each.code)


def _holds(version: str, since: str, until: str) -> bool:
    try:
        number = Version(version)
        return (not since or number >= Version(since)) and (not until or number < Version(until))
    except InvalidVersion:
        return False


def where(event: LogEvent) -> str:
    """ "train.log:12, rank 3, 03:12:07": a clock time only where the log has one."""
    rank = f", rank {event.rank}" if event.rank is not None else ""
    clock = time.strftime(", %H:%M:%S", time.gmtime(event.time)) if event.time is not None else ""
    return f"{event.path}:{event.line}{rank}{clock}"


def place_of(event: LogEvent, message: str = "") -> Place:
    return Place(
        path=event.path, line=event.line, rank=event.rank, text=event.text, message=message
    )


def joined(*sentences: str | None) -> str:
    return " ".join(filter(None, sentences))
