"""Stage 6: the command again, in the same {output}."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from doctor._util.units import shown
from doctor.checks.guard.ending import with_causes
from doctor.checks.rehearsal.parts import error_in, not_tried, place, raised
from doctor.checks.rehearsal.resume_remedies import (
    BEST_FIX,
    EPOCH_FIX,
    FROZEN_FIX,
    HANDLER_STEP_FIX,
    LATEST_FIX,
    NAME_FIX,
    ORDER_FIX,
    REST_FIX,
    STEP_FIX,
    TOO_FAR_FIX,
    UNPREPARED_FIX,
    UNREAD,
)
from doctor.checks.rehearsal.resume_words import held
from doctor.checks.rehearsal.resumed_state import resumed
from doctor.checks.rehearsal.running import printed_error
from doctor.checks.rehearsal.saving import CUT_OFF_FIX, FINISH_FIX, temporary, whole
from doctor.checks.rehearsal.stopping import caught, newest_save
from doctor.facts.guard import GuardError
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_resume import Resumed
from doctor.facts.rehearsal_runs import OnDisk, RehearsedRun
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, unknown, warn

NOT_RESUMED = (
    "If the job resumes with other arguments, give them: --resume-command 'COMMAND {output}'."
)
CUT_OFF = re.compile(
    r"EOFError(?!.*reading a line)|unexpected EOF|central directory|end-of-stream"
    r"|pickle data was truncated|IncompleteBuffer|HeaderTooLarge|HeaderTooSmall"
)
"""In errors of readers of files that are not whole."""
MISSING = re.compile(r"No such file or directory: '([^']{1,1000})'")
OUTPUT = re.compile(r"/.*/doctor-rehearsal-\d+/outputs/stop/")
"""Before the names of files in {output}."""
COMMAND = "--resume-command"
"""The request where the user gave a command of its own."""
SLOW = 3
"""Times the first run after which a continued run that was cut off counts as one that does not
end. Our own number."""


def resumes(rehearsal: Rehearsal) -> Verdict:
    if reason := not_tried(rehearsal, "continues"):
        return reason
    run, first = rehearsal.run("resume"), rehearsal.run("run")
    if run is not None and first is not None and run.cut and run.seconds < SLOW * first.seconds:
        return unknown(
            f"--budget ended the continued run after {run.seconds:.0f} s and {run.steps} steps; "
            f"the first run took {first.seconds:.0f} s"
        )
    if run is not None and (run.code or run.cut) and not _ends_alike(run, first):
        return _broken(run, rehearsal.resumed, rehearsal.run("stop"))
    stopped = rehearsal.run("stop")
    found = resumed(rehearsal)
    if isinstance(found, Verdict):
        return _no_step(run, first, stopped) or found
    if found.from_start:
        return _from_start(found, stopped.checkpoints if stopped else ())
    skipped = stopped is not None and caught(stopped) and found.saved_step >= stopped.stopped_at
    return _goes_on(found, skipped, stopped is not None and _by_handler(stopped, found, first))


def _ends_alike(run: RehearsedRun, first: RehearsedRun | None) -> bool:
    """Whether it ended as the first run did, with the same kind of error at the same place: that
    one is RHS003's."""
    if first is None or not run.steps or run.code != first.code:
        return False
    errors = [next((rank.error for rank in each.ranks if rank.error), "") for each in (run, first)]
    kinds = {error.partition(":")[0] for error in errors}
    return len(kinds) == 1 and all(errors) and place(run) == place(first)


def _no_step(
    run: RehearsedRun | None, first: RehearsedRun | None, stopped: RehearsedRun | None
) -> Verdict | None:
    """The warning on a continued run that takes no step, although steps were left."""
    if run is None or first is None or stopped is None or run.code != 0 or run.steps:
        return None
    newest = newest_save(stopped)
    if not run.ranks or not 0 < newest < first.steps:
        return None
    return warn(
        f"the continued run ended with exit code 0 without a step: {first.steps - newest} of "
        f"{first.steps} were left after the last save",
        fix=TOO_FAR_FIX,
    )


def _by_handler(stopped: RehearsedRun, found: Resumed, first: RehearsedRun | None) -> bool:
    """Whether the state is that of a save on the signal, where the whole run has none."""
    planned = {each.step for each in first.saved} if first is not None else set()
    return bool(stopped.handled_by) and stopped.saved_after_signal and (
        found.saved_step not in planned
    )  # fmt: skip


def _goes_on(found: Resumed, skipped: bool, by_handler: bool) -> Verdict:
    """Of a state that was restored; `skipped`: the step of the signal was given up before it was
    saved, as what the handler raised was caught; `by_handler`: the signal's handler saved it."""
    repeated = found.expected_steps is not None and found.steps - found.expected_steps
    if found.counted_from_0 and not found.expected_steps:
        return note(
            f"the state of step {found.saved_step}, the last one, is restored, and {found.steps} "
            "more steps were taken: whether the steps are counted on is not known",
            fix="Save before the last step in the rehearsal, so that the resume has steps left.",
        )
    if found.counted_from_0:
        first = repeated == found.epoch_steps == found.saved_step
        return fail(
            f"the state of step {found.saved_step} is restored, but the steps are counted from 0: "
            f"{found.steps} steps were taken, {found.expected_steps} were left",
            fix=HANDLER_STEP_FIX if by_handler else EPOCH_FIX * first + STEP_FIX,
        )
    if found.passed_over:
        return _passed_over(found)
    behind = found.newest_step - found.saved_step
    anew = found.order is not None and (found.order.anew or not found.order.same)
    given_up = skipped and repeated == -1
    if repeated and abs(repeated) == 1 and not (behind or anew or given_up):
        once = "taken twice" if repeated > 0 else "left out"
        return warn(
            f"goes on after step {found.saved_step}, and takes {found.steps} steps where "
            f"{found.expected_steps} were left: one step is {once}",
            fix="Save the number of the step that comes next, with the state after the last one, "
            "and begin the loop there: start = step + 1 where the number is that of the step that "
            "was done. A handler that saves in the middle of a step saves between the two.",
        )
    if again := _again(found) or (None if given_up else _left_out(found)):
        return again
    if behind > 0:
        return note(
            f"resumes from step {found.saved_step}, although step {found.newest_step} was saved"
        )
    if found.best and (found.best_at or found.best_anew):
        return _best_forgotten(found)
    return ok(f"goes on after step {found.saved_step}")


def _passed_over(found: Resumed) -> Verdict:
    """Of a newer checkpoint that is whole."""
    if found.oldest:
        return fail(
            f"resumes from {shown(found.taken, 200)}, the oldest checkpoint, although "
            f"{shown(found.passed_over, 200)} is newer and whole",
            fix="Take the last of the sorted checkpoints, [-1] and not [0], or max() by the number "
            "of the step: os.listdir() and glob() have no order, and a sort begins with the "
            "oldest.",
        )
    return fail(
        f"resumes from {shown(found.taken, 200)}, although {shown(found.passed_over, 200)} is "
        "newer and whole: as texts the older name comes last",
        fix="Sort by the number, key=lambda name: int(re.findall(r'\\d+', name)[-1]), or write it "
        "with leading zeros (step-00010).",
    )


def _again(found: Resumed) -> Verdict | None:
    """Of an epoch, or the steps since the best result, that are trained again."""
    left, behind = found.expected_steps, found.newest_step > found.saved_step
    repeated = 0 if left is None else found.steps - left
    if 0 < repeated == found.epoch_steps and not behind:
        return warn(
            f"goes on after step {found.saved_step}, and takes {found.steps} steps where {left} "
            f"were left: the epoch of {repeated} steps that had ended at the save is trained again",
            fix="Save the number of the epoch that comes next, epoch + 1, at the end of one, and "
            "begin the loop there.",
        )
    if behind and found.beside_best:
        return warn(
            f"resumes from {shown(found.opened, 200)}, of step {found.saved_step}, although step "
            f"{found.newest_step} was saved, and {shown(found.beside_best, 200)} has an "
            "optimizer's state, too",
            fix=LATEST_FIX,
        )
    return None


def _left_out(found: Resumed) -> Verdict | None:
    """Of steps that neither the stopped run nor the resume takes."""
    missing = (found.expected_steps or 0) - found.steps
    if missing <= 1:
        return None
    text = (
        f"goes on after step {found.saved_step}, and takes {found.steps} steps where "
        f"{found.expected_steps} were left: {missing} steps are left out"
    )
    if found.epoch_steps and missing % found.epoch_steps == 0:
        return warn(text, fix=TOO_FAR_FIX)
    return note(text, fix=REST_FIX)


def _best_forgotten(found: Resumed) -> Verdict:
    """Of a best result so far that the resume does not know."""
    path, fix = shown(found.best, 200), BEST_FIX
    how = f"and writes {path} after step {found.best_at}, which the run without a stop does not"
    if found.best_anew:
        name = shown(found.best_anew, 200)
        how = f"and {name} is as at a fresh start: the next evaluation overwrites {path}"
    else:
        fix += " Nothing, if the data has another order after a resume and the result was better."
    return note(f"goes on after step {found.saved_step}, {how}", fix=fix)


def _broken(run: RehearsedRun, found: Resumed | None, stopped: RehearsedRun | None) -> Verdict:
    how = "did not end" if run.cut else f"ended with exit code {run.code}"
    after = f" after {run.steps} steps" if run.steps else " before its first step"
    summary = f"the continued run {how}{after}{place(run)}"
    error = next((error_in(rank.error) for rank in run.ranks if rank.error), None)
    frozen = next((e for e in found.lost if e.kind == "frozen"), None) if found else None
    if frozen is not None:
        return fail(f"{summary}{raised(run)}; {held(frozen)}", fix=FROZEN_FIX)
    others = next((e for e in found.lost if e.kind == "group"), None) if found else None
    if others is not None:
        return fail(f"{summary}{raised(run)}; {held(others)}", fix=ORDER_FIX)
    torn = stopped is not None and not run.steps and whole(stopped)
    if torn:
        return fail(f"{summary}{raised(run)}; {torn.summary}", fix=CUT_OFF_FIX)
    if any(CUT_OFF.search(text) for text in (raised(run), *run.tail[-1:])):
        return fail(f"{summary}{raised(run)}; a file that it reads is cut off", fix=CUT_OFF_FIX)
    if other := _other_name(error or printed_error(run), stopped):
        return fail(f"{summary}{raised(run)}; {other}", fix=NAME_FIX)
    found_causes = with_causes(summary, error or printed_error(run))
    if found_causes.causes:
        return found_causes
    return fail(
        f"{summary}{raised(run)}",
        fix="Read the error: a checkpoint that is half written, a key that is missing, or a "
        "directory that must not exist. doctor explain proposes the causes of its message.",
    )


def _other_name(error: GuardError | None, stopped: RehearsedRun | None) -> str:
    """What was saved as such a file in the directory of one that is not found; "" for none."""
    match = MISSING.search(error.message) if error is not None else None
    if match is None or stopped is None:
        return ""
    missing = PurePath(OUTPUT.sub("", match[1], count=1))
    saved = (PurePath(each.path) for each in stopped.checkpoints)
    alike = (p for p in saved if (p.parent, p.suffix) == (missing.parent, missing.suffix))
    found = next(alike, None) if missing.parent.name else None
    return f"what was saved is {shown(str(found), 200)}" if found is not None else ""


def _from_start(found: Resumed, checkpoints: Sequence[OnDisk]) -> Verdict:
    where = f"a checkpoint of step {found.newest_step} lies in {{output}}"
    begins = f"began anew with fresh weights at step 0, although {where}"
    if found.opened or found.request:
        evidence = [f"it opened {shown(found.opened, 200)}"] * bool(found.opened)
        evidence += [f"{shown(found.request, 200)} asks for a resume"] * bool(found.request)
        text = f"{begins} and {' and '.join(evidence)}"
        if found.unprepared:
            text += "; accelerator.load_state() was called before a model was prepared"
            return fail(text, fix=UNPREPARED_FIX)
        if temporary(found.opened):
            return fail(f"{text}, whose name is that of an unfinished save", fix=FINISH_FIX)
        if "=" in found.request or (not found.looked and found.request != COMMAND):
            return fail(text, fix=UNREAD)
        return fail(
            text,
            fix="Print the path that the script looks for and what it finds there; a name or a "
            f"pattern that does not match is the usual cause. {NOT_RESUMED}",
        )
    looked = (
        "it looked into {output} and opened no checkpoint"
        if found.looked
        else ("it opened nothing in {output}")
    )
    text = f"{begins}; the command asks for no resume, and {looked}"
    saved = [each for each in checkpoints if each.weights]
    if found.stateful and saved and all(each.optimizer is False for each in saved):
        return warn(
            f"{text}. The checkpoints hold weights alone, and the optimizer had a state for "
            f"{found.stateful} parameters: nothing can go on from them as it was",
            fix="Save optimizer, scheduler and step with the weights if the job may be preempted; "
            f"else nothing is wrong. {NOT_RESUMED}",
        )
    return note(text, fix=NOT_RESUMED)


RESUMES = Check(
    code="RHS009",
    slug="resumes",
    title="The command goes on where it was stopped",
    why="A job that was preempted is started again with the same command. One that silently "
    "starts over loses everything, and often overwrites the checkpoint it should have read.",
    passes=("the weights of the last save are there at the first step",),
    notes=(
        "it begins anew, no flag asks for a resume, and it opened no checkpoint in {output}",
        "it resumes from an older save than the newest",
        "it leaves out the rest of an epoch",
        "it takes further steps from the save of the last one: its count cannot be judged",
        "its first evaluation writes the best model, where the whole run does not, or the best "
        "result so far is as at a fresh start",
    ),
    warns=(
        "one step is taken twice, or left out, or the epoch that had ended is trained again",
        "an epoch is left out, or no step is taken",
        "it resumes from the best checkpoint, and a newer one was saved",
        "it begins anew, and the checkpoints hold weights alone although the optimizer has a state",
    ),
    fails=(
        "it begins with fresh weights, although it opened a checkpoint in {output}, a flag or a "
        "setting of the program asks for a resume, or --resume-command was given",
        "the steps are counted from 0 again",
        "it resumes from an older checkpoint, whose name sorts behind the newest one's as a text, "
        "or from the oldest of three or more",
        "the continued run ends with an error",
    ),
    fix="Load the newest whole checkpoint before the first step, and the step with it.",
    owner=Owner.JOB,
    judge=resumes,
    limits="that the rest of the state is there: see RHS010 to RHS012. Random numbers are not "
    "compared. A resume that a variable, or settings that are neither parsed arguments nor a "
    "dataclass, ask for is not seen, nor a checkpoint that C++ or Rust opens (safetensors).",
)

CHECKS = (RESUMES,)
