"""What an optimizer's saved state shows: fp32 weights, and steps that were taken."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.checkpoint.records import Checkpoint, Optimizer
from doctor.checks.checkpoint.norm_causes import (
    EARLY,
    LOW,
    MASTER_FIX,
    NO_GRADIENT_FIX,
    WORDS,
    keeps_no_state,
    made_anew,
    steps_told,
)
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn

NONE = "no optimizer's state is in these files"

NOT_FINITE_FIX = (
    "Go back to a checkpoint whose step count and learning rate are finite, and see what the "
    "scheduler computes: a learning rate of NaN makes every weight NaN at the next step."
)
ANEW_FIX = (
    "See that the optimizer's state was loaded when the run was resumed, and that the GradScaler "
    "does not skip the steps. Where a new optimizer was meant, nothing is wrong."
)


def master_weights_fp32(checkpoint: Checkpoint) -> Verdict:
    optimizer = checkpoint.optimizer
    if optimizer is None:
        return skip(f"{NONE}; weights in bf16 alone are no fault")
    if isinstance(optimizer, Unknown):
        return unknown(f"the optimizer's state could not be read: {optimizer.reason}")
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
    dtypes = {*checkpoint.dtypes}
    return bool(dtypes & {"F32", "F64"}) and dtypes <= {"F32", "F64", "I64", "I32", "BOOL"}


def _by_moments(optimizer: Optimizer) -> Verdict:
    floats = {dtype: count for dtype, count in optimizer.moments.items() if dtype in WORDS}
    if not floats:
        return unknown(f"no moments tell the dtype of the weights ({optimizer.kind})")
    said = f"{optimizer.kind}, moments of {_counts(floats)}"
    low = [dtype for dtype in floats if dtype in LOW]
    if low and optimizer.defeats:
        return ok(f"{said}; {optimizer.defeats} keeps what rounding would lose")
    if low:
        some = "some of " if len(low) < len(floats) else ""
        return warn(f"{said}: {some}the weights that it steps are not fp32; fp32 required")
    if not optimizer.follows:
        return unknown(f"{said}: this optimizer keeps them in fp32 for bf16 weights too")
    return ok(f"{said}: the weights that it steps are fp32")


def _counts(moments: dict[str, int]) -> str:
    return ", ".join(f"{count:,} in {WORDS[dtype]}" for dtype, count in moments.items())


def optimizer_stepped(checkpoint: Checkpoint) -> Verdict:
    optimizer = checkpoint.optimizer
    if optimizer is None:
        return skip(NONE)
    if isinstance(optimizer, Unknown):
        return unknown(f"the optimizer's state could not be read: {optimizer.reason}")
    if keeps_no_state(optimizer):
        if optimizer.nonfinite:
            return warn(f"{optimizer.kind}, {_nonfinite(optimizer)}", fix=NOT_FINITE_FIX)
        return skip("plain SGD keeps no state")
    if not optimizer.entries:
        return _no_state(checkpoint, optimizer)
    return _with_state(checkpoint, optimizer)


def _with_state(checkpoint: Checkpoint, optimizer: Optimizer) -> Verdict:
    if optimizer.step_max == 0:
        return fail(f"{_said(optimizer)}; the step count is 0, at least one step required")
    if optimizer.zero and not optimizer.moving and not optimizer.unread:
        return fail(f"{_said(optimizer)}; all moments are zero: no gradient ever came")
    if optimizer.nonfinite:
        return warn(f"{_said(optimizer)}, {_nonfinite(optimizer)}", fix=NOT_FINITE_FIX)
    if anew := _made_anew(checkpoint, optimizer):
        return warn(anew, fix=ANEW_FIX)
    if found := _partly(optimizer):
        return warn(f"{_said(optimizer)}; {found}", fix=NO_GRADIENT_FIX)
    if not optimizer.moving:
        return unknown(f"{_said(optimizer)}; no moments could be read")
    unread = f", {optimizer.unread:,} were not read" if optimizer.unread else ""
    return ok(f"{_said(optimizer)}; moments are not zero{unread}")


def _no_state(checkpoint: Checkpoint, optimizer: Optimizer) -> Verdict:
    if not optimizer.parameters and not optimizer.masters:
        return unknown("the optimizer's groups name no parameters")
    said = f"{optimizer.parameters:,} parameters in the groups and state for none of them"
    if optimizer.masters:
        return unknown(f"{said} in a form that the doctor reads")
    if steps := steps_told(checkpoint):
        return fail(f"{said} after {steps:,} steps: the optimizer never stepped")
    return warn(f"{said}: the optimizer has not stepped yet, or keeps no state")


def _made_anew(checkpoint: Checkpoint, optimizer: Optimizer) -> str:
    history, step = checkpoint.history, optimizer.step_max
    if history is None or step is None or not made_anew(checkpoint, optimizer):
        return ""
    return (
        f"the optimizer is at step {step:,.0f}, the trainer at {history.steps:,}: it was made "
        "anew, or its steps were skipped"
    )


def _partly(optimizer: Optimizer) -> str:
    """Parameters without a gradient beside others that have one."""
    found = []
    if optimizer.missing:
        names = ", ".join(optimizer.missing_names[:3])
        such = f", such as {names}" if names else ""
        found.append(
            f"{optimizer.missing:,} of {optimizer.parameters:,} parameters in its groups never "
            f"received a gradient{such}"
        )
    early = optimizer.step_max is not None and optimizer.step_max < EARLY
    if optimizer.zero and not early:
        found.append(
            f"{optimizer.zero:,} of {optimizer.entries:,} have moments that are all zero: their "
            "gradients were zero"
        )
    return "; ".join(found)


def _nonfinite(optimizer: Optimizer) -> str:
    return f"{' and '.join(optimizer.nonfinite)} not finite; finite values required"


def _said(optimizer: Optimizer) -> str:
    low, high = optimizer.step_min, optimizer.step_max
    steps = ""
    if low is not None and high is not None:
        steps = f" at step {high:g}" if low == high else f" at steps {low:g} to {high:g}"
    return f"{optimizer.kind}: state for {optimizer.entries:,} parameters{steps}"


CHECKS = (
    Check(
        code="CKP006",
        slug="master-weights-fp32",
        title="The optimizer steps fp32 weights",
        why="torch's optimizers keep their moments in the dtype of the weights that they step, "
        "so the saved state tells it where the weights, which may be a rounded copy, do not. "
        "Weights in bf16 lose every update below half of their spacing: at 1.0 a decrease of up "
        "to 2^-9 and an increase of up to 2^-8, at 0.05 of up to 2^-13. Autocast with fp32 "
        "weights loses none and computes as fast.",
        passes=(
            "the moments are fp32 in an optimizer that keeps them as the weights are, or "
            "the state holds fp32 copies of the weights, or what rounding loses (Kahan "
            "summation)",
            "where moments do not tell, the files hold fp32 weights",
        ),
        warns=(
            "moments are in bf16 or fp16 without fp32 copies, or DeepSpeed's "
            "bf16_master_weights_and_grads is set",
        ),
        fix=MASTER_FIX,
        limits="that the weights were fp32 from the first step on.",
        owner=Owner.JOB,
        judge=master_weights_fp32,
        required="checkpoint",
        sources=("bts-fix2", "fnr-root", "fnr-fix", "fnr-memory", "speculators-765", "optimi"),
    ),
    Check(
        code="CKP009",
        slug="optimizer-stepped",
        title="The optimizer stepped every parameter",
        why="An optimizer makes its state for a parameter when the first gradient comes: a "
        "parameter in its groups without state never had one, and moments that are all zero mean "
        "gradients of zero. Both train nothing, and the loss may fall all the same.",
        passes=("every parameter in the groups has state, with moments that are not all zero",),
        warns=(
            "some parameters have no state, or moments that are all zero after 10 steps "
            "and more, as frozen or unused modules do",
            "none has state and nothing tells of steps",
            "a step count or learning rate is NaN or infinite",
            "the optimizer took less than half of the trainer's 100 steps and more",
        ),
        fails=(
            "the step count is 0, all moments are zero, or no parameter has state although "
            "the checkpoint tells of steps (not in plain SGD, which keeps none)",
        ),
        fix="Print param.grad after backward() for the parameters without one, and see that the "
        "optimizer was made from the parameters of the model that is trained.",
        limits="that its steps were the right size.",
        owner=Owner.JOB,
        judge=optimizer_stepped,
        required="checkpoint",
        sources=("fnr-optimizer", "fnr-gradients", "ps-P18", "unsloth-4533"),
    ),
)
