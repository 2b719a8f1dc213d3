"""Where a finding is: a line of a script, a log or another text file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Text that replaces a part of a file; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Lines and columns count from 1; 0 is unknown, and `line` 0 is the whole file.

    `end_column` is the column after the last character. `cell` is a notebook's cell from 1, its
    lines count from the start of the cell. `rank` is the process that wrote a log. `text` is the
    line as the file has it, `message` what is observed here, "" for the verdict's summary.
    """

    path: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    cell: int = 0
    rank: int | None = None
    text: str = ""
    message: str = ""
    edits: tuple[Change, ...] = ()
    """A fix of this place, for formats that offer it."""
    edits_are_safe: bool = True
    """Whether the fix leaves what the script does as it is."""

    def __str__(self) -> str:
        """ "train.py:12:5", "notes.ipynb:cell 3:12:5", "rank3.log:12"."""
        cell = [f"cell {self.cell}"] if self.cell else []
        numbers = [str(number) for number in (self.line, self.column) if number]
        return ":".join([self.path, *cell, *(numbers if self.line else [])])
