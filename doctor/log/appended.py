"""Where one run ended and the next one was appended to the same file.

A process ends with one traceback from its first line on; a second one of the same program is
of another process. Its ranks may be those of one run, so a file with ranks has no such place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.log.tracebacks import Traceback, split_prefix

EARLIER = "earlier_run"
"""Group of an event that an earlier run of the same file ended with."""
CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct")
OF_OTHERS = ("peer-lost", "nccl-error", "nccl-timeout", "nccl-versions-differ")
"""Classes of what a process reports because another one of the same run ended."""


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
