"""Whether the precision is native to the GPU, and whether an fp32 job uses TF32."""

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
"""Speed of TF32 relative to fp32; below it TF32 gains less than its precision loss costs."""
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
    summary = f"{chosen.precision} ({chosen.why})"
    if target.kind == "cpu":
        return ok(summary)
    if target.kind == "mps":
        return _fits_mps(chosen, summary, host, torch)
    if target.kind == "rocm":
        return _fits_bf16_gpu(chosen, f"{summary} on ROCm")
    if isinstance(job_gpus, Unknown):
        return unknown(f"{summary}; {job_gpus.reason}")
    capability = job_gpus.lowest_capability
    if capability is None:
        return unknown(f"{summary}; the compute capability could not be read")
    weakest = next(gpu for gpu in job_gpus.gpus if gpu.capability == capability)
    summary = f"{summary} on {weakest.label}, compute capability {dotted(capability)}"
    if capability >= AMPERE:
        return _fits_bf16_gpu(chosen, summary)
    return _fits_before_ampere(job, chosen, capability, summary)


def _fits_bf16_gpu(chosen: Chosen, summary: str) -> Verdict:
    if chosen.precision == "bf16":
        return ok(summary)
    if chosen.precision == "fp16":
        return warn(
            f"{summary}; bf16 is native there",
            fix="Train in bf16 (bf16=True, no GradScaler): it has fp32's range, so gradients do "
            "not underflow and activations above 65504 do not overflow, at the same speed.",
            sources=("ps-P1",),
        )
    return warn(
        f"{summary}; bf16 is native there",
        fix="Train in bf16 autocast over fp32 weights (bf16=True); keep fp32 as the diagnostic "
        "fallback for a loss that is not finite.",
    )


def _fits_before_ampere(
    job: Job, chosen: Chosen, capability: tuple[int, int], summary: str
) -> Verdict:
    if chosen.precision == "bf16":
        return fail(f"{summary}; at least 8.0 required for native bf16")
    if capability < VOLTA:
        if chosen.precision == "fp32":
            return ok(summary)
        return warn(
            f"{summary}; at least 7.0 required for fp16 tensor cores",
            fix="Train in fp32 on this GPU, or rent one of compute capability 7.0 or above.",
        )
    if chosen.precision == "fp32":
        return warn(
            f"{summary}; fp16 required to use its tensor cores",
            fix="Train in fp16 autocast with a GradScaler (fp16=True), or rent a GPU with native "
            "bf16; keep fp32 as the diagnostic fallback.",
        )
    if job.precision == "auto":
        return warn(
            f"{summary}; at least 8.0 required for native bf16 (fp16 with a GradScaler is chosen)",
            fix="Train in fp16 autocast over fp32 weights with a GradScaler (fp16=True) and pass "
            "--precision fp16; skipped steps while the scaler calibrates are normal. Load the "
            "weights with dtype=torch.float32: by default transformers 5 uses the checkpoint's "
            "dtype, mostly bf16.",
        )
    return ok(f"{summary}, with a GradScaler")


def _fits_mps(
    chosen: Chosen, summary: str, host: Host | Unknown, torch: Torch | Unknown
) -> Verdict:
    if chosen.precision != "bf16":
        return ok(f"{summary} on MPS")
    if isinstance(torch, Torch) and is_before(torch.version, MPS_BF16):
        return warn(
            f"{summary} on MPS, torch {torch.version}; at least {MPS_BF16} required: before it "
            "autocast turns itself off for bf16",
            fix=f"Upgrade to torch {MPS_BF16}, or train in fp32 there (--precision fp32).",
        )
    if isinstance(host, Unknown) or host.macos is None:
        return unknown(f"{summary} on MPS; the version of macOS could not be read")
    summary += f" on MPS, macOS {dotted(host.macos)}; at least {dotted(MACOS_BF16)} required"
    if host.macos >= MACOS_BF16:
        return ok(summary)
    return warn(summary, fix="Upgrade to macOS 14, or train in fp32 there (--precision fp32).")


def tf32_setting(
    chosen: Chosen,
    torch: Torch,
    settings: Settings | Unknown,
    load: tuple[Load, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
) -> Verdict:
    if chosen.precision != "fp32":
        return ok(f"matmuls run in {chosen.precision}; TF32 concerns only fp32{_override(host)}")
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
        return skip(f"compute capability {dotted(capability)} has no TF32, which requires 8.0")
    return _by_environment(host) or _by_torch(torch, settings, _measured(load), job_gpus.gpus)


def _measured(load: tuple[Load, ...] | Unknown | None) -> tuple[float, str] | None:
    """The measured speed of TF32 relative to fp32 on the first GPU, and a text about it."""
    for each in load if isinstance(load, tuple) else ():
        tf32, fp32 = each.matmul.get("tf32"), each.matmul.get("fp32")
        if tf32 and fp32:
            rates = f"{tf32 / 1e12:.1f} and {fp32 / 1e12:.1f} TFLOP/s"
            return tf32 / fp32, f"measured: TF32 {tf32 / fp32:.1f}x as fast as fp32, {rates}"
    return None


def _override(host: Host | Unknown) -> str:
    off = isinstance(host, Host) and host.env.get("NVIDIA_TF32_OVERRIDE") == "0"
    return " (NVIDIA_TF32_OVERRIDE=0 is set and would turn it off)" if off else ""


def _by_environment(host: Host) -> Verdict | None:
    """A warning for a variable that overrides torch's flags."""
    name = "NVIDIA_TF32_OVERRIDE"
    if host.env.get(name) == "0":
        return warn(
            f"{name}=0; required: unset, as NVIDIA's libraries refuse TF32 despite torch's flags",
            f"unset {name}",
            fix=f"Unset {name}. torch does not read it: its own flag is on while nothing runs in "
            "TF32.",
            sources=("nvidia-tf32-override",),
        )
    name = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
    value = host.env.get(name)
    if value is None:
        return None
    effect = (
        "sets only torch's initial flag, which code may change later"
        if value == "1"
        else "has no effect on a flag that code sets"
    )
    return warn(
        f"{name}={value[:80]}; TF32 must be set by the script",
        f"unset {name}",
        fix=f"Unset {name} and set TF32 in the script, so that a run elsewhere gives the same "
        f"numbers at the same speed. The variable {effect}.",
    )


def _by_torch(
    torch: Torch,
    settings: Settings,
    measured: tuple[float, str] | None,
    gpus: tuple[JobGpu, ...],
) -> Verdict:
    if settings.tf32_matmul is None:
        return unknown("torch does not report whether matmul TF32 is on")
    note = f"; {measured[1]}" if measured else ""
    after = settings.when != "after import"
    if settings.tf32_matmul:
        return ok(f"fp32 job, matmul TF32 is on{' after your code ran' if after else ''}{note}")
    if measured and measured[0] < MATTERS:
        return ok(f"fp32 job, matmul TF32 is off{note}; at least {MATTERS}x would matter")
    state = (
        "off after your code ran; on required"
        if after
        else "off by torch's default; on required (your script may set it)"
    )
    line, advice = tf32_statement(torch)
    return warn(
        f"fp32 job, matmul TF32 is {state}{note or f'; {_gain(gpus[0])}'}",
        line,
        fix="\n".join(filter(None, ("Add this line to the start of the script:", line, advice))),
    )


def _gain(gpu: JobGpu) -> str:
    """The documented speed of TF32 on this GPU."""
    if "GeForce" in gpu.name:
        return f"about 1x on a GeForce ({gpu.name}), whose dense TF32 rate equals its fp32 rate"
    if gpu.capability in DATA_CENTRE:
        return f"2-8x on large matmuls on a data-center GPU ({gpu.name})"
    return f"no figure is documented for {gpu.name} (2-8x on data-center GPUs, about 1x on GeForce)"


FITS = Check(
    code="NUM001",
    slug="precision-fits-gpu",
    title="The precision of the job is native to the GPU",
    why="bf16 tensor cores require compute capability 8.0. On 7.x bf16 is emulated: slow, and "
    "attention falls back to the math backend. torch.cuda.is_bf16_supported() misleads: since "
    'torch 2.3 it counts emulation. \'"_amp_foreach_non_finite_check_and_unscale_cuda" not '
    "implemented for 'BFloat16'' means a GradScaler with bf16 weights, on any CUDA GPU.",
    passes=(
        "bf16 on compute capability 8.0 or above, on ROCm, or on MPS with macOS 14 and torch 2.6",
        "fp16 requested on 7.x",
        "fp32 below 7.0",
        "any precision on the CPU",
        "fp16 or fp32 on MPS",
    ),
    warns=(
        "auto on 7.x, where fp16 with a GradScaler is chosen",
        "fp16 requested on 8.0 or above or on ROCm, where bf16 is safer",
        "fp16 below 7.0",
        "fp32 on a GPU with fast bf16 or fp16",
        "bf16 on MPS before macOS 14 or torch 2.6",
    ),
    fails=("bf16 (or --recipe pure-bf16) requested below compute capability 8.0",),
    fix="Use fp16 autocast with a GradScaler (fp16=True), over fp32 weights, or rent a GPU of "
    "compute capability 8.0 or above. In code, choose by "
    "torch.cuda.get_device_capability() >= (8, 0), or from torch 2.4 on by "
    "is_bf16_supported(including_emulation=False): the bare is_bf16_supported() returns True on "
    "this GPU since torch 2.3. If a GradScaler raises 'not implemented for BFloat16', the weights "
    "were loaded in bf16: load them in fp32 for fp16 autocast.",
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
    why="Since torch 1.12 fp32 matmuls do not use TF32 by default; convolutions do. On data-center "
    "GPUs this leaves most of the matmul rate unused: 156 and 19.5 TFLOPS on an A100. On GeForce "
    "GPUs the dense TF32 rate equals the fp32 rate. Two environment variables override the script, "
    "one of them invisibly. If both rates were measured, they decide.",
    passes=(
        "the job runs its matmuls in bf16 or fp16",
        "matmul TF32 is on",
        f"TF32 was measured to be less than {MATTERS} times as fast as fp32 on this GPU",
    ),
    warns=(
        "matmul TF32 is off in an fp32 job",
        "NVIDIA_TF32_OVERRIDE=0 is set",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE is set",
    ),
    fix="Turn TF32 on at the start of the script. From torch 2.9 on:\n"
    'torch.backends.cuda.matmul.fp32_precision = "tf32"\nBefore:\n'
    'torch.set_float32_matmul_precision("high")',
    limits="that TF32 is accurate enough for this model.",
    owner=Owner.JOB,
    judge=tf32_setting,
    sources=("ps-P2", "torch-matmul-precision", "pytorch-76509", "pytorch-166387"),
    targets=("nvidia",),
)

CHECKS = (FITS, TF32)
