"""The rows of a long text that scores are read from: of rows alike but for their numbers, evenly
as many as are held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from doctor.log.templates import letters, letters_of

WHOLE = 1 << 18
"""Bytes of a text all rows of which are kept."""
LONGEST = 1 << 25
"""Bytes of a text of which rows are kept: with each of them a row is looked at in Python."""
OPENING = 1 << 17
"""Bytes at the start of a longer text that say what is run: all their rows are kept."""
ALIKE, MOST = 1024, 1 << 14
"""Rows of one form that are held, and forms. Our own numbers."""
LONGEST_ROW = 4096
STAR, STARRED = b"*", (b"*", b" *")
"""What begins the row of a mean, whose letters are those of the rows of batches."""


@dataclass(slots=True)
class _Form:
    """Rows with the same letters."""

    rows: list[tuple[int, bytes]] = field(default_factory=list)
    seen: int = 0
    every: int = 1

    def add(self, number: int, row: bytes) -> None:
        if self.seen % self.every == 0:
            self.rows.append((number, row))
        self.seen += 1
        if len(self.rows) > ALIKE:
            del self.rows[1::2]
            self.every *= 2


class KeptRows:
    """Rows that contain the letters of a cue, each with its number from 1."""

    def __init__(self, cues: tuple[str, ...]) -> None:
        self._cues = tuple({letters(cue) for cue in cues} - {b""})
        self._signs = tuple(cue.encode() for cue in cues if not letters(cue))
        self._forms: dict[bytes, _Form | None] = {}
        self._whole: bytes = b""
        self._opening: bytes = b""
        self._newlines = 0
        self.bytes = 0

    def add(self, block: bytes) -> None:
        """The next part of a text, which ends where a row ends."""
        self.bytes += len(block)
        if len(self._opening) < OPENING < self.bytes:
            self._opening = (self._whole + block)[:OPENING]
        if self.bytes <= WHOLE:
            self._whole += block
        elif self.bytes <= LONGEST:
            whole, self._whole = self._whole, b""
            self._take(whole)
            self._take(block)

    def rows(self) -> list[tuple[int, str]]:
        """The rows in their order; none of a text that is longer than `LONGEST`."""
        if self.bytes > LONGEST:
            return []
        kept = list(_rows(self._whole, 0))
        kept += sorted(row for form in self._forms.values() if form for row in form.rows)
        return [(number, row.decode("utf-8", "replace")) for number, row in kept]

    def opening(self) -> list[tuple[int, str]]:
        """The rows at the start of a text not all of whose rows are kept; none of a short one."""
        text = self._opening if self.bytes > WHOLE else b""
        return [(number, row.decode("utf-8", "replace")) for number, row in _rows(text, 0)]

    def _take(self, block: bytes) -> None:
        for number, row in _rows(block, self._newlines):
            template = letters_of(row) + STAR * row.startswith(STARRED)
            if template not in self._forms and len(self._forms) < MOST:
                wanted = any(cue in template for cue in self._cues) or self._signed(row)
                self._forms[template] = _Form() if wanted else None
            if form := self._forms.get(template):
                form.add(number, row)
        self._newlines += block.count(b"\n")

    def _signed(self, row: bytes) -> bool:
        return any(sign in row for sign in self._signs)


def _rows(block: bytes, newlines: int) -> Iterator[tuple[int, bytes]]:
    """The rows of a block, each with the number of its line; what a bar overwrites is one each."""
    for number, line in enumerate(block.split(b"\n"), newlines + 1):
        for row in line.split(b"\r") if b"\r" in line else (line,):
            if row:
                yield number, row[:LONGEST_ROW]
