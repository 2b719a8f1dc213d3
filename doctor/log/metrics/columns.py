"""Metrics in columns below one row of names: `step loss lr it/s`, then numbers alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.log.metrics.curves import ALIASES, STEPS

NAME = re.compile(r"[a-z][\w/().%-]{0,30}")
NUMBER = re.compile(r"[-+]?(?:nan|inf|\d{1,12}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)")
FEWEST, MOST = 3, 24
"""Columns of such a table."""


@dataclass(slots=True)
class Columns:
    """The names of the last row that is a head of metrics."""

    names: tuple[str, ...] = ()

    def read(self, lower: str) -> tuple[int, dict[str, float]] | None:
        """The step and the metrics of a row in lower case; None where it has none."""
        words = lower.replace("|", " ").split()
        if not FEWEST <= len(words) <= MOST:
            return None
        if words[0] in STEPS:
            is_head = "loss" in words and all(map(NAME.fullmatch, words))
            self.names = tuple(words) if is_head else ()
            return None
        if len(words) != len(self.names) or not all(map(NUMBER.fullmatch, words)):
            return None
        if not words[0].isdigit():
            return None
        found = zip(self.names[1:], words[1:], strict=True)
        return int(words[0]), {ALIASES[n]: float(word) for n, word in found if n in ALIASES}
