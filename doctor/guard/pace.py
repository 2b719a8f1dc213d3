"""The time of steps, and of waiting for batches: numbers in, alarms out, but for `Idle`."""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import Deque, Iterable, Iterator, List, Optional, Tuple

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .records import WARN, Alarm

Work = Tuple[int, int, int]


class Pace:
    """Waiting for data, and steps that become slower.

    `batches` are those that were waited for, `compared` steps whose time was compared with that of
    the first ones.
    """

    def __init__(self) -> None:
        self.steps = self.batches = self.compared = 0
        self._waited, self._idle, self._fetched = 0.0, True, False
        self._gpu = False
        self._waits: Deque[Tuple[float, float, bool]] = deque(maxlen=limit.PACE_WINDOW)
        self._work: Optional[Work] = None
        self._first: List[float] = []
        self._last: Deque[float] = deque(maxlen=limit.PACE_WINDOW)
        self._since = 0
        self._slow_steps, self._slow_seconds = 0, 0.0
        self._reported = False

    def waited(self, seconds: float, idle: Optional[bool]) -> None:
        """A batch came after that time; `idle` is whether the GPU had nothing to do by then."""
        self.batches += 1
        self._waited += seconds
        self._idle = self._idle and idle is not False
        self._gpu = self._gpu or idle is not None
        self._fetched = True

    def step(self, step: int, seconds: float, work: Work) -> List[Alarm]:
        """A step that ended that long after the one before."""
        self.steps += 1
        waited, idle, fetched = self._waited, self._idle, self._fetched
        self._waited, self._idle, self._fetched = 0.0, True, False
        alarms: List[Alarm] = []
        if fetched and self.steps > limit.PACE_FROM:
            self._waits.append((waited, seconds, idle))
            alarms += self._stall(step)
        alarms += self._slower(step, seconds, work)
        return alarms

    def _stall(self, step: int) -> Iterator[Alarm]:
        if len(self._waits) < limit.PACE_WINDOW:
            return
        waited = _median([wait for wait, _, _ in self._waits])
        share = _median([wait / max(seconds, wait, 1e-9) for wait, seconds, _ in self._waits])
        idle = sum(idle for _, _, idle in self._waits) > limit.PACE_WINDOW / 2
        least = limit.WAIT_SECONDS if self._gpu else limit.WAIT_SECONDS_CPU
        if share > limit.WAIT_SHARE and waited > least and idle:
            text = (
                f"each step waits {waited * 1000:.0f} ms for its batch, {share:.0%} of its time "
                f"(medians of {limit.PACE_WINDOW} steps)"
            )
            self._waits.clear()
            yield Alarm(codes.DATA_ARRIVES, WARN, step, text)

    def _slower(self, step: int, seconds: float, work: Work) -> Iterator[Alarm]:
        if work != self._work:
            self._work, self._since = work, 0
            self._first, self._slow_steps, self._slow_seconds = [], 0, 0.0
            self._last.clear()
        self._since += 1
        if self._since <= limit.PACE_FROM:
            return
        if len(self._first) < limit.PACE_WINDOW:
            self._first.append(seconds)
            return
        self._last.append(seconds)
        self.compared += 1
        first, last = _median(self._first), _median(self._last)
        slow = len(self._last) == limit.PACE_WINDOW and last > limit.SLOWER * first
        self._slow_steps = self._slow_steps + 1 if slow else 0
        self._slow_seconds = self._slow_seconds + seconds if slow else 0.0
        lasting = self._slow_steps >= limit.PACE_WINDOW and self._slow_seconds >= limit.SLOW_SECONDS
        if lasting and not self._reported:
            self._reported = True
            text = (
                f"steps take {last:.3g} s, {last / first:.1f} times as long as at the start "
                f"({first:.3g} s; medians of {limit.PACE_WINDOW} steps of the same work)"
            )
            yield Alarm(codes.SPEED_HOLDS, WARN, step, text)


class Idle:
    """Whether the GPU has finished what was launched before the end of the last step."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self._event: Foreign = None

    def step_ended(self) -> None:
        """Record an event behind the step."""
        cuda = self.torch.cuda
        if cuda.is_initialized():
            self._event = self._event or cuda.Event()
            self._event.record()

    def now(self) -> Optional[bool]:
        """Ask without waiting; None without a GPU."""
        cuda = self.torch.cuda
        if self._event is None or cuda.is_current_stream_capturing():
            return None
        return bool(self._event.query())


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
