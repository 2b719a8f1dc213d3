"""Whether what counts the steps of a run agrees, and whether its schedule has steps left."""

from __future__ import annotations

import math

from doctor._util.records import Unknown
from doctor._util.units import listed
from doctor.checkpoint.records import Checkpoint, Continuation, History, Optimizer
from doctor.checks.checkpoint.continuing import without
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, unknown, warn

WHOLE = {"Lightning": "checkpoint", "nanoGPT": "checkpoint", "DeepSpeed": "DeepSpeed"}
"""Where frameworks with one optimizer keep the number of its steps."""


def steps(checkpoint: Checkpoint) -> Verdict:
    found = checkpoint.continuation
    if not isinstance(found, Continuation):
        return without(found)
    if not found.requested:
        return _too_many(found, checkpoint.training.history) or without(found)
    history = checkpoint.training.history
    rates = _other_rates(found, checkpoint.training.optimizer)
    return _disagreement(found, history) or rates or _end(found) or _agreement(found)


def _other_rates(found: Continuation, optimizer: Optimizer | Unknown | None) -> Verdict | None:
    """The optimizer's rates beside those of the scheduler of the same save."""
    if found.framework not in ("transformers Trainer", "accelerate") or not found.last_lr:
        return None
    saved = optimizer.current_lr if isinstance(optimizer, Optimizer) else ()
    for rate, scheduled in zip(saved, found.last_lr, strict=False):
        if len(saved) == len(found.last_lr) and not math.isclose(rate, scheduled, rel_tol=1e-4):
            text = f"the optimizer's learning rate is {rate:.4g}, the scheduler's {scheduled:.4g}"
            return warn(f"{text}: the next step takes the optimizer's", fix=RATES_FIX)
    return None


def _too_many(found: Continuation, history: History | None) -> Verdict | None:
    """The failure of Trainer's files where scheduler or optimizer counted more steps than were
    taken, which no skipped step and no fresh optimizer explains."""
    whole = found.counts.get("trainer_state.json")
    more = [found.counts.get(name, 0) for name in ("scheduler", "optimizer")]
    verdict = _disagreement(found, history) if whole is not None and max(more) > whole else None
    return verdict if verdict and verdict.status is Status.FAIL else None


def _disagreement(found: Continuation, history: History | None) -> Verdict | None:
    counts = dict(found.counts)
    text = _counted(counts)
    if found.framework.startswith("transformers Trainer"):
        return _of_trainer(found, counts, text, history)
    if found.framework == "accelerate" and {"scheduler", "optimizer"} <= counts.keys():
        return _of_accelerate(found, counts, text)
    taken, whole = counts.get("optimizer"), counts.get(WHOLE.get(found.framework, ""))
    if taken is None or whole is None or taken == whole:
        return None
    if taken > whole or not (_skipped(found) or found.framework == "DeepSpeed"):
        return fail(f"{text}: the same number required", fix=STEPS_FIX)
    return None


def _of_trainer(
    found: Continuation, counts: dict[str, int], text: str, history: History | None
) -> Verdict | None:
    whole = counts.get("trainer_state.json")
    if whole is None:
        return unknown(f"no global_step of trainer_state.json; {text or 'nothing else counts'}")
    if counts.get("directory", whole) != whole:
        return fail(f"{text}: the directory and its state are of one step required", fix=STEPS_FIX)
    followers = {
        name: counts[name]
        for name in ("scheduler", "optimizer")
        if name in counts and not (name == "scheduler" and found.epoch_scheduler)
    }
    if counts.get("optimizer", whole) == whole < (scheduled := followers.get("scheduler", whole)):
        return _ahead(found, scheduled, whole, text, history)
    if any(each > whole for each in followers.values()):
        return fail(f"{text}: optimizer and scheduler of the same step required", fix=STEPS_FIX)
    if any(each < whole for each in followers.values()):
        if _skipped(found) or len(set(followers.values())) == 1 < len(followers):
            return note(f"{text}: skipped steps, as a scaler makes them, look so")
        return fail(f"{text}: the same number required", fix=STEPS_FIX)
    return None


def _ahead(
    found: Continuation, scheduled: int, taken: int, text: str, history: History | None
) -> Verdict:
    """A scheduler that counted more steps than optimizer and state, which agree."""
    position = f"load last_epoch {taken} and _step_count {taken + 1} into it"
    end = (found.max_steps or 0) * taken // scheduled if taken else 0
    if history and 0 < end < history.falling_from - 1:
        return fail(
            f"{text}: the logged learning rates still fell behind step {history.falling_from:,}, "
            f"and would have ended at step {end:,} if it had been stepped too often",
            fix="Take scheduler.pt from the same save as the other files. Where there is none and "
            f"the schedule was made for this run's steps, {position}.",
        )
    times, rest = divmod(scheduled, taken) if taken else (0, 1)
    twice = times > 1 and not rest
    more = f"{times} times in each step" if twice else f"{scheduled - taken:,} times too often"
    return fail(
        f"{text}: the scheduler was stepped {more}, and its schedule ends too early",
        fix="Step the scheduler once after each optimizer.step(), and not again by hand when a "
        f"run is resumed: its state_dict holds its position. For this checkpoint, {position}, or "
        f"create it anew with last_epoch={taken}. "
        "Where scheduler.pt is of a later save, take all files from one save.",
    )


def _of_accelerate(found: Continuation, counts: dict[str, int], text: str) -> Verdict | None:
    """accelerate steps a scheduler once for each process, unless the batches are split."""
    taken, scheduled, processes = counts["optimizer"], counts["scheduler"], found.ranks or 1
    if found.epoch_scheduler or scheduled in (taken, taken * processes):
        return None
    if taken and scheduled < taken:
        return unknown(f"{text}: a scheduler of epochs, of skipped steps, or of another save")
    return warn(f"{text}: {processes:,} processes explain {taken * processes:,}", fix=STEPS_FIX)


def _skipped(found: Continuation) -> bool:
    """Whether a scaler is there, which skips steps."""
    return found.scale is not None or bool(found.pieces.get("scaler"))


def _end(found: Continuation) -> Verdict | None:
    plan, end = found.plan, found.scheduler_end
    done = found.counts.get("scheduler", _done(found))
    if found.scale is not None and found.scale < 1:
        text = f"the scaler's scale is {found.scale:.2g}, at least 1 required"
        return warn(f"{text}: every gradient overflowed before", fix=SCALE_FIX)
    if end is not None and found.one_cycle and done is not None:
        if done >= end:
            return fail(f"the schedule has {end:,} steps and {done:,} are done", fix=END_FIX)
        if plan.max_steps is not None and plan.max_steps > end:
            text = f"the schedule ends at step {end:,}, the run at {plan.max_steps:,}"
            return fail(f"{text}: OneCycleLR raises behind its end", fix=END_FIX)
    elif end is not None and plan.max_steps is not None and plan.max_steps > end:
        text = f"the saved schedule ends at step {end:,}, the run at {plan.max_steps:,}"
        return warn(f"{text}: loading it restores the earlier end", fix=END_FIX)
    return _left(found)


def _left(found: Continuation) -> Verdict | None:
    """Whether steps are left; and whether the end has moved."""
    plan, done = found.plan, _done(found)
    total = plan.max_steps or found.max_steps
    if done is None or total is None:
        return None
    if done >= total:
        text = f"{done:,} of {total:,} steps are done: no step is left"
        if not plan.max_steps:
            return note(f"{text} without a longer plan", fix=DONE_FIX)
        return warn(text, fix=DONE_FIX)
    if plan.max_steps and found.max_steps and plan.max_steps != found.max_steps:
        text = f"the run was planned for {found.max_steps:,} steps and continues to"
        return note(f"{text} {plan.max_steps:,}: the learning rate jumps to the new schedule")
    return None


def _done(found: Continuation) -> int | None:
    for name in ("trainer_state.json", "checkpoint", "DeepSpeed", "optimizer", "directory"):
        if name in found.counts:
            return found.counts[name]
    return None


def _agreement(found: Continuation) -> Verdict:
    counts = found.counts
    if not counts:
        return unknown("nothing in the files counts steps")
    if found.epoch_scheduler and "scheduler" in counts and len(counts) > 1:
        epochs = counts["scheduler"]
        others = {name: count for name, count in counts.items() if name != "scheduler"}
        if len(set(others.values())) == 1:
            number = next(iter(others.values()))
            text = f"{number:,} steps by {listed(list(others), 4)}"
            return ok(f"{text}; the scheduler counts epochs or evaluations ({epochs:,})")
        counts = others
    if len(counts) == 1:
        name, number = next(iter(counts.items()))
        return note(f"{name} counts {number:,} steps; nothing else counts any")
    if len(set(counts.values())) == 1:
        return ok(f"{next(iter(counts.values())):,} steps by {listed(list(counts), 4)}")
    if found.framework in ("transformers Trainer", "accelerate", "Lightning", "nanoGPT"):
        return ok(f"{_counted(counts)}, as {found.framework} counts them")
    if accumulated := _accumulated(counts):
        return note(accumulated)
    return unknown(f"{_counted(counts)}: no relation of these is known for {found.framework}")


def _accumulated(counts: dict[str, int]) -> str:
    """What explains a counter that is a multiple of the optimizer's steps, "" where none is."""
    taken = counts.get("optimizer", 0)
    whole = counts.get("checkpoint", 0)
    if taken < 1 or whole <= taken or whole % taken or counts.get("scheduler", taken) != taken:
        return ""
    return (
        f"{_counted(counts)}: {whole // taken} batches for each step, as accumulation counts them"
    )


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


STEPS_FIX = (
    "Take all files from one save: optimizer, scheduler and trainer_state.json of different steps "
    "give another learning rate and moments of other weights."
)
RATES_FIX = (
    "Set lr of each of the optimizer's param_groups from the scheduler's _last_lr before saving "
    "and after loading, and look for what sets it: a callback, or lr given again on resuming."
)
END_FIX = (
    "Continue with the number of steps of the schedule, or create a new schedule for the rest and "
    "do not load the old one."
)
DONE_FIX = (
    "Raise max_steps or num_train_epochs, with a schedule for the rest: the saved one ends here, "
    "at its lowest rate. Or begin a new run from these weights, without optimizer and scheduler."
)
SCALE_FIX = (
    "Look at the last gradients of the run before resuming it: a scale below 1 means that every "
    "step overflowed. bf16 needs no scaler."
)

STEPS = Check(
    code="CKP021",
    slug="continue-steps",
    title="Step counts agree, and the schedule reaches the planned end",
    why="Files of two saves in one directory load without an error. A schedule that ends before "
    "the run raises (OneCycleLR) or rises again (cosine).",
    passes=("optimizer, scheduler and state count the same, by the framework's own relation",),
    notes=(
        "fewer optimizer steps than steps, as a scaler skips them",
        "the planned end is another than the saved one",
        "no step is left of the run, and no plan is named",
    ),
    warns=(
        "the saved schedule ends before the planned end",
        "the scaler's scale is below 1",
        "in files of Trainer or accelerate, optimizer and scheduler have another learning rate",
        "no step is left of the plan",
    ),
    fails=(
        "the counts are of different saves (of Trainer's files also without --continue)",
        "OneCycleLR is at its end, or ends before the plan",
    ),
    fix=STEPS_FIX,
    limits="that the learning rate is the intended one.",
    owner=Owner.JOB,
    judge=steps,
    required="checkpoint",
    sources=("accelerate-2926",),
    after=("CKP001",),
)

CHECKS = (STEPS,)
