"""Stage 6: the state at the first step of the continued run, beside that of the save."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from doctor.checks.rehearsal.agreeing import weights as replicas
from doctor.checks.rehearsal.parts import not_tried, some, unobserved
from doctor.checks.rehearsal.resume_remedies import (
    AHEAD_FIX,
    AVERAGE_FIX,
    FROZEN_FIX,
    NOT_FILLED,
    NOT_LOADED,
    NOT_SAVED,
    ORDER_FIX,
    OWN_PART,
    OWN_RATE_FIX,
    PLATEAU_FIX,
    REFERENCE_FIX,
    REPLACED_FIX,
    SCALER_FIX,
    anew_fix,
    weights_fix,
)
from doctor.checks.rehearsal.resume_words import held, tensors
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_resume import Lost, Resumed
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, skip, unknown, warn

RATE_SHARE = 0.1
"""A rate that differs by less is that of a step before or after. Our own number."""


def resumed(rehearsal: Rehearsal) -> Resumed | Verdict:
    """What was compared, or the verdict where nothing could be."""
    if reason := not_tried(rehearsal, "continues"):
        return reason
    run = rehearsal.run("resume")
    if run is not None and run.code and not run.steps:
        return unknown("the continued run ended before its first step: see RHS009")
    if reason := unobserved(rehearsal.run("stop")) or unobserved(run):
        return reason
    if rehearsal.resumed is None:
        return unknown("no state was recorded both at a save and at the resume")
    return rehearsal.resumed


Judge = Callable[[Resumed, Sequence[Lost]], Verdict]


def _of(rehearsal: Rehearsal, kinds: Sequence[str], judge: Judge) -> Verdict:
    found = resumed(rehearsal)
    if isinstance(found, Verdict):
        return found
    if found.from_start:
        return skip("nothing was resumed: see RHS009")
    drifted = replicas(rehearsal).status in (Status.FAIL, Status.WARN)
    lost = [e for e in found.lost if e.kind in kinds]
    own = [e for e in lost if not (drifted and e.rank)]
    if lost and not own:
        return skip("the ranks' weights differ before the stop, too: depends on RHS013")
    return judge(found, own)


def weights(rehearsal: Rehearsal) -> Verdict:
    kinds = ("weights", "buffers", "average", "reference", "dtype", "shape", "untied", "loose",
             *ANEW)  # fmt: skip
    return _of(rehearsal, kinds, _weights)


ANEW = ("attribute", "number", "size")
"""What is in no module and no optimizer."""


def _weights(found: Resumed, lost: Sequence[Lost]) -> Verdict:
    if found.exchanged:
        return fail(
            f"the save after step {found.saved_step} holds other weights than those with which the "
            "training went on, and the resume goes on from them: an average was in the model "
            "while it was saved",
            fix="Restore the trained weights before saving (ema.restore(), or save before "
            "ema.copy_to()), and save the average beside them.",
        )
    data_anew = found.first_batch or (found.order is not None and found.order.anew)
    if found.counted_from_0 or data_anew:  # a consequence, as lengths follow the data
        lost = [each for each in lost if each.kind not in ("number", "size")]
    if not lost:
        return ok(f"all {found.compared} weights and buffers are as after step {found.saved_step}")
    text = f"after step {found.saved_step}: {'; '.join(map(tensors, lost))}"
    if all(each.kind in ANEW for each in lost):
        return warn(text, fix=anew_fix(lost))
    if not any(each.persistent for each in lost):
        return note(
            text,
            fix="Nothing, if the module computes them anew; else register them with "
            "persistent=True, so that they are saved.",
        )
    own = [
        e
        for e in lost
        if e.kind not in ("average", "reference", *ANEW)
        and e.persistent
        and not (e.kind == "buffers" and all(name.startswith("(") for name in e.names))
    ]
    if not own:
        constant = any(each.kind == "reference" for each in lost)
        return fail(text, fix=REFERENCE_FIX if constant else AVERAGE_FIX)
    return _own_weights(found, own, text)


def _own_weights(found: Resumed, own: Sequence[Lost], text: str) -> Verdict:
    """Of the trained model itself."""
    if found.narrow and any(each.kind == "weights" for each in own):
        text += f"; load_state_dict was given {found.narrow}, which rounds them"
    if found.missed_keys:
        text += f"; load_state_dict missed {some(found.missed_keys, len(found.missed_keys), 1)}"
    return fail(text, fix=weights_fix(found, own))


WEIGHTS = Check(
    code="RHS010",
    slug="resume-weights",
    title="The resume restores weights, buffers and their dtypes bit for bit",
    why="strict=False hides keys that do not match, wrappers put prefixes before names, a round "
    "trip through another dtype rounds, and buffers that are not persistent are never saved.",
    passes=("every weight and buffer has the bits that it had at the save",),
    notes=("only buffers with persistent=False differ: no checkpoint holds them",),
    warns=("statistics in attributes of modules or other objects are as at a fresh start",),
    fails=(
        "a weight or a persistent buffer differs, or has another dtype or shape",
        "a weight that was tied to another is one of its own",
        "the save holds other weights than the training went on with, such as an average",
    ),
    fix="Save model.state_dict() of the module that is trained, and every further module with a "
    "state (averages, discriminators); register buffers with persistent=True.",
    owner=Owner.JOB,
    judge=weights,
    limits="that tensors and numbers outside of nn.Module are restored, but for those whose class, "
    "variable or attribute has the name of an average or a statistic.",
    sources=("torch-load-module",),
)


def optimizer(rehearsal: Rehearsal) -> Verdict:
    saves = [each.what for run in rehearsal.runs for each in run.saved]
    in_parts = any(what.startswith("torch.distributed.checkpoint") for what in saves)
    return _of(
        rehearsal,
        ("frozen", "optimizer", "group", "option", "scaler", "replaced"),
        partial(_optimizer, in_parts=in_parts),
    )


def _optimizer(found: Resumed, lost: Sequence[Lost], *, in_parts: bool) -> Verdict:
    """`in_parts`: torch.distributed.checkpoint saves."""
    if not lost and found.pending:
        return note(
            f"optimizer and scaler are as after step {found.saved_step}; the save came after "
            f"{found.pending} further backward passes, whose gradients no checkpoint holds",
            fix="Save right after a step of the optimizer: count steps and not batches where "
            "gradients are accumulated, and only set a flag in a signal's handler.",
        )
    if not lost:
        return ok(f"optimizer and scaler are as after step {found.saved_step}")
    fix = SCALER_FIX if all(each.kind == "scaler" for each in lost) else None
    if any(each.kind == "optimizer" and each.fresh for each in lost):
        fix = (NOT_FILLED if in_parts else NOT_LOADED) if found.kept_optimizer else NOT_SAVED
    if any(each.kind == "group" for each in lost):
        fix = ORDER_FIX
    if any(each.kind == "frozen" for each in lost):
        fix = FROZEN_FIX
    if any(each.kind == "replaced" for each in lost):
        fix = REPLACED_FIX
    if all(each.rank and not each.fresh for each in lost):
        fix = OWN_PART
    return fail(f"after step {found.saved_step}: {'; '.join(map(held, lost))}", fix=fix)


OPTIMIZER = Check(
    code="RHS011",
    slug="resume-optimizer",
    title="The resume restores the optimizer's state and the loss scale",
    why="Without its moments Adam takes its largest steps right after the resume: a spike in the "
    "loss that looks like bad data. State is matched by position, so other groups get other "
    "parameters' moments.",
    passes=("state, groups, options and loss scale are as they were at the save",),
    notes=("the save lies between backward passes and their step",),
    fails=(
        "one of them differs",
        "weights that were trained are frozen, or are in no optimizer",
    ),
    fix="Save optimizer.state_dict() and scaler.state_dict(), load them after the optimizer has "
    "its groups and before the first step, and create parameters and groups in one order.",
    owner=Owner.JOB,
    judge=optimizer,
    limits="that an optimizer outside of torch.optim is restored.",
    sources=("torch-load-optimizer",),
)


def schedule(rehearsal: Rehearsal) -> Verdict:
    return _of(rehearsal, ("rate", "schedule", "optimizer", "cycled"), _schedule)


def _schedule(found: Resumed, lost: Sequence[Lost]) -> Verdict:
    if not lost:
        return ok("the learning rate goes on where it was")
    counters = [each for each in lost if each.kind == "schedule"]
    rate = next((each for each in lost if each.kind == "rate"), None)
    if not counters and any(each.kind == "optimizer" for each in lost):
        return skip("schedules compute the rate from the optimizer's, which was lost: see RHS011")
    if rate is None and (cycled := [each for each in lost if each.kind == "cycled"]):
        return fail(f"after step {found.saved_step}: {held(cycled[0])}, as a schedule sets it")
    if rate is None:
        each = counters[0]
        names = some(each.names, each.count, 1)
        counted = f"{names} counted {each.before} steps, now {each.after}"
        if each.after == "0" and any("Plateau" in name for name in each.names):
            return warn(
                f"{counted}: its best result and the epochs without a better one begin anew, too; "
                "the rate is the same still",
                fix=PLATEAU_FIX,
            )
        return note(f"{counted}; the rate is the same")
    begun = ", as in a fresh start" if rate.fresh else ""
    step = rate.step or found.saved_step + 1
    summary = f"the learning rate of step {step} is {rate.after}{begun}; without the stop it is "
    summary += rate.before
    fix = None if rate.names else OWN_RATE_FIX
    if counters and _ahead(counters[0]):
        summary += f"; the schedule had counted {counters[0].before} steps, now {counters[0].after}"
        fix = AHEAD_FIX
    near = math.isclose(float(rate.before), float(rate.after), rel_tol=RATE_SHARE)
    return warn(summary, fix=fix) if near else fail(summary, fix=fix)


def _ahead(counter: Lost) -> bool:
    """Whether a schedule has counted steps twice."""
    before, after = counter.before, counter.after
    return before.isdecimal() and after.isdecimal() and int(after) > int(before)


SCHEDULE = Check(
    code="RHS012",
    slug="resume-schedule",
    title="The resume restores the learning rate",
    why="A schedule that starts over warms up again, or decays a second time. One that is saved "
    "before it is stepped is a step behind.",
    passes=("all steps have the rate that they have without the stop",),
    notes=("a schedule's counter differs, and the rate does not",),
    warns=(
        "a rate differs by at most 10 %",
        "ReduceLROnPlateau counts from 0 again: it knows neither its best result nor its patience",
    ),
    fails=(
        "it differs by more",
        "a momentum, betas or a weight decay that the steps change is not that of the save",
    ),
    fix="Save scheduler.state_dict() after scheduler.step(), load it after the optimizer's state, "
    "and give the schedule the whole run's number of steps. One of your own needs its counter "
    "saved and loaded, too (accelerate: accelerator.register_for_checkpointing).",
    owner=Owner.JOB,
    judge=schedule,
    limits="that the schedule of the real number of steps is right.",
    sources=("torch-load-optimizer",),
)


CHECKS = (WEIGHTS, OPTIMIZER, SCHEDULE)
