"""How long the training waits for its batches, and a file that is opened anew for each sample."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
from collections import Counter
from typing import Iterator

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .records import NOTE, WARN


class Waits:
    """The seconds between batches of the loader that trains, and how many of them were waiting.

    `open` until enough is known. In one batch, which this process makes itself, the files that are
    opened are counted. `notes`: nothing else times the batches.
    """

    def __init__(self, context: Context, *, notes: bool) -> None:
        self._context, self._steady, self._notes = context, context.steady, notes
        self.open = True
        self._key = self._backwards_before = 0
        self._ended: float | None = None
        self._batches, self._waited, self._total = 0, 0.0, 0.0
        self._opened: Counter[str] = Counter()
        self._samples = 0

    def fetching(self, iterator: Foreign) -> bool:
        """A batch is about to be fetched: whether to count what is opened meanwhile."""
        if self._batches != limit.OPENINGS_AT or self._opened or id(iterator) != self._key:
            return False
        return type(iterator).__name__ == "_SingleProcessDataLoaderIter"

    def fetched(self, iterator: Foreign, began: float, ended: float) -> None:
        """The iterator returned a batch."""
        before, self._ended = self._ended, ended
        trained = self._steady.backwards > self._backwards_before
        self._backwards_before = self._steady.backwards
        if id(iterator) != self._key or before is None or not trained:
            self._key = id(iterator)  # another epoch, or an evaluation in between
            return
        self._batches += 1
        if self._batches > limit.WAITS_FROM:
            self._waited += ended - began
            self._total += ended - before
        counted = self._batches - limit.WAITS_FROM
        if counted == limit.WAITS:
            self.open = False
            self._judge(counted)

    def close(self) -> None:
        """The training has ended."""
        counted = self._batches - limit.WAITS_FROM
        if self.open and counted >= limit.LEAST_WAITS:
            self._judge(counted)

    def _judge(self, counted: int) -> None:
        mean, share = self._waited / counted, self._waited / max(self._total, 1e-9)
        if mean < limit.WAIT_SECONDS or share < limit.WAITED_SHARE:
            return
        text = f"the training waits {mean * 1000:.0f} ms for each batch, {share:.0%} of its time"
        text += f" ({counted} batches)"
        path, times = next(iter(self._opened.most_common(1)), ("", 0))
        again = times >= limit.OPENINGS and 2 * times >= self._samples
        if again:
            text += f"; {os.path.basename(path)} was opened {times} times for one of them"
        status, cause = (WARN, "reopened") if again else (NOTE, "")
        if again or self._notes:
            step = self._steady.backwards
            self._context.warn(codes.DATA_ARRIVES, text, cause, step=step, status=status)

    @contextlib.contextmanager
    def counting(self, samples: int) -> Iterator[None]:
        """Count the files that are opened by Python's open()."""
        original, opened = builtins.open, self._opened
        places = [each for each in (builtins, io) if each.open is original]
        self._samples = samples

        def counted(file: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
            if isinstance(file, (str, os.PathLike)):
                opened[os.fspath(file)] += 1
            return original(file, *args, **kwargs)

        for each in places:
            each.open = counted  # type: ignore[attr-defined]
        try:
            yield
        finally:
            for each in places:
                if each.open is counted:
                    each.open = original  # type: ignore[attr-defined]
            opened[""] += 1  # counted once, whatever was opened
