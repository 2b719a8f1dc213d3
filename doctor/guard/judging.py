"""Steps that were measured or logged come in; counts, records and alarms go out."""

from __future__ import annotations

import time
from collections import deque
from typing import Callable, Protocol

from . import codes, logged, suspects
from . import thresholds as limit
from .adversaries import Adversaries
from .alarms import Alarms
from .batches import Batches
from .context import Context
from .counts import Tally, counts
from .diagnosis import Diagnosis
from .model_looks import ModelLooks
from .names import reached_elsewhere
from .optimizer_watch import OptimizerWatch
from .readings import Readings
from .records import Alarm, Step
from .rules import StepRules
from .settings import Settings
from .writer import Writer

HISTORY = 200
"""Steps that are kept in memory for the first alarm."""
STATE_SECONDS = 10.0
FIRST_STATE = 10
"""Effective steps from which every comparison also writes the counts."""


class Further(Protocol):
    """The codes that are off by default."""

    def judged(self, step: Step, watch: OptimizerWatch | None) -> None:
        """A step was judged."""

    def counts(self) -> dict[str, object]:
        """What they observed."""


class Judging:
    """Judges what the watches of the optimizers measured, and what the hooks logged.

    `watches` are those of the optimizers, by the optimizer's id, `scale` is the last scale of a
    loss scaler.
    """

    def __init__(
        self,
        settings: Settings,
        readings: Readings[OptimizerWatch],
        writer: Writer,
        batches: Batches,
    ) -> None:
        self.settings = settings
        self.readings, self.steady = readings, readings.steady
        self.writer = writer
        self.watches: dict[int, OptimizerWatch] = {}
        self.several = self.rebuilt = False
        self.scale: float | None = None
        self.further: Further | None = None
        self.sides: Adversaries | None = None
        self.jumped: Callable[[Alarm, OptimizerWatch | None], None] | None = None
        """Gets the alarms for a jump of the loss."""
        self.tally = Tally()
        diagnosis = Diagnosis(readings.torch, writer, batches, self.recent)
        self.alarms = Alarms(settings, writer, readings.steady, diagnosis)
        self._history: deque[Step | logged.Entry] = deque(maxlen=HISTORY)
        self.context = Context(readings, self.tally, self.watches.values, self.add)
        self.model_looks = ModelLooks(self.context)
        self._judging_log = False
        self._state_at = self.tally.began

    def judge_step(self, watch: OptimizerWatch, step: Step) -> None:
        """The values of a step have arrived."""
        self.judge_log()
        self.judge(watch.rules, step, watch, time.monotonic())

    def judge(
        self, step_rules: StepRules, step: Step, watch: OptimizerWatch | None, now: float
    ) -> None:
        """Count, write and judge a step."""
        tally = self.tally
        tally.steps += 1
        tally.skipped += step.skipped
        tally.norms += step.norm is not None
        tally.rates += step.rate is not None
        self._history.append(step)
        self.alarms.moment = step.moment
        if self.writer.takes(step.optimizer, step.step):
            self.writer.step(step, self.scale, now - tally.began)
        self._note_side(step.optimizer, step.loss, None if step.apart else step.norm)
        alarms = step_rules.judge(step)
        if not step_rules.healthy:
            self.steady.read_all()
        for alarm in alarms:
            if alarm.code == codes.OPTIMIZER_HAS_GRADIENTS and alarm.cause != "cleared":
                self._name_another_model(alarm, watch)
            if step.unread:
                alarm.text += f"; the {step.unread} steps before it were not read"
            self.add(alarm, watch)
        if watch is not None and step.spoils and watch.suspect is None:
            self.alarms.diagnosis.origin(watch)  # before the step is applied, on a CPU
            watch.suspect = step
        self._write_state_again(now)
        if self.further is not None:
            self.further.judged(step, watch)

    def _note_side(self, optimizer: int, loss: float | None, norm: float | None) -> None:
        if self.several and self.sides is not None:
            self.sides.judged(optimizer, loss, norm)

    def _name_another_model(self, alarm: Alarm, watch: OptimizerWatch | None) -> None:
        """The loss may reach the parameters of a model that replaced the optimizer's, or a copy, or
        no parameter at all."""
        if self.rebuilt and alarm.cause == "other-parameters":
            alarm.cause = "rebuilt"
            alarm.text += "; the loss is computed of a new tensor alone, and of no parameter"
            return
        if alarm.cause == "lost" and watch is not None:
            suspects.name_why_lost(alarm, watch, self.watches.values())
            if alarm.cause != "lost":
                return
        found = reached_elsewhere(self.readings.torch)
        if found is not None:
            alarm.cause = "other-model"
            alarm.text += (
                f"; the loss reaches {found[1]} parameters of {found[0]}, which no optimizer holds"
            )

    def judge_look(self, watch: OptimizerWatch, alarms: list[Alarm]) -> None:
        """The values of a look have arrived."""
        self.tally.looks += 1
        self.judge_log()
        self.alarms.moment = 0.0
        for alarm in alarms:
            self.add(alarm, watch)
        if watch.effective >= FIRST_STATE:
            self.write_state()  # a process that is killed later has written its counts

    def look_at_model(self, watch: OptimizerWatch, effective: int) -> None:
        """The parameters of this optimizer are being compared."""
        stepping = list(self.watches.values())
        if self._leads(watch) and (
            effective in limit.MODEL_FROM or effective > limit.MODEL_FROM[-1]
        ):
            self.model_looks.look(watch, stepping)

    def before_look(self, watch: OptimizerWatch) -> None:
        """A step begins after which the parameters are compared."""
        if self._leads(watch):
            with self.readings.torch.no_grad():
                self.model_looks.followers.before()

    def look_again(self) -> None:
        """The training has ended by itself: the last look at its model."""
        self.model_looks.followers.close()
        watch = next((w for w in self.watches.values() if w.optimizer() is not None), None)
        if watch is not None and watch.effective > limit.MODEL_FROM[-1]:
            self.model_looks.look_again(watch, list(self.watches.values()))
        for each in self.watches.values():
            for alarm in each.at_the_end():
                self.add(alarm, each)

    def _leads(self, watch: OptimizerWatch) -> bool:
        """Whether it is that of the first optimizer that is still there."""
        every = self.watches.values()
        return next((each for each in every if each.optimizer() is not None), watch) is watch

    def examine(self, watch: OptimizerWatch, step: Step) -> None:
        """The gradients of this step were not finite, and it was applied: read the weights."""
        suspects.examine(watch, step, self.add)

    def add(self, alarm: Alarm, watch: OptimizerWatch | None) -> None:
        """An alarm, after those of the steps that were logged before it."""
        self.judge_log()
        if alarm.code == codes.LOSS_STABLE and self.jumped is not None:
            self.jumped(alarm, watch)
        else:
            self.alarms.add(alarm, watch)

    # Steps that were logged

    def end_logged(self, watch: OptimizerWatch) -> None:
        """A step ended for which somebody waits: the log is full, `steady.stepped`, or a GPU's."""
        steady = self.steady
        if not watch.clearing.set_to_none:
            watch.clearing.step_ended()
        if steady.stepped is not None:
            steady.stepped(watch)
        if logged.is_due(steady.log):
            self.judge_log()
        else:
            steady.full = steady.stepped is not None
        if self.readings.values.pending:
            self.readings.values.poll()

    def judge_log(self) -> None:
        """Judge and write the steps that were logged."""
        if not self._judging_log:
            self._judging_log = True
            try:
                self._judge_log()
            finally:
                self._judging_log = False

    def _judge_log(self) -> None:
        """Count them, judge them when they have arrived, and choose how many steps are read."""
        steady, values = self.steady, self.readings.values
        log, steady.log, steady.full = steady.log, [], steady.stepped is not None
        unread = [self._count(entry) for entry in log]
        for one in self.watches.values():
            self._count_unread(one, one.armed.steps)
        if not log:
            return
        entries = list(zip(log, unread))
        values.fetch(logged.scalars(log))
        values.submit([], lambda _: self._judge_entries(entries))
        logged.choose_every(steady, log)
        self._write_state_again(log[-1][-1])

    def _count(self, entry: logged.Entry) -> int:
        """What is known of a step before its numbers are; how many before it were not read."""
        armed, number, _, norm, rates, backwards, _ = entry
        unread = number - 1 - armed.judged
        self._count_unread(armed.watch, number - 1)
        armed.judged = number
        armed.watch.change_rates(rates, number - armed.unapplied, number)
        armed.watch.rules.usual_backwards = backwards
        if norm is None:
            self.steady.count_unread(number, 1)
        return unread

    def _count_unread(self, watch: OptimizerWatch, last: int) -> None:
        count = logged.take_unread(self.steady, watch.armed, last)
        self.tally.steps += count
        self.tally.rates += count

    def _judge_entries(self, entries: list[tuple[logged.Entry, int]]) -> None:
        for (armed, number, losses, norm, rates, backwards, now), unread in entries:
            if norm is not None:
                self.readings.take_arrived(losses)
            norm = self.readings.values.number(norm)
            entry = (armed, number, losses, norm, rates, backwards, now)
            if self.settings.all or not logged.is_healthy(entry):  # all codes see every step
                self._judge_whole(entry, unread)
            else:
                self._judge_healthy(entry)

    def _judge_whole(self, entry: logged.Entry, unread: int) -> None:
        armed, now = entry[0], entry[-1]
        step = logged.as_step(entry)
        step.unread = unread
        if not logged.is_healthy(entry):  # the next steps take the complete way
            self.steady.disarm(armed.key)
            armed.watch.whole_norm = True
            step.moment = time.time() - time.monotonic() + now
        self.judge(armed.watch.rules, step, armed.watch, now)

    def _judge_healthy(self, entry: logged.Entry) -> None:
        armed, number, losses, norm, rates, _, now = entry
        watch, tally = armed.watch, self.tally
        tally.steps += 1
        tally.rates += 1
        tally.norms += norm is not None
        self._history.append(entry)
        watch.rules.logged(norm is not None)
        self._note_side(watch.index, sum(losses) if losses else None, norm)
        if losses:
            rate = max((rate for rate in rates if rate is not None), default=None)
            for alarm in watch.rules.loss_read(sum(losses), number, rate, norm):
                self.add(alarm, watch)
        if self.writer.takes(watch.index, number):
            self.writer.step(logged.as_step(entry), self.scale, now - tally.began)

    # What was observed

    def recent(self) -> list[Step]:
        """The last steps."""
        return [e if isinstance(e, Step) else logged.as_step(e) for e in self._history]

    def write_state(self) -> None:
        """Write the counts so far."""
        self.judge_log()
        observed = counts(self.tally, self.readings, self.watches.values())
        further = {} if self.further is None else self.further.counts()
        self.writer.write("state", flush=True, **observed, **self.model_looks.counts(), **further)

    def _write_state_again(self, now: float) -> None:
        """Write the counts, from time to time."""
        if now - self._state_at > STATE_SECONDS:
            self._state_at = now
            self.write_state()
