"""The progress of a long read, on stderr if that is a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from doctor._util.units import shown

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY = 1.0
"""Seconds before the bar appears; most scans take less."""


class ProgressBar:
    """A bar that appears after `DELAY` seconds and is erased at the end."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._closed = not (enabled and sys.stderr.isatty())
        self._state: dict[str, object] = {"description": "starting", "completed": 0, "total": None}
        self._unit = ""
        self._timer = threading.Timer(DELAY, self._begin)
        self._timer.daemon = True

    def __enter__(self) -> ProgressBar:
        if not self._closed:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._progress is not None:
                self._progress.stop()

    def show_stage(self, stage: str) -> None:
        """Show what is being read now."""
        self._show(description=shown(stage, 60))

    def update(self, note: dict[str, object]) -> None:
        """Take {"doing": stage, "done": int, "total": int or None, "unit": "files" or "bytes"}."""
        done, total, unit = note.get("done"), note.get("total"), note.get("unit")
        if isinstance(done, int) and isinstance(total, int | None):
            self._unit = str(unit)
            self._show(description=shown(str(note.get("doing")), 60), completed=done, total=total)

    def _show(self, **state: object) -> None:
        with self._lock:
            self._state |= state
            if self._progress is not None and not self._closed:
                self._progress.update(self._progress.task_ids[0], **self._fields())

    def _fields(self) -> dict[str, Any]:
        return self._state | {"amount": amount(self._state, self._unit)}

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[amount]}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True, markup=False, emoji=False, highlight=False),
                transient=True,
            )
            self._progress.add_task(**self._fields())
            self._progress.start()


def amount(state: dict[str, Any], unit: str) -> str:
    """The amount done, and the total where it is known."""
    from doctor._util.units import gb

    done, total = state["completed"], state["total"]
    if unit == "bytes":
        return f"{gb(done)} of {gb(total)}" if total else gb(done)
    if total:
        return f"{done:,} of {total:,} {unit}"
    return f"{done:,} {unit.removesuffix('s') if done == 1 else unit}" if done else ""
