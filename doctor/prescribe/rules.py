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
from doctor.prescribe.citations import CITED
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
    if context.mode == "diagnostic":
        return _diagnostic_precision(context)
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
        code="NUM001",
        sources=CITED["precision diagnostic"],
        python=NO_AUTOCAST,
        trainer={"bf16": False, "fp16": False, **cpu},
        accelerate={"mixed_precision": "no", **cpu},
    )


NO_AUTOCAST = ("import contextlib", "autocast = contextlib.nullcontext()", "scaler = None")


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
            NO_AUTOCAST,
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
    if context.facts.job.pure_bf16 and context.mode != "diagnostic":
        return Setting(
            name="weights",
            value="bf16, from --recipe pure-bf16; the optimizer must compensate for rounding",
            why="bf16 loses small updates to rounding, at 1.0 up to 0.0039: norms stay frozen",
            code="SMK004",
            sources=CITED["weights pure-bf16"],
            load={"dtype": "torch.bfloat16"},
        )
    return Setting(
        name="weights",
        value="fp32, including the optimizer's state",
        why="bf16 loses small updates to rounding; transformers 5 loads the checkpoint's dtype",
        code="SMK004",
        sources=CITED["weights"],
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
        code="NUM002",
        sources=CITED["TF32"],
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
            sources=CITED["torch.compile"],
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
        sources=CITED["torch.compile"],
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
        sources=CITED["gradient checkpointing"],
        prepare=(f'{call}(gradient_checkpointing_kwargs={{"use_reentrant": False}})',),
        trainer={
            "gradient_checkpointing": True,
            "gradient_checkpointing_kwargs": {"use_reentrant": False},
        },
    )


CLIP = 1.0
"""The upper end of what P13 calls typical for transformers."""

WARM_UP = 100
"""Steps: our own number; P12 asks for 1 to 10 % of the run's, which is not known here."""


def _clipping(context: PrescriptionContext) -> Setting | None:
    chosen = context.facts.chosen
    scaled = not isinstance(chosen, Unknown) and chosen.precision == "fp16"
    scaled = scaled and context.mode != "diagnostic"
    return Setting(
        name="gradient clipping",
        value=f"norm {CLIP:g}, in every step" + ", after scaler.unscale_(optimizer)" * scaled,
        why="one bad batch cannot throw the weights off; log the norm that it returns",
        code="SMK006",
        sources=CITED["gradient clipping" + " fp16" * scaled],
        trainer={"max_grad_norm": CLIP},
    )


def _warm_up(context: PrescriptionContext) -> Setting | None:
    return Setting(
        name="warm-up",
        value=f"{WARM_UP} steps; 1 to 10 % of the run's are usual",
        why="early updates are too large before the optimizer's second moments have settled",
        code="SMK006",
        sources=CITED["warm-up"],
        trainer={"warmup_steps": WARM_UP},
    )


SEEDED = (
    "import random",
    "import numpy",
    "random.seed(0)",
    "numpy.random.seed(0)",
    "torch.manual_seed(0)",
    "torch.use_deterministic_algorithms(True)",
    "torch.backends.cudnn.benchmark = False",
    "generator = torch.Generator().manual_seed(0)",
    "def seed_worker(worker):",
    "    random.seed(torch.initial_seed())",
    "    numpy.random.seed(torch.initial_seed() % 2**32)",
    "# DataLoader(..., generator=generator, worker_init_fn=seed_worker)",
)
"""Every generator: a loader's workers have numpy's and random's state of their own."""


def _deterministic(context: PrescriptionContext) -> Setting | None:
    if not context.deterministic:
        return None
    return Setting(
        name="determinism",
        value="every generator seeded, deterministic algorithms",
        why="requested; slower, it disables cuDNN attention, and operations without such a form "
        "raise",
        code="NUM004",
        sources=CITED["determinism"],
        python=SEEDED,
        env=("CUBLAS_WORKSPACE_CONFIG=:4096:8",)
        * (context.on_cuda and not context.torch_since(2, 10)),
        trainer={"seed": 0, "data_seed": 0},
        beside_trainer=True,
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
        sources=(*finding.sources, *CITED["peer-to-peer"]),
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
        sources=CITED["data loader"],
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
    _clipping,
    _warm_up,
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
