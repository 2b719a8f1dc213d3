"""Rules on autocast: its dtype, its scaler and what runs inside of it."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp
from doctor.checks.script.evaluate import UNDECIDED
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call
from doctor.script.fixes import dedent
from doctor.script.fixes.makers import Fix


def fp16_without_scaler(reading: Training) -> Iterator[Match]:
    if reading.imports_from(*amp.FRAMEWORKS) or reading.mentions("accelerator"):
        return
    if amp.may_scale(reading):
        return
    scopes = {
        reading.calls[n].scope
        for n in reading.backwards
        if reading.calls[n].method == "backward" and not reading.is_evaluation(reading.calls[n])
        and not _may_scale(reading, reading.calls[n])
    }  # fmt: skip
    if not scopes:
        return
    for _, call in reading.numbered(amp.autocasts(reading)):
        if reading.is_evaluation(call) or not _around_training(reading, call, scopes):
            continue
        dtypes = amp.autocast_dtypes(reading, call)
        message = "fp16 autocast and a plain backward() without a GradScaler"
        if dtypes == {"fp16"}:
            yield Match(call.span, message)
        elif "fp16" in dtypes or UNDECIDED in dtypes:
            reason = "the dtype or the device of autocast is decided elsewhere"
            yield Match(call.span, message, undecided=reason)


def _may_scale(reading: Training, backward: Call) -> bool:
    """optimizer.backward(loss), engine.backward(loss): an object of another file does it."""
    return bool(backward.args and backward.receiver) and (
        reading.loss_name(backward) != backward.receiver
    )


def _around_training(reading: Training, call: Call, scopes: set[int]) -> bool:
    """In a function with a backward, or in code that such a function may call."""
    if call.scope in scopes or call.scope == 0:
        return True
    function = reading.function(call.scope)
    if function.name in ("forward", "__call__", "training_step", "compute_loss"):
        return True
    return any(reading.calls[site].scope in scopes for site in reading.call_sites[call.scope])


def scaler_with_bf16(reading: Training) -> Iterator[Match]:
    if not amp.scaled_backwards(reading):
        return
    trains = [n for n in amp.autocasts(reading) if not reading.is_evaluation(reading.calls[n])]
    dtypes = {each for n in trains for each in amp.autocast_dtypes(reading, reading.calls[n])}
    if "bf16" not in dtypes or not dtypes <= {"bf16", UNDECIDED}:
        return
    for number in amp.scalers(reading):
        call = reading.calls[number]
        state = amp.enabled(reading, call)
        message = "a GradScaler is enabled while autocast computes in bf16"
        if state is True and dtypes == {"bf16"} and not reading.is_flagged(call):
            yield Match(call.span, message)
        elif state is not False:
            reason = "a flag decides the dtype or whether the scaler is enabled"
            yield Match(call.span, message, undecided=reason)


def backward_in_autocast(reading: Training) -> Iterator[Match]:
    for call in reading.named("backward"):
        if (
            call.name == "backward"
            or reading.is_autograd(call)
            or (not call.contexts and not (reading.function(call.scope).decorators))
        ):
            continue
        if amp.context_autocast(reading, call) is not None:
            yield Match(call.span, "backward() runs inside autocast")


RULES = (
    Rule(
        code="SCR102",
        slug="fp16-autocast-no-scaler",
        title="fp16 autocast trains with a GradScaler",
        severity="fail",
        find=fp16_without_scaler,
        training=True,
        why="fp16 gradients below 6e-8 become zero. autocast on CUDA computes in fp16 unless told "
        "otherwise, so training without a GradScaler loses small gradients silently.",
        fires=(
            "CUDA autocast in fp16, also by default or by the default of an "
            "argument, and a backward without a GradScaler",
        ),
        fix="Scale the loss with torch.amp.GradScaler, or use dtype=torch.bfloat16 on GPUs of "
        "compute capability 8.0 and later.",
        sources=("ps-P5", "torch-amp-examples"),
    ),
    Rule(
        code="SCR103",
        slug="scaler-with-bf16-autocast",
        title="A GradScaler is enabled for fp16 only",
        severity="warn",
        find=scaler_with_bf16,
        training=True,
        why="bf16 has the range of fp32, so nothing needs scaling. With fp32 weights the scaler is "
        "waste; where weights become bf16 it raises on CUDA.",
        fires=("an enabled GradScaler while autocast computes in bf16",),
        fix="Remove the GradScaler, or create it with enabled=(dtype == torch.float16).",
        sources=("ps-P6", "pytorch-127176"),
    ),
    Rule(
        code="SCR104",
        slug="backward-in-autocast",
        title="backward() runs outside of autocast",
        severity="warn",
        find=backward_in_autocast,
        training=True,
        why="autocast is meant for forward and loss. Under it, backward may run operations in a "
        "dtype other than the forward's; PyTorch documents this as not recommended.",
        fires=("a backward() inside a with block of autocast that is not disabled",),
        fix="End the with block after the loss; call backward() outside.",
        sources=("ps-P4", "torch-amp"),
        fixes=Fix(dedent.backward_out_of_autocast, safe=False, moves=True),
    ),
)
