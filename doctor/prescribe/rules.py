"""The settings to train with on this machine, from its facts and findings.

Three modes, from the document bf16-training-stability: `stable` to start with, `fast` once the
stack is verified, `diagnostic` to find the cause of a problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.facts.facts import Facts
from doctor.facts.machine import Host, Torch
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen
from doctor.judge.check import Finding
from doctor.judge.switches import MATMUL_PRECISION, NO_TF32, VARIABLES, Switch
from doctor.prescribe.attention import cudnn, flash, implementation, memory_efficient
from doctor.prescribe.context import AUTOCAST_SINCE, DEVICES, Mode, PrescriptionContext, Setting


def prescribe(
    facts: Facts, findings: Iterable[Finding], mode: Mode = "stable", *, deterministic: bool = False
) -> tuple[Setting, ...]:
    """The settings, in the order in which to apply them."""
    context = PrescriptionContext(
        facts, {each.check.code: each for each in findings}, mode, deterministic
    )
    settings = (rule(context) for rule in RULES)
    return tuple(setting for setting in settings if setting is not None)


def _precision(context: PrescriptionContext) -> Setting | None:
    chosen = context.facts.chosen
    if isinstance(chosen, Unknown):
        return Setting(name="precision", value="unknown", why=chosen.reason, code="NUM001")
    device = DEVICES[context.facts.target.kind]
    cpu = {"use_cpu": True} if device == "cpu" else {}
    python, value, flags = _autocast(context, chosen, device)
    mixed = chosen.precision if flags else "no"
    return Setting(
        name="precision",
        value=value,
        why=chosen.why,
        code="NUM001",
        sources={
            "bf16": ("ps-P1", "ps-P4", "ps-P6"),
            "fp16": ("ps-P1", "ps-P4", "ps-P5", "ps-P7"),
            "fp32": ("ps-P1",),
        }[chosen.precision],
        python=python,
        trainer={**flags, **cpu},
        accelerate={"mixed_precision": mixed, **cpu},
    )


def _autocast(
    context: PrescriptionContext, chosen: Chosen, device: str
) -> tuple[tuple[str, ...], str, dict[str, Any]]:
    """Python statements, a description and the Trainer's flag of a precision."""
    since = AUTOCAST_SINCE.get((device, chosen.precision), (0, 0))
    too_old = not context.facts.job.pure_bf16 and not context.torch_since(*since)
    if chosen.precision == "fp32" or context.facts.job.pure_bf16 or too_old:
        value = "pure bf16, no autocast" if context.facts.job.pure_bf16 else "fp32, no autocast"
        value += f" ({chosen.precision} on {device} needs torch {dotted(since)})" * too_old
        return (
            ("import contextlib", "autocast = contextlib.nullcontext()", "scaler = None"),
            f"{value}, no GradScaler",
            {},
        )
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


def _weights(context: PrescriptionContext) -> Setting | None:
    if context.facts.job.pure_bf16:
        return Setting(
            name="weights",
            value="bf16, from --recipe pure-bf16; the optimizer must compensate for rounding",
            why="near 1.0, bf16 loses updates up to 0.0039 to rounding: AdamW leaves norms frozen",
            code="SMK004",
            sources=("fnr-fix", "optimi"),
            load={"dtype": "torch.bfloat16"},
        )
    return Setting(
        name="weights",
        value="fp32, including the optimizer's state",
        why="bf16 loses small updates to rounding; transformers 5 loads the checkpoint's dtype",
        code="SMK004",
        sources=("bts-fix2", "fnr-fix"),
        load={"dtype": "torch.float32"},
    )


def _tf32(context: PrescriptionContext) -> Setting | None:
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
            code="NUM002",
            sources=("ps-P2",),
            python=(NO_TF32,),
            trainer={"tf32": False},
        )
    mixed = context.use_compile and not context.torch_since(2, 15)
    return Setting(
        name="TF32",
        value="on",
        why="the remaining fp32 matmuls run on tensor cores; this call works in every torch, with "
        "torch.compile and in Lightning",
        code="NUM002",
        sources=("ps-P2", "pytorch-166387", "lightning-tf32"),
        python=(MATMUL_PRECISION,),
        trainer={} if mixed else {"tf32": True},
    )


def _compile(context: PrescriptionContext) -> Setting | None:
    if context.use_compile:
        return Setting(
            name="torch.compile",
            value="yes",
            why="the compiled step agreed with the eager step here",
            code="SMK010",
            sources=("bts-fix6",),
            prepare=("model = torch.compile(model)",),
            trainer={"torch_compile": True},
            accelerate={"dynamo_config": {"dynamo_backend": "INDUCTOR"}},
        )
    why = {
        "stable": "correctness first, speed later",
        "fast": "not verified against the eager step: doctor run --compile with your model",
        "diagnostic": "rules out the compiler as the cause",
    }[context.mode]
    return Setting(
        name="torch.compile",
        value="no",
        why=why,
        code="SMK010",
        sources=("bts-fix6",),
        trainer={"torch_compile": False},
        accelerate={"dynamo_config": {"dynamo_backend": "NO"}},
    )


def _checkpointing(context: PrescriptionContext) -> Setting | None:
    requested = bool(context.facts.job.checkpointing)
    if not requested and not context.is_problem("MEM001"):
        return None
    call = "model.gradient_checkpointing_enable"
    return Setting(
        name="gradient checkpointing",
        value="on, non-reentrant",
        why="the non-reentrant variant works before and after LoRA in every version",
        code="SMK009" if requested else "MEM001",
        sources=("cbl-fix",),
        prepare=(f'{call}(gradient_checkpointing_kwargs={{"use_reentrant": False}})',),
        trainer={
            "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs": {"use_reentrant": False},
        },
    )


def _deterministic(context: PrescriptionContext) -> Setting | None:
    if not context.deterministic:
        return None
    return Setting(
        name="determinism",
        value="seeded, deterministic algorithms",
        why="requested; slower, and it disables cuDNN attention",
        code="NUM004",
        sources=("ps-P19",),
        python=(
            "torch.manual_seed(0)",
            "torch.use_deterministic_algorithms(True)",
            "torch.backends.cudnn.benchmark = False",
        ),
        env=("CUBLAS_WORKSPACE_CONFIG=:4096:8",)
        * (context.on_cuda and not context.torch_since(2, 10)),
        trainer={"full_determinism": True},
    )


def _peer_to_peer(context: PrescriptionContext) -> Setting | None:
    codes = (code for code in ("GPU008", "GPU007") if context.turns_off(code, Switch.NCCL_P2P))
    code = next(codes, None)
    if code is None:
        return None
    finding = context.findings[code]
    return Setting(
        name="peer-to-peer",
        value="off in NCCL",
        why=f"{code} reports it here",
        code=code,
        sources=finding.sources,
        env=(VARIABLES[Switch.NCCL_P2P],),
    )


def _sharing(context: PrescriptionContext) -> Setting | None:
    if not context.is_problem("MEM003"):
        return None
    return Setting(
        name="data loader",
        value="share tensors through files instead of shared memory",
        why="shared memory is small here",
        code="MEM003",
        sources=("pytorch-5040",),
        python=(
            "import torch.multiprocessing",
            'torch.multiprocessing.set_sharing_strategy("file_system")',
        ),
    )


RULES = (
    _precision,
    _weights,
    _tf32,
    cudnn,
    flash,
    memory_efficient,
    implementation,
    _compile,
    _checkpointing,
    _deterministic,
    _peer_to_peer,
    _sharing,
)


def subject(facts: Facts) -> str:
    """The machine that the settings are for, in one line."""
    gpus = facts.job_gpus
    device = str(facts.target.kind)
    if isinstance(gpus, JobGpus) and gpus.gpus and facts.target.kind != "cpu":
        first = gpus.gpus[0]
        capability = f", capability {dotted(first.capability)}" if first.capability else ""
        device = f"{len(gpus.gpus)} x {first.name}{capability}"
    elif facts.target.kind == "cpu" and isinstance(facts.host, Host):
        device = f"CPU ({facts.host.arch})"
    version = facts.torch.version if isinstance(facts.torch, Torch) else "unknown"
    return f"{device}, torch {version}"
