"""An optimizer's saved state: fp32 weights, and steps taken for every parameter."""

from __future__ import annotations

import math

from doctor._util.records import Unknown
from doctor._util.units import counted
from doctor.checkpoint.dtypes import HALVES
from doctor.checkpoint.records import Checkpoint, History, Optimizer
from doctor.checks.checkpoint.norm_causes import (
    DTYPE_NAMES,
    MASTER_FIX,
    MIN_STEPS,
    NO_GRADIENT_FIX,
    created_anew,
    keeps_no_state,
    recorded_steps,
)
from doctor.judge.check import Check, Owner, Status, Verdict, fail, note, ok, skip, unknown, warn

NO_STATE = "no optimizer state in these files"


def unread_state(state: Unknown) -> str:
    """Why nothing is known of an optimizer's state that is there."""
    return f"the optimizer's state could not be read: {state.reason}"


NOT_FINITE_FIX = (
    "Return to a checkpoint whose step count and learning rate are finite, and check what the "
    "scheduler computes: a learning rate of NaN makes every weight NaN at the next step."
)
RATE_FIX = (
    "Print the rate that the scheduler sets at every step: a warm-up or a total of 0 steps, a "
    "scheduler that is stepped too often, or a rate of 0 from the configuration."
)
LOST = ("damaged", "missing")
"""Kinds of problems of files whose tensors nobody can count."""
NAN_STEPS = 2
"""A GradScaler skips single steps with such a norm. Our own number."""

NAN_FIX = (
    "Return to a checkpoint from before these steps, and look for the cause with doctor triage: "
    "what is trained from here on is NaN or does not move."
)
LEAST_SCALE = 1.0
"""A scaler halves its scale at each overflow, from 65536: at 1, gradients are not scaled at all."""

SCALE_FIX = (
    "Do not resume with this scaler: look for the source of Inf and NaN in the gradients (learning "
    "rate, a model that needs more than fp16's range), return to a checkpoint from before, and "
    "begin with a new GradScaler. bf16 needs none."
)
NO_ENTRIES_FIX = (
    "If the loss fell, another optimizer was stepped than was saved, or the state was lost when "
    "the file was written or stripped: save the whole state_dict() of the optimizer whose step() "
    "the loop calls, and resume from a checkpoint that has it; without one, begin with a new "
    "optimizer and a warm-up. Otherwise check that the optimizer was created from the parameters "
    "of the model that is trained, and print param.grad after backward()."
)
NO_ENTRIES = ("torch-optimizer-state",)
CREATED_ANEW_FIX = (
    "Check that the optimizer's state was loaded when the run was resumed, and that the GradScaler "
    "does not skip the steps. If a new optimizer was intended, nothing is wrong."
)


def master_weights_fp32(checkpoint: Checkpoint) -> Verdict:
    optimizer = checkpoint.training.optimizer
    if optimizer is None:
        return skip(f"{NO_STATE}; weights saved in bf16 are not a fault by themselves")
    if isinstance(optimizer, Unknown):
        return unknown(unread_state(optimizer))
    if optimizer.low_masters:
        return warn("DeepSpeed's bf16_master_weights_and_grads is set; fp32 weights required")
    if optimizer.masters.keys() & {"F32", "F64"}:
        count = sum(optimizer.masters.values())
        return ok(f"the optimizer holds fp32 copies of the weights ({count:,})")
    verdict = _by_moments(optimizer)
    if verdict.status is Status.UNKNOWN and _stored_in_fp32(checkpoint):
        return ok(f"{optimizer.kind}: the weights are stored in fp32")
    return verdict


def _stored_in_fp32(checkpoint: Checkpoint) -> bool:
    """Whether the files hold nothing but fp32, fp64 and counters."""
    dtypes = {*checkpoint.contents.dtypes}
    return bool(dtypes & {"F32", "F64"}) and dtypes <= {"F32", "F64", "I64", "I32", "BOOL"}


def _by_moments(optimizer: Optimizer) -> Verdict:
    floats = {dtype: count for dtype, count in optimizer.moments.items() if dtype in DTYPE_NAMES}
    if not floats:
        return unknown(f"no moments show the dtype of the weights ({optimizer.kind})")
    moments = f"{optimizer.kind}, moments of {_counts(floats)}"
    half = [dtype for dtype in floats if dtype in HALVES]
    if half and optimizer.compensation:
        return ok(f"{moments}; {optimizer.compensation} preserves what rounding would lose")
    if half:
        some = "some of " if len(half) < len(floats) else ""
        return warn(f"{moments}: {some}the weights that it updates are not fp32; fp32 required")
    if not optimizer.moments_follow_weights:
        return unknown(f"{moments}: this optimizer keeps them in fp32 for bf16 weights too")
    return ok(f"{moments}: the weights that it updates are fp32")


def _counts(moments: dict[str, int]) -> str:
    return ", ".join(
        f"{counted(count, 'parameter')} in {DTYPE_NAMES[dtype]}" for dtype, count in moments.items()
    )


def optimizer_stepped(checkpoint: Checkpoint) -> Verdict:
    optimizer, scale = checkpoint.training.optimizer, checkpoint.training.scale
    if scale is not None and not LEAST_SCALE <= scale < math.inf:
        text = f"the GradScaler's scale is {scale:.2g}, at least 1 required"
        verdict = warn if 0 < scale < LEAST_SCALE else fail
        return verdict(f"{text}: every step overflowed and was skipped", fix=SCALE_FIX)
    if optimizer is None:
        return skip(NO_STATE)
    if isinstance(optimizer, Unknown):
        return unknown(unread_state(optimizer))
    if keeps_no_state(optimizer):
        if optimizer.nonfinite:
            return warn(f"{optimizer.kind}, {_nonfinite(optimizer)}", fix=NOT_FINITE_FIX)
        return skip("plain SGD keeps no state")
    if optimizer.kind == "ASGD" and optimizer.step_max:
        return skip("ASGD keeps no moments: its state does not show gradients")
    if not optimizer.entries:
        return _without_state(checkpoint, optimizer)
    return _with_state(checkpoint, optimizer)


def _with_state(checkpoint: Checkpoint, optimizer: Optimizer) -> Verdict:
    state = _state(optimizer)
    if optimizer.step_max == 0:
        return fail(f"{state}; the step count is 0, at least 1 required")
    if optimizer.zero_moments and not optimizer.nonzero_moments and not optimizer.unread_moments:
        return fail(f"{state}; all moments are zero: no gradient was ever received")
    if optimizer.nonfinite:
        return warn(f"{state}, {_nonfinite(optimizer)}", fix=NOT_FINITE_FIX)
    if verdict := _by_log(checkpoint.training.history, state):
        return verdict
    if difference := _fewer_steps(checkpoint, optimizer):
        return warn(difference, fix=CREATED_ANEW_FIX)
    parameters = _without_gradients(optimizer)
    if parameters and not _of_nothing_stored(checkpoint, optimizer):
        return _not_stepped(checkpoint, optimizer, f"{state}; {parameters}")
    if not optimizer.nonzero_moments:
        return unknown(f"{state}; no moments could be read")
    unread = f", {optimizer.unread_moments:,} not read" if optimizer.unread_moments else ""
    return ok(f"{state}; moments are not zero{unread}")


def _by_log(history: History | None, state: str) -> Verdict | None:
    """What the log of the trainer says against the steps that were taken."""
    if history and history.covered >= MIN_STEPS and history.lr_sum == 0:
        rates = f"the learning rate was 0 in all {history.covered:,} logged steps"
        return warn(f"{state}; {rates}: nothing changes", fix=RATE_FIX)
    if history and history.nan_at_end >= NAN_STEPS:
        last = f"the last {history.nan_at_end:,} logged losses or gradient norms are not finite"
        return warn(f"{state}; {last}", fix=NAN_FIX)
    if history and history.losses:
        first, least, now = history.losses
        if now > first and now - least >= RISEN and now >= 2 * least > 0:
            text = f"the last logged losses are about {now:.3g}, {least:.3g} was the least"
            return warn(f"{state}; {text}: the run has diverged", fix=NAN_FIX)
    return None


RISEN = 1.0
"""Nats by which a loss that goes down again hardly rises. Our own number."""


def _without_state(checkpoint: Checkpoint, optimizer: Optimizer) -> Verdict:
    if not optimizer.parameters and not optimizer.masters:
        return unknown("the optimizer's groups name no parameters")
    state = f"{optimizer.parameters:,} parameters in the groups, none with state"
    if optimizer.masters:
        return unknown(f"{state} in a readable form")
    if steps := recorded_steps(checkpoint):
        text = f"{state} after {steps:,} steps: it was left out of the file, or never stepped"
        return fail(text, fix=NO_ENTRIES_FIX, sources=NO_ENTRIES)
    if checkpoint.training.steps == 0:
        return note(f"{state} at step 0: the optimizer has not stepped yet")
    text = f"{optimizer.kind}: {state}: it was left out of the file, or "
    epoch = checkpoint.training.epoch  # 1 may be the first, and not ended
    text += f"never stepped, in epoch {epoch:,}" if epoch > 1 else "no step was taken yet"
    text += ", or this optimizer keeps none" * optimizer.kind.startswith("of an unknown")
    return warn(text, fix=NO_ENTRIES_FIX, sources=NO_ENTRIES)


def _fewer_steps(checkpoint: Checkpoint, optimizer: Optimizer) -> str:
    """How far the optimizer is behind the trainer, "" if it is not."""
    history, step = checkpoint.training.history, optimizer.step_max
    if history is None or step is None or not created_anew(checkpoint, optimizer):
        return ""
    return (
        f"the optimizer is at step {step:,.0f}, the trainer at {history.steps:,}: it was created "
        "anew, or its steps were skipped"
    )


def _not_stepped(checkpoint: Checkpoint, optimizer: Optimizer, text: str) -> Verdict:
    """The warning, unless the state may be what damaged files held."""
    if optimizer.missing and any(each.kind in LOST for each in checkpoint.problems):
        return unknown(f"{text}; files are damaged or missing, and may have held their state")
    norms = optimizer.norms.missing if optimizer.norms else 0
    sure = checkpoint.model.adapter or norms == optimizer.missing or _zero_gradients(optimizer)
    # Of a whole model they are most often frozen.
    return (warn if sure else note)(text, fix=NO_GRADIENT_FIX)


def _of_nothing_stored(checkpoint: Checkpoint, optimizer: Optimizer) -> bool:
    """Whether each tensor of an adapter has state, and what has none is not of the adapter.

    peft's older releases left the head that modules_to_save replaces among the trained parameters.
    """
    all_stepped = optimizer.entries == checkpoint.contents.tensors
    return bool(checkpoint.model.adapter) and all_stepped and not _zero_gradients(optimizer)


def _without_gradients(optimizer: Optimizer) -> str:
    """Parameters without a gradient beside others that have one, "" if there are none."""
    reasons = []
    if optimizer.missing:
        names = ", ".join(optimizer.missing_names[:3])
        such = f", such as {names}" if names else ""
        reasons.append(
            f"{optimizer.missing:,} of {optimizer.parameters:,} parameters in its groups never "
            f"received a gradient{such}"
        )
    if _zero_gradients(optimizer):
        reasons.append(
            f"{optimizer.zero_moments:,} of {optimizer.entries:,} have moments that are all zero: "
            "their gradients were zero"
        )
    return "; ".join(reasons)


def _zero_gradients(optimizer: Optimizer) -> bool:
    """Whether gradients came and were zero, over more than the first steps."""
    early = optimizer.step_max is not None and optimizer.step_max < MIN_STEPS
    return bool(optimizer.zero_moments) and not early


def _nonfinite(optimizer: Optimizer) -> str:
    return f"{' and '.join(optimizer.nonfinite)} not finite; finite values required"


def _state(optimizer: Optimizer) -> str:
    low, high = optimizer.step_min, optimizer.step_max
    steps = ""
    if low is not None and high is not None:
        steps = f" at step {high:g}" if low == high else f" at steps {low:g} to {high:g}"
    return f"{optimizer.kind}: state for {optimizer.entries:,} parameters{steps}"


MASTERS = Check(
    code="CKP006",
    slug="master-weights-fp32",
    title="The optimizer updates fp32 weights",
    why="torch's optimizers keep their moments in the dtype of the weights that they update, so "
    "the state reveals it even if the saved weights are a rounded copy. bf16 weights lose updates "
    "below half their spacing: at 1.0 a decrease of up to 2^-9, at 0.05 of up to 2^-13. Autocast "
    "with fp32 weights loses none and computes as fast.",
    passes=(
        "the moments are fp32, in an optimizer that keeps them in the dtype of the weights",
        "the state holds fp32 copies of the weights, or what rounding loses (Kahan summation)",
        "the moments do not show the dtype, and the files hold fp32 weights",
    ),
    warns=(
        "moments are in bf16 or fp16, without fp32 copies of the weights",
        "DeepSpeed's bf16_master_weights_and_grads is set",
    ),
    fix=MASTER_FIX,
    limits="that the weights were fp32 from the first step on.",
    owner=Owner.JOB,
    judge=master_weights_fp32,
    required="checkpoint",
    sources=("bts-fix2", "fnr-root", "fnr-fix", "fnr-memory", "speculators-765", "optimi"),
)

STEPPED = Check(
    code="CKP009",
    slug="optimizer-stepped",
    title="The optimizer stepped every parameter",
    why="An optimizer creates its state for a parameter at the first gradient: a parameter in its "
    "groups without state never had one, and moments that are all zero mean gradients of zero. "
    "Neither trains, and the loss may fall nevertheless.",
    passes=("every parameter in the groups has state, with moments that are not all zero",),
    notes=(
        "no parameter has state, and the checkpoint is of step 0",
        "some parameters have no state, as frozen or unused modules do",
    ),
    warns=(
        "the GradScaler's scale is below 1",
        "some parameters of an adapter have no state, or norms at their initial value alone",
        "some parameters have moments that are all zero after 10 or more steps",
        "no parameter has state, and the number of steps is unknown",
        "a step count or learning rate is NaN or infinite",
        "the learning rate was 0 in all logged steps, of 10 or more",
        "the last two or more logged losses or gradient norms are NaN or infinite",
        "the last logged losses are above the first and twice the least, and 1 above it",
        "the optimizer took less than half of the trainer's steps, of 100 or more",
    ),
    fails=(
        "the GradScaler's scale is 0 or not finite",
        "the step count is 0",
        "all moments are zero",
        "no parameter has state although the checkpoint counts steps, unless it is plain SGD",
    ),
    fix="Print param.grad after backward() for the parameters without a gradient, and check that "
    "the optimizer was created from the parameters of the model that is trained.",
    limits="that its steps had the right size.",
    owner=Owner.JOB,
    judge=optimizer_stepped,
    required="checkpoint",
    sources=("fnr-optimizer", "fnr-gradients", "fnr-rate", "unsloth-4533"),
)

CHECKS = (MASTERS, STEPPED)
