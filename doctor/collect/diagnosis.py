"""Bisection of a faulty training: it is repeated with one change at a time until one fixes it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from doctor.collect.changes import REPAIRS, possible_changes
from doctor.collect.child_messages import Answer
from doctor.collect.children import fit
from doctor.collect.faults import fault_of
from doctor.collect.torch_child import ReportProgress, TorchChild, cut_short
from doctor.facts.diagnosis import LEFT_OUT, Attempt, Diagnosis, Fault
from doctor.facts.error_texts import is_codes_own, is_final, is_index, is_of_kernel, names_index
from doctor.facts.training import Smoke, without_gradient

TOTAL_SECONDS = 180.0
ATTEMPT_SECONDS = 20.0
"""For one attempt with the small model, once torch is imported."""
TINY = 1e-8
"""A gradient norm beside which the epsilon of Adam leaves no update."""
REPEATS = 3
"""Repetitions with nothing changed, if the first one shows no fault."""


def diagnose(
    child: TorchChild,
    subject: Mapping[str, object],
    smoke: Smoke,
    report_progress: ReportProgress = lambda stage: None,
    *,
    attempt_seconds: float = ATTEMPT_SECONDS,
    total_seconds: float = TOTAL_SECONDS,
    expect_no_grad: Sequence[str] = (),
) -> Diagnosis | None:
    """The change that fixes the fault of `smoke`, and its origin; None if there is nothing to find.

    There is nothing if there is no fault, or an error that no change avoids.

    `subject` describes the training for the probe `subjects.py`. Takes at most `total_seconds` and
    one import of torch; attempts beyond that are recorded as left out.
    """
    fault = fault_of(smoke, expect_no_grad)
    if fault is None or any(is_final(stage.ended) for stage in smoke.stages):
        return None
    if subject["kind"] != "small" and _is_codes_own(smoke, fault):
        return None
    child.end()  # a new process, free of side effects of the faulty training
    bisection = _Bisection(
        child, subject, smoke, report_progress, fault, expect_no_grad, attempt_seconds
    )
    return bisection.run(time.monotonic() + total_seconds)


def locate_small_gradients(
    child: TorchChild,
    subject: Mapping[str, object],
    smoke: Smoke,
    *,
    seconds: float = ATTEMPT_SECONDS,
) -> Diagnosis | None:
    """Where the gradients of parameters that did not change become tiny; None if none do."""
    names = [
        each.name
        for each in smoke.parameters
        if each.had_gradient and not each.moved and float(each.grad_norm or TINY) < TINY
    ]
    if not names:
        return None
    bisection = _Bisection(child, subject, smoke, lambda stage: None, "no gradient", (), seconds)
    return bisection.locate_small(names, time.monotonic() + seconds)


OF_ZEROS = ("no gradient", "zero loss")
"""Faults whose cause the graph may show."""


class _Bisection:
    """One bisection and its attempts so far."""

    def __init__(
        self,
        child: TorchChild,
        subject: Mapping[str, object],
        smoke: Smoke,
        report_progress: ReportProgress,
        fault: Fault,
        expect_no_grad: Sequence[str],
        seconds: float,
    ) -> None:
        self._child, self._report_progress, self._seconds = child, report_progress, seconds
        self._fault, self._expect_no_grad = fault, expect_no_grad
        self._smoke = smoke
        self._subject = dict(subject)
        self._attempts: list[Attempt] = []
        self._deadline = 0.0
        of_user = subject["kind"] != "small" and smoke.device != "cpu"
        self._of_kernel = of_user and any(is_of_kernel(stage.ended) for stage in smoke.stages)
        self._index_on_cpu = False

    def run(self, deadline: float) -> Diagnosis:
        started, self._deadline = time.monotonic(), deadline
        diagnosis = self._inspect()
        if self._fault in OF_ZEROS and self._subject["kind"] == "factory":
            diagnosis = self._find_cuts(diagnosis)
        self._try_changes([REPAIRS[name] for name in REPAIRS if getattr(diagnosis, name)])
        if not (self._is_fixed() or self._is_settled(diagnosis)) and self._is_reproducible():
            diagnosis = self._locate(diagnosis)
            self._try_changes(
                possible_changes(
                    diagnosis,
                    self._smoke,
                    self._fault,
                    small=self._subject["kind"] == "small",
                    of_kernel=self._of_kernel,
                )
            )
        seconds = time.monotonic() - started
        return msgspec.structs.replace(diagnosis, attempts=tuple(self._attempts), seconds=seconds)

    def locate_small(self, names: Sequence[str], deadline: float) -> Diagnosis:
        """The operations that make the gradients of these parameters tiny."""
        self._deadline = deadline
        cuts = _content(self._request("cuts", names=names, small=True), "cuts")
        return self._decode(cuts)

    def _is_reproducible(self) -> bool:
        """Whether the fault returns with nothing changed; if not, up to REPEATS attempts."""
        for number in range(REPEATS):
            if self._attempt("repeat").outcome != "fixed":
                return number == 0
        return False

    def _is_fixed(self) -> bool:
        return any(each.outcome == "fixed" for each in self._attempts)

    def _is_settled(self, diagnosis: Diagnosis) -> bool:
        """Whether the graph, or an index, shows a cause that no change of numbers avoids."""
        finite = not self._fault.startswith("non-finite")
        if self._index_on_cpu or (_of_index(self._smoke) and finite):
            return True
        if self._fault not in OF_ZEROS:
            return False
        names = {each.name for each in without_gradient(self._smoke.parameters)}
        absent = all(p.computed is False for p in self._smoke.parameters if p.name in names)
        explained = {name for cut in diagnosis.cuts if cut.certain for name in cut.parameters}
        return absent or names <= explained

    def _try_changes(self, changes: Sequence[str]) -> None:
        """One change after the other, until one fixes the fault; then once more without it."""
        for change in changes:
            if self._attempt(change).outcome == "fixed":
                self._attempt("repeat")
                return

    def _attempt(self, change: str) -> Attempt:
        attempt = Attempt(change=change, outcome="not possible", detail=LEFT_OUT)
        if time.monotonic() < self._deadline:
            answer = self._request("attempt", change=change)
            if answer.ended.how != "budget":
                attempt = self._evaluate(change, answer)
        self._attempts.append(attempt)
        return attempt

    def _evaluate(self, change: str, answer: Answer) -> Attempt:
        content, seconds = _content(answer, "attempt"), answer.ended.seconds
        if reason := content.get("not_possible"):
            return Attempt(
                change=change, outcome="not possible", detail=str(reason), seconds=seconds
            )
        smoke = fit(content.get("smoke"), Smoke)
        if not isinstance(smoke, Smoke):
            original = self._smoke
            smoke = cut_short(answer, original.device, original.precision, original.recipe)
        fault = fault_of(smoke, self._expect_no_grad)
        last = smoke.steps[-1] if smoke.steps else None
        return Attempt(
            change=change,
            outcome=self._outcome(fault, smoke),
            detail=_describe_end(fault, smoke),
            loss=last.loss if last else None,
            grad_norm=last.grad_norm if last else None,
            seconds=seconds,
        )

    def _outcome(self, fault: Fault | None, smoke: Smoke) -> Literal["fixed", "same", "other"]:
        """Parameters without a gradient are judged last: what was not finite is finite there. Where
        an index is no longer refused, `detail` has the error that comes next."""
        if fault is None or (fault == "no gradient" and self._fault.startswith("non-finite")):
            return "fixed"
        if fault == self._fault == "raised" and _of_index(self._smoke) and not _of_index(smoke):
            return "fixed"
        return "same" if fault == self._fault else "other"

    def _inspect(self) -> Diagnosis:
        """Batch and weights, before a kernel reads them; first on the CPU where a kernel failed."""
        if not self._of_kernel:
            return self._decode(self._look()[0])
        noted, error = self._look(device="cpu")
        self._child.end()  # the next request is for the GPU again
        self._index_on_cpu = names_index(error)
        if not error and "attention" in noted:
            noted |= {"on_cpu": "completes"}
        elif error:
            noted |= {"on_cpu": f"raises {error}", "index_on_cpu": self._index_on_cpu}
        invalid = noted.get("bad_batch") or noted.get("bad_index")
        if self._index_on_cpu or invalid or not error:
            return self._decode(noted)
        return self._decode(noted | self._look()[0])

    def _look(self, **request: object) -> tuple[dict[str, object], str]:
        """What the probe noted, and the error of the forward pass with its line, "" for none."""
        answer = self._request("look", **request)
        noted: dict[str, object] = {}
        for note in answer.notes:
            part = note.get("look")
            noted |= part if isinstance(part, dict) else {}
        error = str(noted.pop("raised", ""))
        return noted | _content(answer, "look"), error

    def _locate(self, diagnosis: Diagnosis) -> Diagnosis:
        """Where values stop being finite; the operation in an attempt of its own."""
        if not self._fault.startswith("non-finite"):
            return diagnosis
        place = _content(self._request("walk"), "walk")
        if place.get("born") == "gradient":
            place |= _content(self._request("anomaly", step=place["step"]), "anomaly")
        own = self._subject["kind"] != "small"
        if own and place.get("born") in ("module", "loss", "gradient"):
            place |= self._trace(place["step"])
        return self._decode(msgspec.to_builtins(diagnosis) | place)

    def _find_cuts(self, diagnosis: Diagnosis) -> Diagnosis:
        """Where the paths of the parameters without a gradient end."""
        names = [each.name for each in without_gradient(self._smoke.parameters)]
        missing = [n for n in names if not any(fnmatchcase(n, g) for g in self._expect_no_grad)]
        absent = all(p.computed is False for p in self._smoke.parameters if p.name in missing)
        answer = self._request("cuts", names=missing, absent=absent)
        partial: object = next((note["cuts"] for note in answer.notes if "cuts" in note), {})
        cuts = _content(answer, "cuts") or partial
        if not cuts and answer.ended.how in ("timeout", "budget"):
            cuts = {"unfinished": True}
        return self._decode(msgspec.to_builtins(diagnosis) | cuts)

    def _trace(self, step: int) -> dict[str, Any]:
        """The operation with the first non-finite result; its samples may be missing."""
        answer = self._request("trace", step=step)
        partial: Any = next((note["trace"] for note in answer.notes if "trace" in note), {})
        return _content(answer, "trace") or partial

    def _decode(self, fields: object) -> Diagnosis:
        """The fields of a probe's answer as a diagnosis; an empty one if they are malformed."""
        empty = {"type": "Diagnosis", "fault": self._fault}
        decoded = fit(empty | fields, Diagnosis) if isinstance(fields, dict) else None
        return decoded if isinstance(decoded, Diagnosis) else Diagnosis(fault=self._fault)

    def _request(self, name: str, **request: object) -> Answer:
        """The answer to one request; from a new process if the old one has no fresh model."""
        answer = self._request_once(name, **request)
        if _content(answer, name).get("stale"):
            self._child.end()
            answer = self._request_once(name, **request)
        return answer

    def _request_once(self, name: str, **request: Any) -> Answer:
        label = request.get("change", name)
        seconds = max(1.0, min(self._seconds, self._deadline - time.monotonic()))
        return self._child.request(
            seconds,
            lambda stage: self._report_progress(f"finding the cause ({label}): {stage}"),
            stage=name,
            subject=self._subject,
            precision=self._smoke.precision,
            recipe=self._smoke.recipe,
            **{"device": self._smoke.device, **request},
        )


def _is_codes_own(smoke: Smoke, fault: Fault) -> bool:
    """Whether an error of the code ended it, and not values that an earlier step made
    non-finite."""
    if fault.startswith("non-finite"):
        return False
    return any(is_codes_own(stage.ended) for stage in smoke.stages)


def _of_index(smoke: Smoke) -> bool:
    """Whether an index beyond what it indexes ended it."""
    return any(is_index(stage.ended) for stage in smoke.stages)


def _content(answer: Answer, name: str) -> dict[str, Any]:
    """The object under that name in an answer; {} if there is none."""
    content = (answer.answer or {}).get(name)
    return content if isinstance(content, dict) else {}


def _describe_end(fault: Fault | None, smoke: Smoke) -> str:
    """How an attempt ended, in one line."""
    if fault in ("raised", "crashed", "hung"):
        last = smoke.stages[-1]
        return " ".join(f"{last.name}: {last.ended.detail.removeprefix(f'{last.name}: ')}".split())
    if fault == "no gradient":
        without = without_gradient(smoke.parameters)
        return f"no gradient in {len(without)} of {len(smoke.parameters)} parameters"
    return fault or ""
