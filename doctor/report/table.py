"""A table of a report: rows of text below heads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below heads; untrusted text is escaped already."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    """Columns of numbers, which are aligned to the right."""
    bars: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Column -> for each row the share of the widest bar, which HTML draws."""

    def lines(self) -> Iterator[str]:
        """The heads, where there are any, and the rows in columns."""
        heads = (self.heads,) if any(self.heads) else ()
        columns = zip(*heads, *self.rows, strict=True)
        widths = [max(map(len, column)) for column in columns]
        for row in (*heads, *self.rows):
            yield self._line(row, widths)

    def _line(self, row: tuple[str, ...], widths: list[int]) -> str:
        cells = (
            cell.rjust(width) if number in self.right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return ("  " + "  ".join(cells)).rstrip()
