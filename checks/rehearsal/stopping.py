"""Stage 5: a signal in the middle of a step."""

from __future__ import annotations

import re

from doctor._util.units import shown
from doctor.checks.rehearsal.failing import at
from doctor.checks.rehearsal.parting import LOST_EACH_OTHER
from doctor.checks.rehearsal.parts import not_tried, some
from doctor.checks.rehearsal.saving import whole
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import RehearsedRun
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, unknown, warn

MORE = 2
"""Steps after that of the signal from which on a job that takes all its steps ignores it."""
STOPPED_AFTER = 1
"""Whole steps between a save and the signal, where the doctor chooses: a loss of so many says
nothing of the job."""


AS_DONE = (
    "Nothing, if the scheduler starts it again anyway (Slurm's --requeue). One that retries what "
    "failed, as a Kubernetes Job does, takes it for done: end with sys.exit(128 + signum) after "
    "the save."
)
JOINS = re.compile(r", in (?:join|_wait_for_tstate_lock) of (?:threading|queue)\.py$")
JOIN_FIX = (
    "End what is waited for first: put a sentinel that its loop ends at into its queue, or set an "
    "event that it reads, and then join() with a timeout. A loop without an end is never joined."
)
TOGETHER_FIX = (
    "Call no collective in a handler of the signal (a save of all ranks, a gather, a barrier): it "
    "interrupts each rank at another place, and they wait for each other. Only set a flag in it, "
    "agree on the flag by all_reduce(MAX) at the end of each step, and save and leave there on all "
    "ranks."
)
HANDLER_FIX = (
    "Only set a flag in the handler, and save and leave between two steps: a handler interrupts "
    "the step at any line, so that a lock that the step holds is never released while the handler "
    "waits for it."
)
SAVE_EARLIER = (
    "Save inside the loop, every so many steps or each epoch: a job that saves at its end alone "
    "loses everything that it had trained. If the real job does, rehearse with a shorter interval, "
    "or more steps, so that it is stopped after a save and the resume is tried."
)


EVERY_RANK_FIX = (
    "Set the handler on every rank, before any condition on the rank: a launcher and a scheduler "
    "signal all of them, and a save in which all take part waits for those that are gone."
)
CAUGHT_FIX = (
    "Only set a flag in the handler, and save and leave at the end of the step where it is set; or "
    "raise SystemExit, sys.exit(128 + signum), which except Exception and except RuntimeError do "
    "not catch. What the handler raises comes out of any line of the step, also of one in a try "
    "that is there for other errors (a batch that fails, no memory)."
)
NOT_REACHED_FIX = (
    "Let the signal come to the training: end the script that starts it with exec python ..., or "
    "start it in the background and forward the signal, trap 'kill -TERM $pid; wait $pid' TERM. A "
    "shell that runs a command takes the signal itself, and waits."
)
MISTAKES = (
    "NameError", "UnboundLocalError", "TypeError", "AttributeError", "KeyError", "IndexError",
    "ImportError", "ModuleNotFoundError", "FileNotFoundError",
)  # fmt: skip
"""Errors that nobody raises in a handler to leave the training."""
MISFIT = re.compile(r"TypeError: \S{1,200}\(\) (?:takes|missing|got)\b")
"""Of a function that is called with other arguments than it has."""
ARGUMENTS_FIX = (
    "Python calls a handler with two arguments: def handler(signum, frame), a method "
    "def handler(self, signum, frame). Then call it once, os.kill(os.getpid(), signal.SIGTERM), "
    "and look for what it saves."
)
NAMES_FIX = (
    "Fix the error in the handler: it may use what the training has at that moment (attributes of "
    "an object, or nonlocal and global names), not what a function makes later. Setting a flag in "
    "it, and saving in the loop, is simpler. Then call it once, "
    "os.kill(os.getpid(), signal.SIGTERM), and look for what it saves."
)


def stops(rehearsal: Rehearsal) -> Verdict:
    if reason := not_tried(rehearsal, "stops"):
        return reason
    run = rehearsal.run("stop")
    if run is None or run.signalled is None:
        return unknown("there is no record of the run that was stopped")
    after = run.seconds - run.signalled
    if run.cut == "grace":
        return _late(rehearsal, run)
    if run.left:
        return fail(
            f"processes were left 5 s after the command had ended: {some(run.left, len(run.left))}",
            fix="End them in the handler, or start them so that they end with their parent: a "
            "process that is left holds the GPU's memory.",
        )
    first = rehearsal.run("run")
    planned = first.steps if first is not None else 0
    return whole(run) or _went_on(rehearsal, run) or _ended(run, after, planned)


def _late(rehearsal: Rehearsal, run: RehearsedRun) -> Verdict:
    """Of a run that the doctor killed at the end of the grace period."""
    if verdict := _went_on(rehearsal, run):
        return verdict
    if _was_leaving(run):
        return whole(run) or note(
            f"{run.signal} in the middle of step {_at(run)}: it saved and left its program, and "
            f"the process was not gone after --grace {rehearsal.grace:g} s",
            fix="Nothing, where the machine was busy: Python was still unloading. Else look for "
            "what waits after the end, such as destroying a process group.",
        )
    inside = f": its handler is still in {shown(run.handler, 300)}" if run.handler else ""
    stuck = next((each for each in run.waiting if each.inside), None)
    if stuck is not None:
        waits = f"rank {stuck.rank} waits in {stuck.collective} at {shown(stuck.place, 300)}"
        return fail(
            f"{run.signal} did not end it within --grace {rehearsal.grace:g} s: {waits}; a "
            f"scheduler kills it then{_lost(run)}",
            fix=TOGETHER_FIX,
        )
    if not inside and run.steps >= _at(run) + MORE:
        inside = f": it took {run.steps - _at(run)} further steps"
    if not run.handler:
        inside += _by_handler(run)
    return fail(
        f"{run.signal} did not end it within --grace {rehearsal.grace:g} s{inside}; a "
        f"scheduler kills it then{_lost(run)}",
        fix=_handler_fix(run),
    )


def _handler_fix(run: RehearsedRun) -> str | None:
    if run.lost_flags:
        handler, *flags = map(shown, run.lost_flags)
        return (
            f"{handler}() sets {', '.join(flags)} as a variable of its own, which ends with it: "
            f"write `global {flags[0]}` as its first line (`nonlocal`, if a function around it has "
            "the flag), or set an attribute of an object."
        )
    if not run.handler and caught(run):
        return CAUGHT_FIX
    if missed(run) and not run.handler:
        return NOT_REACHED_FIX
    if not run.handler and run.handled_by:
        return (
            f"Read what {shown(run.handled_by)}() sets (a flag, an event) after each step, not at "
            "the end of an epoch or in another loop alone, and save and leave all loops there: the "
            "handler returned, and the training went on."
        )
    if not run.handler:
        return None
    return JOIN_FIX if JOINS.search(run.handler) else HANDLER_FIX


def caught(run: RehearsedRun) -> bool:
    """Whether the handler raised an exception, and no rank was ended by it."""
    error = run.raised_by_handler
    return bool(error) and not any(r.error[:200] == error[:200] or r.handler for r in run.ranks)


def missed(run: RehearsedRun) -> bool:
    """Whether a handler waits for the signal and it did not come; one that is ignored is not
    seen."""
    return bool(run.handled_by) and run.reached is False


def _by_handler(run: RehearsedRun) -> str:
    """What the handler raised and the training caught, or that it was not called."""
    if caught(run):
        raised = shown(run.raised_by_handler, 200)
        return f"; {shown(run.handled_by)}() raised {raised}, and the training caught it"
    return "; the signal did not come to the training" if missed(run) else ""


def _was_leaving(run: RehearsedRun) -> bool:
    """Whether it saved after the signal, and all ranks came to the end of their program."""
    return run.saved_after_signal and bool(run.ranks) and all(rank.ended for rank in run.ranks)


def _went_on(rehearsal: Rehearsal, run: RehearsedRun) -> Verdict | None:
    """The warning on a job that took all its steps; None for others."""
    first = rehearsal.run("run")
    ended = run.code == 0 or _was_leaving(run)
    if first is None or not ended or run.steps < max(first.steps, _at(run) + MORE):
        return None
    saves = {each.step for each in first.saved if each.step}
    if len(saves) > 1 and not any(_at(run) <= step < first.steps for step in saves):
        return note(
            f"{run.signal} in the middle of step {_at(run)}: it took its last "
            f"{run.steps - _at(run)} steps, and no save lay between them: whether it would have "
            "ended at one is not known",
            fix="Give the command more steps, so that a save follows the signal.",
        )
    return warn(
        f"{run.signal} in the middle of step {_at(run)} did not stop it: it took all {run.steps} "
        f"steps{_by_handler(run)}; a longer training is killed at the end of the grace period",
        fix=_handler_fix(run),
    )


def _ended(run: RehearsedRun, after: float, planned: int) -> Verdict:
    """`planned`: the steps that it takes without the signal."""
    if failed := _handler_failed(run):
        return failed
    ended = f"{run.signal} in the middle of step {_at(run)}: ended in {after:.1f} s"
    if run.orphans:
        names = some(run.orphans, len(run.orphans))
        ended += f" without passing it on to {names}, signalled by the doctor then"
    if run.saved_after_signal and run.checkpoints:
        saved = f"{ended}, {shown(run.checkpoints[-1].path, 200)} was saved and is whole"
        if run.code == 0 and run.steps < planned:
            done = (
                f"exit code 0 after {run.steps} of {planned} steps, as of a training that is done"
            )
            return note(f"{saved}; {done}", fix=AS_DONE)
        return ok(saved)
    if run.handled_by and run.unhandled:
        ranks = ", ".join(map(str, run.unhandled))
        return warn(
            f"{ended} without saving{_lost(run)}: {shown(run.handled_by)}() handles the signal, "
            f"and nothing does on rank {ranks}, which it ends at once",
            fix=EVERY_RANK_FIX,
        )
    if planned and not any(each.step for each in run.saved):
        return note(f"{ended} without saving{_lost(run)}", fix=SAVE_EARLIER)
    if not run.handled_by and _steps(run) - newest_save(run) <= STOPPED_AFTER:
        return ok(f"{ended} without saving{_lost(run)}")
    return note(
        f"{ended} without saving{_lost(run)}",
        fix="Nothing, if that is acceptable. Else save in a handler of the signal, and ask the "
        "scheduler for time (sbatch --signal, terminationGracePeriodSeconds).",
    )


def _handler_failed(run: RehearsedRun) -> Verdict | None:
    """The warning where a handler of the signal ends with an error, and nothing was saved."""
    for rank in run.ranks:
        kind = rank.error.partition(":")[0]
        lost = bool(LOST_EACH_OTHER.search(rank.error))
        if not rank.handler or run.saved_after_signal or not (lost or kind in MISTAKES):
            continue
        fix = ARGUMENTS_FIX if MISFIT.match(rank.error) else NAMES_FIX
        return warn(
            f"{run.signal} in the middle of step {_at(run)}: the handler {shown(rank.handler)}() "
            f"of rank {rank.rank} fails{at(rank.place)}: {shown(rank.error, 300)}{_lost(run)}",
            fix=TOGETHER_FIX if lost else fix,
        )
    return None


def _at(run: RehearsedRun) -> int:
    """The step in whose middle the signal was sent."""
    return run.stopped_at or run.steps


def _steps(run: RehearsedRun) -> int:
    return run.steps - 1 if run.steps else 0


def newest_save(run: RehearsedRun) -> int:
    """The step of its last save; 0 for none."""
    return max((each.step for each in run.saved), default=0)


def _lost(run: RehearsedRun) -> str:
    saved = newest_save(run)
    lost = _steps(run) - saved
    if not saved:
        return f"; nothing had been saved, steps lost: {_steps(run)}"
    return f"; steps lost since the last save: {lost}" if lost > 0 else ""


STOPS = Check(
    code="RHS008",
    slug="stops-in-time",
    title="A signal in the middle of a step ends the job in time and leaves whole files",
    why="Preemption and time limits send SIGTERM and kill what is left after a grace period, "
    "often 30 s. What is half written then is the newest checkpoint.",
    passes=(
        "it saved, ended within --grace with all its processes, and all files are whole",
        "no handler of the signal is known, and the last save lies right before it",
    ),
    notes=(
        "it ended without saving: the steps that are lost are counted",
        "it saved, and ended with exit code 0 before its last step",
        "it saved and left its program, and its process was still there after --grace",
    ),
    warns=(
        "it took all its further steps as if there had been no signal",
        "its handler ends with an error, and nothing was saved",
        "one rank alone handles it, and nothing was saved",
    ),
    fails=(
        "it did not end within --grace",
        "processes were left",
        "a checkpoint on disk is not whole",
    ),
    fix="Handle the signal: finish the step, save, end. A handler that only sets a flag needs a "
    "loop that reads it.",
    owner=Owner.JOB,
    judge=stops,
    limits="that a save of the real size fits into the grace period.",
    sources=("torchrun-signals",),
)

CHECKS = (STOPS,)
