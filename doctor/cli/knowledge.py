"""`doctor --version -v`: how old the tables are that the doctor judges with."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import date

from doctor import __version__
from doctor.hardware import READ as HARDWARE
from doctor.judge.index import entries
from doctor.judge.sources import SOURCES

DAYS = 366
"""After a year new GPUs, wheels and bugs exist that a table does not know."""


def dates() -> dict[str, str]:
    """Table -> the day on which it was last compared with its sources."""
    from doctor.checks.torch_build.wheel_table import READ

    return {
        "GPUs and Xids": HARDWARE,
        "wheels of torch": READ,
        "known bugs of torch, cuDNN and libraries": _newest("NUM"),
        "causes of errors": _newest("LOG"),
        "rules for scripts": _newest("SCR"),
    }


def text(today: date) -> str:
    """The version, Python, and a line for each table."""
    return "\n".join(_lines(today))


def _lines(today: date) -> Iterator[str]:
    yield f"doctor {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield "tables, with the day on which they were compared with their sources:"
    tables = dates()
    for name, day in tables.items():
        yield f"  {day}  {name}"
    if old := [name for name, day in tables.items() if is_old(day, today)]:
        yield f"note: older than a year: {', '.join(old)}; install a newer doctor"


def is_old(day: str, today: date) -> bool:
    """Whether a table of that day has to be compared again."""
    return (today - date.fromisoformat(day)).days > DAYS


def _newest(family: str) -> str:
    """The day on which the newest source of a family was read."""
    ids = (id for entry in entries() if entry.family == family for id in entry.sources)
    return max(SOURCES[id].checked for id in ids if not SOURCES[id].document)
