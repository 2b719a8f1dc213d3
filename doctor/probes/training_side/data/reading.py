"""Taking batches within a budget, and how that ended. What an exception says is left out: it may
quote a row."""

from __future__ import annotations

import os
import re
import time
import traceback
from typing import Any, Dict, Iterator, Optional

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import subjects
from .graphs import joined_graphs
from .rows import PATIENCE
from .targets import Source, items_of

FRAME = re.compile(r'File "([^"\n]{1,500})", line (\d{1,7})')
LIBRARIES = ("site-packages", "dist-packages", os.sep + "lib" + os.sep + "python", "<frozen")


class Reading:
    """One split as it is read; its fields are those of the record Split."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rows = self.batches = 0
        self.seconds = 0.0
        self.awaited_since: Optional[float] = None
        """On the monotonic clock; None while nothing is asked of the loader."""
        self.ended = "complete"
        self.problem: Optional[Dict[str, Any]] = None

    def batches_of(self, samples: int, seconds: float) -> Iterator[Foreign]:
        """Batches until there are so many samples; `seconds` bound them by the deadline alone, so
        that a slow machine reads the same ones. The loader's own time is counted."""
        started = time.perf_counter()
        items = self._start()
        while items is not None:
            began = time.perf_counter()
            batch = self._next(items)
            self.seconds += time.perf_counter() - began
            if batch is None:
                return
            yield batch
            self.batches += 1
            self.rows += rows_in(batch)
            if self.rows >= samples:
                self.ended = "samples"
                break
            if time.perf_counter() - started > PATIENCE * seconds:
                self.ended = "time"
                break
        if self.source.total is not None and self.rows >= self.source.total:
            self.ended = "complete"

    def _start(self) -> Optional[Iterator[Foreign]]:
        self.awaited_since = time.monotonic()
        try:
            return iter(items_of(self.source))
        except Exception as error:
            self._fail(problem_of(error))
            return None
        finally:
            self.awaited_since = None

    def _next(self, items: Iterator[Foreign]) -> Foreign:
        """The next batch; None at the end or after an error."""
        self.awaited_since = time.monotonic()
        try:
            batch = next(items, observing.ABSENT)
        except Exception as error:
            self._fail(problem_of(error))
            return None
        finally:
            self.awaited_since = None
        if batch is observing.ABSENT:
            return None
        if not _is_a_batch(batch):
            self._fail(
                {"type": "Problem", "error": "%s in place of a batch" % type(batch).__name__}
            )
            return None
        return batch

    def _fail(self, problem: Dict[str, Any]) -> None:
        self.ended = "error"
        by_row = self.source.by_row
        row = self.rows if by_row else None
        batch = None if by_row else self.batches
        self.problem = {"row": row, "batch": batch, **problem}

    def record(self) -> Dict[str, Any]:
        return {
            "type": "Split",
            "name": self.source.name,
            "kind": self.source.kind,
            "total": self.source.total,
            "rows": self.rows,
            "batches": self.batches,
            "seconds": self.seconds,
            "ended": self.ended,
            "problem": self.problem,
        }


def _is_a_batch(batch: Foreign) -> bool:
    if batch is None or isinstance(batch, (int, float, bool)):
        return False
    empty = observing.attempt(lambda: len(batch) == 0, False)
    return not (empty and (containers.is_mapping(batch) or isinstance(batch, (list, tuple))))


def rows_in(batch: Foreign) -> int:
    """Samples of a batch: its graphs, the first dimension of its tensors, else 1."""
    graphs = observing.attempt(lambda: joined_graphs(batch), 0)
    if graphs:
        return graphs
    count = subjects.first_dimension(batch)
    if count is None:
        sizes = [each.shape[0] for each in containers.tensors(batch).values() if each.dim()]
        count = sizes[0] if sizes else 1
    return max(1, count)


REASONS = ("package", "form", "pointer")
"""As doctor.facts.data.Problem has them."""


def problem_of(error: BaseException) -> Dict[str, Any]:
    """The record Problem: the class of the error and the user's line, without the message."""
    row = observing.attribute(error, "row")
    if type(error).__name__ == "BrokenRow":
        message = str(observing.attribute(error, "error"))
        name = observing.attribute(error, "file", "")
        return {"type": "Problem", "error": message, "row": row, "line": True, "place": name,
                "reason": reason_of(error)}  # fmt: skip
    if type(error).__name__ == "NotData":
        return {"type": "Problem", "error": str(error), "reason": reason_of(error)}
    return {"type": "Problem", "error": type(error).__name__, "place": place_of(error)}


def reason_of(error: BaseException) -> str:
    """Why nothing is wrong with the data; "" for any other error, also of a class of the user's."""
    reason = observing.attribute(error, "reason", "")
    return reason if isinstance(reason, str) and reason in REASONS else ""


def place_of(error: BaseException) -> str:
    """The last line of the user's code in the traceback, also in that of a worker process."""
    lines = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    if type(error).__module__ != "builtins" or "worker process" in str(error)[:200]:
        lines += [(path, int(number)) for path, number in FRAME.findall(str(error)[:20000])]
    own = [each for each in lines if is_own(each[0])]
    return "%s:%d" % (os.path.basename(own[-1][0]), own[-1][1]) if own else ""


def is_own(path: str) -> bool:
    inside = os.path.realpath(path).startswith(wire.PROBES)
    return not inside and not any(part in path for part in LIBRARIES) and path[:1] != "<"
