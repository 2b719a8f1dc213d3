"""Whether the precision of the job is native to its GPUs."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown, warn
from doctor.judge.switches import CPU_FP16, is_before

AMPERE, VOLTA = (8, 0), (7, 0)
"""First capability with native bf16, and with fp16 tensor cores (titan-matrix)."""
OLDER_AMD = re.compile(r"\bMI(6|8|25|50|60|100)\b|Vega|Radeon VII", re.IGNORECASE)
CDNA_2 = re.compile(r"\bMI2\d\dX?\b", re.IGNORECASE)
MACOS_BF16 = (14, 0)
MPS_BF16 = "2.6"
"""First torch whose autocast takes bf16 on MPS: torch/amp of the releases 2.5 and 2.6."""


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
        return _fits_cpu(chosen, summary, torch)
    if target.kind == "mps":
        return _fits_mps(chosen, summary, host, torch)
    if target.kind == "rocm":
        return _fits_rocm(job, chosen, summary, job_gpus)
    if isinstance(job_gpus, Unknown):
        return unknown(f"{summary}; {job_gpus.reason}")
    capability = job_gpus.lowest_capability
    if capability is None:
        return unknown(f"{summary}; the compute capability could not be read")
    weakest = next(gpu for gpu in job_gpus.gpus if gpu.capability == capability)
    summary = f"{summary} on {weakest.label}, compute capability {dotted(capability)}"
    if capability >= AMPERE:
        return _fits_bf16_gpu(chosen, summary)
    return _fits_before_ampere(chosen, capability, summary, _newer_only(job_gpus))


def _newer_only(job_gpus: JobGpus) -> str:
    """The variable that leaves the job the GPUs with native bf16; "" if all or none have it."""
    newer = [gpu for gpu in job_gpus.gpus if gpu.capability and gpu.capability >= AMPERE]
    ids = [gpu.nvml.uuid if gpu.nvml else gpu.torch.uuid if gpu.torch else None for gpu in newer]
    if not newer or len(newer) == len(job_gpus.gpus) or None in ids:
        return ""
    return f"CUDA_VISIBLE_DEVICES={','.join(map(str, ids))}"


def _fits_cpu(chosen: Chosen, summary: str, torch: Torch | Unknown) -> Verdict:
    too_old = isinstance(torch, Torch) and is_before(torch.version, CPU_FP16)
    if chosen.precision != "fp16" or not too_old:
        return ok(summary)
    assert isinstance(torch, Torch)
    return fail(
        f"{summary} on the CPU, torch {torch.version}; at least {CPU_FP16} required",
        fix=f"Train in bf16 or fp32 there, or install torch {CPU_FP16} or newer.",
    )


def _fits_rocm(job: Job, chosen: Chosen, summary: str, job_gpus: JobGpus | Unknown) -> Verdict:
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    native = {_native_bf16(gpu) for gpu in gpus}
    names = " and ".join(dict.fromkeys(gpu.name for gpu in gpus))
    summary = f"{summary} on ROCm" + (f", {names}" if names else "")
    if native == {True}:
        return _fits_bf16_gpu(chosen, summary)
    if False not in native:
        return ok(f"{summary}; whether bf16 is native there is not known")
    if job.precision == "bf16" or job.pure_bf16:
        return warn(
            f"{summary}, which has no bf16 instructions; bf16 is emulated",
            fix="Train in fp16 autocast with a GradScaler (--precision fp16).",
            sources=("rocm-precision",),
        )
    return ok(f"{summary}, which has no bf16 instructions: --precision fp16 is faster")


def _native_bf16(gpu: JobGpu) -> bool | None:
    """Whether an AMD GPU computes bf16 as fast as fp16; None: not known.

    torch reports 9.0 for gfx900 to gfx90a, so names decide there: CDNA 2 (MI200) has it, Vega and
    CDNA 1 (MI100, at half the rate) do not. RDNA 1 and 2 are 10.x, RDNA 3 and 4 are 11.x and 12.x.
    """
    if gpu.capability is None or gpu.capability == (0, 0):
        return None
    if gpu.capability[0] == 10 or OLDER_AMD.search(gpu.name):
        return False
    if gpu.capability > (9, 0) or CDNA_2.search(gpu.name):
        return True
    return None


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
    chosen: Chosen, capability: tuple[int, int], summary: str, newer_only: str
) -> Verdict:
    if chosen.precision == "bf16":
        summary = f"{summary}; at least 8.0 required for native bf16"
        if not newer_only:
            return fail(summary)
        fix = "Leave the older GPUs out, or train in fp16 with a GradScaler on all (fp16=True)."
        return fail(summary, f"export {newer_only}", fix=fix)
    if newer_only:
        summary += f"; {newer_only} leaves the GPUs with native bf16"
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
    return ok(f"{summary}, with a GradScaler over fp32 weights")


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
        "fp16 with a GradScaler on 7.x, requested or chosen by auto",
        "fp32 below 7.0",
        f"any precision on the CPU, fp16 from torch {CPU_FP16} on",
        "fp16 or fp32 on MPS",
    ),
    warns=(
        "fp16 requested on 8.0 or above or on an AMD GPU with native bf16, where bf16 is safer",
        "bf16 requested on an AMD GPU that emulates it (RDNA 1 and 2, Vega, MI100 and older)",
        "fp16 below 7.0",
        "fp32 on a GPU with fast bf16 or fp16",
        "bf16 on MPS before macOS 14 or torch 2.6",
    ),
    fails=(
        "bf16 (or --recipe pure-bf16) requested below compute capability 8.0",
        f"fp16 on the CPU before torch {CPU_FP16}",
    ),
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
        "rocm-precision",
    ),
    also=("read",),
)

CHECKS = (FITS,)
