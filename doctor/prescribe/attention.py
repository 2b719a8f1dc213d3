"""The rules of a prescription that are about attention kernels."""

from __future__ import annotations

from doctor.judge.check import Status
from doctor.judge.switches import CALLS, CUDNN_VARIABLE_SINCE, VARIABLES, Switch
from doctor.prescribe.context import LADDERS, Patient, Setting


def cudnn(patient: Patient) -> Setting | None:
    if patient.facts.target.kind != "nvidia" or not patient.since(2, 4):
        return None
    complained = patient.turns_off("NUM003", Switch.CUDNN_SDP)
    first = patient.capability is None or patient.capability[0] in (9, 10)
    if not complained and (patient.mode == "fast" or not first):
        return None
    others = flash(patient) or memory_efficient(patient)
    why = "NUM003 complains of cuDNN attention here" if complained else (
        "cuDNN attention comes first on this chip in some versions, and some of those have bugs"
    )  # fmt: skip
    return Setting(
        name="cuDNN attention",
        value="off" + "; flash and memory-efficient attention stay" * (not others),
        why=why,
        code="NUM003",
        sources=("bts-fix3", "pytorch-196678", "pytorch-139298"),
        python=(CALLS[Switch.CUDNN_SDP],),
        env=(VARIABLES[Switch.CUDNN_SDP],) if patient.since(*CUDNN_VARIABLE_SINCE) else (),
    )


def flash(patient: Patient) -> Setting | None:
    wanted = patient.mode == "diagnostic" and patient.cuda
    if not wanted and not patient.turns_off("NUM003", Switch.FLASH_SDP):
        return None
    return Setting(
        name="flash attention",
        value="off",
        why="one fused kernel less to suspect" if wanted else "NUM003 complains of it here",
        code="NUM003",
        sources=(LADDERS["diagnostic"],),
        python=(CALLS[Switch.FLASH_SDP],),
    )


def memory_efficient(patient: Patient) -> Setting | None:
    if not patient.turns_off("NUM003", Switch.MEM_EFFICIENT_SDP):
        return None
    return Setting(
        name="memory-efficient attention",
        value="off",
        why="NUM003 complains of it here",
        code="NUM003",
        sources=patient.findings["NUM003"].verdict.sources,
        python=(CALLS[Switch.MEM_EFFICIENT_SDP],),
    )


def implementation(patient: Patient) -> Setting | None:
    value, why = _attention(patient)
    return Setting(
        name="attn_implementation",
        value=value,
        why=why,
        code="NUM003",
        sources=(LADDERS[patient.mode], "bts-fix1"),
        load={"attn_implementation": f'"{value}"'},
    )


def _attention(patient: Patient) -> tuple[str, str]:
    found = patient.findings.get("NUM003")
    if patient.mode == "diagnostic":
        return "eager", "no fused kernel at all"
    if found is None or found.status in (Status.FAIL, Status.UNKNOWN):
        return "eager", "the attention kernels of this stack were not shown to be right"
    if found.status is Status.SKIP:
        return "sdpa", f"no attention kernel was tried here: {found.verdict.summary}"
    tried = getattr(patient.facts.attention, "implementations", ())
    flash = any(each.name == "flash_attention_2" and each.ended.ok for each in tried)
    if patient.mode == "fast" and flash:
        return "flash_attention_2", "it ran here, forward and backward"
    return "sdpa", "NUM003 judged the kernels here; eager is for a stack where nobody did"
