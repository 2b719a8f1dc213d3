"""The progress of a run that is under way, from the records that its processes write."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from doctor._util.regular_file import read_regular
from doctor.collect.rehearsal.observation import FILE, MOST_BYTES

SECONDS, HEAD = re.compile(rb'"seconds": ([0-9.]+)'), 300
"""How long a snapshot took, in the first bytes of its line."""


class Tail:
    """The progress of a run that is under way."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paused = False
        self.hashing = 0.0
        """Seconds that rank 0, and others at the same time, spent in hashing since the pause."""
        self._step = 0
        self._offsets: dict[str, int] = {}

    def step(self) -> int:
        """The last step that any rank began."""
        for entry in os.listdir(self.directory):
            if FILE.fullmatch(entry):
                self._follow(entry)
        return self._step

    def _follow(self, name: str) -> None:
        offset = self._offsets.get(name, 0)
        try:
            data = read_regular(str(self.directory / name), MOST_BYTES, follow=False, offset=offset)
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offsets[name] = offset + len(whole)
        for line in whole.splitlines():
            if self.paused and line.startswith(b'{"kind": "snapshot"'):
                found = SECONDS.search(line, 0, HEAD)
                self.hashing += float(found[1]) if found else 0.0
            if line.startswith((b'{"kind": "step"', b'{"kind": "paused"')):
                record = json.loads(line)
                self.paused = self.paused or record["kind"] == "paused"
                self._step = max(self._step, record["s"])
