"""Whether an fp32 job multiplies matrices in TF32."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.facts.host import Host
from doctor.facts.load import Load
from doctor.facts.training import Settings
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.find import find
from doctor.job.job import Chosen
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown, warn
from doctor.judge.switches import MATMUL_PRECISION

AMPERE = (8, 0)
"""First capability with TF32 (titan-matrix)."""
MATTERS = 1.2
"""Speed of TF32 relative to fp32; below it TF32 gains less than its precision loss costs."""


def tf32_setting(
    chosen: Chosen,
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
    return _by_environment(host) or _by_torch(settings, _measured(load), job_gpus.gpus)


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
    settings: Settings, measured: tuple[float, str] | None, gpus: tuple[JobGpu, ...]
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
    return warn(f"fp32 job, matmul TF32 is {state}{note or f'; {_gain(gpus[0])}'}")


def _gain(gpu: JobGpu) -> str:
    """The speed of TF32 on this GPU by its data sheet."""
    known = find(gpu.name)
    gain = known.tf32_gain if known else None
    if gain is None:
        return f"no figure is documented for {gpu.name} (up to 8x on data-center GPUs)"
    if gain < MATTERS:
        return f"about {gain:.0f}x on a {gpu.name}, whose dense TF32 rate equals its fp32 rate"
    return f"up to {gain:.0f}x on large matmuls on a {gpu.name}"


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
    fix=f"Add this line to the start of the script:\n{MATMUL_PRECISION}\nIt works in every torch. "
    "The newer torch.backends.cuda.matmul.fp32_precision makes the legacy getters raise, which "
    "torch.compile before torch 2.15 and Lightning call.",
    limits="that TF32 is accurate enough for this model.",
    owner=Owner.JOB,
    judge=tf32_setting,
    commands=(MATMUL_PRECISION,),
    sources=(
        "ps-P2",
        "torch-matmul-precision",
        "pytorch-76509",
        "pytorch-166387",
        "lightning-tf32",
    ),
    targets=("nvidia",),
)

CHECKS = (TF32,)
