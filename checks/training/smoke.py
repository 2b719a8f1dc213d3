"""A few real training steps of a small model: whether they run, stay finite and move it all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from doctor._util.units import gib
from doctor.checks.training.diagnosis import complete
from doctor.checks.training.per_gpu import on_each
from doctor.facts.training import Parameter, Smoke, Stage, Step
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown
from doctor.judge.error_patterns import KILLED, LIBRARY_PATTERNS, ErrorPattern, match_error

SHOWN = 4
"""Names in a summary; the rest is counted."""

MOST_SKIPPED = 10
"""Steps that an fp16 GradScaler may skip while it calibrates (ps-P5: early skips are normal); ten
halvings bring its scale from 65536 down to 64."""

ERRORS = (
    ErrorPattern(
        ("does not require grad",),
        "The loss hangs on no trainable parameter: look for .detach(), .item(), no_grad() and "
        "weights that are all frozen. With LoRA and reentrant gradient checkpointing (the default "
        "of transformers 4.31 to 4.57) call model.enable_input_require_grads(), or pass "
        "gradient_checkpointing_kwargs={'use_reentrant': False}: that is safe in either order.",
        Owner.JOB,
        ("cbl-verification",),
    ),
    ErrorPattern(
        ("_amp_foreach_non_finite_check", "Attempting to unscale FP16 gradients"),
        "A GradScaler met half-precision weights: keep the weights in fp32, or train in bf16 "
        "without a GradScaler.",
        Owner.JOB,
        ("titan-why", "pytorch-127176"),
    ),
    ErrorPattern(
        ("does not support bfloat16", "has no GradScaler", "unsupported autocast device_type"),
        "This torch cannot do this precision on this device: choose another one with --precision, "
        "or install a newer torch.",
    ),
    *LIBRARY_PATTERNS,
    KILLED,
)

CRASHED = (
    "Libraries that were not built for each other crash so: look at TOR004, LD_LIBRARY_PATH and "
    "LD_PRELOAD first, then reinstall torch in a fresh environment. If it crashes there too, the "
    "driver or the GPU is to be suspected: dmesg shows an Xid for a GPU that failed."
)
HUNG = (
    "Run again with nothing else on the machine. If it hangs again in a fresh environment, the "
    "driver or the GPU is to be suspected: dmesg shows an Xid for a GPU that failed."
)


def completes(smoke: Smoke) -> Verdict:
    if not smoke.stages:
        return unknown("no stage of the smoke step was recorded", seconds=smoke.seconds)
    names = ", ".join(stage.name for stage in smoke.stages if stage.ended.ok)
    if smoke.completed:
        peak = f", peak memory {gib(smoke.peak_bytes)}" if smoke.peak_bytes is not None else ""
        said = f"{names} done: {len(smoke.steps)} steps"
        return ok(f"{said} on {_where(smoke)}{peak}", seconds=smoke.seconds)
    last = next(stage for stage in smoke.stages if not stage.ended.ok)
    said = f"{_ended(last)} on {_where(smoke)}; passed before: {names or 'none'}"
    known = match_error(last.ended.detail, ERRORS)
    if known is None:
        ending = {"signal": CRASHED, "timeout": HUNG}.get(last.ended.how)
        return complete(fail(said, fix=ending, seconds=smoke.seconds), smoke)
    verdict = fail(
        said, fix=known.fix, owner=known.owner, sources=known.sources, seconds=smoke.seconds
    )
    return complete(verdict, smoke)


def _where(smoke: Smoke) -> str:
    if smoke.recipe == "pure-bf16":
        return f"{smoke.device} in pure bf16"
    return f"{smoke.device} in {smoke.precision}{'' if smoke.precision == 'fp32' else ' autocast'}"


def _ended(stage: Stage) -> str:
    how = {"error": "raised", "signal": "crashed", "timeout": "hung"}[stage.ended.how]
    detail = stage.ended.detail.removeprefix(f"{stage.name}: ")
    return f"{stage.name} {how}: {detail or 'no message'}"


STEP_COMPLETES = Check(
    code="SMK001",
    slug="step-completes",
    title="A real training step completes",
    why="Imports and version numbers do not prove that training runs. The doctor trains a small "
    "decoder for a few steps on the job's device, in the job's precision, in a process of its own, "
    "and records each stage: an error, a crash or a hang is then pinned to the stage it came from. "
    "It then repeats the steps with one thing changed at a time (attention kernels, precision, "
    "learning rate, batch) and names the first change that mends them.",
    passes=("allocate, forward, loss, backward and optimizer are done in every step",),
    fails=("a stage raised, crashed or gave no answer in time",),
    fix="Search for the error that the stage raised. The model is the doctor's own, so the cause "
    "lies in the environment or the machine, not in the training script.",
    limits="that your model trains: this is the doctor's small one.",
    owner=Owner.ENVIRONMENT,
    judge=on_each(completes),
    returns=True,
    required="smoke",
    sources=("cbl-verification", "ps-U28"),
    after=("TOR001",),
)


def loss_finite(smoke: Smoke) -> Verdict:
    if not smoke.steps:
        return unknown("no step was recorded")
    for number, step in enumerate(smoke.steps, 1):
        if wanted := _wanting(step):
            return complete(fail(f"step {number}: {_line(step)}; required: {wanted}"), smoke)
    taken = [step for step in smoke.steps if not step.skipped]
    skipped = len(smoke.steps) - len(taken)
    if not taken or skipped > MOST_SKIPPED:
        said = f"the GradScaler skipped {skipped} of {len(smoke.steps)} steps"
        last = _line(smoke.steps[-1])
        said = f"{said}, the last: {last}; required: at most {MOST_SKIPPED}"
        return complete(fail(said), smoke)
    if broken := [parameter for parameter in smoke.parameters if not parameter.finite]:
        said = f"gradients are not finite in {_names(broken)}; required: all finite"
        return complete(fail(said), smoke)
    noted = f", {skipped} skipped while the GradScaler calibrated" if skipped else ""
    return ok(f"{_line(taken[-1])} in the last of {len(smoke.steps)} steps{noted}; all finite")


def _wanting(step: Step) -> str:
    """What this step should have been, "" if it is."""
    loss = float(step.loss)
    if not math.isfinite(loss) or loss == 0.0:
        return "a finite loss that is not 0"
    if not step.skipped and not math.isfinite(float(step.grad_norm)):
        return "finite gradients"
    return ""


def _line(step: Step) -> str:
    """As a training log prints it."""
    numbers = {"loss": step.loss, "grad_norm": step.grad_norm}
    said = ", ".join(f"'{name}': {float(value):.4f}" for name, value in numbers.items())
    return f"{{{said}, 'learning_rate': {step.lr:g}}}"


LOSS_FINITE = Check(
    code="SMK002",
    slug="loss-finite",
    title="Loss and gradients are finite",
    why="A loss or gradient that is nan or inf in the first steps of a known-good model comes from "
    "a kernel, a library or the precision, not from the data. A loss of exactly 0 is a NaN in "
    "disguise in many logs: the Trainer's logging_nan_inf_filter prints a NaN loss as 0.0, and "
    "only grad_norm tells. An fp16 GradScaler starts high on purpose, so a few skipped steps are "
    "normal. What is not finite is repeated with one thing changed at a time, as SMK001 tells, and "
    "the first module or operation that makes it is named.",
    passes=(
        "loss finite and not 0 in every step",
        "gradients finite in every step that was not skipped",
        "up to 10 steps skipped by an fp16 GradScaler",
    ),
    fails=(
        "a loss is nan, inf or exactly 0, a gradient is not finite in a step that was "
        "taken, or the GradScaler skipped every step",
    ),
    fix="Run the doctor again with --precision fp32, and on an H100, H200 or B200 with "
    "TORCH_CUDNN_SDPA_DEPRIORITIZED=1 in the environment (torch 2.10 and newer): the one that "
    "helps names the precision or the attention kernel. In your own script the same switch is "
    "torch.backends.cuda.enable_cudnn_sdp(False). If neither helps, reinstall torch in a fresh "
    "environment, then suspect the GPU.",
    limits="that the loss falls, or stays finite beyond these few steps.",
    owner=Owner.ENVIRONMENT,
    judge=on_each(loss_finite),
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
    without = [parameter for parameter in smoke.parameters if not parameter.had_gradient]
    total = len(smoke.parameters)
    if without:
        said = f"{len(without)} of {total} parameters had no non-zero gradient"
        return complete(fail(f"{said}: {_names(without)}; required: all have one"), smoke)
    return ok(f"all {total} trainable parameters had a non-zero gradient")


GRADIENTS_REACH_ALL = Check(
    code="SMK003",
    slug="gradients-reach-all",
    title="Gradients reach every trainable parameter",
    why="A parameter without a gradient does not learn, and nothing complains: the loss falls all "
    "the same, because the others make up for it. Causes are a graph cut by detach or no_grad, "
    "reentrant checkpointing whose inputs need no gradient, and values that underflow to zero in "
    "half precision.",
    passes=("every trainable parameter had a non-zero gradient in some step that was not skipped",),
    fails=("some parameter had none, or only zeros",),
    fix="In half precision run again with --precision fp32: if all have gradients then, they "
    "underflow (fp16 needs a GradScaler). Otherwise a kernel does not compute its backward pass: "
    "reinstall torch in a fresh environment.",
    limits="that the gradients are right: they are only not zero.",
    owner=Owner.ENVIRONMENT,
    judge=on_each(gradients_reach_all),
    returns=True,
    required="smoke",
    sources=("fnr-gradients", "ps-P18"),
    after=("SMK001",),
)


def weights_move(smoke: Smoke) -> Verdict:
    if not smoke.parameters:
        return unknown("no parameter was recorded")
    if not all(parameter.finite for parameter in smoke.parameters):
        return unknown("gradients are not finite, see SMK002")
    stuck = [parameter for parameter in smoke.parameters if not parameter.moved]
    total, after = len(smoke.parameters), f"{len(smoke.steps)} steps at lr {smoke.lr:g}"
    if not stuck:
        return ok(f"all {total} trainable parameters changed in {after}, without weight decay")
    said = f"{len(stuck)} of {total} parameters are unchanged after {after}: {_names(stuck)}"
    if any(parameter.dtype == "bfloat16" and parameter.had_gradient for parameter in stuck):
        return fail(f"{said}; {FLOOR}", owner=Owner.JOB)
    fix = "The optimizer did not reach them: see whether SMK003 names the same ones."
    return fail(f"{said}; required: all change", fix=fix, owner=Owner.ENVIRONMENT)


FLOOR = "at 1.0 bf16 rounds away a step of up to 2^-8 (0.0039) upwards and 2^-9 (0.00195) downwards"

WEIGHTS_MOVE = Check(
    code="SMK004",
    slug="weights-move",
    title="Every trainable parameter changes, norms included",
    why="A bf16 weight keeps 8 significant bits. At 1.0 an upward step of up to 2^-8 (0.0039) and "
    "a downward step of up to 2^-9 (0.00195) is rounded away, ties included, and AdamW moves a "
    "weight by about the learning rate. So norm weights, which start at 1.0, stay there for the "
    "whole run when weights and optimizer are bf16, while the loss falls. Smaller weights "
    "lose the smaller part of their steps. Autocast over fp32 weights does not do this. Weight "
    "decay is 0 here, because decay would move a weight that learns nothing.",
    passes=("every trainable parameter differs from its initial copy after the steps",),
    fails=("some are unchanged bit for bit",),
    fix="Keep the weights and the optimizer state in fp32 and compute in bf16 under autocast "
    "(--recipe amp), or let the optimizer carry what rounding loses: Kahan summation or stochastic "
    "rounding. A larger learning rate only hides it.",
    limits="that the weights move in the right direction, or enough.",
    owner=Owner.JOB,
    judge=on_each(weights_move),
    returns=True,
    required="smoke",
    sources=("fnr-precision", "fnr-root", "fnr-fix", "bts-fix2"),
    after=("SMK001",),
)


def _names(parameters: Sequence[Parameter]) -> str:
    shown = ", ".join(f"{parameter.name} ({parameter.dtype})" for parameter in parameters[:SHOWN])
    rest = len(parameters) - SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


CHECKS = (STEP_COMPLETES, LOSS_FINITE, GRADIENTS_REACH_ALL, WEIGHTS_MOVE)
