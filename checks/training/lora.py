"""LoRA combined with gradient checkpointing, in either order."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from doctor._util.units import shown
from doctor.facts.own_model import LoraOrder, OwnModel
from doctor.facts.training import HALVES
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst


def lora_and_checkpointing(own: OwnModel, job: Job) -> Verdict:
    if job.lora is None:
        return skip("the job has no --lora")
    if not own.lora:
        return unknown("no order of LoRA and checkpointing was tried, see SMK005")
    if all(_cannot_checkpoint(order) for order in own.lora):
        return skip("this model has no gradient checkpointing")
    broken = [order for order in own.lora if _problem(order)]
    if not broken:
        return worst(_adapters_in_fp32(own), _checkpointing_active(own))
    total = len(own.lora)
    summary = f"{len(broken)} of {total} combinations fail with {_versions(own)}: {_listed(broken)}"
    if len(broken) == total:
        return fail(f"{summary}; required: gradients in every adapter", fix=ORDER_IRRELEVANT)
    working = ", ".join(_name(order) for order in own.lora if not _problem(order))
    verdict = warn(f"{summary}; no problem with: {working}", fix=_remedy(own, broken))
    return worst(verdict, _adapters_in_fp32(own))


def _cannot_checkpoint(order: LoraOrder) -> bool:
    detail = order.ended.detail
    reason = "checkpointing" in detail and ("no " in detail or "support" in detail)
    return not order.ended.ok and reason


def _listed(broken: list[LoraOrder]) -> str:
    """Each problem once, after the combinations that have it."""
    names: dict[str, list[str]] = {}
    for order in broken:
        names.setdefault(_problem(order), []).append(_name(order))
    return "; ".join(f"{', '.join(orders)}: {problem}" for problem, orders in names.items())


def _name(order: LoraOrder) -> str:
    kind = "reentrant" if order.reentrant else "not reentrant"
    saved = f", modules_to_save {', '.join(order.modules_to_save)}" if order.modules_to_save else ""
    return f"{order.order} ({kind}{saved})"


def _problem(order: LoraOrder) -> str:
    """The problem of this combination, "" if there is none."""
    if not order.ended.ok:
        how = {"signal": "crashes", "timeout": "hangs"}.get(order.ended.how, "raises")
        return f"{how} {shown(order.ended.detail, 160)}"
    if order.non_finite:
        return f"gradients of {len(order.non_finite)} parameters are not finite"
    if order.without_gradient:
        count = f"{len(order.without_gradient)} of {order.trainable}"
        return f"{count} parameters silently get no gradient"
    return ""


def _remedy(own: OwnModel, broken: list[LoraOrder]) -> str:
    if not all(order.reentrant for order in broken):
        return ORDER_IRRELEVANT
    version = _version(own, "transformers")
    if version is None or version < Version("5"):
        return (
            "Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
            "model.enable_input_require_grads() before the first step: both work in either order. "
            "This transformers is reentrant by default, so pass it explicitly."
        )
    return (
        "Leave use_reentrant at its default in this transformers (False), or call "
        "model.enable_input_require_grads() if you pass use_reentrant=True."
    )


ORDER_IRRELEVANT = (
    "Train without checkpointing first (SMK005 to SMK008 report the result), because the order is "
    "not the cause. Then look up the error, and upgrade transformers and peft together."
)


def _adapters_in_fp32(own: OwnModel) -> Verdict:
    """Adapters in half precision lose updates to rounding."""
    dtypes = sorted({dtype for order in own.lora for dtype in order.adapter_dtypes})
    if half := [dtype for dtype in dtypes if dtype in HALVES]:
        return warn(
            f"adapters are {', '.join(half)}; float32 required",
            fix=ADAPTERS_FIX,
            sources=("bts-fix7",),
        )
    adapters = ", ".join(dtypes) or "of unknown dtype"
    return ok(f"all {len(own.lora)} combinations train with {_versions(own)}, adapters {adapters}")


ADAPTERS_FIX = (
    "Use peft 0.12.0 or newer with autocast_adapter_dtype=True, and do not call "
    "model.to(torch.bfloat16) after get_peft_model."
)


def _checkpointing_active(own: OwnModel) -> Verdict:
    """Inactive checkpointing saves no memory."""
    inactive = [order for order in own.lora if order.recomputed is False]
    if inactive:
        return warn(
            f"no block was recomputed in the backward pass with {_name(inactive[0])}; "
            "required: checkpointing is active",
            fix="Enable checkpointing on the model that trains, and keep the model in train mode.",
        )
    active = sum(bool(order.recomputed) for order in own.lora)
    return ok(f"blocks are recomputed in the backward pass in {active} of {len(own.lora)}")


def _versions(own: OwnModel) -> str:
    names = ("transformers", "peft")
    versions = [f"{name} {own.versions[name]}" for name in names if name in own.versions]
    return " and ".join(versions) or "the installed versions"


def _version(own: OwnModel, name: str) -> Version | None:
    try:
        return Version(own.versions.get(name, ""))
    except InvalidVersion:
        return None


LORA = Check(
    code="SMK009",
    slug="lora-and-checkpointing",
    title="LoRA trains under gradient checkpointing, in either order",
    why="Reentrant checkpointing computes no gradient for a block whose inputs need none, and "
    "under LoRA the embeddings need none. With transformers 4.31 to 4.57, enabling it after "
    "get_peft_model raises; with modules_to_save nothing raises, only the head learns, and every "
    "adapter stays unchanged. transformers 5 is not reentrant by default.",
    passes=(
        "in every combination all trainable parameters get a finite, non-zero gradient",
        "blocks are recomputed in the backward pass",
        "the adapters are float32",
    ),
    warns=(
        "a combination raises or leaves parameters without a gradient, and another one does not",
        "the adapters are in half precision",
        "checkpointing is not active",
    ),
    fails=("no combination trains",),
    fix="Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
    "model.enable_input_require_grads().",
    limits="that the adapters learn the task.",
    owner=Owner.JOB,
    judge=lora_and_checkpointing,
    returns=True,
    required="smoke",
    sources=("cbl-root", "bts-fix7"),
    after=("TOR001",),
)

CHECKS = (LORA,)
