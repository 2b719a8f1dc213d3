"""What the search for a fault's cause found: one sentence, what was tried, and the remedy."""

from __future__ import annotations

import dataclasses
import re

from doctor.checks.training.remedies import ORIGINS, OWN, SMALL, STABLE, Cure
from doctor.facts.training import LEFT_OUT, Attempt, Diagnosis, Fault, Smoke
from doctor.judge.check import Status, Verdict

WORDS = {
    "repeat": "unchanged",
    "cudnn-off": "cuDNN attention off",
    "flash-off": "cuDNN and flash attention off",
    "math": "attention's math backend only",
    "eager": "eager attention",
    "fp32-weights": "fp32 weights under autocast",
    "fp32": "everything in fp32",
    "lower-lr": "a tenth of the learning rate",
    "other-batch": "another batch",
}
"""What was changed, each from the training as it was."""

OUTCOMES = {"mended": "well", "same": "the same", "other": "another fault"}

SPOKEN: dict[Fault, tuple[str, str]] = {
    "non-finite loss": ("finite", "{loss}"),
    "zero loss": ("a loss that is not 0", "0"),
    "non-finite gradient": ("finite", "gradients that are not finite"),
    "raised": ("it completes", "it raises"),
    "crashed": ("it completes", "it crashes"),
    "hung": ("it completes", "it hangs"),
    "no gradient": ("every parameter has a gradient", "some have none"),
}
"""Fault -> how it is without it, and with it."""

LINE = 160
"""Columns of what an attempt ended with; an exception's message may be longer."""


def complete(verdict: Verdict, smoke: Smoke, *, own: bool = False) -> Verdict:
    """A complaint with what the search found; as it is where nothing was searched.

    `own`: it is the user's training, not the doctor's small model, which is known to train. A
    remedy that the verdict brings stays where the search did not find what mends it.
    """
    found = smoke.diagnosis
    if found is None or verdict.status not in (Status.WARN, Status.FAIL):
        return verdict
    cure = cure_of(found, smoke, own=own)
    kept = verdict.fix if not decisive(found) else None
    said = sentence(found, smoke, own=own)
    return dataclasses.replace(
        verdict,
        summary=f"{verdict.summary}. {said[:1].upper()}{said[1:]}",
        fix="\n".join((kept or cure.fix, *table(found))),
        owner=(verdict.owner if kept else None) or cure.owner,
        sources=tuple(dict.fromkeys((*verdict.sources, *cure.sources))),
    )


def decisive(found: Diagnosis) -> bool:
    """Whether the cause is known, not only where it shows."""
    named = found.bad_batch or found.bad_weights
    return bool(named or found.intermittent or found.mended_by)


def sentence(found: Diagnosis, smoke: Smoke, *, own: bool = False) -> str:
    """What the search found, without a full stop."""
    cure = cure_of(found, smoke, own=own)
    well, ill = (words.format(loss=_loss(smoke)) for words in SPOKEN[found.fault])
    mended = found.mended_by
    if found.bad_batch:
        other = f" ({well} on another one)" if mended else ""
        return f"{cure.cause}{other}: {'; '.join(found.bad_batch)}"
    if found.bad_weights:
        return f"{cure.cause}: before the first step {'; '.join(found.bad_weights)}"
    if found.intermittent:
        repeats = found.repeats
        gone = sum(each.outcome == "mended" for each in repeats)
        times = f"{gone} of {len(repeats)} repetitions with nothing changed"
        return f"not reproduced: {well} in {times}; {cure.cause}"
    if mended:
        before, after = cure.contrast
        return f"{well} {before}, {ill} {after}: {cure.cause}{_where(found)}"
    tried = [each for each in found.attempts if each.outcome in ("same", "other")]
    changes = sum(each.change != "repeat" for each in tried)
    if not changes:
        return f"nothing could be changed to find the cause{_where(found)}"
    if any(each.detail == LEFT_OUT for each in found.attempts):
        left = f"{changes} tried and the time over before the others"
        return f"the cause was not found, no change mended it, {left}{_where(found)}"
    return f"none of {changes} changes mends it: {cure.cause}{_where(found)}"


def _loss(smoke: Smoke) -> str:
    """NaN or inf: the first loss that is not finite."""
    names = {"nan": "NaN", "inf": "inf", "-inf": "-inf"}
    seen = (names.get(str(step.loss)) for step in smoke.steps)
    return next(filter(None, seen), "not finite")


def _where(found: Diagnosis) -> str:
    """Where values stop being finite, as a clause; "" where that is not known."""
    at = f"in step {found.step}" if found.step else ""
    names = ", ".join(found.bad_gradients[:3])
    if found.born == "module":
        name = (
            f"{found.first_module} ({found.first_module_type})"
            if found.first_module
            else (f"the model itself ({found.first_module_type})")
        )
        return f"; the first output that is not finite is that of {name}, {at}"
    if found.born == "loss":
        return f"; all modules' outputs are finite {at}, the loss made of them is not"
    if found.born == "gradient":
        made = f", made by {found.operation}" if found.operation else ""
        return f"; the loss is finite {at}, the gradient norm of {names} is not{made}"
    if found.born == "update":
        return f"; {at} finite gradients moved {names} out of range"
    return ""


def cure_of(found: Diagnosis, smoke: Smoke, *, own: bool) -> Cure:
    """What the cause calls for."""
    cures = OWN if own else SMALL
    mended = found.mended_by
    if found.bad_batch:
        return cures["bad batch"]
    if found.bad_weights:
        return cures["bad weights"]
    if found.intermittent:
        return cures["intermittent"]
    if mended:
        return _filled(cures[mended.change], smoke)
    cure = cures["nothing"]
    return cure._replace(fix=_pointed(found, cure.fix)) if own else cure


def _filled(cure: Cure, smoke: Smoke) -> Cure:
    """With the precision and the learning rate of this training."""
    rate = next((step.lr for step in smoke.steps), smoke.lr)

    def fill(text: str) -> str:
        filled = text.replace("{precision}", smoke.precision)
        return filled.replace("{lr}", f"{rate:g}" if rate else "the whole rate")

    before, after = cure.contrast
    return cure._replace(
        contrast=(fill(before), fill(after)), cause=fill(cure.cause), fix=fill(cure.fix)
    )


def _pointed(found: Diagnosis, fix: str) -> str:
    """The remedy where nothing mended it, with the place where it shows first."""
    operation = re.match(r"(\w+?)Backward", found.operation or "")
    stable = STABLE.get(operation[1]) if operation else None
    if stable:
        return f"Use a stable form of that operation: {stable}. {fix}"
    if found.fault.startswith("non-finite"):
        place = {"module": "Look at that module", "loss": "Look at the loss"}
        return f"{place.get(found.born or '', 'Look at that place')}: {ORIGINS}. {fix}"
    more = {
        "raised": "Search for the error that the stage raised. ",
        "crashed": "Run it alone with python -X faulthandler, which names the line. ",
        "hung": "Run it alone and call faulthandler.dump_traceback_later(60) at its start, which "
        "names the line. ",
        "no gradient": "Look for detach(), .data, no_grad() and for parameters that the forward "
        "pass does not use. ",
    }
    return f"{more.get(found.fault, '')}{fix}"


def table(found: Diagnosis) -> list[str]:
    """What was tried, a line each in columns, and what is odd about the batch."""
    noted = [f"Also seen: {each}." for each in found.noted]
    if not found.attempts:
        return noted
    rows = [(_what(found, each), _outcome(each), _told(each)) for each in found.attempts]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [
        f"  {what:{first}}  {outcome:{second}}  {said}".rstrip() for what, outcome, said in rows
    ]
    return [*noted, "Tried, one change at a time:", *lines]


def _what(found: Diagnosis, attempt: Attempt) -> str:
    words = WORDS.get(attempt.change, attempt.change)
    return (
        f"{words} again" if attempt in found.repeats and attempt is not found.attempts[0] else words
    )


def _outcome(attempt: Attempt) -> str:
    return OUTCOMES.get(attempt.outcome, attempt.outcome)


def _told(attempt: Attempt) -> str:
    """The numbers of the last step; where it ended otherwise, how."""
    if attempt.loss is None:
        return attempt.detail[:LINE]
    numbers = f"loss {float(attempt.loss):.4g}"
    if attempt.grad_norm is not None:
        numbers += f", grad_norm {float(attempt.grad_norm):.4g}"
    stopped = attempt.detail if attempt.detail not in ("", "non-finite loss") else ""
    return f"{numbers}; {stopped}"[:LINE] if stopped else numbers
