"""Alarms: recorded, printed once, counted."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from . import codes
from .context import first_two
from .diagnosis import CUT_OFF, NON_FINITE, Diagnosis, checkpoint_warned
from .records import FAIL, WARN, Alarm
from .settings import Settings
from .steady import Steady
from .writer import STOP, Writer, say

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

STOPPING = (codes.GRADIENTS_FINITE, codes.TRAINING_WEIGHTS_MOVE)
"""The codes whose failure no healthy training has: weights that are not finite, or that no step
has moved. Only they end one."""
MANY = 200
"""Parameter names that a record lists."""


class Alarms:
    """The alarms of one process.

    `stop_wanted`: a failure was observed and the settings say to stop. `trainer_stops`: a callback
    reads that, so nothing is raised.
    """

    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        steady: Steady[OptimizerWatch],
        diagnosis: Diagnosis,
    ) -> None:
        self.settings = settings
        self.writer = writer
        self.steady = steady
        self.diagnosis = diagnosis
        self.stop_wanted = self.trainer_stops = False
        self.moment = 0.0
        """When what is being judged was observed; 0.0 for now."""
        self._counts: dict[tuple[str, str], int] = {}

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes so far."""
        return tuple(sorted({code for code, _ in self._counts}))

    def add(self, alarm: Alarm, watch: OptimizerWatch | None) -> None:
        """Record the first, second, fourth, ... of its kind; print the first."""
        if alarm.code == codes.LABELS_PRESENT:
            alarm = self.diagnosis.with_weights(alarm, watch)
        alarm = self._with_cause(alarm, watch)
        settings = self.settings
        names = self._names(alarm, watch)
        if alarm.code in settings.ignore or names is None:
            return
        key = alarm.code, alarm.status + alarm.cause
        self._counts[key] = count = self._counts.get(key, 0) + 1
        if count & (count - 1) == 0:
            self._record(alarm, names, count)
        if count == 1:
            self._print(alarm, names, self.diagnosis.write(alarm, watch))
        stops = alarm.status == FAIL and alarm.code in STOPPING
        if stops and settings.stop and not self.stop_wanted:
            self.stop_wanted = True
            self.steady.disarm()  # what is logged does not stop
            if self.writer.first(STOP):
                option = "--stop" if settings.parent else "stop=True"
                say(f"{alarm.code}: asking the job to stop ({option})")

    def _with_cause(self, alarm: Alarm, watch: OptimizerWatch | None) -> Alarm:
        """The alarm, with what else was observed and explains it."""
        if alarm.code in NON_FINITE:
            if (codes.SCALE_HOLDS, WARN + "undivided") not in self._counts:
                return self.diagnosis.with_cause(alarm, watch)
            alarm.cause = "undivided"
            alarm.text += "; the loss scale is in the gradients (GRD010)"
        elif alarm.code in CUT_OFF and alarm.cause in ("", "gradient") and checkpoint_warned():
            alarm.cause = "checkpoint"
            alarm.text += "; torch.utils.checkpoint warned that no input needs a gradient"
        return alarm

    def _record(self, alarm: Alarm, names: list[str], count: int) -> None:
        self.writer.write(
            "alarm",
            code=alarm.code,
            status=alarm.status,
            cause=alarm.cause,
            step=alarm.step,
            count=count,
            text=alarm.text + _named(names),
            names=names[:MANY],
            optimizer=alarm.optimizer,
            moment=int(1000 * (self.moment or time.time())),
        )

    def _print(self, alarm: Alarm, names: list[str], origin: str) -> None:
        if self.writer.first(f"alarm-{alarm.code}-{alarm.status}"):
            rank = f" on rank {self.writer.rank}" if self.writer.world > 1 else ""
            say(
                f"{alarm.code} {alarm.status} at step {alarm.step}{rank}: {alarm.text}"
                f"{_named(names)}{origin}; see: doctor explain {alarm.code}"
            )

    def _names(self, alarm: Alarm, watch: OptimizerWatch | None) -> list[str] | None:
        """Names of the parameters; None where none is left that needs a gradient."""
        if not alarm.indices or watch is None:
            return []
        known = watch.names
        names = [known.get(index, f"parameter {index}") for index in alarm.indices]
        patterns = self.settings.expect_no_grad
        left = [n for n in names if not any(fnmatchcase(n, pattern) for pattern in patterns)]
        return left or None


def _named(names: list[str]) -> str:
    return f" ({first_two(names)})" if names else ""
