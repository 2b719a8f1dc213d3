"""The settings to train with on this machine, from its facts and findings.

Three modes, from the document bf16-training-stability: `stable` to start with, `fast` once the
stack is verified, `diagnostic` to find the cause of a problem.
"""

from __future__ import annotations

from collections.abc import Iterable

from doctor._util.units import dotted
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.facts.views import JobGpus
from doctor.judge.check import Finding, Status
from doctor.judge.switches import CALLS, CUDNN_VARIABLE_SINCE, VARIABLES, Switch
from doctor.prescribe.citations import CITED, RESTS_ON
from doctor.prescribe.context import Mode, PrescriptionContext, Setting
from doctor.prescribe.loop import checkpointing, clipping, deterministic, warm_up
from doctor.prescribe.precision import precision, tf32, weights

FUSED = "rules out a fused kernel as the cause"


def cudnn(context: PrescriptionContext) -> Setting | None:
    if context.facts.target.kind != "nvidia" or not context.torch_since(2, 4):
        return None
    faulty = context.turned_off_by(Switch.CUDNN_SDP)
    preferred = context.capability is None or context.capability[0] in (9, 10)
    if not faulty and context.mode != "diagnostic" and (context.mode == "fast" or not preferred):
        return None
    others = flash(context) or memory_efficient(context)
    why = "some torch versions prefer cuDNN attention on this GPU, and some of those have bugs"
    if context.mode == "diagnostic":
        why = FUSED
    if faulty:
        why = f"{faulty.check.code} reports cuDNN attention here"
    return Setting(
        name="cuDNN attention",
        value="off" + "; flash and memory-efficient attention stay on" * (not others),
        why=why,
        code=RESTS_ON["cuDNN attention"],
        sources=CITED["cuDNN attention"],
        python=(CALLS[Switch.CUDNN_SDP],),
        env=(VARIABLES[Switch.CUDNN_SDP],) if context.torch_since(*CUDNN_VARIABLE_SINCE) else (),
    )


def flash(context: PrescriptionContext) -> Setting | None:
    diagnostic = context.mode == "diagnostic" and context.on_cuda
    code, faulty = RESTS_ON["flash attention"], context.turned_off_by(Switch.FLASH_SDP)
    if not diagnostic and not faulty:
        return None
    return Setting(
        name="flash attention",
        value="off",
        why=FUSED if diagnostic else f"{code} reports it here",
        code=code,
        sources=CITED["flash attention"],
        python=(CALLS[Switch.FLASH_SDP],),
    )


def memory_efficient(context: PrescriptionContext) -> Setting | None:
    diagnostic = context.mode == "diagnostic" and context.on_cuda
    code = RESTS_ON["memory-efficient attention"]
    faulty = context.turned_off_by(Switch.MEM_EFFICIENT_SDP)
    if not diagnostic and not faulty:
        return None
    sources = faulty.verdict.sources if faulty else ()
    return Setting(
        name="memory-efficient attention",
        value="off",
        why=f"{code} reports it here" if faulty else f"{FUSED}: it is one, too",
        code=code,
        sources=sources or CITED["memory-efficient attention"],
        python=(CALLS[Switch.MEM_EFFICIENT_SDP],),
    )


def implementation(context: PrescriptionContext) -> Setting | None:
    value, why = _attention(context)
    return Setting(
        name="attn_implementation",
        value=value,
        why=why,
        code=RESTS_ON["attn_implementation"],
        sources=CITED[f"attn_implementation {value}"],
        load={"attn_implementation": f'"{value}"'},
    )


def _attention(context: PrescriptionContext) -> tuple[str, str]:
    code, finding = RESTS_ON["attn_implementation"], context.finding("attn_implementation")
    if context.mode == "diagnostic":
        return "eager", "uses no fused kernel"
    if finding is None or finding.status in (Status.FAIL, Status.UNKNOWN):
        return "eager", "the attention kernels were not verified on this machine"
    if finding.status is Status.SKIP:
        return "sdpa", f"no attention kernel was tried here: {finding.verdict.summary}"
    tried = getattr(context.facts.attention, "implementations", ())
    flash = any(each.name == "flash_attention_2" and each.ended.ok for each in tried)
    if context.mode == "fast" and flash:
        return "flash_attention_2", "forward and backward ran here"
    return "sdpa", f"{code} verified the kernels here, so this departs from the document's eager"


def prescribe(
    facts: Facts, findings: Iterable[Finding], mode: Mode = "stable", *, deterministic: bool = False
) -> tuple[Setting, ...]:
    """The settings, in the order in which to apply them."""
    context = PrescriptionContext(
        facts, {each.check.code: each for each in findings}, mode, deterministic
    )
    settings = (rule(context) for rule in RULES)
    return tuple(setting for setting in settings if setting is not None)


def _compile(context: PrescriptionContext) -> Setting | None:
    if context.use_compile:
        return Setting(
            name="torch.compile",
            value="yes",
            why="the compiled step agreed with the eager step here",
            code=RESTS_ON["torch.compile"],
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
        code=RESTS_ON["torch.compile"],
        sources=CITED["torch.compile"],
        trainer={"torch_compile": False},
        accelerate={"dynamo_config": {"dynamo_backend": "NO"}},
    )


def _peer_to_peer(context: PrescriptionContext) -> Setting | None:
    finding = context.turned_off_by(Switch.NCCL_P2P)
    if finding is None:
        return None
    return Setting(
        name="peer-to-peer",
        value="off in NCCL",
        why=f"{finding.check.code} reports it here",
        code=finding.check.code,
        sources=(*finding.sources, *CITED["peer-to-peer"]),
        env=(VARIABLES[Switch.NCCL_P2P],),
    )


def _sharing(context: PrescriptionContext) -> Setting | None:
    if not context.is_problem("data loader"):
        return None
    return Setting(
        name="data loader",
        value="share tensors through files instead of shared memory",
        why="shared memory is small here",
        code=RESTS_ON["data loader"],
        sources=CITED["data loader"],
        python=(
            "import torch.multiprocessing",
            'torch.multiprocessing.set_sharing_strategy("file_system")',
        ),
    )


RULES = (
    precision, weights, tf32, cudnn, flash, memory_efficient, implementation, _compile,
    checkpointing, clipping, warm_up, deterministic, _peer_to_peer, _sharing,
)  # fmt: skip


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
