"""The bisection of a fault in a verdict: its cause in one sentence, its attempts, its remedy."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Sequence

from doctor._util.units import shown
from doctor.checks.training.batch_remedies import BEYOND, INVALID, UNFIT, fix_of_index
from doctor.checks.training.place import fix_by_location, location
from doctor.checks.training.remedies import OWN, SMALL, Remedy
from doctor.facts.diagnosis import LEFT_OUT, Attempt, Diagnosis, Fault
from doctor.facts.error_texts import is_final
from doctor.facts.training import Smoke
from doctor.judge.check import Status, Verdict

CHANGE_NAMES = {
    "repeat": "unchanged", "cudnn-off": "cuDNN attention off",
    "flash-off": "cuDNN and flash attention off", "math": "attention's math backend only",
    "eager": "eager attention", "fp32-weights": "fp32 weights under autocast",
    "fp32": "everything in fp32", "lower-lr": "a tenth of the learning rate",
    "lowest-lr": "a ten-thousandth of the learning rate", "no-lr": "a learning rate of 0",
    "other-batch": "another batch", "valid-batch": "invalid values of the batch replaced",
    "valid-index": "invalid indices replaced", "finite-weights": "non-finite weights replaced",
}  # fmt: skip
"""The changes of the attempts; each starts from the unchanged training."""

OUTCOMES = {"fixed": "no fault", "same": "same fault", "other": "other fault"}

CONTRASTS: dict[Fault, tuple[str, str]] = {
    "non-finite loss": ("finite", "{loss}"),
    "zero loss": ("a loss that is not 0", "0"),
    "non-finite gradient": ("finite", "non-finite gradients"),
    "raised": ("completes", "raises"),
    "crashed": ("completes", "crashes"),
    "hung": ("completes", "hangs"),
    "no gradient": ("every parameter has a gradient", "some have none"),
}
"""Fault -> the training without it, and with it."""

RATES, NUMBERS = ("lower-lr", "lowest-lr", "no-lr"), ("fp32", "fp32-weights")
LINE = 160
"""Columns of an attempt's result; the message of an exception may be longer."""


def with_diagnosis(judge: Callable[[Smoke], Verdict]) -> Callable[[Smoke], Verdict]:
    """A judge whose warnings and failures include the diagnosis of the small model's fault."""

    def judge_and_explain(smoke: Smoke) -> Verdict:
        return add_diagnosis(judge(smoke), smoke)

    return judge_and_explain


def add_diagnosis(verdict: Verdict, smoke: Smoke, *, own: bool = False) -> Verdict:
    """A warning or failure with its diagnosis; the same verdict if there is none.

    `own`: the user's training, rather than the doctor's small model, which is known to train. The
    verdict's own fix is kept if the bisection is inconclusive, and also if the error alone explains
    the fault: older versions searched there too.
    """
    diagnosis = smoke.diagnosis
    explained = any(is_final(stage.ended) for stage in smoke.stages)
    if diagnosis is None or explained or verdict.status not in (Status.WARN, Status.FAIL):
        return verdict
    remedy = remedy_for(diagnosis, smoke, own=own)
    fix = None if is_conclusive(diagnosis) else verdict.fix
    cause = summarize(diagnosis, smoke, own=own)
    return dataclasses.replace(
        verdict,
        summary=f"{verdict.summary}. {cause[:1].upper()}{cause[1:]}" if cause else verdict.summary,
        fix="\n".join((fix or remedy.fix, *attempts_table(diagnosis))),
        owner=(verdict.owner if fix else None) or remedy.owner,
        sources=tuple(dict.fromkeys((*verdict.sources, *remedy.sources))),
    )


def is_conclusive(diagnosis: Diagnosis) -> bool:
    """Whether the cause is known, and not only the place where the fault shows.

    An attempt removed the fault, or the operation with the first non-finite result was observed.
    """
    return bool(diagnosis.intermittent or diagnosis.fixed_by or _is_explained(diagnosis))


def _is_explained(diagnosis: Diagnosis) -> bool:
    """Whether the operation is known, its line, and what is wrong in its inputs."""
    source = diagnosis.source
    known = source and (
        source.place
        or source.module
        or source.function
        or (source.backward and diagnosis.operation)
    )
    return bool(source and source.certain and known)


def _left_a_domain(diagnosis: Diagnosis) -> bool:
    """Whether the operation is not defined for its inputs, rather than that its result is large."""
    remarks = diagnosis.source.remarks if diagnosis.source else ()
    return _is_explained(diagnosis) and not any("overflows" in each for each in remarks)


def summarize(diagnosis: Diagnosis, smoke: Smoke, *, own: bool = False) -> str:
    """The result of the bisection, without a full stop."""
    remedy = remedy_for(diagnosis, smoke, own=own)
    optimizer = f"your {smoke.optimizer.name}" if smoke.optimizer else "AdamW"
    contrast = CONTRASTS[diagnosis.fault]
    sound, faulty = (words.format(loss=_non_finite_loss(smoke)) for words in contrast)
    if diagnosis.intermittent:
        total = len(diagnosis.repeats)
        without_fault = sum(each.outcome == "fixed" for each in diagnosis.repeats)
        times = f"{without_fault} of {total} repetitions with nothing changed"
        return f"not reproduced: {sound} in {times}; {remedy.cause}"
    if diagnosis.fixed_by:
        changed, unchanged = remedy.contrast
        if invalid := _replaced(diagnosis):
            if later := diagnosis.fixed_by.detail:
                sound, changed = "the next error is", later[:LINE]
            return f"{remedy.cause}: {'; '.join(invalid)}; {sound} {changed}"
        result = f"{sound} {changed}, {faulty} {unchanged}"
        return f"{result}: {remedy.cause}{location(diagnosis, optimizer)}"
    return f"{_inconclusive(diagnosis, remedy)}{location(diagnosis, optimizer)}"


def _replaced(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The invalid values whose replacement fixes the fault."""
    change = diagnosis.fixed_by.change if diagnosis.fixed_by else ""
    invalid = {
        "valid-batch": diagnosis.bad_batch,
        "valid-index": diagnosis.bad_index,
        "finite-weights": diagnosis.bad_weights,
    }
    return invalid.get(change, ())


def _inconclusive(diagnosis: Diagnosis, remedy: Remedy) -> str:
    evaluated = [each for each in diagnosis.attempts if each.outcome in ("same", "other")]
    changes = sum(each.change != "repeat" for each in evaluated)
    if _is_explained(diagnosis):
        return "the inputs of one operation are the cause"
    if diagnosis.cuts:
        return ""
    if diagnosis.source and diagnosis.source.remarks:
        return "no change that was tried fixes it"
    if not changes:
        silent = diagnosis.fault in ("no gradient", "raised") or diagnosis.index_on_cpu
        return "" if silent else "no change was tried to find the cause"
    if any(each.detail == LEFT_OUT for each in diagnosis.attempts):
        return f"cause unknown: none of {changes} changes fixes it, the others were left out"
    tried = (
        f"none of the {changes} changes that could be tried fixes it"
        if changes > 1
        else "the one change that could be tried does not fix it"
    )
    return f"{tried}: {remedy.cause}"


def _evidence(diagnosis: Diagnosis) -> str:
    """What was tried and did not help, what could not be tried and what was not reached."""
    attempts = [each for each in diagnosis.attempts if each.change != "repeat"]
    left = [each for each in attempts if each.detail == LEFT_OUT]
    impossible = [each for each in attempts if each.outcome == "not possible" and each not in left]
    others = [a for a in attempts if a.outcome == "other"]
    sentences = {
        "Tried without effect": _names(a for a in attempts if a.outcome == "same"),
        "With another fault": [f"{name} ({a.detail})" for a in others for name in _names([a])],
        "Could not be tried": _names(impossible),
        "Not reached in time": _names(left),
    }
    return " ".join(f"{label}: {', '.join(names)}." for label, names in sentences.items() if names)


def _names(attempts: Iterable[Attempt]) -> list[str]:
    names = dict.fromkeys(each.change for each in attempts)
    return [CHANGE_NAMES.get(name, name) for name in names]


def _non_finite_loss(smoke: Smoke) -> str:
    """NaN or inf: the first loss that is not finite."""
    names = {"nan": "NaN", "inf": "inf", "-inf": "-inf"}
    losses = (names.get(str(step.loss)) for step in smoke.steps)
    return next(filter(None, losses), "not finite")


def remedy_for(diagnosis: Diagnosis, smoke: Smoke, *, own: bool) -> Remedy:
    """The remedy for the cause."""
    remedies = OWN if own else SMALL
    if diagnosis.intermittent:
        return remedies["intermittent"]
    if diagnosis.fixed_by:
        change = diagnosis.fixed_by.change
        if change in RATES and _left_a_domain(diagnosis):
            change = "lower-lr and a domain"
        remedy = _of_the_start(change, _filled(remedies[change], smoke), smoke)
        if change == "valid-index":
            return remedy._replace(fix=fix_of_index(diagnosis.bad_index) or remedy.fix)
        if change == "valid-batch":
            return _of_batch(diagnosis.bad_batch, remedy)
        if change not in ("lower-lr and a domain", *NUMBERS) or not _is_explained(diagnosis):
            return remedy
        return remedy._replace(fix=fix_by_location(diagnosis, remedy.fix))
    remedy = remedies["nothing"]
    if not own:
        return remedy
    first = "" if diagnosis.source and diagnosis.source.remarks else remedy.fix
    fix = " ".join(filter(None, (first, _evidence(diagnosis))))
    return remedy._replace(fix=fix_by_location(diagnosis, fix))


def _of_the_start(change: str, remedy: Remedy, smoke: Smoke) -> Remedy:
    """Where the gradients of the first step are so large that a ten-thousandth of the learning
    rate does not help, the remedy is for what makes them so."""
    norm = next((float(step.grad_norm) for step in smoke.steps), 0.0)
    steep = change == "no-lr" and STEEP < norm < math.inf
    return remedy._replace(fix=TOO_STEEP.format(norm=norm)) if steep else remedy


STEEP = 1e6
"""Our own number: gradients of common models have norms below 100 after initialization."""
TOO_STEEP = (
    "Reduce what makes the gradients so large, {norm:.2g} in the first step: weights that are too "
    "large at the start (torch.nn.init.kaiming_normal_, or the layer's own default), inputs and "
    "targets of a scale far from 1, or an exp or a power of the loss. A ten-thousandth of the "
    "learning rate does not help alone."
)


def _of_batch(remarks: Sequence[str], remedy: Remedy) -> Remedy:
    """The remedy for values of the batch that are invalid, or beyond what the model has."""
    invalid = " ".join(remarks)
    special = [text for name, text in INVALID if re.search(name, invalid)]
    if special and all(BEYOND.fullmatch(each) for each in remarks):
        return remedy._replace(cause=UNFIT, fix=" ".join(special))
    return remedy._replace(fix=" ".join((*special, remedy.fix)))


def _filled(remedy: Remedy, smoke: Smoke) -> Remedy:
    """With the precision and the learning rate of this training."""
    rate = next((step.lr for step in smoke.steps), smoke.lr)

    def fill(text: str) -> str:
        filled = text.replace("{precision}", smoke.precision)
        return filled.replace("{lr}", f"{rate:g}" if rate else "the full learning rate")

    changed, unchanged = remedy.contrast
    return remedy._replace(
        contrast=(fill(changed), fill(unchanged)), cause=fill(remedy.cause), fix=fill(remedy.fix)
    )


def attempts_table(diagnosis: Diagnosis) -> list[str]:
    """The remarks on the batch, and one line per attempt in columns."""
    invalid = (*diagnosis.bad_batch, *diagnosis.bad_index, *diagnosis.bad_weights)
    others = [each for each in invalid if each not in _replaced(diagnosis)]
    remarks = [f"Also: {shown(each, LINE)}." for each in (*diagnosis.remarks, *others)]
    if not diagnosis.attempts:
        return remarks
    rows = [
        (_change(diagnosis, each), _outcome(each), _result(each)) for each in diagnosis.attempts
    ]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [
        f"  {change:{first}}  {outcome:{second}}  {result}".rstrip()
        for change, outcome, result in rows
    ]
    return [*remarks, "Attempts, one change each:", *lines]


def _change(diagnosis: Diagnosis, attempt: Attempt) -> str:
    name = CHANGE_NAMES.get(attempt.change, attempt.change)
    repeated = attempt in diagnosis.repeats and attempt is not diagnosis.attempts[0]
    return f"{name} again" if repeated else name


def _outcome(attempt: Attempt) -> str:
    return OUTCOMES.get(attempt.outcome, attempt.outcome)


def _result(attempt: Attempt) -> str:
    """The numbers of the last step, or how the attempt ended without them."""
    if attempt.loss is None:
        return shown(attempt.detail, LINE)
    numbers = f"loss {float(attempt.loss):.4g}"
    if attempt.grad_norm is not None:
        numbers += f", grad_norm {float(attempt.grad_norm):.4g}"
    detail = attempt.detail if attempt.detail not in ("", "non-finite loss") else ""
    return shown(f"{numbers}; {detail}", LINE) if detail else numbers
