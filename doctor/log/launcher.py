"""torchrun's account of which process failed first."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

from doctor.facts.log import RootCause
from doctor.log.lines import time_of
from doctor.log.tracebacks import split_prefix

CUE = b"Root Cause (first observed failure)"
LONGEST = 40
"""Lines of the account; the traceback of a process may be among them."""
FIELD = re.compile(r"^\s{0,8}(time|host|rank|exitcode|error_file|traceback)\s{0,8}: ?(.*)")
NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(slots=True)
class Launcher:
    """Reads the lines after the heading; what was read of each account."""

    path: str
    causes: deque[RootCause] = field(default_factory=lambda: deque(maxlen=64))
    _line: int = 0
    _lines: int = 0
    _fields: dict[str, str] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether an account goes on."""
        return bool(self._line)

    @property
    def rank(self) -> int | None:
        """Of the account that goes on."""
        return self._number("rank") if self._line else None

    def take(self, number: int, text: str) -> None:
        """One line."""
        if CUE.decode() in text:
            self._line, self._lines, self._fields = number, 0, {}
            return
        if not self._line:
            return
        self._lines += 1
        body = split_prefix(text)[1]
        if match := FIELD.match(body):
            self._fields.setdefault(match[1], match[2].strip()[:300])
        if body.startswith(("=====", "-----")) or self._lines >= LONGEST:
            self.end(number)

    def end(self, number: int) -> None:
        """The account ends at a line."""
        if self._line and "exitcode" in self._fields:
            stamp = self._fields.get("time", "").replace("_", " ")
            self.causes.append(
                RootCause(
                    path=self.path,
                    line=self._line,
                    last_line=number,
                    rank=self._number("rank"),
                    host=self._fields.get("host", "")[:200],
                    exitcode=self._number("exitcode") or 0,
                    time=time_of(stamp),
                )
            )
        self._line = 0

    def _number(self, name: str) -> int | None:
        match = NUMBER.match(self._fields.get(name, ""))
        return int(match[0]) if match else None
