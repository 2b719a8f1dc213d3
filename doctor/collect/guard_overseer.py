"""What the parent of a guarded training does meanwhile: tells of alarms, notices stalls."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from doctor._util.atomic_write import atomic_write
from doctor._util.errors import UserError
from doctor.collect.guard_records import FILE, STALLS
from doctor.collect.guard_stalls import Stalls, stacks_file

SECONDS = 1.0
MARKER = re.compile(r"alarm-(GRD\d{3})-(?:warn|fail)|data-(?:counted|epochs)")
"""The empty file that the first rank with an alarm creates, or that has counted its batches."""
DATA = "DAT"
"""The family whose checks judge those counts."""
CODE = "GRD023"
MOST_RANKS = 64
"""Whose records are followed."""


class Overseer(threading.Thread):
    """Looks at the records every second. `tell` gets the code of each warning and failure, and
    DATA when batches have been counted.

    `lives`: whether a process is one of this training.
    """

    def __init__(
        self,
        out: Path,
        tell: Callable[[str], None],
        *,
        lives: Callable[[int], bool],
        stall_seconds: float | None,
        private: bool,
    ) -> None:
        super().__init__(daemon=True)
        self._out, self._tell, self._private = out, tell, private
        self._stalls = Stalls(out, stall_seconds, lives)
        self._markers: set[str] = set()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(SECONDS):
            self._look()

    def end(self) -> None:
        """The command has ended. What is being told is waited for, not longer than some seconds."""
        self._ended.set()
        self.join(5 * SECONDS)
        self._stalls.look(self._files(), time.monotonic())  # what was written last
        self._stalls.end(time.monotonic())
        self._write()

    @property
    def watched(self) -> int:
        """Processes whose pace was followed."""
        return self._stalls.watched

    def _look(self) -> None:
        names = [marker for name in self._names() if (marker := MARKER.fullmatch(name))]
        codes = [marker[1] or DATA for marker in names if marker[0] not in self._markers]
        self._markers.update(marker[0] for marker in names)
        files = self._files()
        if new := self._stalls.look(files, time.monotonic()):
            self._write()
            self._say(new, files)
            codes.append(CODE)
        for code in codes:
            self._tell(code)

    def _names(self) -> list[str]:
        with contextlib.suppress(OSError):
            return sorted(entry.name for entry in self._out.iterdir())
        return []

    def _files(self) -> dict[str, tuple[int, int]]:
        """The files of records -> rank and pid."""
        matches = [match for name in self._names() if (match := FILE.fullmatch(name))]
        return {match[0]: (int(match[1]), int(match[2])) for match in matches[:MOST_RANKS]}

    def _say(self, new: list[str], files: dict[str, tuple[int, int]]) -> None:
        stall = self._stalls.found[new[0]]
        more = f" and {len(new) - 1} more" if len(new) > 1 else ""
        usual = f" (usual: {stall.usual:.2g} s)" if stall.usual else ""
        where = f", in {stall.where}" if stall.where else ""
        stacks = stacks_file(self._out, *files[new[0]])
        print(
            f"doctor guard: no step on rank {stall.rank}{more} for {stall.seconds:.0f} s{usual}"
            f"{where}{f'; stacks: {stacks}' if where else ''}; see: doctor explain {CODE}",
            file=sys.stderr,
            flush=True,
        )

    def _write(self) -> None:
        if not self._stalls.found:
            return
        data = msgspec.json.encode(list(self._stalls.found.values()))
        with contextlib.suppress(OSError, UserError):
            path = self._out / STALLS
            atomic_write(path, data, STALLS, private=self._private, follow=False)
