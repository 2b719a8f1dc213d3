"""What is wrong with a checkpoint's files."""

from __future__ import annotations

from typing import Literal

from doctor._util.records import Section

ProblemKind = Literal[
    "damaged",
    "disguised",
    "missing",
    "empty",
    "stale-index",
    "foreign-index",
    "short-index",
    "lost-rank",
    "no-index",
    "stray",
    "unknown-dtype",
    "twice",
    "unfinished",
    "mixed",
    "incomplete",
    "untagged",
    "weightless",
    "over-limit",
    "unloadable",
    "not-inspectable",
    "other-device",
    "misspelled",
    "note",
]


class Problem(Section, frozen=True, kw_only=True):
    """Something wrong with a checkpoint's files."""

    kind: ProblemKind
    file: str
    """"" where it concerns the whole directory."""
    text: str
    """What is wrong, to follow the file's name; names in it are escaped and cut."""

    @property
    def message(self) -> str:
        """The file's name and what is wrong with it."""
        return f"{self.file} {self.text}".lstrip()
