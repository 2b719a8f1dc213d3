"""The tables of detectors: those of an epoch by YOLOv5, YOLOv7 and Ultralytics, three losses and
then the evaluation, and COCO's."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAP50, MAP = "score:map50", "score:coco ap"
COCO = re.compile(
    r"average precision\s{1,4}\(ap\) @\[ iou=0\.50:0\.95 \| area=\s{1,4}all \| "
    r"maxdets=\s{0,3}\d{1,4} \] = (\d\.\d{3})"
)
"""-1 where there are no objects."""
HEADER = re.compile(r"\bclass\s+images\s+(?:instances|labels|targets)\s+(?:box\()?p\s+r\s+map")
"""Above a row of the evaluation, whose last two columns are scores."""
_SCORE = r"\d{1,4}(?:\.\d{0,12})?(?:e[-+]\d{1,3})?"
ROW_OF_ALL = re.compile(rf"^\s*all\s+\d+\s+\d+\s+({_SCORE}(?:\s+{_SCORE}){{3,7}})\s*$")
LOSSES = re.compile(r"\bepoch\s+gpu_mem\s+(?:\w+_loss\s+\w+_loss\s+\w+_loss|box\s+obj\s+cls)\b")
_LOSS = r"(-?\d{1,9}(?:\.\d{0,9})?(?:e[-+]?\d{1,3})?|nan|inf)\s"
ROW_OF_LOSSES = re.compile(
    rf"^\s*\d{{1,6}}/\d{{1,6}}\s+[\d.]{{1,8}}[gm]\s+{_LOSS}\s*{_LOSS}\s*{_LOSS}.*\b100%"
)
"""The three losses of an epoch in such a table, as they are at its end."""


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
        if found := COCO.search(lower):
            values[MAP] = float(found[1])
        if self._trains and (losses := ROW_OF_LOSSES.match(lower)):
            values["loss"] = sum(map(float, losses.groups()))
        return values
