"""The tables that Ultralytics prints of an epoch: three losses, then the evaluation."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAP50 = "score:map50"
HEADER = re.compile(r"\bclass\s+images\s+instances\s+box\(p\s+r\s+map50")
"""Above a row of Ultralytics' evaluation, whose last two columns are scores."""
ROW_OF_ALL = re.compile(r"^\s*all\s+\d+\s+\d+\s+((?:[\d.e+-]+\s*){4,8})$")
LOSSES = re.compile(r"\bepoch\s+gpu_mem\s+\w+_loss\s+\w+_loss\s+\w+_loss\b")
ROW_OF_LOSSES = re.compile(
    r"^\s*\d{1,6}/\d{1,6}\s+[\d.]{1,8}[gm]\s+([\d.]{1,12}|nan|inf)\s+([\d.]{1,12}|nan|inf)\s+"
    r"([\d.]{1,12}|nan|inf)\s.*\b100%"
)
"""The three losses of an epoch in Ultralytics' table, as they are at its end."""


@dataclass(slots=True)
class Detector:
    """Which of the tables the last rows are of."""

    _evaluates: bool = False
    _trains: bool = False

    def read(self, lower: str) -> dict[str, float]:
        """The curves of a row in lower case."""
        row = ROW_OF_ALL.match(lower) if self._evaluates else None
        more = self._evaluates and not row and "%|" in lower
        self._evaluates = more or HEADER.search(lower) is not None
        self._trains = self._trains or LOSSES.search(lower) is not None
        values = {MAP50: float(row[1].split()[2])} if row else {}
        if self._trains and (losses := ROW_OF_LOSSES.match(lower)):
            values["loss"] = sum(map(float, losses.groups()))
        return values
