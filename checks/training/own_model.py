"""The user's own training: its steps run, stay finite and update every parameter.

The judgement of the steps and most conditions are those of the small model in `smoke`.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from doctor._util.records import Ended, Unknown
from doctor._util.units import gib
from doctor.checks.data.labels import TRAINED
from doctor.checks.training import own_cuts, own_gradients, own_weights
from doctor.checks.training import smoke as judged
from doctor.checks.training.errors.explain import Proven, explain
from doctor.checks.training.own_errors import errors_of
from doctor.checks.training.own_failures import (
    HUNG,
    STEP_FIX,
    SmallModel,
    about,
    build_failure,
    failed_step,
    nonfinite_values,
    trains,
)
from doctor.checks.training.own_files import undecided_by_the_cut, with_files
from doctor.checks.training.own_rates import by_the_scale, by_the_update
from doctor.checks.training.own_seeds import with_other_seed
from doctor.checks.training.own_steps import GROWTH_FIX, memory_growth, over_the_steps
from doctor.facts.data import Data
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke
from doctor.job.run_options import RunOptions
from doctor.judge.check import Check, Owner, Status, Verdict, unknown, warn

ALL = RunOptions()
FIRST_CAUSE = "Fix SMK006 first: this error follows from the values that are not finite."


def without_diagnosis(own: OwnModel, steps: Smoke) -> OwnModel:
    """For an error that has a cause of its own: the diagnosis is that of the step before it."""
    return msgspec.structs.replace(own, smoke=msgspec.structs.replace(steps, diagnosis=None))


@with_other_seed
def completes(own: OwnModel, smoke: SmallModel, options: RunOptions = ALL) -> Verdict:
    if own.unsupported:
        return unknown(f"{own.description}: {own.built.detail}", seconds=own.built.seconds)
    proven = explain(own)
    if left := undecided_by_the_cut(own):
        return unknown(f"{own.description}: {left}", seconds=own.built.seconds)
    if not own.built.ok:
        return about(own, smoke, build_failure(own, proven), proven)
    if own.smoke is None:
        return unknown(f"{own.description}: no step of it was recorded")
    if own.in_half:
        return _in_fp32_only(own.in_half, smoke, options)
    last = own.smoke.stages[-1].ended if own.smoke.stages else Ended(how="ok")
    verdict = judged.completes(own.smoke, errors_of(last.detail), (HUNG, Owner.JOB))
    if verdict.status is Status.PASS and (growth := memory_growth(own)):
        return warn(
            f"{own.description}: {verdict.summary}; memory grows by {gib(growth)} per step; "
            "required: it stays the same",
            fix=GROWTH_FIX,
        )
    if not last.ok:
        failed = failed_step(own, verdict, last, proven, sound=trains(smoke))
        both = _is_selected(LOSS_FINITE, options)
        return _ended(own, own.smoke, smoke, failed, proven, both=both)
    return about(own, smoke, with_files(own, _without_autocast(own, verdict)))


def _without_autocast(own: OwnModel, verdict: Verdict) -> Verdict:
    """The verdict of steps that completed, with the pass that has no autocast of the doctor."""
    if own.without_autocast is None or not own.without_autocast.ok:
        return verdict
    return replace(verdict, summary=f"{verdict.summary}; one pass without autocast, too")


def _in_fp32_only(half: OwnModel, smoke: SmallModel, options: RunOptions) -> Verdict:
    """A note with the error in half precision, which is the doctor's choice and not the user's, of
    a training that completes in fp32."""
    raised = completes(half, smoke, options)
    summary = (
        f"{raised.summary}; in fp32 the steps complete, and nobody asked for less: this is no "
        "fault unless you train so"
    )
    return replace(raised, status=Status.NOTE, summary=summary)


def _is_selected(check: Check, options: RunOptions) -> bool:
    """Whether --only and --skip leave this check, by one of its names or its family."""
    names = {each.casefold() for each in (check.code, check.family, check.slug, *check.aliases)}
    only, skip = (
        {part.strip().casefold() for each in selected for part in each.split(",")}
        for selected in (options.only, options.skip)
    )
    return (not only or bool(names & only)) and not names & skip


def _ended(
    own: OwnModel,
    steps: Smoke,
    smoke: SmallModel,
    verdict: Verdict,
    proven: Proven,
    *,
    both: bool,
) -> Verdict:
    """The verdict of a step that did not complete, with what the steps before it left. `both`:
    SMK006, which fails for values that an earlier step made non-finite, is judged too."""
    count, before = len(steps.steps), judged.loss_finite(steps)
    values = nonfinite_values(own, proven) if count else ""
    if values:
        text = f"{verdict.summary}; not finite there, after step {count}: {values}"
        verdict = replace(verdict, summary=text)
    if before.status is Status.FAIL and values and both:
        summary = f"{own.description}: in step {count + 1} {verdict.summary}; see SMK006"
        return warn(summary, fix=FIRST_CAUSE)
    if before.status is Status.FAIL:
        verdict = replace(verdict, summary=f"{verdict.summary}; before that, {before.summary}")
        own = without_diagnosis(own, steps) if proven else own
    return about(own, smoke, verdict, proven)


STEP_COMPLETES = Check(
    code="SMK005",
    slug="own-step-completes",
    title="A step of your own training completes",
    why="The doctor's small model shows that the environment is sound; your model, batch and loss "
    "can still fail. The factory of --model, or the model directory of --hf, is built in the "
    "training interpreter, in a process with a deadline, and trained for a few steps. An error, a "
    "crash or a hang is reported with its stage.",
    passes=(
        "the model is built",
        "allocate, forward, loss, backward and optimizer complete in every step",
        "if building and three steps take at most 10 s, the same holds for a second seed of torch, "
        "random and numpy",
        "where nobody asked for half precision, one forward and backward pass without autocast "
        "completes, too",
    ),
    fails=(
        "the factory or the directory does not provide a model",
        "a stage raises, crashes or hangs",
    ),
    notes=(
        "dtypes do not fit under autocast in a half precision that nobody asked for; the steps "
        "complete in fp32",
        "the loss calls eval() of the model before the forward pass that trains",
    ),
    warns=(
        "memory grows in each of ten steps, by at least 256 KiB",
        "a later step raises because of values that an earlier step made non-finite, which SMK006 "
        "fails",
        "the factory returns a model in evaluation mode, all of whose parameters train, and its "
        "file calls eval() and nowhere train()",
        "of a model directory: tokens outside of the embedding, weights that lack parameters, or "
        "quantized weights that would train without adapters",
    ),
    fix=STEP_FIX,
    limits="that a whole run completes: only a few steps of one batch were run.",
    owner=Owner.JOB,
    judge=completes,
    returns=True,
    required="smoke",
    sources=("cbl-why",),
    after=("TOR001",),
)


def loss_learned(
    own: OwnModel, smoke: SmallModel, data: Data | Unknown | None = None, options: RunOptions = ALL
) -> Verdict:
    """The judgement of `loss_finite`; what a lack of labels explains is left to DAT001."""
    verdict = loss_finite(own, smoke)
    is_explained = isinstance(data, Data) and data.unlabelled and _is_selected(TRAINED, options)
    if verdict.status is Status.FAIL and is_explained:
        return unknown(f"not evaluated: depends on {TRAINED.code} (failed)")
    return verdict


@with_other_seed
def loss_finite(own: OwnModel, smoke: SmallModel) -> Verdict:
    if own.smoke is None:
        return unknown("no step was recorded")
    verdict = judged.loss_finite(own.smoke)
    if verdict.status is Status.PASS:
        verdict = over_the_steps(own, own.smoke, verdict)
    without_error = msgspec.structs.replace(own, traceback="", stack=())  # those of SMK005
    if cuts := own_cuts.of_zero_loss(own.smoke):
        summary = f"{verdict.summary}; {own_cuts.clause(cuts)}"
        verdict = replace(verdict, summary=summary, fix=own_cuts.fix_of_zero_loss(cuts))
    return by_the_scale(own, about(without_error, smoke, by_the_update(own.smoke, verdict)))


LOSS_FINITE = replace(
    judged.LOSS_FINITE,
    code="SMK006",
    slug="own-loss-finite",
    title="Loss and gradients of your own training are finite",
    why="A NaN in the first steps comes from the data (a label outside the classes, a NaN in the "
    "input, a batch with masked labels only), from corrupt weights, from a half-precision "
    "overflow, or from a kernel. Exact zeros in loss and gradients train nothing. The same batch "
    "trains for up to 20 steps, to see a loss that diverges.",
    fails=(
        *judged.LOSS_FINITE.fails,
        "the loss grows 100-fold in the first three steps, and does not at a lower learning rate",
    ),
    warns=(
        "the loss stops being finite, or grows 100-fold, within 20 steps on the same batch",
        "the norm of the gradients is above 1000 in every step, unless your optimizer divides by "
        "it and the loss falls",
        "cross_entropy gets the output of a softmax, binary_cross_entropy_with_logits that of a "
        "sigmoid, or nll_loss no log-probabilities",
        "in a copy of the process: a softmax over the samples, a layer that takes samples for "
        "time, or attention without a mask lets samples, or later tokens, change others; the "
        "output of a Linear is broadcast against a target; an own autograd Function returns the "
        "gradient of another input; predictions of the last values of a series change with the "
        "last one; numbers of flattened rows leave out the last sample; the gradient of a matrix "
        "consists of rounding errors",
        "an elementwise loss broadcasts input and target to a larger shape than either, one row "
        "that was computed of all samples to the targets of each, or one target to several "
        "predictions of its sample",
        "values of the labels are read from a softmax over the samples",
        "a tenth of the targets of a loss, or more, is padding",
        "a batch norm in training has a momentum from 0.9 on, below 1, or a dropout a share above "
        "0.9, below 1",
        "targets of binary_cross_entropy_with_logits are outside of [0, 1], or the loss is the "
        "negative of cross_entropy or of an elementwise loss",
        "the loss of a prediction rises, or is exactly the same, in each of 20 steps",
        "the loss is the same in each of 20 steps, with gradients of rounding errors",
    ),
    fix="Inspect the batch first (labels, NaN, padding), then the weights, and repeat the run in "
    "fp32.\n"
    "doctor run --precision fp32\n"
    "If that is finite, the precision is the cause, else the data or the model.",
    owner=Owner.JOB,
    judge=loss_learned,
    sources=("bts-quick", "cbl-verification", "ps-P8", "ps-P9", "ps-P10"),
    after=("SMK005",),
)


CHECKS = (STEP_COMPLETES, LOSS_FINITE, own_gradients.GRADIENTS_REACH_ALL, own_weights.WEIGHTS_MOVE)
