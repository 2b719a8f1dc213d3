"""Why a step of the user's own training did not complete, and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from doctor._util.records import Ended, Unknown
from doctor._util.units import visible
from doctor.checks.training import kernel_errors, smoke_errors
from doctor.checks.training import smoke as smoke_checks
from doctor.checks.training.diagnosis import add_diagnosis
from doctor.checks.training.errors.explain import (
    Proven,
    describe,
    is_decided,
    possible_causes,
)
from doctor.checks.training.own_errors import (
    ERRORS,
    INDEX_ERROR,
    causes_of,
    find_cause,
    possible,
)
from doctor.errors.cause import Cause
from doctor.errors.match import first
from doctor.facts.error_texts import LIBRARY_FILE, NO_CPU_KERNEL
from doctor.facts.observations import IndexRange, NonFinite, Violation
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke
from doctor.judge.check import Owner, Status, Verdict, fail, unknown
from doctor.judge.known_errors import any_of

SmallModel = Smoke | Unknown | None

STEP_FIX = (
    "Start at the line that the summary names. To reproduce it without the doctor, import the "
    "file, call the factory, and run forward and backward once."
)
HUNG = (
    "Look at the line where it waited: a lock, a download, input(), a DataLoader worker, or a "
    "collective without its other ranks. num_workers=0 excludes the workers."
)
HUNG_WORKER = (
    "Look at what __getitem__ and collate_fn wait for: the loader waits for a worker that does not "
    "answer. With num_workers=0 the stack shows the line. Locks, threads and open connections that "
    "were made before the workers start do not work in them; neither does CUDA."
)
CRASHED = (
    "Look at the line where it crashed: a library called there was not built for this environment, "
    "or was passed invalid memory."
)
SOUND_TORCH = " The doctor's small model trains here, so torch itself works."
NO_KERNEL = (
    "oneDNN has no kernel for this layer and dtype on this CPU, which says nothing of another CPU "
    "or of a GPU"
)
IN_FP32 = "; run in fp32: oneDNN on this CPU has no kernel for a layer in the job's precision"
HIDDEN = "; under autocast in {}, which nobody asked for, the steps complete"
AS_TRAINED = "If you train under autocast, name the precision:\ndoctor run ... --precision {}"
LATER_BATCH = (
    "; with batch {} of the loader: loss and gradients of those before it are 0, as of images "
    "without an object"
)
MORE_TIME = "it computes and does not wait; a first torch.compile takes minutes on a busy machine"


def failed_step(
    own: OwnModel, verdict: Verdict, last: Ended, proven: Proven, *, sound: bool
) -> Verdict:
    """The failure of a step with what its error, its signal or its stack says.

    `sound`: the doctor's small model trains here.
    """
    if NO_CPU_KERNEL in last.detail:
        return unknown(f"{_stage(own)}; {NO_KERNEL}{_where(own)}")
    if last.how == "timeout" and own.busy:
        return unknown(f"{_stage(own)}; {MORE_TIME}{_where(own)}")
    if last.how == "error":
        return _raised_step(own, verdict, last.detail, proven)
    verdict = replace(verdict, summary=f"{verdict.summary}{_where(own)}")
    if last.how == "timeout" and not (sound or own.stack):
        verdict = replace(verdict, fix=smoke_errors.HUNG, owner=None)
    if last.how == "signal" and "SIGKILL" not in last.detail and (sound or own.stack):
        verdict = replace(verdict, fix=CRASHED + SOUND_TORCH * sound, owner=Owner.JOB)
    return verdict


def _stage(own: OwnModel) -> str:
    return smoke_checks.ended(own.smoke) if own.smoke else own.built.detail


def _raised_step(own: OwnModel, verdict: Verdict, detail: str, proven: Proven) -> Verdict:
    """The failure of a step that raised, with the call, the cause and the remedy."""
    where = f"{_stage(own)}{_where(own)}"
    if kernel_errors.raised_later(detail):
        return _of_kernel(own, replace(verdict, summary=where))
    return _explained(own, replace(verdict, summary=where), detail, proven)


def _explained(own: OwnModel, verdict: Verdict, detail: str, proven: Proven) -> Verdict:
    """The failure of code that raised, with the call, the causes and the remedy."""
    by_message = possible_causes(own)
    if proven:
        summary = f"{verdict.summary}{_causes(own, proven)}"
        first = proven[0].cause
        refining = [each for each in by_message if first.id in each.refines and each.told_by]
        lines = [f"If {each.told_by}: {each.fix}" for each in refining]
        return replace(
            verdict,
            summary=summary,
            fix="\n".join([*lines, _fixes(proven)]),
            owner=first.owner,
            sources=first.sources,
        )
    verdict = replace(verdict, summary=f"{verdict.summary}{describe(own)}")
    if by_message:
        return replace(verdict, fix=any_of(by_message), owner=by_message[0].owner)
    if row := _known_fix(own, detail):
        return replace(verdict, fix=row.fix, owner=row.owner, sources=row.sources)
    return verdict if verdict.fix else replace(verdict, fix=_look(own, detail))


def _causes(own: OwnModel, proven: Proven) -> str:
    """What was observed, and the first cause last."""
    cause = proven[0].seen.cause
    return f"{describe(own, cause)}{'; ' * bool(cause)}{cause}"


def _fixes(proven: Proven) -> str:
    """The fix of the first cause, and those of others that are proven too."""
    others = [f"Also possible, {each.cause.id}: {each.fix}" for each in proven[1:MOST]]
    return "\n".join([proven[0].fix, *others])


MOST = 3
"""Causes whose fixes are printed."""


WITHOUT_VALUES = re.compile(
    r"\b(shapes?|sizes?|dimensions?|dtypes?|scalar types?|strides?|same device|arguments?|has no"
    r"|not defined)\b"
)
"""Words of errors that are the same whatever the values are."""


def nonfinite_values(own: OwnModel, proven: Proven) -> str:
    """The values that were not finite where a step raised; "" if the error has another reason."""
    raised = own.raised
    if raised is None:
        return ""
    by_values = raised.first(IndexRange) or raised.first(Violation)
    if not by_values and (proven or WITHOUT_VALUES.search(raised.message)):
        return ""
    return ", ".join(f"{each.name} ({each.text})" for each in raised.all(NonFinite))


def _hung(own: OwnModel) -> str:
    """The remedy of a hang, by the stack."""
    waits = any(each.startswith("dataloader.py") for each in own.stack)
    return HUNG_WORKER if waits else HUNG


def _of_kernel(own: OwnModel, verdict: Verdict) -> Verdict:
    """The failure of a kernel with what it printed, and the error of the same step on the CPU."""
    verdict = replace(verdict, summary=f"{verdict.summary}{kernel_errors.observed(own)}")
    on_cpu = kernel_errors.error_on_cpu(own)
    by_message = first(on_cpu, ERRORS) if on_cpu else None
    specific = by_message if by_message is not INDEX_ERROR else None
    ignored = kernel_errors.by_ignored_label(own)
    pattern = ignored or specific or kernel_errors.by_assertion(own) or by_message
    return replace(verdict, fix=pattern.fix, owner=pattern.owner) if pattern else verdict


def _where(own: OwnModel) -> str:
    """The innermost line of the user's files, as a clause."""
    if own.stack:
        return f"; in {own.stack[0]}"
    if own.raised is not None and own.raised.place:
        code = f" (`{own.raised.code}`)" if own.raised.code else ""
        return f"; in {own.raised.place}{code}"
    frames = [
        each for each in FRAME.finditer(own.traceback) if not LIBRARY_FILE.search(each["file"])
    ]
    last = frames[-1] if frames else None
    return f"; in {PurePath(last['file']).name}, line {last['line']}" if last else ""


FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)', re.MULTILINE)


NOTHING_TRAINS = "no parameter of the model requires a gradient"


def build_failure(own: OwnModel, proven: Proven) -> Verdict:
    how = {"signal": "crashed", "timeout": "hung"}.get(own.built.how, "could not be built")
    if own.built.how == "error" and own.built.detail.startswith(NOTHING_TRAINS):
        how = "cannot be trained"
    where = f"{how}: {own.built.detail or 'no message'}{_where(own)}"
    seconds = own.built.seconds
    if own.built.how == "error":
        return _explained(own, fail(where, seconds=seconds), own.built.detail, proven)
    if own.built.how == "timeout" and own.busy:
        return unknown(f"{own.built.detail}; {MORE_TIME}{_where(own)}", seconds=seconds)
    if own.built.how == "timeout":
        return fail(where, fix=_hung(own), owner=Owner.JOB, seconds=seconds)
    row = _known_fix(own, own.built.detail)
    if row is None:
        return fail(where, seconds=seconds)
    return fail(where, fix=row.fix, owner=row.owner, seconds=seconds)


def _known_fix(own: OwnModel, detail: str) -> Cause | None:
    """By the last line of the error, else by its whole message."""
    if own.raised is None:
        return find_cause(detail)
    rows = (*possible(detail), *possible(own.raised.message))
    return next((row for row in rows if not is_decided(row, own.raised)), None)


def _look(own: OwnModel, detail: str) -> str:
    """Where to look for an error that no row of the table has; the summary lists the arguments."""
    place = own.raised.place if own.raised else ""
    at = f" at {place}" if place else ""
    arguments = ", with the arguments that the summary lists" if describe(own) else ""
    return f"Cause not known. Start{at}{arguments}: {_message(detail)}"


def _message(detail: str) -> str:
    """The error without the stage that raised it, as a sentence."""
    stage, colon, rest = detail.partition(": ")
    text = rest if colon and " " not in stage and stage.islower() else detail
    return f"{text.rstrip('.: ')}."


def evidence(own: OwnModel) -> list[str]:
    """The traceback, the stack and the last printed lines, for the end of a fix."""
    parts = {
        "Traceback, the code's own lines first:": own.traceback.splitlines(),
        "It was in, innermost line first:": own.stack,
        "It printed at the end:": own.printed,
    }
    quoted = {head: [f"  | {visible(line)}" for line in part] for head, part in parts.items()}
    return [line for head, part in quoted.items() if part for line in (head, *part)]


def about(own: OwnModel, smoke: SmallModel, verdict: Verdict, proven: Proven = ()) -> Verdict:
    """The verdict with the training's description; a failure with diagnosis and traceback.

    `proven`: the causes of an error; its verdict names those that have the message after them.
    """
    notes = IN_FP32 if own.without_kernel else ""
    if own.hidden_in:
        notes += HIDDEN.format(own.hidden_in)
    if own.batch_number:
        notes += LATER_BATCH.format(own.batch_number + 1)
    verdict = replace(verdict, summary=f"{own.description}: {verdict.summary}{notes}")
    if verdict.status is not Status.FAIL:
        return verdict
    ids = (*(each.cause.id for each in proven), *causes_of(own))
    verdict = replace(verdict, causes=tuple(dict.fromkeys(ids)))
    if own.smoke:
        verdict = add_diagnosis(verdict, own.smoke, own=True)
    if trains(smoke) and verdict.owner is not Owner.MACHINE:
        sound = "the doctor's small model trains here, so the environment is sound"
        verdict = replace(verdict, summary=f"{verdict.summary}; {sound}")
    if own.hidden_in:
        as_trained = AS_TRAINED.format(own.hidden_in)
        verdict = replace(verdict, fix=f"{verdict.fix or STEP_FIX}\n{as_trained}")
    if lines := evidence(own):
        verdict = replace(verdict, fix="\n".join([verdict.fix or STEP_FIX, *lines]))
    return verdict


def trains(smoke: SmallModel) -> bool:
    """Whether the doctor's small model passes its checks."""
    judges = (smoke_checks.completes, smoke_checks.loss_finite, smoke_checks.gradients_reach_all)
    return isinstance(smoke, Smoke) and all(j(smoke).status is Status.PASS for j in judges)
