"""The rules for steps: numbers in, alarms out. No torch."""

from __future__ import annotations

import math
from collections import deque
from typing import Deque, Dict, Iterator, List, Optional

from . import codes
from . import thresholds as limit
from .levels import Level
from .records import FAIL, WARN, Alarm, Step
from .spikes import Spikes
from .step_alarms import rate_text

CLEARED = "; backward() leaves gradients that are not 0, and they are gone before step()"


class StepRules:
    """The rules for the steps of one optimizer; `beside` are the same of the other optimizers.

    `losses` is the series of the parameters' losses, which an optimizer before it began.
    """

    def __init__(
        self,
        index: int,
        beside: Optional[Dict[int, StepRules]] = None,
        *,
        all_codes: bool = False,
        losses: Optional[Spikes] = None,
    ) -> None:
        self.index = index
        self.all_codes = all_codes
        self.losses = losses or Spikes()
        self.norms = Spikes()
        self.level = Level()
        self.beside = beside if beside is not None else {}
        self.had_gradients = False
        self.had_rate = False
        self.rate_reported = False
        self.rate_rested = False
        """The rate rose again after it had been 0 for some steps: this schedule rests."""
        self.applied = 0
        self.streak: Dict[str, int] = {}
        self.skips: Deque[bool] = deque(maxlen=200)
        self.unlabelled: Deque[bool] = deque(maxlen=100)
        self.repeated: Deque[bool] = deque(maxlen=limit.REPEATED_OF)
        self.cut_looks = 0
        """Comparisons in a row that found gradients of 0 where the loop's norm was not."""
        self.usual_backwards = 1
        self.healthy = 0
        """Steps in a row of which no rule could say anything."""

    def judge(self, step: Step) -> List[Alarm]:
        """The alarms of this step; none if its numbers were not read."""
        if not step.read:
            self.logged(read=False)
            return []
        spikes = self._spikes(step)
        if self._healthy(step):
            self.logged(read=True)
            self.cut_looks = 0 if step.applied else self.cut_looks
            return spikes
        self.healthy = 0
        alarms = [
            *spikes,
            *self._gradients_present(step),
            *self._non_finite(step),
            *self._zero(step),
            *self._zero_applied(step),
            *self._rate(step),
            *self._applied(step),
            *self._cleared(step),
            *self._repeated(step),
        ]
        self.had_gradients |= step.without < step.parameters
        self.applied += not step.skipped
        return alarms

    def logged(self, read: bool) -> None:
        """A step of which no rule can say anything, or whose numbers were not read."""
        self.applied += 1
        if read:
            self.healthy += 1
            self.had_gradients = self.had_rate = True
            self.unlabelled.append(False)
            self.repeated.append(False)
            if self.streak:
                self.rate_rested |= self.rests() > 0
                self.streak.clear()

    @staticmethod
    def _healthy(step: Step) -> bool:
        """Whether no rule can say anything: most steps of most runs."""
        rate, norm = step.rate, step.norm
        return (
            step.backwards > 0
            and step.without < step.parameters
            and norm is not None
            and 0.0 < norm < math.inf
            and all(map(math.isfinite, step.losses))
            and rate is not None
            and rate != 0.0
            and step.applied != 0.0
            and not step.scaled
            and not step.uncleared
        )

    def _spikes(self, step: Step) -> list[Alarm]:
        alarms = []
        if step.loss is not None:
            alarms += self.loss_read(step.loss, step.step, step.rate, step.norm)
        if self.all_codes and step.norm is not None and not step.apart:
            alarms += self._spike("gradient norm", self.norms, step.norm, step.step, step.rate)
        return alarms

    def loss_read(
        self, loss: float, step: int, rate: float | None, norm: float | None
    ) -> list[Alarm]:
        """The alarm where the loss jumped and stays there."""
        self.level.add(loss, rate, norm)
        return self._spike("loss", self.losses, loss, step, rate)

    def _spike(
        self, name: str, series: Spikes, value: float, step: int, rate: float | None
    ) -> list[Alarm]:
        jump = series.add(value, rate)
        if jump is None:
            return []
        text, cause = jump.text(name), name.split()[0]
        return [Alarm(codes.LOSS_STABLE, WARN, step, text, cause, self.index)]

    def _in_a_row(self, name: str, holds: bool) -> int:
        """How many steps in a row it holds, with this one."""
        self.streak[name] = self.streak.get(name, 0) + 1 if holds else 0
        return self.streak[name]

    def _alarm(
        self, code: str, status: str, step: Step, text: str, cause: str = ""
    ) -> Iterator[Alarm]:
        yield Alarm(code, status, step.step, text, cause, self.index)

    @property
    def lacks_gradients(self) -> bool:
        """Whether the last steps had none that is not 0."""
        return bool(self.streak.get("none") or self.streak.get("zero"))

    def _gradients_present(self, step: Step) -> Iterator[Alarm]:
        if step.backwards == 0 or step.parameters == 0:
            return
        count = self._in_a_row("none", step.without == step.parameters)
        never = not any(rules.had_gradients for rules in (self, *self.beside.values()))
        text = (
            f"none of the {step.parameters} parameters of the optimizer has a gradient, "
            f"{count} steps in a row"
        )
        if never and count == limit.WITHOUT_GRADIENTS:
            cause = "cleared" if step.reached else "other-parameters"
            text += CLEARED if step.reached else ""
            yield from self._alarm(codes.OPTIMIZER_HAS_GRADIENTS, FAIL, step, text, cause)
        elif not never and count == limit.WITHOUT_GRADIENTS_BESIDE:
            yield from self._alarm(codes.OPTIMIZER_HAS_GRADIENTS, WARN, step, text, "lost")

    def _non_finite(self, step: Step) -> Iterator[Alarm]:
        bad = [loss for loss in step.losses if not math.isfinite(loss)]
        finite_gradients = step.norm is not None and math.isfinite(step.norm)
        unlabelled = bool(bad) and math.isnan(bad[0]) and step.norm == 0.0
        self.unlabelled.append(unlabelled)
        if unlabelled:
            yield from self._labels(step)
        elif bad and step.scaled:
            if self._in_a_row("scaled", step.skipped) >= limit.NON_FINITE_SCALED:
                text = f"the loss is {bad[0]} in {limit.NON_FINITE_SCALED} steps in a row"
                yield from self._alarm(codes.TRAINING_LOSS_FINITE, FAIL, step, text, "scaled")
        elif bad:
            yield from self._loss(step, bad[0], finite_gradients)
        if not bad:
            self._in_a_row("scaled", False)
        if not unlabelled:
            self._in_a_row("labels", False)

    def _loss(self, step: Step, value: float, finite_gradients: bool) -> Iterator[Alarm]:
        text = f"the loss is {value}, as backward() received it"
        if finite_gradients and step.norm:
            passes = f"{len(step.losses)} backward passes" if len(step.losses) > 1 else "it"
            text += f"; at the step after {passes} the gradients are finite (norm {step.norm:.3g})"
            yield from self._alarm(codes.TRAINING_LOSS_FINITE, WARN, step, text, "masked")
        else:
            yield from self._alarm(codes.TRAINING_LOSS_FINITE, FAIL, step, text)

    def _labels(self, step: Step) -> Iterator[Alarm]:
        row = self._in_a_row("labels", True)
        share = sum(self.unlabelled) / 100
        often = row >= limit.NO_LABELS_FAILS or share > limit.NO_LABELS_SHARE
        text = "the loss is nan and all gradients are 0: the batch has no label to learn from"
        yield from self._alarm(codes.LABELS_PRESENT, FAIL if often else WARN, step, text)

    def _zero(self, step: Step) -> Iterator[Alarm]:
        undecided = step.norm == 0.0 and not step.whole
        if step.norm is None or step.without == step.parameters or step.skipped or undecided:
            return
        count = self._in_a_row("zero", step.norm == 0.0 and not self.unlabelled[-1])
        text = f"all gradients are exactly 0, {count} steps in a row"
        if step.losses and not any(step.losses):  # a margin that is reached, or an empty batch
            if count == limit.ZERO_FAILS:
                text += ", and so is the loss"
                yield from self._alarm(codes.GRADIENTS_NOT_ZERO, WARN, step, text, "loss-zero")
        elif count in (limit.ZERO_WARNS, limit.ZERO_FAILS):
            status = FAIL if count == limit.ZERO_FAILS else WARN
            cause, more = ("cut", CLEARED) if step.reached else ("", "")
            yield from self._alarm(codes.GRADIENTS_NOT_ZERO, status, step, text + more, cause)

    def _zero_applied(self, step: Step) -> Iterator[Alarm]:
        """Something between the loop's norm and step() takes the gradients away."""
        if step.applied is None or not step.norm:
            return
        self.cut_looks = looks = self.cut_looks + 1 if step.applied == 0.0 else 0
        long = looks > limit.ZERO_LOOKS and step.step >= limit.ZERO_FAILS
        if long or looks == limit.ZERO_LOOKS:
            text = (
                f"all gradients are exactly 0 at step(), {looks} comparisons in a row; the norm "
                f"that the loop takes before is {step.norm:.3g}"
            )
            status = FAIL if long else WARN
            yield from self._alarm(codes.GRADIENTS_NOT_ZERO, status, step, text, "cut")

    def _rate(self, step: Step) -> Iterator[Alarm]:
        if step.rate is None:
            return
        self.rate_rested |= step.rate != 0.0 and self.rests() > 0
        count = self._in_a_row("rate", step.rate == 0.0)
        self.rate_reported &= count > 0
        allowed = limit.RATE_RESTS if self.had_rate else limit.RATE_ZERO
        if not self.rate_reported and count >= allowed:
            self.rate_reported = True
            text = rate_text(count, self.had_rate)
            beside = any(rules.had_rate for rules in self.beside.values() if rules is not self)
            waits = beside and not self.had_rate  # as a policy that waits for its critic
            yield from self._alarm(
                codes.LEARNING_RATE,
                WARN if waits else FAIL,
                step,
                text + (", while another optimizer has one" if waits else ""),
                "ended" if self.had_rate else "start",
            )
        self.had_rate |= step.rate != 0.0

    def rests(self) -> int:
        """Steps in a row until now whose rate was 0 after it was not; 0 while they are few."""
        count = self.streak.get("rate", 0) if self.had_rate else 0
        return count if count >= limit.RATE_ZERO else 0

    def ended(self, step: int) -> List[Alarm]:
        """The training has ended at this step: a schedule that ended before it, by fewer steps
        than one may rest for."""
        count = self.rests()
        if not count or self.rate_reported or self.rate_rested:
            return []
        text = rate_text(count, True)
        return [Alarm(codes.LEARNING_RATE, FAIL, step, text, "ended", self.index)]

    def _applied(self, step: Step) -> Iterator[Alarm]:
        if not step.scaled:
            return
        if self.applied:
            self.skips.append(step.skipped)
        count = self._in_a_row("skipped", step.skipped)
        allowed = limit.SKIPPED_LATER if self.applied else limit.SKIPPED_AT_START
        if count == allowed:
            text = f"the loss scaler skipped {count} steps in a row"
            yield from self._alarm(codes.STEPS_APPLIED, FAIL, step, text, "skipped")
        share = sum(self.skips) / max(1, len(self.skips))
        often = len(self.skips) >= 100 and share > limit.SKIPPED_SHARE
        if self._in_a_row("share", often) == 1:
            text = f"the loss scaler skipped {share:.0%} of the last {len(self.skips)} steps"
            yield from self._alarm(codes.STEPS_APPLIED, WARN, step, text, "skipped")

    def _cleared(self, step: Step) -> Iterator[Alarm]:
        uncleared = step.uncleared and step.norm != 0.0  # what zeroes them is no pass
        if step.backwards and self._in_a_row("uncleared", uncleared) == limit.UNCLEARED:
            text = (
                f"the gradients of {limit.UNCLEARED} steps in a row were added to those of the "
                "step before"
            )
            yield from self._alarm(codes.GRADIENTS_CLEARED, WARN, step, text)

    def _repeated(self, step: Step) -> Iterator[Alarm]:
        self.repeated.append(step.repeated)
        if step.repeated and self._in_a_row("often", sum(self.repeated) >= limit.REPEATED) == 1:
            text = (
                f"{sum(self.repeated)} of the last {len(self.repeated)} steps came without a "
                "backward pass and used the gradients of the step before once more"
            )
            yield from self._alarm(codes.GRADIENTS_CLEARED, WARN, step, text, "repeated")

    @property
    def most_backwards(self) -> int:
        """Backward passes that may come without a step."""
        return max(limit.BACKWARDS_WITHOUT_STEP, 20 * self.usual_backwards)
