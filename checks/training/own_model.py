"""The user's own training: its steps run, stay finite and update every parameter.

The judgement of the steps and most conditions are those of the small model in `smoke`.
"""

from __future__ import annotations

from dataclasses import replace

from doctor._util.records import Ended, Unknown
from doctor._util.units import gib
from doctor.checks.training import own_cuts
from doctor.checks.training import smoke as judged
from doctor.checks.training.diagnosis import add_diagnosis
from doctor.checks.training.errors import hooks
from doctor.checks.training.own_depth import VANISHING_FIX, vanishing
from doctor.checks.training.own_failures import (
    HUNG,
    build_failure,
    evidence,
    failed_step,
    known_errors,
)
from doctor.checks.training.own_optimizer import (
    NEGATIVE_RATE_FIX,
    by_the_update,
    over_schedule,
    set_back,
    too_long,
    unchanged,
)
from doctor.checks.training.own_parameters import (
    SILENT_FIX,
    adapters_frozen,
    kinds,
    matches,
    no_gradient_fix,
    of_all,
    only,
    partition,
    reached_unevenly,
    uncalled,
    uncalled_fix,
    used,
    with_finite_gradients,
    without_idle,
)
from doctor.checks.training.own_seeds import with_other_seed
from doctor.checks.training.own_steps import GROWTH_FIX, memory_growth, over_the_steps
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke, without_gradient
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, unknown, warn

SmallModel = Smoke | Unknown | None


@with_other_seed
def completes(own: OwnModel, smoke: SmallModel) -> Verdict:
    if own.unsupported:
        return unknown(f"{own.description}: {own.built.detail}", seconds=own.built.seconds)
    if not own.built.ok:
        return _about(own, smoke, build_failure(own))
    if own.smoke is None:
        return unknown(f"{own.description}: no step of it was recorded")
    last = own.smoke.stages[-1].ended if own.smoke.stages else Ended(how="ok")
    verdict = judged.completes(own.smoke, known_errors(last.detail), (HUNG, Owner.JOB))
    if verdict.status is Status.PASS and (growth := memory_growth(own)):
        return warn(
            f"{own.description}: {verdict.summary}; memory grows by {gib(growth)} per step; "
            "required: it stays the same",
            fix=GROWTH_FIX,
        )
    if not last.ok:
        verdict = failed_step(own, verdict, last, sound=_trains(smoke))
        before = judged.loss_finite(own.smoke)
        if before.status is Status.FAIL:
            verdict = replace(verdict, summary=f"{verdict.summary}; before that, {before.summary}")
    return _about(own, smoke, verdict)


def _about(own: OwnModel, smoke: SmallModel, verdict: Verdict) -> Verdict:
    """The verdict with the training's description; a failure with diagnosis and traceback."""
    verdict = replace(verdict, summary=f"{own.description}: {verdict.summary}")
    if verdict.status is not Status.FAIL:
        return verdict
    if own.smoke:
        verdict = add_diagnosis(verdict, own.smoke, own=True)
    if _trains(smoke) and verdict.owner is not Owner.MACHINE:
        sound = "the doctor's small model trains here, so the environment is sound"
        verdict = replace(verdict, summary=f"{verdict.summary}; {sound}")
    if lines := evidence(own):
        verdict = replace(verdict, fix="\n".join([verdict.fix or STEP_COMPLETES.fix, *lines]))
    return verdict


def _trains(smoke: SmallModel) -> bool:
    """Whether the doctor's small model passes its checks."""
    judges = (judged.completes, judged.loss_finite, judged.gradients_reach_all)
    return isinstance(smoke, Smoke) and all(j(smoke).status is Status.PASS for j in judges)


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
    ),
    fails=(
        "the factory or the directory does not provide a model",
        "a stage raises, crashes or hangs",
    ),
    warns=("memory grows in each of ten steps, by at least 256 KiB",),
    fix="Fix the error that was raised. To reproduce it without the doctor, import the file, call "
    "the factory, and run forward and backward once.",
    limits="that a whole run completes: only a few steps of one batch were run.",
    owner=Owner.JOB,
    judge=completes,
    returns=True,
    required="smoke",
    sources=("cbl-why",),
    after=("TOR001",),
)


@with_other_seed
def loss_finite(own: OwnModel, smoke: SmallModel) -> Verdict:
    if own.smoke is None:
        return unknown("no step was recorded")
    verdict = judged.loss_finite(own.smoke)
    if verdict.status is Status.PASS:
        verdict = over_the_steps(own, own.smoke, verdict)
    if cuts := own_cuts.of_zero_loss(own.smoke):
        summary = f"{verdict.summary}; {own_cuts.clause(cuts)}"
        verdict = replace(verdict, summary=summary, fix=own_cuts.fix(cuts))
    return _about(own, smoke, by_the_update(own.smoke, verdict))


LOSS_FINITE = replace(
    judged.LOSS_FINITE,
    code="SMK006",
    slug="own-loss-finite",
    title="Loss and gradients of your own training are finite",
    why="A NaN in the first steps comes from the data (a label outside the classes, a NaN in the "
    "input, a batch with masked labels only), from corrupt weights, from a half-precision "
    "overflow, or from a kernel. Exact zeros in loss and gradients train nothing. The same batch "
    "trains for up to 20 steps, to see a loss that diverges.",
    warns=(
        "the loss stops being finite, or grows 100-fold, within 20 steps on the same batch",
        "the norm of the gradients is above 1000 in every step",
        "cross_entropy gets the output of a softmax, binary_cross_entropy_with_logits that of a "
        "sigmoid, or nll_loss no log-probabilities",
        "an elementwise loss broadcasts input and target to a larger shape than either",
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
    judge=loss_finite,
    sources=("bts-quick", "cbl-verification", "ps-P8", "ps-P9", "ps-P10"),
    after=("SMK005",),
)


@with_other_seed
def gradients_reach_all(own: OwnModel, smoke: SmallModel, job: Job) -> Verdict:
    if (steps := with_finite_gradients(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    required, expected = partition(steps.parameters, job)
    if not required:
        return ok(f"{own.description}: all {len(expected)} parameters match --expect-no-grad")
    note = f"; {len(expected)} omitted by --expect-no-grad" if expected else ""
    if job.hf and not job.lora:
        required, unused_parts = used(required)
        note += f"; the loss of this class does not use {unused_parts}" if unused_parts else ""
    required, idle_note = without_idle(required, own)
    note += idle_note
    if unused := [glob for glob in job.expect_no_grad if not matches(glob, expected)]:
        note += f"; no parameter matches --expect-no-grad {', '.join(unused)}"
    verdict = judged.gradients_reach_all(only(required, steps))
    counted = of_all(verdict.summary, len(required), len(steps.parameters))
    verdict = replace(verdict, summary=counted)
    if verdict.status is not Status.FAIL:
        verdict = reached_unevenly(own, required, verdict)
        return _about(own, smoke, replace(verdict, summary=f"{verdict.summary}{note}"))
    without = without_gradient(required)
    cuts = own_cuts.of(steps.diagnosis.cuts if steps.diagnosis else (), without)
    idle = uncalled(steps, without)
    observed = own_cuts.fix(cuts) or uncalled_fix(idle, without)
    fix = no_gradient_fix(without, observed, exempt=len(without) < len(required))
    if adapters_frozen(required) and not cuts:
        fix = SILENT_FIX
    if fading := vanishing(required):
        note, fix = f"; {fading}{note}", VANISHING_FIX
    summary = verdict.summary.replace("had no non-zero gradient", kinds(without), 1)
    called = f"; never called: {', '.join(idle)}" if idle else ""
    where = "".join(f"; {text}" for text in [own_cuts.clause(cuts)] if text)
    strays, fix = hooks.beside(own, fix, explained=bool(cuts))
    verdict = replace(verdict, summary=f"{summary}{called}{where}{strays}{note}", fix=fix)
    return _about(own, smoke, verdict)


GRADIENTS_REACH_ALL = replace(
    judged.GRADIENTS_REACH_ALL,
    code="SMK007",
    slug="own-gradients-reach-all",
    title="Gradients reach every trainable parameter of your model",
    why="A parameter without a gradient does not learn, and no error is raised. Causes are detach, "
    "no_grad or .item() in the forward pass, a module that is never called, a kernel without a "
    "gradient for its weight, and reentrant checkpointing: with modules_to_save in LoRA the head "
    "then learns and the adapters silently do not.",
    passes=(
        *judged.GRADIENTS_REACH_ALL.passes,
        "parameters that match --expect-no-grad are exempt, and those without a gradient in three "
        "steps that get one in 20 steps or with other weights, start as copies of trained ones, "
        "or are in no group of your optimizer",
    ),
    warns=(
        "the gradients of the matrices fall, or grow, by a factor of 10,000 from the loss to the "
        "input, from each quarter of the depth to the next",
        "a tensor that is held in a plain list, dict or attribute gets a gradient and is no "
        "parameter of the model",
        "each forward pass creates parameters anew",
        "the rows of a matrix are all the same, before the first step and after the last one",
        "a norm over one or two values, or attention over one key, whose result hardly depends on "
        "its input",
    ),
    fix="Look for detach, no_grad and unused modules between these parameters and the loss. For "
    "parameters that are frozen on purpose, call requires_grad_(False), or exempt them with "
    "--expect-no-grad.",
    owner=Owner.JOB,
    judge=gradients_reach_all,
    sources=("fnr-gradients", "ps-P18", "unsloth-4533"),
    after=("SMK006",),
)


@with_other_seed
def weights_move(own: OwnModel, job: Job) -> Verdict:
    if (steps := with_finite_gradients(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    required, _ = partition(steps.parameters, job)
    if not required:
        return ok(f"{own.description}: all parameters match --expect-no-grad")
    reached = [each for each in required if each.had_gradient]
    if not reached:
        verdict = unknown("no parameter got a gradient that is not 0: see SMK007")
        return replace(verdict, fix=AFTER_GRADIENTS)
    if negative := [step.lr for step in steps.steps if step.lr < 0]:
        summary = f"{own.description}: the learning rate is {negative[0]:g} in a step"
        return fail(f"{summary}; required: at least 0", fix=NEGATIVE_RATE_FIX)
    verdict = judged.weights_move(only(reached, steps))
    if verdict.status is Status.FAIL and vanishing(required):
        verdict = unknown("gradients vanish with depth, too small to change a weight: see SMK007")
        return replace(verdict, fix=AFTER_GRADIENTS)
    if verdict.status is Status.FAIL:
        later = own.trend.moved if own.trend else ()
        verdict = unchanged(steps, [each for each in reached if not each.moved], verdict, later)
    else:
        verdict = set_back(only(reached, steps), verdict, own.trend)
    if verdict.status is Status.PASS:
        verdict = _updates(own, steps, verdict)
    missing = len(required) - len(reached)
    note = f"; {missing} got no gradient: see SMK007" if missing else ""
    counted = of_all(verdict.summary, len(reached), len(steps.parameters))
    return replace(verdict, summary=f"{own.description}: {counted}{note}")


def _updates(own: OwnModel, steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on weights that change, by how much and how long they do; a step that is too long
    is a warning unless SMK006 shows it in the loss."""
    verdict = over_schedule(steps, verdict, own.trend)
    if own.trend is None or verdict.status is not Status.PASS:
        return verdict
    shown = over_the_steps(own, steps, ok("")).status is not Status.PASS
    return verdict if shown else too_long(steps, verdict)


AFTER_GRADIENTS = "Fix SMK007 first: without gradients nothing can be said about the updates."

WEIGHTS_MOVE = replace(
    judged.WEIGHTS_MOVE,
    code="SMK008",
    slug="own-weights-move",
    title="Every trainable parameter of your model changes, norms included",
    why="At 1.0, bf16 rounds updates of up to 2^-8 (0.0039) upwards and 2^-9 (0.00195) downwards "
    "away, and AdamW changes a weight by about the learning rate. So norm weights of a model "
    "loaded in bf16 stay at 1.0 for the whole run, while the loss falls. Since version 5, "
    "transformers loads in the directory's dtype by default, usually bf16.",
    passes=(*judged.WEIGHTS_MOVE.passes, "parameters that match --expect-no-grad are exempt"),
    fails=(
        *judged.WEIGHTS_MOVE.fails,
        "the next forward pass undoes the update of a matrix, or overwrites it",
        "the learning rate of a step is below 0",
    ),
    warns=(
        "the learning rate of a group is 0",
        "the learning rate falls to a ten-thousandth within three steps, or stays below 1e-8",
        "clipping below the epsilon of the optimizer, or a learning rate times weight decay of 0.5",
        "the first update is ten times as large as the weights",
    ),
    fix="Load the weights with dtype=torch.float32 and compute in bf16 under autocast (bf16=True), "
    "or use an optimizer that compensates for rounding: Kahan summation or stochastic rounding. A "
    "larger learning rate only hides the problem.",
    judge=weights_move,
    after=("SMK006",),
)

CHECKS = (STEP_COMPLETES, LOSS_FINITE, GRADIENTS_REACH_ALL, WEIGHTS_MOVE)
