"""Steps: taken, not skipped, with a learning rate and a loss scale."""

from __future__ import annotations

from doctor.checks.guard.loss import UNDIVIDED
from doctor.checks.guard.observed import any_process, enough, observed, total
from doctor.facts.guard import Guarded
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown

RATE = Check(
    code="GRD006",
    slug="learning-rate",
    title="The learning rate is not zero",
    why="A schedule that ends too early, as when every process steps it, trains the rest of the "
    "run with a learning rate of 0. A warm-up that starts at 0 prints 0.0 once, which is normal.",
    passes=(
        "the learning rate of some group is above 0, apart from fewer steps in a row than fail",
    ),
    warns=(
        "an adaptive optimizer's is 3e-8 or less for 20 steps and 5 % of the run; during a warm-up "
        "after 200 steps",
        "it jumps to more than 20 times the largest one before, or 1,000 where it has only risen",
        "it is 0 from the start while another optimizer has one",
    ),
    fails=(
        "the learning rates of all groups are 0 in 10 steps in a row from the start, in 100 later, "
        "or in the last 10 of a training whose rate has not rested at 0 before",
        "a learning rate is below 0",
    ),
    fix="Print scheduler.get_last_lr() at every step and compare it with the schedule.",
    owner=Owner.JOB,
    judge=observed(
        "GRD006",
        enough(
            "rates",
            10,
            "{n} learning rates, never 0 for longer than a schedule rests",
            "learning rates read",
        ),
        {
            "start": "Give the optimizer a learning rate above 0; where a scheduler sets it, print "
            "scheduler.get_last_lr(): a warm-up that divides whole numbers, step // warmup, is 0 "
            "up to its end; write step / warmup. Check that the scheduler is stepped and that "
            "warmup_steps is not the length of the run.",
            "negative": "Print scheduler.get_last_lr(): a schedule that goes on after its last "
            "step, as a linear decay does, ends below 0. Give it the length of the run.",
            "jump": "Print scheduler.get_last_lr() around this step: a schedule that restarts at "
            "another scale, a resume that takes the rate of another run, or a rate that is "
            "multiplied twice.",
            "tiny": "Print scheduler.get_last_lr(): a decay per epoch that is stepped per batch, "
            "or a warm-up whose length is counted in samples or tokens.",
            "ended": "The schedule ends before the training does. Give the scheduler the number "
            "of its own calls of step() in the whole run: optimizer steps where it is stepped "
            "after each of them, epochs where it is stepped once per epoch. Under accelerate with "
            "several processes, prepare() steps it once per process: multiply by num_processes or "
            "do not pass it to prepare().",
        },
    ),
    limits="that it is a good one.",
    sources=("ps-P12", "accelerate-2926"),
)


def _scale(guard: Guarded) -> Verdict:
    if not any_process(guard, lambda process: process.counts.scaled):
        return skip("no GradScaler was used")
    return ok(f"the loss scale stays at 1 or above in {total(guard, 'steps'):,} steps")


SCALE = Check(
    code="GRD010",
    slug="scale-holds",
    title="The loss scale holds",
    why="A GradScaler halves its scale at every step with Inf or NaN. Sixteen halvings at the "
    "start are calibration; a scale below 1 means that the gradients are not finite whatever the "
    "scale is, and no step is applied.",
    passes=("the scale stays at 1 or above",),
    warns=(
        "the only optimizer steps 3 times in a row on gradients that a GradScaler has scaled, and "
        "no call of the scaler divides them",
    ),
    fails=("the scale falls below 1",),
    fix="The gradients are NaN or Inf by themselves, not by the scale. Train in bf16 where the GPU "
    "supports it; otherwise find the operation with `doctor run --model`.",
    owner=Owner.JOB,
    judge=observed("GRD010", _scale, {"undivided": UNDIVIDED}),
    limits="that no step is skipped: see GRD011.",
    sources=("ps-P5", "ps-P7", "ps-P10"),
)


def _applied(guard: Guarded) -> Verdict:
    if not guard.steps:
        return unknown("no step was observed")
    skipped = max((process.counts.skipped for process in guard.processes), default=0)
    return ok(f"{total(guard, 'steps'):,} steps, {skipped:,} of them skipped")


NO_STEPS = (
    "Call optimizer.step() after backward(). A condition around it that never holds is an "
    "accumulation of more passes than an epoch has batches, or a wrong remainder. accelerate's "
    "accumulate() leaves out each step() but the last: call it in each pass there."
)
APPLIED = Check(
    code="GRD011",
    slug="steps-applied",
    title="Steps are applied",
    why="A skipped step costs a batch and trains nothing. A loss scaler skips silently, and a loop "
    "whose condition never holds calls backward() without a step.",
    passes=("at most 5 % of the steps are skipped, and backward() is followed by a step",),
    warns=(
        "a loss scaler skips more than 5 % of the last 200 steps",
        "200 backward passes, and 20 times as many as usual, without a step",
        "an optimizer has never stepped although backward passes reach its parameters, which no "
        "other optimizer has, from step 100 on or at the end",
        "the same kind of optimizer with a state is made 4 times in a row for the same parameters",
        "of N backward passes of one line, N - 1 are followed by a step and one is not, 4 times in "
        "a row, for an N of 3 or more",
    ),
    fails=(
        "30 steps in a row are skipped from the start, or 10 later",
        "the program ends without a step, 20 backward passes reach an optimizer's parameters, and "
        "the loop around them calls a step() (a warning, if it clears the gradients alone)",
        "it has an optimizer and ends without a backward pass, and a DataLoader that it iterates "
        "over has no batch",
    ),
    fix="Count the calls of optimizer.step(), and log the loss scale where there is one.",
    owner=Owner.JOB,
    judge=observed(
        "GRD011",
        _applied,
        {
            "skipped": "Find what overflows: log the loss scale, train in bf16 where the GPU "
            "supports it, and look at the batches of the skipped steps.",
            "no-step": "Check the condition under which optimizer.step() is called, such as "
            "gradient_accumulation_steps.",
            "no-steps": NO_STEPS,
            "no-batches": "Lower batch_size or set drop_last=False, until len(loader) is not 0.",
            "remade": "Create the optimizer once, before the epochs: a new one has lost its "
            "moments, and starts each epoch with steps that are too long or too short.",
            "pattern": "Step where the number of passes is a multiple: `if (i + 1) % accumulate "
            "== 0:` in front of optimizer.step() and zero_grad(). Without the `== 0` the test "
            "holds for all the others.",
            "never-stepped": "Call step() and zero_grad() of every optimizer that is built, or do "
            "not build it.",
        },
    ),
    limits="that an optimizer outside torch.optim applies its steps.",
    required="always",
    sources=("ps-P5", "ps-P10", "deepspeed-8415"),
)

CLIPS_LEAST, BATCHES_LEAST = 5, 20
"""What the guard needs for an alarm (doctor.guard.thresholds)."""
CLIPS = Check(
    code="GRD026",
    slug="clipping-applies",
    title="Clipping acts on the gradients that are applied",
    why="After step() there is nothing left to clip, and nothing says so. Before "
    "scaler.unscale_() gradients are tens of thousands of times too large: the limit cuts them "
    "all, and the unscaled rest hardly trains.",
    passes=("the first clippings run between backward() and step(), on unscaled gradients",),
    warns=(
        "5 steps in a row, gradients are clipped after the step() that applied them, or where "
        "there are none",
        "5 steps in a row, the clipping gets no parameter, and all that are trained have gradients",
        "5 steps in a row, gradients are clipped while a GradScaler's scale is in them, to a limit "
        "1,000 times below that scale",
    ),
    fix="Call clip_grad_norm_ or clip_grad_value_ after backward() and before step().",
    owner=Owner.JOB,
    judge=observed(
        "GRD026",
        enough(
            "clips",
            CLIPS_LEAST,
            "{n} clippings of the gradients that the next step applies",
            "clippings",
            "no gradients were clipped by torch.nn.utils",
        ),
        {
            "nothing": "Give it list(model.parameters()): what filter() or parameters() returned "
            "is empty after its first reader, such as the optimizer.",
            "scaled": "Call scaler.unscale_(optimizer) after the last backward() and before the "
            "clipping.",
        },
    ),
    limits="that clipping by other functions than torch.nn.utils has, or by norm with torch before "
    "2.7, acts.",
    sources=("torch-amp-examples",),
)

ADVANCES = Check(
    code="GRD028",
    slug="loader-advances",
    title="Each step takes the next batch",
    why="iter() of a DataLoader begins a new epoch. next(iter(loader)) in a loop returns the first "
    "batch at every step unless the loader shuffles, and the rest of the data is never trained on.",
    passes=("no 20 steps in a row train on the same first batch of a loader",),
    warns=(
        "20 steps in a row do, each from a new iterator that is dropped at once, of a loader that "
        "has more batches",
    ),
    fix="Iterate over the loader, `for batch in loader:`, or keep one iterator and make a new one "
    "when it raises StopIteration. To overfit one batch on purpose, fetch it once before the loop.",
    owner=Owner.JOB,
    judge=observed(
        "GRD028",
        enough(
            "fetched",
            BATCHES_LEAST,
            "no 20 steps in a row took the first batch of a new iterator again",
            "batches of loaders",
            "no torch.utils.data.DataLoader returned a batch",
        ),
        {
            "kept": "Begin a new pass over the loader for each epoch, `while True: yield from "
            "loader`: itertools.cycle(loader) keeps the batches of the first one, with their order "
            "and their random crops. To keep them on purpose, make a list of them before the loop.",
        },
    ),
    limits="that batches differ which no torch.utils.data.DataLoader returned.",
    sources=("torch-data-loading",),
)


def _schedules(guard: Guarded) -> Verdict:
    schedules = total(guard, "schedules")
    if not schedules:
        return skip("no scheduler of torch.optim.lr_scheduler was stepped")
    if total(guard, "effective") < SCHEDULED:
        steps = total(guard, "effective")
        return unknown(f"{steps:,} steps; schedules are judged from {SCHEDULED} on")
    return ok(f"{schedules:,} schedules are stepped as often as their length says, as far as known")


SCHEDULED = 20
"""Calls of a scheduler before the guard judges them."""
PER_STEP = (
    "Call scheduler.step() after each optimizer.step(), as its length is counted in steps, or give "
    "it its length in epochs."
)
SCHEDULES = Check(
    code="GRD030",
    slug="schedule-fits",
    title="The schedule of the learning rate fits the training",
    why="A scheduler counts its own calls. Stepped once per backward pass of an accumulation it is "
    "through too early, stepped once per epoch a warm-up of steps never ends, and "
    "ReduceLROnPlateau with the wrong mode lowers the rate as the metric improves.",
    passes=("no scheduler is stepped more or less often than its own length says",),
    warns=(
        "one is stepped 1.5 times as often as its optimizer, and goes on after its end",
        "a cosine shorter than half an epoch, or a decay per epoch, is stepped at every step",
        "one whose length is the number of steps is stepped once per epoch",
        "one is never stepped, or changes the rates of an optimizer that another has replaced",
        "the metric of ReduceLROnPlateau only gets worse by its mode, or is always the same",
        "after a resume the first step has 1.5 times the learning rate that was loaded, or less "
        "than that part of it, because a scheduler is replayed on it or begins anew, or because "
        "its optimizer's state was not loaded",
        "two schedulers are called after each of 10 steps, and one of them computes the rate from "
        "the first one, as LambdaLR and OneCycleLR do",
        "groups that were made with rates at least 3 times apart have the same one after the first "
        "change",
    ),
    fix=PER_STEP,
    owner=Owner.JOB,
    judge=observed(
        "GRD030",
        _schedules,
        {
            "often": "Call scheduler.step() only where the optimizer steps: after the last "
            "backward pass of an accumulation (accelerator.sync_gradients), or pass the scheduler "
            "to accelerator.prepare(). Else count its length in its own calls.",
            "per-epoch": "Call scheduler.step() once per epoch, after the loop over the batches, "
            "or give it its length in steps: epochs * len(loader).",
            "never": "Call scheduler.step() after optimizer.step(), or do not create it.",
            "other-optimizer": "Create the scheduler after the optimizer that trains, and anew "
            "with it.",
            "mode": 'Pass mode="max" for an accuracy, an F1 or another metric that shall grow, and '
            'mode="min" for a loss. Where the mode is right, the validation has become worse since '
            "the first epoch: lower the rate, regularize, stop earlier.",
            "replayed": "Load the scheduler's state, scheduler.load_state_dict(), in place of the "
            "calls of step(): they decay a rate that the optimizer's state has decayed already.",
            "restarted": "Save scheduler.state_dict() with the optimizer's and load both. For a "
            "new phase with a schedule of its own, set the learning rate before it is made.",
            "not-restored": "Load the optimizer's state_dict() as well: it holds the learning rate "
            "that the schedule goes on from, and the moments.",
            "overridden": "Put them into one: SequentialLR([warmup, decay], milestones=[...]), or "
            "LinearLR as the warm-up, whose factor a second scheduler of factors keeps.",
            "groups": "Give the schedule a rate for each group: max_lr=[...] of OneCycleLR, or "
            "multiply group['initial_lr'] by a factor in place of setting group['lr'].",
            "constant": "Print what scheduler.step() gets: a metric of another model or an old "
            "copy, a variable that is never updated, predictions that are all of one class.",
        },
    ),
    limits="that its shape is a good one, nor what schedules do that are not of "
    "torch.optim.lr_scheduler.",
    sources=("torch-lr-scheduler", "accelerate-2926"),
)

CHECKS = (RATE, SCALE, APPLIED, CLIPS, ADVANCES, SCHEDULES)
