"""What the user's training is combined with: LoRA, checkpointing, a GradScaler, torch.compile."""

from __future__ import annotations

import math

from packaging.version import InvalidVersion, Version

from doctor._util.units import shown
from doctor.facts.training import Compiled, LoraOrder, OwnModel, Scaler
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.error_patterns import ErrorPattern, match_error

HALVES = ("bfloat16", "float16")
APART = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 5e-2}
"""Relative error of the gradients, compiled against eager. Our own numbers, about ten times what a
small Llama showed: fused operations skip roundings, and no bug that was reported is so small."""


def lora_and_checkpointing(own: OwnModel, job: Job) -> Verdict:
    if job.lora is None:
        return skip("the job does not ask for --lora")
    if not own.lora:
        return unknown("no order of LoRA and checkpointing was tried, see SMK005")
    if all(_cannot_checkpoint(order) for order in own.lora):
        return skip("this model has no gradient checkpointing")
    broken = [order for order in own.lora if _wrong(order)]
    if not broken:
        return worst(_dtypes(own), _active(own))
    total = len(own.lora)
    said = f"{len(broken)} of {total} combinations fail with {_versions(own)}: {_listed(broken)}"
    if len(broken) == total:
        return fail(f"{said}; required: gradients in every adapter", fix=ALL_BROKEN)
    fine = [order for order in own.lora if not _wrong(order)]
    named = ", ".join(_name(order) for order in fine)
    verdict = warn(f"{said}; well: {named}", fix=_remedy(own, broken))
    return worst(verdict, _dtypes(own))


def _cannot_checkpoint(order: LoraOrder) -> bool:
    said = order.ended.detail
    return not order.ended.ok and "checkpointing" in said and ("no " in said or "support" in said)


def _listed(broken: list[LoraOrder]) -> str:
    """Each thing that is wrong once, behind the combinations that it is wrong in."""
    names: dict[str, list[str]] = {}
    for order in broken:
        names.setdefault(_wrong(order), []).append(_name(order))
    return "; ".join(f"{', '.join(where)}: {what}" for what, where in names.items())


def _name(order: LoraOrder) -> str:
    kind = "reentrant" if order.reentrant else "not reentrant"
    saved = f", modules_to_save {', '.join(order.modules_to_save)}" if order.modules_to_save else ""
    return f"{order.order} ({kind}{saved})"


def _wrong(order: LoraOrder) -> str:
    """What is wrong with this combination, "" if nothing is."""
    if not order.ended.ok:
        how = {"error": "raises", "signal": "crashes", "timeout": "hangs"}[order.ended.how]
        return f"{how} {shown(order.ended.detail, 160)}"
    if order.non_finite:
        return f"gradients of {len(order.non_finite)} parameters are not finite"
    if order.without_gradient:
        count = f"{len(order.without_gradient)} of {order.trainable}"
        return f"silently leaves {count} parameters without a gradient"
    return ""


def _remedy(own: OwnModel, broken: list[LoraOrder]) -> str:
    if not all(order.reentrant for order in broken):
        return ALL_BROKEN
    version = _version(own, "transformers")
    if version is None or version < Version("5"):
        return (
            "Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
            "model.enable_input_require_grads() before the first step: both are safe in either "
            "order. Reentrant is the default of this transformers, so say it."
        )
    return (
        "Leave use_reentrant at its default of this transformers (False), or call "
        "model.enable_input_require_grads() where you pass use_reentrant=True."
    )


ALL_BROKEN = (
    "Not the order is the cause. Train without checkpointing first (SMK005 to SMK008 tell how that "
    "went), then look at what was raised; upgrade transformers and peft together."
)


def _dtypes(own: OwnModel) -> Verdict:
    """Adapters in half precision lose their steps."""
    kinds = sorted({dtype for order in own.lora for dtype in order.adapter_dtypes})
    half = [dtype for dtype in kinds if dtype in HALVES]
    if half:
        return warn(f"adapters are {', '.join(half)}; float32 required", fix=ADAPTERS_FIX,
                    sources=("bts-fix7",))  # fmt: skip
    said = ", ".join(kinds) or "of a dtype that was not read"
    return ok(f"{len(own.lora)} combinations are well with {_versions(own)}, adapters {said}")


ADAPTERS_FIX = (
    "Use peft 0.12.0 or newer and leave autocast_adapter_dtype=True, and call no "
    "model.to(torch.bfloat16) after get_peft_model."
)


def _active(own: OwnModel) -> Verdict:
    """Checkpointing that does nothing saves no memory."""
    idle = [order for order in own.lora if order.recomputed is False]
    if idle:
        return warn(
            f"no block was computed again in the backward pass with {_name(idle[0])}; "
            "checkpointing is not active",
            fix="Enable it on the model that trains, and leave the model in train mode.",
        )
    seen = [order for order in own.lora if order.recomputed]
    return ok(f"blocks are computed again in the backward pass in {len(seen)} of {len(own.lora)}")


def _versions(own: OwnModel) -> str:
    names = [f"{name} {own.versions[name]}" for name in ("transformers", "peft")
             if name in own.versions]  # fmt: skip
    return " and ".join(names) or "the installed versions"


def _version(own: OwnModel, name: str) -> Version | None:
    try:
        return Version(own.versions.get(name, ""))
    except InvalidVersion:
        return None


LORA = Check(
    code="SMK009",
    slug="lora-and-checkpointing",
    title="LoRA trains under gradient checkpointing, in either order",
    why="Reentrant checkpointing gives no gradient to a block whose inputs need none, and under "
    "LoRA the embeddings need none. With transformers 4.31 to 4.57 enabling checkpointing after "
    "get_peft_model therefore raises that element 0 of tensors does not require grad, while "
    "enabling it before works: the other way round than is often advised. With modules_to_save "
    "nothing raises: the head learns, and every adapter stays as it was. transformers 5 is not "
    "reentrant by default and is safe in both orders. Each order is tried for a few steps, "
    "reentrant and not, and every trainable parameter must get a gradient.",
    passes=(
        "in every combination all trainable parameters get a finite, non-zero "
        "gradient, blocks are computed again in the backward pass, and the adapters "
        "are float32",
    ),
    warns=(
        "a combination raises or leaves parameters without a gradient while another is well",
        "adapters are in half precision",
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

COMPILE_ERRORS = (
    ErrorPattern(
        ("No working C++ compiler", "InvalidCxxCompiler", "gcc: not found", "g++: not found"),
        "torch.compile needs a C++ compiler: install g++ (apt-get install g++) in the image.",
    ),
    ErrorPattern(
        ("TritonMissing", "working triton installation", "No module named 'triton'"),
        "torch.compile needs triton on a GPU: install the torch wheel of PyTorch's own index, "
        "which brings it.",
    ),
    ErrorPattern(
        ("Python.h",),
        "torch.compile needs Python's headers: install python3-dev in the image.",
    ),
    ErrorPattern(
        ("mix of the legacy and new APIs",),
        "Set TF32 through one API alone: the compiler reads the old one and dies where the code "
        "uses the new one, before torch 2.15.",
        Owner.JOB,
        ("pytorch-166387",),
    ),
)


def compiled_agrees(own: OwnModel, job: Job, chosen: Chosen) -> Verdict:
    if not job.compile:
        return skip("the job does not ask for --compile")
    made = own.compiled
    if made is None:
        return unknown("the compiled step was not tried, see SMK005")
    if made.ended.how == "timeout":
        return warn(f"{own.said}: {made.ended.detail}; an answer required", fix=SLOW_FIX)
    if not made.ended.ok:
        known = match_error(made.ended.detail, COMPILE_ERRORS)
        said = f"{own.said}: torch.compile: {made.ended.detail or made.ended.how}"
        if known is None:
            return fail(said)
        return fail(said, fix=known.fix, owner=known.owner, sources=known.sources)
    return _agreement(own, made, APART[chosen.precision])


def _agreement(own: OwnModel, made: Compiled, gate: float) -> Verdict:
    if made.eager is None or made.compiled is None or made.error is None:
        return unknown("the compiled step was not compared")
    if not _finite(made.eager.loss, made.eager.grad_norm):
        return unknown("the eager step is not finite, see SMK006")
    eager, loss = float(made.eager.loss), float(made.compiled.loss)
    apart = abs(loss - eager) / max(abs(eager), 1e-12)
    said = (
        f"{own.said}: loss {loss:.6g} compiled, {eager:.6g} eager; gradients apart by "
        f"{float(made.error):.2g}, <= {gate:g} required; compiled in {made.ended.seconds:.0f} s"
    )
    if not _finite(made.compiled.loss, made.error) or float(made.error) > gate or apart > gate:
        return fail(said)
    return ok(said)


def _finite(*numbers: float | str) -> bool:
    return all(math.isfinite(float(number)) for number in numbers)


SLOW_FIX = (
    "Large models compile for minutes: compile a block instead of the whole model (regional "
    "compilation), keep the compiler's cache (TORCHINDUCTOR_CACHE_DIR) on a disk that lasts, or "
    "train eagerly."
)

COMPILED = Check(
    code="SMK010",
    slug="compiled-agrees",
    title="The compiled step does what the eager one does",
    why="torch.compile generates other kernels for the same step. Where the compiler is missing "
    "it raises at the first step; where it miscompiles, the loss looks plausible and the gradients "
    "are wrong. The same weights and batch are run both ways in eval mode, because the compiler "
    "draws other random numbers for dropout. Graph breaks are no fault.",
    passes=(
        "the relative Frobenius error of all gradients and that of the loss are at "
        "most 1e-3 in fp32, 1e-2 in fp16, 5e-2 in bf16",
    ),
    warns=("the compiler gave no answer within the deadline of three minutes",),
    fails=("compiling or the compiled step raised or crashed, or the two disagree",),
    fix="Train without torch.compile, or exclude the part that differs with "
    "torch.compiler.disable; upgrade torch. TORCH_COMPILE_DEBUG=1 writes what was generated.",
    limits="that other shapes compile: a new length of the batch compiles again.",
    owner=Owner.ENVIRONMENT,
    judge=compiled_agrees,
    returns=True,
    required="smoke",
    sources=("pytorch-166387",),
    after=("TOR001",),
)


def scaler_fits_weights(own: OwnModel, chosen: Chosen, target: Target) -> Verdict:
    if chosen.precision != "fp16":
        return skip(f"no GradScaler is needed in {chosen.precision}")
    if not own.scalers:
        return unknown("no GradScaler was tried: " + (own.built.detail or "it was not recorded"))
    return worst(*(_scaled(scaler, own, target) for scaler in own.scalers))


def _scaled(scaler: Scaler, own: OwnModel, target: Target) -> Verdict:
    mine = scaler.of == "the model"
    what = f"{own.said}: trainable weights are" if mine else "from_pretrained gives by default"
    if not scaler.ended.ok:
        said = f"{what} {scaler.dtype}, and GradScaler raises {scaler.ended.detail}"
        return (fail if mine else warn)(f"{said}; float32 weights required")
    if scaler.dtype in HALVES:
        where = f"unscales it on {target.kind}, and raises on CUDA up to torch 2.15"
        return warn(f"{what} {scaler.dtype}: a GradScaler {where}; float32 weights required")
    return ok(f"{what} {scaler.dtype}, and a GradScaler unscales their gradients")


SCALER = Check(
    code="NUM005",
    slug="scaler-fits-weights",
    title="The GradScaler can unscale the gradients of these weights",
    why="fp16 training multiplies the loss by a GradScaler, which then divides the gradients: fp32 "
    "ones alone. bf16 weights have bf16 gradients, and on every CUDA GPU up to torch 2.15 it "
    'raises that "_amp_foreach_non_finite_check_and_unscale_cuda" is not implemented for '
    "'BFloat16', which is no matter of an old GPU; fp16 weights raise \"Attempting to unscale FP16 "
    'gradients" everywhere. Half-precision weights come without being asked for: transformers 5 '
    'loads with dtype="auto", in the dtype of the folder.',
    passes=(
        "a GradScaler on this device unscales a gradient of the trainable weights' "
        "dtype, and that is not a half-precision one",
    ),
    warns=(
        "the weights that from_pretrained gives by default are half-precision ones, or "
        "this device's scaler takes what CUDA's does not",
    ),
    fails=("the scaler raised for the dtype of the trainable weights",),
    fix="Load the weights with dtype=torch.float32 (torch_dtype before transformers 4.56) and let "
    "fp16 autocast do the rest; or, on a GPU that has bf16, train with bf16=True and no "
    "GradScaler.",
    limits="that the scale settles: a few steps are too short for that.",
    owner=Owner.JOB,
    judge=scaler_fits_weights,
    sources=("titan-why", "ps-P6", "pytorch-127176"),
    after=("TOR001",),
)

CHECKS = (LORA, COMPILED, SCALER)
