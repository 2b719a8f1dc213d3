"""Metrics in columns below one row of names: `step loss lr it/s`, then numbers alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from doctor.log.metrics.curves import STEPS, plain

NAME = re.compile(r"[a-z][\w /().%@-]{0,40}")
NUMBER = re.compile(r"[-+]?(?:nan|inf|\d{1,12}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)(%?)")
GAP = re.compile(r"\t|\s{2,}")
COUNTS = {*STEPS, "epoch", "epochs", "batch"}
"""Names of the first column, unless that is a metric."""
FEWEST, MOST = 2, 24
"""Columns of such a table."""


def _cells(row: str) -> list[str]:
    """Those between bars, tabs or wide gaps, or else the words."""
    if "|" in row:
        return [cell.strip() for cell in row.strip(" |").split("|")]
    wide = [cell.strip() for cell in GAP.split(row.strip())]
    return wide if len(wide) > 1 else row.split()


@dataclass(slots=True)
class Columns:
    """The names of the last row that is a head of metrics."""

    curve_of: Callable[[str], str]
    """The curve of a name, "" for none."""
    names: tuple[str, ...] = ()
    curves: tuple[str, ...] = ()

    def read(self, lower: str) -> tuple[int | None, dict[str, float]] | None:
        """The step and the metrics of a row in lower case; None where it has none."""
        if "|" not in lower and not self.names and "loss" not in lower:
            return None
        cells = _cells(lower)
        if not FEWEST <= len(cells) <= MOST:
            return None
        if all(not cell or NAME.fullmatch(cell) for cell in cells):
            self._begin(cells)
            return None
        missing = len(self.names) - len(cells)
        if not self.names or missing < 0 or not NUMBER.fullmatch(cells[0]):
            return None
        if missing and not GAP.search(lower.strip()):  # which one it is is not known
            return None
        counts = self.names[0] in STEPS and cells[0].isdigit()
        values = self._values(cells)
        return (int(cells[0]) if counts else None, values) if values else None

    def _values(self, cells: list[str]) -> dict[str, float]:
        """Those of the curves; none where a cell is no number."""
        values: dict[str, float] = {}
        for curve, cell in zip(self.curves, cells, strict=False):
            number = NUMBER.fullmatch(cell)
            if cell and number is None:
                return {}
            if number and curve:
                value = float(cell.rstrip("%"))
                values.setdefault(curve, value / 100 if number[1] and value <= 100 else value)
        return values

    def _begin(self, cells: list[str]) -> None:
        """The head of a table, or the end of one."""
        names, curves = tuple(map(plain, cells)), tuple(map(self.curve_of, cells))
        is_head = any("loss" in curve for curve in curves) and (names[0] in COUNTS or curves[0])
        self.names, self.curves = (names, curves) if is_head else ((), ())
