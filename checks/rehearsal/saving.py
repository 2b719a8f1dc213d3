"""Stage 3: what it saves is whole, and there is room for it."""

from __future__ import annotations

import re

from doctor._util.units import gib, shown
from doctor.checks.rehearsal.failing import save_failed
from doctor.checks.rehearsal.parts import not_tried, some
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import OnDisk, RehearsedRun
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

TEMPORARY = re.compile(
    r"(?:^|[/._-])(?:tmp|temp|incomplete|unfinished|in_?progress|writing|pending)(?:[/._-]|\d*$)"
    r"|\.part(?:ial)?(?:/|$)"
)
FINISH_FIX = (
    "Give it its name when it is written, in the thread that writes, and finish what is under way "
    "at the end of the training and after a signal: one that is renamed at the next save is never "
    "finished if it is the last."
)

FIRST_WRITE = (
    "Remove the old checkpoint when the new one has its name (accelerate removes first: let "
    "total_limit be at least 2)."
)
KEEP_FIX = (
    "Look at the number to keep: where it is 0 or negative, as -1 for all, remove nothing; what is "
    "removed is all but the last ones, checkpoints[:-keep], and not the one just written."
)
RANK_0 = (
    "Save on rank 0 alone (if rank == 0, or accelerator.is_main_process), then barrier(); what "
    "differs between ranks gets a file of each rank, or torch.distributed.checkpoint."
)
GATHER = (
    "Save with torch.distributed.checkpoint.save on all ranks, or gather on all ranks first, "
    "get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True)) "
    "or full_tensor() of each weight, and save that on rank 0: to_local(), and torch.save of a "
    "sharded state_dict() on rank 0, have the part of that rank."
)
ROTATE_FIX = (
    "Sort the checkpoints by the number of their step and delete the first ones, for old in "
    "checkpoints[:-keep]: [keep:] of a list that begins with the oldest, or an order by name or in "
    "reverse, takes the newest. Where the best ones are kept, keep the newest beside them."
)
CUT_OFF_FIX = (
    "Write each checkpoint, also from a thread, under a temporary name in the same directory, and "
    "give it its name with os.replace() when it is complete; at the resume take only such names."
)
IN_PLACE = (
    "Write into a temporary name in the same directory, flush and os.fsync() it, and os.replace() "
    "the old one, so that one whole checkpoint is always there."
)


def saves(rehearsal: Rehearsal) -> Verdict:
    run = rehearsal.run("run")
    if run is None:
        return unknown("there is no record of the run")
    if run.cut and run.saved and not run.checkpoints:
        return fail(f"a save was begun and {run.seconds:.0f} s later no checkpoint was there")
    if failed := save_failed(rehearsal, run):
        return failed
    if reason := not_tried(rehearsal, "saves"):
        return reason
    if run.code and not run.checkpoints:
        return unknown(f"the run ended with exit code {run.code} before a checkpoint was there")
    return (
        whole(run)
        or _partial(run)
        or _shared(run)
        or _emptied(run)
        or _newest(run)
        or _in_place(run)
        or _saved(rehearsal, run)
    )


def _saved(rehearsal: Rehearsal, run: RehearsedRun) -> Verdict:
    inside = f"{rehearsal.output.rstrip('/')}/" if rehearsal.output else "/"
    other = next((e.path for e in run.saved if e.path.startswith(inside)), "")
    if not run.checkpoints and other:
        return note(
            f"{shown(other.removeprefix(inside), 200)} was saved in {{output}}, and doctor scan "
            "does not read it: whether it is whole is not known",
            fix="Nothing, if the job reads it at a resume: see RHS009.",
        )
    if not run.checkpoints:
        return note(
            "something was saved, but no checkpoint is in {output}",
            fix="Pass the directory of checkpoints as {output}.",
        )
    last = run.checkpoints[-1]
    if temporary(last.path) and not run.code and not run.cut:
        return warn(
            f"the newest save, {shown(last.path, 200)}, still has a temporary name although the "
            "run has ended",
            fix=FINISH_FIX,
        )
    unread = [each for each in run.checkpoints if each.unread]
    if unread:
        return unknown(f"{shown(unread[0].path, 200)}: {shown(unread[0].unread, 300)}")
    steps = [each.step for each in run.saved if each.step]
    first = f", the first after step {steps[0]}" if steps else ""
    seconds = max((each.seconds for each in run.saved), default=0.0)
    return ok(
        f"{shown(last.path, 200)} is whole, {gib(last.bytes)}{first}; the slowest file took "
        f"{seconds:.2g} s"
    )


def _partial(run: RehearsedRun) -> Verdict | None:
    """The failure where one rank saves its part of sharded weights, and the others none."""
    if not run.partial:
        return None
    path, *names = run.partial
    return fail(
        f"{shown(path, 200)} has one rank's part alone of the sharded {some(names, len(names))}, "
        "and no other rank saves its own: the rest of the weights is lost",
        fix=GATHER,
    )


def _shared(run: RehearsedRun) -> Verdict | None:
    """The warning where ranks write one file at the same time."""
    if not run.shared:
        return None
    return warn(
        f"more than one rank writes {some(run.shared, len(run.shared))} after the same step: they "
        "write over each other, and a reader may find parts of both",
        fix=RANK_0,
    )


def _emptied(run: RehearsedRun) -> Verdict | None:
    """Where the only checkpoint is removed before the next is there, or each of them is."""
    if not run.emptied:
        return None
    if run.never_kept and not run.checkpoints and not run.code and not run.cut:
        return fail(
            f"each checkpoint is removed: {shown(run.emptied, 200)} after step {run.emptied_at}, "
            "and none is left at the end",
            fix=KEEP_FIX,
        )
    return warn(
        f"{shown(run.emptied, 200)}, the only checkpoint, is removed after step {run.emptied_at}, "
        "before the next one is written: a stop between them leaves none",
        fix=FIRST_WRITE,
    )


def _newest(run: RehearsedRun) -> Verdict | None:
    """The warning where the newest checkpoints are removed, and older ones stay."""
    if not run.newest_removed or not run.checkpoints:
        return None
    removed = some(run.newest_removed, len(run.newest_removed))
    return warn(
        f"{removed} {'was' if len(run.newest_removed) == 1 else 'were'} removed as the newest "
        f"checkpoint, while older ones stay; at the end {shown(run.checkpoints[-1].path, 200)} is "
        "the newest: a stop loses all steps since",
        fix=ROTATE_FIX,
    )


def _in_place(run: RehearsedRun) -> Verdict | None:
    """The warning where the only checkpoint was written over in place.

    Of several that hold the weights, with the optimizer's state if any has it, one is whole while
    another is written: a copy of the best result, or files that are written in turn.
    """
    over = set(run.overwritten)
    whole_state = [each for each in run.checkpoints if each.optimizer]  # none of weights alone
    places = [each.path for each in whole_state or run.checkpoints]
    complete = [each for each in whole_state or run.checkpoints if each.weights]
    if not places or not all(_is_over(place, over) for place in places) or len(complete) > 1:
        return None
    of_state = " with an optimizer's state" if len(places) < len(run.checkpoints) else ""
    return warn(
        f"{shown(places[-1], 200)} is the only checkpoint{of_state}, and each save writes over it "
        "in place: a stop in the middle of one leaves none",
        fix=IN_PLACE,
    )


def _is_over(place: str, over: set[str]) -> bool:
    return place in over or any(path.startswith(place + "/") for path in over)


def temporary(path: str) -> bool:
    """Whether a part of the path says that it is not finished."""
    return bool(TEMPORARY.search(path))


def whole(run: RehearsedRun) -> Verdict | None:
    """The failure where a checkpoint of a run is not whole; None where all are."""
    torn = [each for each in run.checkpoints if each.torn]
    if not torn:
        return None
    return fail(f"{shown(torn[0].path, 200)} is not whole: {_torn(torn[0])}", fix=CUT_OFF_FIX)


def _torn(checkpoint: OnDisk) -> str:
    return some(checkpoint.torn, len(checkpoint.torn), 1)


SAVES = Check(
    code="RHS006",
    slug="save-whole",
    title="The first save completes, and doctor scan can read it",
    why="A save that fails after hours loses them: a directory that is missing, an object that "
    "cannot be pickled, ranks that wait for each other, a disk that is full.",
    passes=("the checkpoints in {output} are whole",),
    notes=(
        "something was saved, and not as a checkpoint in {output}",
        "a save raised an error, and the run went on",
    ),
    warns=(
        "the run has ended, and the newest save still has a temporary name",
        "the only checkpoint is written over in place",
        "the only checkpoint is removed before the next one is written",
        "the newest checkpoint is removed, and older ones stay",
        "several ranks write one file",
    ),
    fails=(
        "a checkpoint in {output} is damaged or lacks files",
        "one rank alone saves its part of sharded weights",
        "each checkpoint is removed, and none is left",
        "a save raised an error that ended the run, or no whole checkpoint is there",
    ),
    fix="Write into a temporary name on the same file system and rename it when it is whole; with "
    "several ranks, let each write its own part, or rank 0 alone.",
    owner=Owner.JOB,
    judge=saves,
    limits="that a training can go on from it: see RHS009.",
)


def room(rehearsal: Rehearsal) -> Verdict:
    if reason := not_tried(rehearsal, "saves"):
        return reason
    run = rehearsal.run("run")
    if run is None or not run.checkpoints:
        return skip("no checkpoint was in {output}")
    largest = max(each.bytes for each in run.checkpoints)
    if rehearsal.free is None:
        return unknown("the free space could not be read")
    kept = (rehearsal.keep or 1) + 1
    needed = kept * largest
    summary = (
        f"{gib(rehearsal.free)} free; {gib(needed)} required for {kept} checkpoints of "
        f"{gib(largest)}, one of them while it is written"
    )
    if rehearsal.free < needed:
        return fail(summary) if rehearsal.keep else warn(summary)
    return ok(summary)


ROOM = Check(
    code="RHS007",
    slug="save-fits",
    title="The disk has room for all checkpoints that are kept",
    why="The new checkpoint is written before an old one is removed; a disk that is full then "
    "tears the newest one.",
    passes=("free space is at least --keep-checkpoints (or 1) and one more of the largest",),
    warns=("it is not, and --keep-checkpoints was not given",),
    fails=("it is not for --keep-checkpoints",),
    fix="Keep fewer checkpoints (save_total_limit), or choose a larger disk.",
    owner=Owner.MACHINE,
    judge=room,
    limits="that the real job's checkpoints are on this disk: --output-dir should be there.",
)

CHECKS = (SAVES, ROOM)
