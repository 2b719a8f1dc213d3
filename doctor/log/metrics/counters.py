"""A counter of epochs or steps that falls back to its start: the next run was appended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

EPOCH = re.compile(
    rb"(?<![\w/-])epochs?['\"]?\s{0,3}[:=#\[(]{0,2}\s{0,3}[\[(]?(\d{1,6}(?:\.\d{1,9})?)(?![\w.])"
)
"""`Epoch 3: `, `Epoch: [3/100]`, `'epoch': 2.31`."""
FEWEST_ROWS = 20
"""Rows of a run below which its shape is not judged anyway."""
FEWEST_EPOCHS = 5
"""Whole epochs that no loop inside another one counts to and begins again; epochs with a fraction
are those of the whole run. Our own number."""
LONG, MOST_FALLS = 100, 3
"""Rows of a run whose steps alone begin again, and how often: a loop over the batches of an epoch
does so as well, but many times. Our own numbers."""


@dataclass(slots=True)
class _Counter:
    """One number that the rows of losses name."""

    rows: int = 0
    """Since the last start."""
    starts: list[int] = field(default_factory=list)
    _first: float | None = None
    _last: float = 0.0
    _before: float | None = None
    """The value before a fall that the next value may refute."""

    def read(self, value: float, line: int, fewest_rows: int, fall: float) -> None:
        """The value of the next row."""
        if self._first is None:
            self._first = value
        elif self._before is not None and value != self._last:
            if value >= self._before:  # the row between was of something else
                self.starts.pop()
            self._before = None
        near = self._first <= value < self._first + 1 or value < self._first
        if self.rows >= fewest_rows and near and self._last - value >= fall:
            self._before, self.rows = self._last, 0
            self.starts.append(line)
        self.rows += 1
        self._last = value


@dataclass(slots=True)
class Counters:
    """What the rows of one file count."""

    _epochs: _Counter = field(default_factory=_Counter)
    _steps: _Counter = field(default_factory=_Counter)
    _step: int | None = None
    _in_parts: bool = False
    """Whether epochs are printed with a fraction."""

    def read(self, epoch: float | None, step: int | None, line: int) -> None:
        """A row of a training's loss; a step that goes on is of the same run."""
        goes_on = step is not None and self._step is not None and step > self._step
        if epoch is not None and not goes_on:
            self._in_parts = self._in_parts or epoch != int(epoch)
            self._epochs.read(epoch, line, FEWEST_ROWS, 1 if self._in_parts else FEWEST_EPOCHS)
        elif epoch is None and step is not None:
            self._steps.read(step, line, LONG, LONG)
        self._step = step if step is not None else self._step

    def starts(self) -> tuple[int, ...]:
        """Lines at which a further run begins."""
        steps = [] if self._epochs.rows else self._steps.starts
        return (*self._epochs.starts, *(steps if len(steps) <= MOST_FALLS else ()))


def epoch_of(lower: bytes) -> float | None:
    """The epoch that a row, in lower case, names first."""
    found = EPOCH.search(lower)
    return float(found[1]) if found else None
