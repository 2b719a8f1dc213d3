"""The rules about attention kernels."""

from __future__ import annotations

from doctor.judge.check import Status
from doctor.judge.switches import CALLS, CUDNN_VARIABLE_SINCE, VARIABLES, Switch
from doctor.prescribe.citations import CITED, RESTS_ON
from doctor.prescribe.context import PrescriptionContext, Setting

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
