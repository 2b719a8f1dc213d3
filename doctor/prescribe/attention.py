"""The rules about attention kernels."""

from __future__ import annotations

from doctor.judge.check import Status
from doctor.judge.switches import CALLS, CUDNN_VARIABLE_SINCE, VARIABLES, Switch
from doctor.prescribe.context import LADDERS, PrescriptionContext, Setting


def cudnn(context: PrescriptionContext) -> Setting | None:
    if context.facts.target.kind != "nvidia" or not context.torch_since(2, 4):
        return None
    faulty = context.turns_off("NUM003", Switch.CUDNN_SDP)
    preferred = context.capability is None or context.capability[0] in (9, 10)
    if not faulty and (context.mode == "fast" or not preferred):
        return None
    others = flash(context) or memory_efficient(context)
    why = "NUM003 reports cuDNN attention here" if faulty else (
        "some torch versions prefer cuDNN attention on this GPU, and some of those have bugs"
    )  # fmt: skip
    return Setting(
        name="cuDNN attention",
        value="off" + "; flash and memory-efficient attention stay on" * (not others),
        why=why,
        code="NUM003",
        sources=("bts-fix3", "pytorch-196678", "pytorch-139298"),
        python=(CALLS[Switch.CUDNN_SDP],),
        env=(VARIABLES[Switch.CUDNN_SDP],) if context.torch_since(*CUDNN_VARIABLE_SINCE) else (),
    )


def flash(context: PrescriptionContext) -> Setting | None:
    diagnostic = context.mode == "diagnostic" and context.on_cuda
    if not diagnostic and not context.turns_off("NUM003", Switch.FLASH_SDP):
        return None
    return Setting(
        name="flash attention",
        value="off",
        why="rules out a fused kernel as the cause" if diagnostic else "NUM003 reports it here",
        code="NUM003",
        sources=(LADDERS["diagnostic"],),
        python=(CALLS[Switch.FLASH_SDP],),
    )


def memory_efficient(context: PrescriptionContext) -> Setting | None:
    if not context.turns_off("NUM003", Switch.MEM_EFFICIENT_SDP):
        return None
    return Setting(
        name="memory-efficient attention",
        value="off",
        why="NUM003 reports it here",
        code="NUM003",
        sources=context.findings["NUM003"].verdict.sources,
        python=(CALLS[Switch.MEM_EFFICIENT_SDP],),
    )


def implementation(context: PrescriptionContext) -> Setting | None:
    value, why = _attention(context)
    return Setting(
        name="attn_implementation",
        value=value,
        why=why,
        code="NUM003",
        sources=(LADDERS[context.mode], "bts-fix1"),
        load={"attn_implementation": f'"{value}"'},
    )


def _attention(context: PrescriptionContext) -> tuple[str, str]:
    finding = context.findings.get("NUM003")
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
    return "sdpa", "NUM003 verified the kernels here; use eager where they were not verified"
