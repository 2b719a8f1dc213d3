"""Whether the precision fits the GPU, TF32, and what the environment changes behind its back."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.facts.load import Load
from doctor.facts.machine import Host, Torch
from doctor.facts.training import Settings
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.switches import is_before, tf32_statement

AMPERE, VOLTA = (8, 0), (7, 0)
"""First capability with native bf16 and TF32, and with fp16 tensor cores (titan-matrix)."""
MACOS_BF16 = (14, 0)
MPS_BF16 = "2.6"
"""First torch whose autocast takes bf16 on MPS: torch/amp of the releases 2.5 and 2.6."""
MATTERS = 1.2
"""Times as fast: below, switching TF32 on gains less than it costs in digits."""
DATA_CENTRE = ((8, 0), (9, 0), (10, 0), (10, 3))
"""A100 and A30, H100 and H200, B200, B300: chips with a TF32 rate far above their fp32 rate."""


def precision_fits_gpu(
    job: Job,
    target: Target,
    chosen: Chosen,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    torch: Torch | Unknown,
) -> Verdict:
    said = f"{chosen.precision} ({chosen.why})"
    if target.kind == "cpu":
        return ok(f"{said}")
    if target.kind == "mps":
        return _fits_mps(chosen, said, host, torch)
    if target.kind == "rocm":
        return _fits_bf16_gpu(chosen, f"{said} on ROCm")
    if isinstance(job_gpus, Unknown):
        return unknown(f"{said}; {job_gpus.reason}")
    capability = job_gpus.lowest_capability
    if capability is None:
        return unknown(f"{said}; the compute capability could not be read")
    weakest = next(gpu for gpu in job_gpus.gpus if gpu.capability == capability)
    told = "" if "capability" in chosen.why else f", compute capability {dotted(capability)}"
    said = f"{said} on {weakest.label}{told}"
    if capability >= AMPERE:
        return _fits_bf16_gpu(chosen, said)
    return _fits_before_ampere(job, chosen, capability, said)


def _fits_bf16_gpu(chosen: Chosen, said: str) -> Verdict:
    if chosen.precision == "bf16":
        return ok(said)
    if chosen.precision == "fp16":
        return warn(
            f"{said}, bf16 is native there",
            fix="Train in bf16 (bf16=True, no GradScaler): it has fp32's range, so gradients do "
            "not underflow and activations above 65504 do not overflow, at the same speed.",
            sources=("ps-P1",),
        )
    return warn(
        f"{said}, bf16 is native there",
        fix="Train in bf16 autocast over fp32 weights (bf16=True); keep fp32 as the diagnostic "
        "fallback for a loss that is not finite.",
    )


def _fits_before_ampere(
    job: Job, chosen: Chosen, capability: tuple[int, int], said: str
) -> Verdict:
    if chosen.precision == "bf16":
        return fail(f"{said}, >= 8.0 required for native bf16")
    if capability < VOLTA:
        if chosen.precision == "fp32":
            return ok(said)
        return warn(
            f"{said}, fp16 tensor cores start at 7.0",
            fix="Train in fp32 on this GPU, or rent one of compute capability 7.0 or above.",
        )
    if chosen.precision == "fp32":
        return warn(
            f"{said}, fp16 tensor cores are left unused",
            fix="Train in fp16 autocast with a GradScaler (fp16=True), or rent a GPU with native "
            "bf16; keep fp32 as the diagnostic fallback.",
        )
    if job.precision == "auto":
        return warn(
            f"{said}: fp16 with a GradScaler is chosen, >= 8.0 required for native bf16",
            fix="Train in fp16 autocast over fp32 weights with a GradScaler (fp16=True) and say "
            "--precision fp16; skipped steps while the scaler calibrates are normal. Load the "
            "weights in fp32: transformers 5 takes the checkpoint's dtype, mostly bf16, unless "
            "told dtype=torch.float32.",
        )
    return ok(f"{said}, with a GradScaler")


def _fits_mps(chosen: Chosen, said: str, host: Host | Unknown, torch: Torch | Unknown) -> Verdict:
    if chosen.precision != "bf16":
        return ok(f"{said} on MPS")
    if isinstance(torch, Torch) and is_before(torch.version, MPS_BF16):
        return warn(
            f"{said} on MPS, torch {torch.version}, >= {MPS_BF16} required: autocast switches "
            "itself off for bf16 before",
            fix=f"Upgrade to torch {MPS_BF16}, or train in fp32 there (--precision fp32).",
        )
    if isinstance(host, Unknown) or host.macos is None:
        return unknown(f"{said} on MPS; the version of macOS could not be read")
    said = f"{said} on MPS, macOS {dotted(host.macos)}, >= {dotted(MACOS_BF16)} required"
    if host.macos >= MACOS_BF16:
        return ok(said)
    return warn(said, fix="Upgrade to macOS 14, or train in fp32 there (--precision fp32).")


def tf32_setting(
    chosen: Chosen,
    torch: Torch,
    settings: Settings | Unknown,
    load: tuple[Load, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
) -> Verdict:
    if chosen.precision != "fp32":
        return ok(f"the job does its matmuls in {chosen.precision}; TF32 is for fp32{_left(host)}")
    for needed in (job_gpus, host, settings):
        if isinstance(needed, Unknown):
            return unknown(needed.reason)
    assert isinstance(job_gpus, JobGpus)
    assert isinstance(host, Host)
    assert isinstance(settings, Settings)
    capability = job_gpus.lowest_capability
    if capability is None:
        return unknown("the compute capability could not be read")
    if capability < AMPERE:
        return skip(f"no TF32 on compute capability {dotted(capability)}, it starts at 8.0")
    return _of_environment(host) or _of_torch(torch, settings, _measured(load), job_gpus.gpus)


def _measured(load: tuple[Load, ...] | Unknown | None) -> tuple[float, str] | None:
    """How many times as fast as fp32 TF32 was on the first GPU, and in words."""
    for each in load if isinstance(load, tuple) else ():
        tf32, fp32 = each.matmul.get("tf32"), each.matmul.get("fp32")
        if tf32 and fp32:
            rates = f"{tf32 / 1e12:.1f} against {fp32 / 1e12:.1f} TFLOP/s"
            return tf32 / fp32, f"TF32 was measured {tf32 / fp32:.1f}x as fast as fp32, {rates}"
    return None


def _left(host: Host | Unknown) -> str:
    off = isinstance(host, Host) and host.env.get("NVIDIA_TF32_OVERRIDE") == "0"
    return " (NVIDIA_TF32_OVERRIDE=0 is set and would forbid it)" if off else ""


def _of_environment(host: Host) -> Verdict | None:
    """A variable that overrules what torch's flags say."""
    name = "NVIDIA_TF32_OVERRIDE"
    if host.env.get(name) == "0":
        return warn(
            f"{name}=0: NVIDIA's libraries refuse TF32 whatever torch's flags say",
            f"unset {name}",
            fix=f"Unset {name}. torch does not see it: its own flag reads on while nothing runs "
            "in TF32.",
            sources=("nvidia-tf32-override",),
        )
    name = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
    value = host.env.get(name)
    if value is None:
        return None
    does = (
        "sets torch's initial flag only, code may change it later"
        if value == "1"
        else "has no effect on a flag that code sets"
    )
    return warn(
        f"{name}={value[:80]}, required: TF32 set by the script",
        f"unset {name}",
        fix=f"Unset {name} and set TF32 in the script, so that a run elsewhere gives the same "
        f"numbers at the same speed. The variable {does}.",
    )


def _of_torch(
    torch: Torch,
    settings: Settings,
    measured: tuple[float, str] | None,
    gpus: tuple[JobGpu, ...],
) -> Verdict:
    if settings.tf32_matmul is None:
        return unknown("torch did not tell whether matmul TF32 is on")
    told = f"; {measured[1]}" if measured else ""
    after = settings.when != "after import"
    if settings.tf32_matmul:
        return ok(f"fp32 job, matmul TF32 is on{' after your code ran' if after else ''}{told}")
    if measured and measured[0] < MATTERS:
        return ok(f"fp32 job, matmul TF32 is off{told}: it hardly matters on {gpus[0].name}")
    line, note = tf32_statement(torch)
    how = (
        "off after your code ran, on required"
        if after
        else "off as torch sets it by default, on required; your script may set it"
    )
    return warn(
        f"fp32 job, matmul TF32 is {how}{told or f'; {_gain(gpus[0])}'}",
        line,
        fix=f"Add this line to the start of the script: {line}{f'. {note}' if note else ''}",
    )


def _gain(gpu: JobGpu) -> str:
    """What TF32 brings on this GPU, as far as figures are documented."""
    if "GeForce" in gpu.name:
        return f"{gpu.name} is a GeForce: about 1x, its dense TF32 rate equals its fp32 rate"
    if gpu.capability in DATA_CENTRE:
        return f"{gpu.name} is a data-centre chip: 2-8x on large matmuls"
    return (
        f"for {gpu.name} no figure is documented (2-8x on data-centre chips, about 1x on GeForce)"
    )


FITS = Check(
    code="NUM001",
    slug="precision-fits-gpu",
    title="The precision of the job is native to the GPU",
    why="bf16 tensor cores start at compute capability 8.0. On 7.x bf16 is emulated: slow, and "
    "attention falls back to the math backend, since flash attention needs 8.0. Two things mislead "
    "there. torch.cuda.is_bf16_supported() without arguments answers True since torch 2.3, because "
    "it counts emulation; is_bf16_supported(including_emulation=False), from 2.4 on, answers "
    'False. And \'"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for '
    "'BFloat16'' is no matter of the GPU: it is an enabled GradScaler that meets bf16 gradients, "
    "that is bf16 weights, on any CUDA card.",
    passes=(
        "bf16 on compute capability >= 8.0, on ROCm, on the CPU and on MPS from macOS "
        "14 and torch 2.6 on",
        "fp16 asked for on 7.x",
        "fp32 below 7.0",
        "any precision on the CPU",
        "fp16 or fp32 on MPS",
    ),
    warns=(
        "auto on 7.x, where fp16 with a GradScaler is chosen",
        "fp16 asked for on >= 8.0 or ROCm, where bf16 is safer",
        "fp16 below 7.0",
        "fp32 on a GPU with fast bf16 or fp16",
        "bf16 on MPS before macOS 14 or torch 2.6",
    ),
    fails=("bf16 (or --recipe pure-bf16) asked for below compute capability 8.0",),
    fix="Use fp16 autocast with a GradScaler (fp16=True), over fp32 weights, or rent a GPU of "
    "compute capability 8.0 or above. Choose by torch.cuda.get_device_capability() >= (8, 0): the "
    "bare is_bf16_supported() says True on this GPU since torch 2.3, it counts emulation. If a "
    "GradScaler raises 'not implemented for BFloat16', the weights were loaded in bf16: load them "
    "in fp32 for fp16 autocast.",
    limits="that the model trains stably in this precision.",
    owner=Owner.JOB,
    judge=precision_fits_gpu,
    sources=(
        "titan-matrix",
        "titan-why",
        "ps-P1",
        "ps-P3",
        "ps-P5",
        "ps-P6",
        "pytorch-129288",
        "pytorch-127176",
        "cuda-gpus",
    ),
)

TF32 = Check(
    code="NUM002",
    slug="tf32-setting",
    title="An fp32 job multiplies matrices in TF32",
    why="Since torch 1.12 fp32 matmuls do not use TF32 unless told to; convolutions do. On "
    "data-centre chips that leaves most of the matmul rate unused: 156 against 19.5 TFLOPS on an "
    "A100. On GeForce cards the dense TF32 rate equals the fp32 rate, so little is gained. Where "
    "the load measured both rates, they decide. Two "
    "environment variables change it outside the script, and one of them invisibly.",
    passes=(
        "the job does its matmuls in bf16 or fp16, or matmul TF32 is on, or it was measured to "
        f"be less than {MATTERS} times as fast as fp32 on this GPU",
    ),
    warns=(
        "an fp32 job with matmul TF32 off",
        "NVIDIA_TF32_OVERRIDE=0",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE set (GPUs below 8.0 have no TF32: skipped)",
    ),
    fix='Turn TF32 on at the start of the script: torch.set_float32_matmul_precision("high"), or '
    'from torch 2.9 on torch.backends.cuda.matmul.fp32_precision = "tf32".',
    limits="that TF32 is accurate enough for this model.",
    owner=Owner.JOB,
    judge=tf32_setting,
    sources=("ps-P2", "torch-matmul-precision", "pytorch-76509", "pytorch-166387"),
    targets=("nvidia",),
)

CHECKS = (FITS, TF32)
