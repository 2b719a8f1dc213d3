"""How far a long reading is, on stderr where that is a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from doctor._util.units import shown

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 1.0
"""Seconds that pass in silence: most scans are done by then."""


class Bar:
    """A bar that appears on what takes longer than a second, and leaves nothing behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._closed = not sys.stderr.isatty()
        self._state: dict[str, Any] = {"description": "starting", "completed": 0, "total": None}
        self._unit = ""
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True

    def __enter__(self) -> Bar:
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

    def doing(self, stage: str) -> None:
        """What is being read; it may be the last that is heard for long."""
        self._show(description=shown(stage, 60))

    def told(self, note: dict[str, Any]) -> None:
        """{"doing": ..., "done": ..., "total": ... or None, "unit": "files" or "bytes" or ...}"""
        done, total, unit = note.get("done"), note.get("total"), note.get("unit")
        if isinstance(done, int) and isinstance(total, int | None):
            self._unit = str(unit)
            self._show(description=shown(str(note.get("doing")), 60), completed=done, total=total)

    def _show(self, **state: Any) -> None:
        with self._lock:
            self._state |= state
            if self._progress is not None and not self._closed:
                self._progress.update(self._progress.task_ids[0], **self._drawn())

    def _drawn(self) -> dict[str, Any]:
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
            self._progress.add_task(**self._drawn())
            self._progress.start()


def amount(state: dict[str, Any], unit: str) -> str:
    """How much is done, of how much where that is known."""
    from doctor._util.units import gb

    done, total = state["completed"], state["total"]
    if unit == "bytes":
        return f"{gb(done)} of {gb(total)}" if total else gb(done)
    if total:
        return f"{done:,} of {total:,} {unit}"
    return f"{done:,} {unit.removesuffix('s') if done == 1 else unit}" if done else ""
