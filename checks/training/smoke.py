"""A few real training steps of a small model: they run, stay finite and update every parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from doctor._util.units import gib, listed
from doctor.checks.training.diagnosis import with_diagnosis
from doctor.checks.training.per_gpu import on_each
from doctor.checks.training.smoke_errors import CRASHED, ERRORS, HUNG
from doctor.errors.cause import Cause
from doctor.errors.match import first
from doctor.facts.training import Parameter, Smoke, Step, without_gradient
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown

MAX_NAMES = 4
"""Names in a summary; the rest is counted."""

MOST_SKIPPED = 10
"""Steps that an fp16 GradScaler may skip while it calibrates (ps-P5: early skips are normal); ten
halvings reduce its scale from 65536 to 64."""


def completes(
    smoke: Smoke, errors: tuple[Cause, ...] = ERRORS, hung: tuple[str, Owner | None] = (HUNG, None)
) -> Verdict:
    """`errors` and `hung` are the remedies of known errors and of a stage that hangs."""
    if not smoke.stages:
        return unknown("no training stage was recorded", seconds=smoke.seconds)
    names = ", ".join(stage.name for stage in smoke.stages if stage.ended.ok)
    if smoke.completed:
        peak = f", peak memory {gib(smoke.peak_bytes)}" if smoke.peak_bytes is not None else ""
        steps = f"{names} completed: {len(smoke.steps)} steps on {_where(smoke)}{peak}"
        return ok(steps, seconds=smoke.seconds)
    last = next(stage for stage in smoke.stages if not stage.ended.ok)
    summary = f"{ended(smoke)}; completed before: {names or 'none'}; required: all stages complete"
    if pattern := first(last.ended.detail, errors):
        return fail(
            summary,
            fix=pattern.fix,
            owner=pattern.owner,
            sources=pattern.sources,
            seconds=smoke.seconds,
        )
    remedies = {"signal": (CRASHED, None), "timeout": hung}
    fix, owner = remedies.get(last.ended.how, (None, None))
    return fail(summary, fix=fix, owner=owner, seconds=smoke.seconds)


def _where(smoke: Smoke) -> str:
    if smoke.recipe == "pure-bf16":
        return f"{smoke.device} in pure bf16"
    return f"{smoke.device} in {smoke.precision}{'' if smoke.precision == 'fp32' else ' autocast'}"


def ended(smoke: Smoke) -> str:
    """The stage that did not complete, how it ended and where: "forward raised: ... on cuda:0"."""
    stage = next(each for each in smoke.stages if not each.ended.ok)
    how = {"signal": "crashed", "timeout": "hung"}.get(stage.ended.how, "raised")
    detail = stage.ended.detail.removeprefix(f"{stage.name}: ")
    return f"{stage.name} {how}: {detail or 'no message'} on {_where(smoke)}"


STEP_COMPLETES = Check(
    code="SMK001",
    slug="step-completes",
    title="A real training step completes",
    why="Imports and version numbers do not prove that training runs. A small decoder is trained "
    "for a few steps on the job's device in the job's precision, and each stage is recorded. If "
    "one fails, a bisection repeats the steps with one change at a time (kernels, precision, "
    "learning rate, batch) and reports the change that fixes it.",
    passes=("allocate, forward, loss, backward and optimizer complete in every step",),
    fails=("a stage raises, crashes or hangs",),
    fix="Look up the error that the stage raised. The model is the doctor's own, so the cause is "
    "the environment or the machine, not the training script.",
    limits="that your model trains: only the doctor's small model was trained.",
    owner=Owner.ENVIRONMENT,
    judge=on_each(with_diagnosis(completes)),
    returns=True,
    required="smoke",
    sources=("cbl-why", "ps-U28"),
    after=("TOR001",),
)


def loss_finite(smoke: Smoke) -> Verdict:
    if not smoke.steps:
        return unknown("no step was recorded")
    for number, step in enumerate(smoke.steps, 1):
        if required := _required(step):
            return fail(f"step {number}: {_log_line(step)}; required: {required}")
    updates = [step for step in smoke.steps if not step.skipped]
    skipped = len(smoke.steps) - len(updates)
    if not updates or skipped > MOST_SKIPPED:
        return fail(
            f"the GradScaler skipped {skipped} of {len(smoke.steps)} steps, the last: "
            f"{_log_line(smoke.steps[-1])}; required: at most {MOST_SKIPPED}"
        )
    if broken := [parameter for parameter in smoke.parameters if not parameter.finite]:
        return fail(f"non-finite gradients in {names(broken)}; required: all finite")
    calibration = f", {skipped} skipped while the GradScaler calibrated" if skipped else ""
    last = f"{_log_line(updates[-1])} in the last of {len(smoke.steps)} steps"
    return ok(f"{last}{calibration}; all finite")


def _required(step: Step) -> str:
    """The condition that this step violates, "" if none."""
    loss = float(step.loss)
    if not math.isfinite(loss):
        return "a finite loss"
    if loss == 0.0 == float(step.grad_norm):
        return "a loss or a gradient that is not 0"
    if not step.skipped and not math.isfinite(float(step.grad_norm)):
        return "finite gradients"
    return ""


def _log_line(step: Step) -> str:
    """In the format of a training log."""
    numbers = {"loss": step.loss, "grad_norm": step.grad_norm}
    items = ", ".join(f"'{name}': {float(value):.4f}" for name, value in numbers.items())
    return f"{{{items}, 'learning_rate': {step.lr:g}}}"


LOSS_FINITE = Check(
    code="SMK002",
    slug="loss-finite",
    title="Loss and gradients are finite",
    why="A nan or inf in the first steps of a known-good model comes from a kernel, a library or "
    "the precision, not from the data. A loss of exactly 0 can hide a NaN: the Trainer's "
    "logging_nan_inf_filter prints a NaN loss as 0.0. An fp16 GradScaler starts high on purpose, "
    "so a few skipped steps are normal.",
    passes=(
        "the loss is finite in every step, and it or its gradient is not 0",
        "gradients are finite in every step that was not skipped",
        "an fp16 GradScaler skips at most 10 steps",
    ),
    fails=(
        "a loss is nan or inf, or loss and gradient are exactly 0",
        "a gradient is not finite in a step that was not skipped",
        "the GradScaler skips more than 10 steps, or all",
    ),
    fix="Repeat the run in fp32, and on an H100, H200 or B200 without cuDNN attention (torch 2.10 "
    "and newer). The one that helps identifies the precision or the attention kernel as the "
    "cause.\ndoctor run --precision fp32\nTORCH_CUDNN_SDPA_DEPRIORITIZED=1 doctor run\nIf neither "
    "helps, reinstall torch in a fresh environment, then suspect the GPU.",
    limits="that the loss falls, or stays finite beyond these few steps.",
    owner=Owner.ENVIRONMENT,
    judge=on_each(with_diagnosis(loss_finite)),
    returns=True,
    required="smoke",
    sources=("bts-quick", "cbl-verification", "ps-P5", "ps-P8", "ps-P10"),
    after=("SMK001",),
)


def gradients_reach_all(smoke: Smoke) -> Verdict:
    if not smoke.parameters:
        return unknown("no parameter was recorded")
    if not all(parameter.finite for parameter in smoke.parameters):
        return unknown("gradients are not finite, see SMK002")
    without = without_gradient(smoke.parameters)
    total = len(smoke.parameters)
    if without:
        count = f"{len(without)} of {total} parameters had no non-zero gradient"
        return fail(f"{count}: {names(without)}; required: all have one")
    zeros = sum(not parameter.had_gradient for parameter in smoke.parameters)
    if zeros:
        return ok(
            f"{total - zeros} of {total} trainable parameters had a non-zero gradient; the other "
            f"{'is a bias' if zeros == 1 else f'{zeros} are biases'} whose shift does not change "
            "the loss"
        )
    return ok(f"all {total} trainable parameters had a non-zero gradient")


GRADIENTS_REACH_ALL = Check(
    code="SMK003",
    slug="gradients-reach-all",
    title="Gradients reach every trainable parameter",
    why="A parameter without a gradient does not learn, and no error is raised: the loss still "
    "falls, because the other parameters compensate. Causes are a graph cut by detach or no_grad, "
    "reentrant checkpointing whose inputs need no gradient, and underflow to zero in half "
    "precision.",
    passes=("every trainable parameter has a non-zero gradient in a step that was not skipped",),
    fails=("a parameter has no gradient, or only zeros",),
    fix="Repeat the run in fp32 if it was in half precision.\ndoctor run --precision fp32\nIf all "
    "parameters then have gradients, they underflow (fp16 needs a GradScaler). Otherwise a kernel "
    "does not compute its backward pass: reinstall torch in a fresh environment.",
    limits="that the gradients are correct: they are only not zero.",
    owner=Owner.ENVIRONMENT,
    judge=on_each(with_diagnosis(gradients_reach_all)),
    returns=True,
    required="smoke",
    sources=("fnr-gradients", "ps-P18"),
    after=("SMK001",),
)

ROUNDING = (
    "bf16 rounding at 1.0 discards an update of up to 2^-8 (0.0039) upwards and 2^-9 (0.00195) "
    "downwards"
)


def weights_move(smoke: Smoke) -> Verdict:
    if not smoke.parameters:
        return unknown("no parameter was recorded")
    if not all(parameter.finite for parameter in smoke.parameters):
        return unknown("gradients are not finite, see SMK002")
    unchanged = [parameter for parameter in smoke.parameters if not parameter.moved]
    if not unchanged:
        after = f"{len(smoke.steps)} steps at lr {smoke.lr:g}"
        decay = ", without weight decay" if smoke.optimizer is None else ""
        return ok(f"all {len(smoke.parameters)} trainable parameters changed in {after}{decay}")
    summary = f"{count_unchanged(smoke, f'at lr {smoke.lr:g}')}; required: all change"
    if any(parameter.dtype == "bfloat16" and parameter.had_gradient for parameter in unchanged):
        return fail(f"{summary}; {ROUNDING}", owner=Owner.JOB)
    fix = "Compare with SMK003: the optimizer did not update these parameters."
    return fail(summary, fix=fix, owner=Owner.ENVIRONMENT)


def count_unchanged(smoke: Smoke, steps: str) -> str:
    """ "2 of 9 parameters are unchanged after 3 steps at lr 0.001: a, b"; `steps`: of what kind."""
    unchanged = [parameter for parameter in smoke.parameters if not parameter.moved]
    count = f"{len(unchanged)} of {len(smoke.parameters)} parameters are unchanged"
    return f"{count} after {len(smoke.steps)} steps {steps}: {names(unchanged)}"


NO_JOB = Job()


def small_weights_move(
    smoke: Smoke, siblings: tuple[Smoke, ...] = (), job: Job = NO_JOB
) -> Verdict:
    """In pure bf16 the user's own model decides where there is one: it may keep its norms in fp32,
    or have none that start at 1.0."""
    if smoke.recipe == "pure-bf16" and (job.model or job.hf):
        return skip("in pure bf16 your own model is judged: see SMK008")
    return on_each(weights_move)(smoke, siblings)


WEIGHTS_MOVE = Check(
    code="SMK004",
    slug="weights-move",
    title="Every trainable parameter changes, norms included",
    why="AdamW changes a weight by about the learning rate. At 1.0, bf16 rounds upward updates of "
    "up to 2^-8 (0.0039) and downward ones of up to 2^-9 (0.00195) away. So norm weights, "
    "initialized to 1.0, stay unchanged for the whole run if weights and optimizer are bf16, "
    "while the loss falls. Autocast over fp32 weights has no such problem.",
    passes=("every trainable parameter differs from its initial value after the steps",),
    fails=("a trainable parameter is unchanged bit for bit",),
    fix="Keep the weights and the optimizer state in fp32 and compute in bf16 under autocast "
    "(--recipe amp), or use an optimizer that compensates for rounding: Kahan summation or "
    "stochastic rounding. A larger learning rate only hides the problem.",
    limits="that the weights change in the right direction, or enough.",
    owner=Owner.JOB,
    judge=small_weights_move,
    returns=True,
    required="smoke",
    sources=("fnr-precision", "fnr-root", "fnr-fix", "bts-fix2"),
    after=("SMK001",),
)


def names(parameters: Sequence[Parameter]) -> str:
    """ "a (float32), b (float32) and 3 more"."""
    return listed([f"{each.name} ({each.dtype})" for each in parameters], MAX_NAMES)


CHECKS = (STEP_COMPLETES, LOSS_FINITE, GRADIENTS_REACH_ALL, WEIGHTS_MOVE)
