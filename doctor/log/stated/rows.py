"""Which rows of a log may state settings, and the section of a configuration that they are in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor.log.templates import letters_of

ALIKE = 3
"""Rows alike but for their numbers, beyond which they are of a table of metrics. Our own number."""
MOST_ROWS, WIDEST, HEAD = 8192, 8192, 400
"""Rows of a log that are looked at, characters of each (a Namespace is one long row), and those
that rows are compared by."""
METRICS = re.compile(
    r"(?:\bloss|[_/]loss\b|(?<!max_)(?<!clip_)(?<!max )(?<!clip )grad[_ ]?norm|gnorm|\bppl)"
    r"['\"\w/() -]{0,14}?[\s:=|]{1,12}(?:[-+]?\d+\.\d|nan|inf)"
)
"""A row with a loss, whose learning rate is a value of its curve."""
OF_METRICS = ("loss", "norm", "ppl")
SECTION = re.compile(r"['\"\[]?(\w{2,40})['\"]?(?:\]|\s?[:=]\s?\{?|\s?\{)\s*")
"""A row that opens a section: `optim:`, `"fp16": {`, `[train]`."""


def telling(rows: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Rows that are no metrics, each also in lower case."""
    alike: Counter[bytes] = Counter()
    for count, (line, row) in enumerate(rows):
        if count >= MOST_ROWS:
            return
        template = letters_of(row[:HEAD].encode("utf-8", "replace"))
        alike[template] += 1
        if len(template) < 2 or alike[template] > ALIKE:
            continue
        lowered = row[:WIDEST].lower()
        if not (any(word in lowered for word in OF_METRICS) and METRICS.search(lowered)):
            yield line, row[:WIDEST], lowered


@dataclass(slots=True)
class Section:
    """The section of a nested configuration that the last row is in."""

    name: str = ""
    _indent: int = -1

    def enter(self, row: str) -> None:
        """The next row: deeper ones than its head are of the section."""
        body = row.strip()
        indent = len(row) - len(row.lstrip())
        if body[-1:] in ("{", ":", "]", "=") and (opened := SECTION.fullmatch(body[:120])):
            self.name, self._indent = opened[1].lower(), indent
        elif (indent <= self._indent and self._indent > 0) or not body:
            self.name, self._indent = "", -1
