"""The table of a run's checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.units import gb, shown
from doctor.checkpoint.records import Sibling
from doctor.report.line import Line

HEADS = ("checkpoint", "step", "size", "norms changed", "moments")


def runs_table(siblings: tuple[Sibling, ...]) -> Iterator[Line]:
    """A line for each checkpoint, oldest first; nothing for a checkpoint that was named itself."""
    rows = [_cells(each) for each in siblings]
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]
    yield Line()
    yield Line(_line(HEADS, widths), "", "bold")
    for row in rows:
        yield Line(_line(row, widths))


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return ("  " + "  ".join(padded)).rstrip()


def _cells(each: Sibling) -> tuple[str, ...]:
    if each.reason:
        return (shown(each.name, 60), "", "", "", shown(each.reason, 200))
    step = "" if each.steps is None else f"{each.steps:,}"
    norms = f"{each.norms - each.unchanged_norms:,} of {each.norms:,}" if each.norms else ""
    dtypes = ", ".join(shown(dtype, 20) for dtype in each.moments)
    moments = f"{dtypes}, {each.nonzero_moments:,} of {each.entries:,} not zero" if dtypes else ""
    damaged = f"{each.problems:,} problem{'s' * (each.problems != 1)}" if each.problems else ""
    return (
        shown(each.name, 60),
        step,
        gb(each.bytes),
        norms,
        "; ".join(filter(None, (moments, damaged))),
    )
