"""Repeating a training that went wrong, one change at a time, until something mends it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from doctor.collect.child import Answer
from doctor.collect.children import fit
from doctor.collect.torch_child import ReportProgress, TorchChild, cut_short
from doctor.facts.training import LEFT_OUT, Attempt, Diagnosis, Fault, Smoke

CHANGES = (
    "cudnn-off",
    "flash-off",
    "math",
    "eager",
    "fp32-weights",
    "fp32",
    "lower-lr",
    "other-batch",
)
"""In the order in which they are tried, after "repeat": the training as it was."""

TOTAL_SECONDS = 180.0
ATTEMPT_SECONDS = 20.0
"""Of the small model, once torch is imported."""
REPEATS = 3
"""With nothing changed, where the first of them is well."""
MOST_SKIPPED = 10
"""Steps that an fp16 GradScaler may skip while it calibrates."""


def fault_of(smoke: Smoke, expected: Sequence[str] = ()) -> Fault | None:
    """What went wrong, by the same rules as SMK001 to SMK003; None: nothing.

    `expected` are patterns of parameters that need no gradient.
    """
    if ended := next((stage.ended for stage in smoke.stages if not stage.ended.ok), None):
        if ended.how == "budget":
            return None
        faults: dict[str, Fault] = {"signal": "crashed", "timeout": "hung"}
        return faults.get(ended.how, "raised")
    for step in smoke.steps:
        if not math.isfinite(float(step.loss)):
            return "non-finite loss"
        if float(step.loss) == 0.0:
            return "zero loss"
        if not step.skipped and not math.isfinite(float(step.grad_norm)):
            return "non-finite gradient"
    return _fault_of_gradients(smoke, expected)


def _fault_of_gradients(smoke: Smoke, expected: Sequence[str]) -> Fault | None:
    skipped = sum(step.skipped for step in smoke.steps)
    if smoke.steps and (skipped == len(smoke.steps) or skipped > MOST_SKIPPED):
        return "non-finite gradient"
    if not all(parameter.finite for parameter in smoke.parameters):
        return "non-finite gradient"
    without = (each.name for each in smoke.parameters if not each.had_gradient)
    if any(not any(fnmatchcase(name, glob) for glob in expected) for name in without):
        return "no gradient"
    return None


def diagnose(
    child: TorchChild,
    subject: Mapping[str, Any],
    smoke: Smoke,
    told: ReportProgress = lambda stage: None,
    *,
    attempt_seconds: float = ATTEMPT_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
    expected: Sequence[str] = (),
) -> Diagnosis | None:
    """What mends the fault that `smoke` shows, and where it comes from; None: it shows none.

    `subject` is what was trained, as the probe `subjects.py` describes it. Takes no longer than
    `total_seconds` and one import of torch; what was left out then stands in the attempts.
    """
    fault = fault_of(smoke, expected)
    if fault is None:
        return None
    child.end()  # a new process: what the faulty training did to its own is gone
    search = _Search(child, subject, smoke, told, fault, expected, attempt_seconds)
    return search.run(time.monotonic() + total_seconds)


class _Search:
    """One search: its attempts so far, and what the looks found."""

    def __init__(
        self,
        child: TorchChild,
        subject: Mapping[str, Any],
        smoke: Smoke,
        told: ReportProgress,
        fault: Fault,
        expected: Sequence[str],
        seconds: float,
    ) -> None:
        self._child, self._told, self._seconds = child, told, seconds
        self._fault, self._expected = fault, expected
        self._smoke = smoke
        self._subject = dict(subject)
        self._attempts: list[Attempt] = []
        self._deadline = 0.0

    def run(self, deadline: float) -> Diagnosis:
        began, self._deadline = time.monotonic(), deadline
        found = self._look()
        if found.bad_batch:
            self._try("other-batch")
        elif not found.bad_weights and self._comes_back():
            found = self._follow(found)
            self._change()
        seconds = time.monotonic() - began
        return msgspec.structs.replace(found, attempts=tuple(self._attempts), seconds=seconds)

    def _comes_back(self) -> bool:
        """Whether the fault is there again with nothing changed; if not, some times more."""
        for _ in range(REPEATS):
            if self._try("repeat").outcome != "mended":
                return len(self._attempts) == 1
        return False

    def _change(self) -> None:
        """One change after the other, until one mends it and it comes back without that."""
        for change in CHANGES:
            if self._try(change).outcome == "mended":
                self._try("repeat")
                return

    def _try(self, change: str) -> Attempt:
        attempt = Attempt(change=change, outcome="not possible", detail=LEFT_OUT)
        if time.monotonic() < self._deadline:
            answer = self._ask("attempt", change=change)
            if answer.ended.how != "budget":
                attempt = self._tried(change, answer)
        self._attempts.append(attempt)
        return attempt

    def _tried(self, change: str, answer: Answer) -> Attempt:
        inside, seconds = _inside(answer, "attempt"), answer.ended.seconds
        if reason := inside.get("not_possible"):
            return Attempt(
                change=change, outcome="not possible", detail=str(reason), seconds=seconds
            )
        smoke = fit(inside.get("smoke"), Smoke)
        if not isinstance(smoke, Smoke):
            was = self._smoke
            smoke = cut_short(answer, was.device, was.precision, was.recipe)
        fault = fault_of(smoke, self._expected)
        last = smoke.steps[-1] if smoke.steps else None
        return Attempt(
            change=change,
            outcome="mended" if fault is None else "same" if fault == self._fault else "other",
            detail=_ending(fault, smoke),
            loss=last.loss if last else None,
            grad_norm=last.grad_norm if last else None,
            seconds=seconds,
        )

    def _look(self) -> Diagnosis:
        """Batch and weights, before a kernel is given them."""
        answer = self._ask("look")
        noted: Any = next((note["look"] for note in answer.notes if "look" in note), {})
        return self._read(_inside(answer, "look") or noted)

    def _follow(self, found: Diagnosis) -> Diagnosis:
        """Where values stop being finite; the operation in a try of its own."""
        if not self._fault.startswith("non-finite"):
            return found
        told = _inside(self._ask("walk"), "walk")
        if told.get("born") == "gradient":
            told |= _inside(self._ask("anomaly", step=told["step"]), "anomaly")
        return self._read(msgspec.to_builtins(found) | told)

    def _read(self, told: Any) -> Diagnosis:
        """What a look told; a probe that tells something else told nothing."""
        empty = {"type": "Diagnosis", "fault": self._fault}
        read = fit(empty | told, Diagnosis) if isinstance(told, dict) else None
        return read if isinstance(read, Diagnosis) else Diagnosis(fault=self._fault)

    def _ask(self, name: str, **request: Any) -> Answer:
        """The answer to one look; in a new process where the old one has no fresh model."""
        answer = self._asked(name, **request)
        if _inside(answer, name).get("stale"):
            self._child.end()
            answer = self._asked(name, **request)
        return answer

    def _asked(self, name: str, **request: Any) -> Answer:
        what = request.get("change", name)
        seconds = max(1.0, min(self._seconds, self._deadline - time.monotonic()))
        return self._child.request(
            seconds,
            lambda stage: self._told(f"finding the cause ({what}): {stage}"),
            stage=name,
            subject=self._subject,
            device=self._smoke.device,
            precision=self._smoke.precision,
            recipe=self._smoke.recipe,
            **request,
        )


def _inside(answer: Answer, name: str) -> dict[str, Any]:
    """What an answer holds under that name; {} if it is nothing of the kind."""
    found = (answer.answer or {}).get(name)
    return found if isinstance(found, dict) else {}


def _ending(fault: Fault | None, smoke: Smoke) -> str:
    """How an attempt ended, in a line."""
    if fault in ("raised", "crashed", "hung"):
        last = smoke.stages[-1]
        return " ".join(f"{last.name}: {last.ended.detail.removeprefix(f'{last.name}: ')}".split())
    if fault == "no gradient":
        without = [each.name for each in smoke.parameters if not each.had_gradient]
        return f"no gradient in {len(without)} of {len(smoke.parameters)} parameters"
    return fault or ""
