"""Settings of precision: autocast, the weights' dtype, TF32."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.hardware.vendors import DEVICES
from doctor.job.job import Chosen
from doctor.judge.switches import MATMUL_PRECISION, NO_TF32
from doctor.prescribe.citations import CITED, RESTS_ON
from doctor.prescribe.context import AUTOCAST_SINCE, PrescriptionContext, Setting


def precision(context: PrescriptionContext) -> Setting | None:
    """Autocast and GradScaler for the job's precision on this device."""
    chosen = context.facts.chosen
    if context.mode == "diagnostic":
        return _diagnostic_precision(context)
    if isinstance(chosen, Unknown):
        return Setting(
            name="precision", value="unknown", why=chosen.reason, code=RESTS_ON["precision"]
        )
    device = DEVICES[context.facts.target.kind]
    cpu = {"use_cpu": True} if device == "cpu" else {}
    python, value, flags = _autocast(context, chosen, device)
    mixed = chosen.precision if flags else "no"
    return Setting(
        name="precision",
        value=value,
        why=chosen.why,
        code=RESTS_ON["precision"],
        sources=CITED[f"precision {chosen.precision}"],
        python=python,
        trainer={**flags, **cpu},
        accelerate={"mixed_precision": mixed, **cpu},
    )


def _diagnostic_precision(context: PrescriptionContext) -> Setting:
    """fp32, whatever the job asks for: what is finite there and not in it is the precision's."""
    chosen = context.facts.chosen
    then = "" if isinstance(chosen, Unknown) else f"; then {chosen.precision} again"
    cpu = {"use_cpu": True} if context.facts.target.kind == "cpu" else {}
    return Setting(
        name="precision",
        value="fp32, no autocast, no GradScaler",
        why=f"rules out half precision as the cause{then}",
        code=RESTS_ON["precision"],
        sources=CITED["precision diagnostic"],
        python=NO_AUTOCAST,
        trainer={"bf16": False, "fp16": False, **cpu},
        accelerate={"mixed_precision": "no", **cpu},
    )


NO_AUTOCAST = ("import contextlib", "autocast = contextlib.nullcontext()", "scaler = None")


def _autocast(
    context: PrescriptionContext, chosen: Chosen, device: str
) -> tuple[tuple[str, ...], str, dict[str, object]]:
    """Python statements, a description and the Trainer's flag of a precision."""
    since = AUTOCAST_SINCE.get((device, chosen.precision), (0, 0))
    too_old = not context.facts.job.pure_bf16 and not context.torch_since(*since)
    if chosen.precision == "fp32" or context.facts.job.pure_bf16 or too_old:
        value = "pure bf16, no autocast" if context.facts.job.pure_bf16 else "fp32, no autocast"
        value += f" ({chosen.precision} on {device} needs torch {dotted(since)})" * too_old
        return (NO_AUTOCAST, f"{value}, no GradScaler", {})
    dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}[chosen.precision]
    autocast = f'autocast = torch.autocast("{device}", dtype={dtype})'
    if chosen.precision == "bf16":
        lines = (autocast, "scaler = None")
        return lines, "bf16 autocast around forward and loss, no GradScaler", {"bf16": True}
    scaler = f'torch.amp.GradScaler("{device}")' if context.torch_since(2, 3) else (
        "torch.cuda.amp.GradScaler()"
    )  # fmt: skip
    return (
        (autocast, f"scaler = {scaler}"),
        "fp16 autocast around forward and loss; GradScaler, unscale_ before clipping",
        {"fp16": True},
    )


def weights(context: PrescriptionContext) -> Setting | None:
    """The dtype of the weights that are trained."""
    if context.facts.job.pure_bf16 and context.mode != "diagnostic":
        return Setting(
            name="weights",
            value="bf16, from --recipe pure-bf16; the optimizer must compensate for rounding",
            why="bf16 loses small updates to rounding, at 1.0 up to 0.0039: norms stay frozen",
            code=RESTS_ON["weights"],
            sources=CITED["weights pure-bf16"],
            load={"dtype": "torch.bfloat16"},
        )
    return Setting(
        name="weights",
        value="fp32, including the optimizer's state",
        why="bf16 loses small updates to rounding; transformers 5 loads the checkpoint's dtype",
        code=RESTS_ON["weights"],
        sources=CITED["weights"],
        load={"dtype": "torch.float32"},
    )


def tf32(context: PrescriptionContext) -> Setting | None:
    """TF32 for the remaining fp32 matmuls, from compute capability 8.0 on."""
    capability = context.capability
    if context.facts.target.kind != "nvidia" or capability is None or context.torch is None:
        return None
    if capability < (8, 0):
        return None
    if context.mode == "diagnostic":
        return Setting(
            name="TF32",
            value="off",
            why="full fp32 products rule out TF32 as the cause",
            code=RESTS_ON["TF32"],
            sources=CITED["TF32 diagnostic"],
            python=(NO_TF32,),
            trainer={"tf32": False},
        )
    mixed = context.use_compile and not context.torch_since(2, 15)
    return Setting(
        name="TF32",
        value="on",
        why="the remaining fp32 matmuls run on tensor cores; this call works in every torch, with "
        "torch.compile and in Lightning",
        code=RESTS_ON["TF32"],
        sources=CITED["TF32"],
        python=(MATMUL_PRECISION,),
        trainer={} if mixed else {"tf32": True},
    )
