"""The torch build has code for each GPU of the job."""

from __future__ import annotations

import re

from doctor._util.records import Ended, Unknown
from doctor._util.units import dotted
from doctor.checks.torch_build.extension_code import of_extension
from doctor.checks.torch_build.gpu_code import cubins, may_hide_ptx, ptx, toolkit_without_cubins
from doctor.checks.torch_build.imports import how
from doctor.checks.torch_build.replacement import JETSON, Replacement, replace_torch
from doctor.checks.torch_build.rocm_code import first_rocm, gfx_in, override, rocm_of, wheel_codes
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter, Torch
from doctor.facts.machine import Driver
from doctor.facts.views import JobGpu, JobGpus
from doctor.hardware.find import family_of
from doctor.hardware.product import Capability
from doctor.hardware.vendors import ON_CUDA
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, unknown, warn
from doctor.judge.known_errors import BROKEN_GPU, NO_GPU_CODE, NO_HIP_CODE, fail_by, find_cause

FORCED = ("CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT")
"""Set to 1, the driver ignores machine code and compiles PTX, which most wheels do not contain."""
DISABLED = ("CUDA_DISABLE_PTX_JIT", "CUDA_DISABLE_JIT")
"""Set to 1, the driver compiles no PTX."""

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
NOT_USED = (NO_GPU_CODE.id, NO_HIP_CODE.id, "hip-memory-fault")
"""Errors of a kernel where the code that the build has is not used, or other code is."""

RELEASE = re.compile(r"\d+\.\d+\.\d+(?:\+cu\d+)?")
"""A release of PyTorch, whose wheels contain no PTX; builds of others may."""

OF_BUILDS = (
    "cuda-binary-compatibility",
    "cuda-gpus",
    "pytorch-172352",
    "pytorch-157517",
    "cuda-minor-compatibility",
)
OF_ROCM = ("pytorch-164346", "pytorch-103973")

_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


def has_gpu_code(
    torch: Torch | Unknown,
    job_gpus: JobGpus,
    driver: Driver | Unknown | None,
    host: Host | Unknown,
    interpreter: Interpreter | Unknown,
) -> Verdict:
    """The verdict of the worst GPU; among passes, one that follows from the table alone."""
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    if isinstance(torch, Unknown):  # a pasted warning names the GPU, and not torch
        if all(gpu.torch is None or gpu.torch.kernel is None for gpu in job_gpus.gpus):
            return unknown(torch.reason)
        torch = Torch(version="of unknown version")
    wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
    verdicts = []
    for gpu in job_gpus.gpus:
        message = gpu.torch.kernel.detail if gpu.torch and gpu.torch.kernel else ""
        other = of_extension(torch, gpu.capability, message, host, interpreter)
        hiding = _hiding(host, torch, gpu)
        verdicts.append((_code_for(torch, gpu, hiding, wheel, other), _kernel_ran(gpu)))
    worst, _ = min(
        verdicts,
        key=lambda pair: (
            _WORST_FIRST.index(pair[0].status),
            pair[0].owner is not Owner.MACHINE,
            pair[1],
        ),
    )
    if worst.status is Status.PASS and len(verdicts) > 1:
        return ok(f"{worst.summary}; the other {len(verdicts) - 1} GPUs pass too")
    return worst


def _kernel_ran(gpu: JobGpu) -> bool:
    kernel = gpu.torch.kernel if gpu.torch else None
    return kernel is not None and kernel.ok


def _hiding(host: Host | Unknown, torch: Torch, gpu: JobGpu) -> tuple[str, ...]:
    """Variables because of which the driver does not use the code that the build has for it."""
    if not isinstance(host, Host):
        return ()
    if torch.hip:
        return _overriding(host, torch, gpu)
    if gpu.capability is None:
        return ()
    native = cubins(torch.archs, gpu.capability)
    compiled = ptx(torch.archs, gpu.capability) or may_hide_ptx(torch.cuda, gpu.capability)
    names = FORCED if native else DISABLED if compiled else ()
    return tuple(f"{name}=1" for name in names if host.env.get(name) == "1")


def _overriding(host: Host, torch: Torch, gpu: JobGpu) -> tuple[str, ...]:
    """The override that makes ROCm run code of another family than the GPU's; it changes the gfx
    name that ROCm prints, and not the GPU's own."""
    value, family = host.env.get(OVERRIDE, ""), family_of(gpu.name)
    gfx = (family.gfx if family else "") or _gfx(gpu) or ""
    has_code = gfx in torch.archs or gfx in (wheel_codes(torch.version) or ())
    is_other = value.partition(".")[0] != gfx[3:-2]
    return (f"{OVERRIDE}={value}",) if value and has_code and is_other else ()


def _code_for(
    torch: Torch,
    gpu: JobGpu,
    hiding: tuple[str, ...],
    wheel: Replacement,
    extension: Replacement | None,
) -> Verdict:
    kernel = gpu.torch.kernel if gpu.torch else None
    capability = gpu.capability
    archs = " ".join(torch.archs)
    of = f"torch {torch.version}"
    code = f"{of} has {archs}" if archs else f"the GPU code in {of} is not known"
    version = "" if capability is None or torch.hip else f", {dotted(capability)}"
    label = f"{gpu.label}{version}"
    if kernel is not None and kernel.ok:
        return ok(f"{label}: a kernel ran and its result was read back; {code}")
    if kernel is not None:
        summary = f"{label}: the kernel {how(kernel)}; {code}"
        cause = find_cause(kernel)
        if hiding and cause and cause.id in NOT_USED:
            return _hidden(summary, hiding)
        return _kernel_failed(summary, kernel, extension or _for_gpu(torch, gpu, wheel))
    if torch.hip:
        return _by_gfx(f"{label}: no kernel was run", torch, gpu)
    if capability is None:
        return unknown(f"{label}: the compute capability could not be read; {code}")
    summary = f"{label}: no kernel was run; {code}"
    if hiding:
        return unknown(f"{summary}; whether it is used with {', '.join(hiding)} is not known")
    return _by_table(summary, torch, capability, wheel)


def _for_gpu(torch: Torch, gpu: JobGpu, wheel: Replacement) -> Replacement:
    """The remedy where this GPU has no code: one for NVIDIA's needs its capability."""
    kernel, gfx = gpu.torch.kernel if gpu.torch else None, _gfx(gpu)
    if torch.hip or (gfx and first_rocm(gfx) != (0, 0)):
        return _for_rocm(torch, gpu)
    if kernel is not None and "HIP error" in kernel.detail:
        return Replacement(NO_HIP_CODE.fix, NO_HIP_CODE.commands)
    known = gpu.capability or wheel.fix == JETSON
    return wheel if known else Replacement(NO_GPU_CODE.fix, NO_GPU_CODE.commands)


def _hidden(summary: str, hiding: tuple[str, ...]) -> Verdict:
    """The build has code for the GPU, and the environment forbids the driver to use it."""
    names = [each.partition("=")[0] for each in hiding]
    return fail(
        f"{summary}; {', '.join(hiding)} is set",
        f"unset {' '.join(names)}",
        fix=f"Unset {' and '.join(names)}: with it the driver does not use the code that this "
        "build has for the GPU. Another build is not needed.",
        sources=("cuda-environment",),
    )


def _kernel_failed(summary: str, kernel: Ended, wheel: Replacement) -> Verdict:
    pattern = find_cause(kernel)
    if pattern is NO_GPU_CODE:
        sources = OF_ROCM if "HIP error" in kernel.detail else OF_BUILDS
        return fail(summary, *wheel.commands, fix=wheel.fix, sources=sources)
    if pattern is None and kernel.how == "timeout":
        pattern = BROKEN_GPU
    if pattern is None:
        return fail(summary, fix="Fix the error that was raised, then run the doctor again.")
    return fail_by(pattern, summary)


def _by_gfx(summary: str, torch: Torch, gpu: JobGpu) -> Verdict:
    """An AMD GPU by its gfx name: what the build lists, or what PyTorch's wheels contain."""
    gfx = _gfx(gpu)
    published = wheel_codes(torch.version)
    if gfx is None or not (torch.archs or published):
        return unknown(f"{summary}; {'its gfx name' if gfx is None else 'its code'} is not known")
    if gfx in (code.split(":")[0] for code in torch.archs):
        return ok(f"{summary}; torch {torch.version} has {gfx}")
    if torch.archs or (published and gfx not in published):
        contains = " ".join(sorted(torch.archs or published or ()))
        remedy = _for_rocm(torch, gpu)
        summary = f"{summary}; torch {torch.version} has at most {contains}, not {gfx}"
        return fail(summary, *remedy.commands, fix=remedy.fix, sources=OF_ROCM)
    return unknown(
        f"{summary}; newer wheels have {gfx}, whether torch {torch.version} has it is not known"
    )


def _gfx(gpu: JobGpu) -> str | None:
    return (gpu.torch.gfx if gpu.torch else None) or gfx_in(gpu.name)


def _for_rocm(torch: Torch, gpu: JobGpu) -> Replacement:
    """A remedy for an AMD GPU that the build has no code for."""
    gfx = _gfx(gpu)
    if gfx is None:
        return Replacement(
            "Install a ROCm build with code for this GPU; rocminfo prints its name. Or run the "
            "code of a similar GPU, which AMD does not support: set HSA_OVERRIDE_GFX_VERSION to "
            "10.3.0 for RDNA 2, to 11.0.0 for RDNA 3 and 3.5."
        )
    first, command = first_rocm(gfx), override(gfx)
    fix = f"use a wheel that AMD builds for it, or build torch with PYTORCH_ROCM_ARCH={gfx}."
    if first is None:
        fix = f"No wheel of PyTorch has code for {gfx}: {fix}"
    elif first <= rocm_of(torch):
        fix = f"torch {torch.version} was built without code for {gfx}: {fix}"
    else:
        fix = f"Install a wheel of torch for ROCm {dotted(first)} or newer."
    if command is None:
        return Replacement(fix)
    return Replacement(
        f"{fix} Or run the code of a similar GPU, which AMD does not support, and "
        "verify the results.",
        (command,),
    )


def _by_table(summary: str, torch: Torch, capability: Capability, wheel: Replacement) -> Verdict:
    gpu = dotted(capability)
    if native := cubins(torch.archs, capability):
        return ok(f"{summary}; {native[-1]} runs on {gpu}")
    if compiled := ptx(torch.archs, capability):
        return warn(f"{summary}; only {compiled[-1]} (PTX) matches {gpu}", sources=OF_BUILDS)
    first = None if torch.archs else toolkit_without_cubins(torch.cuda, capability)
    if first:
        needs = f"machine code for {gpu} requires a build for CUDA {dotted(first)} or newer"
        if RELEASE.fullmatch(torch.version):
            summary = f"{summary}; {needs}"
            return fail(summary, *wheel.commands, fix=wheel.fix, sources=OF_BUILDS)
        summary = f"{summary}; {needs}, and this build may contain PTX instead"
        return warn(summary, sources=OF_BUILDS)
    if not torch.archs or may_hide_ptx(torch.cuda, capability):
        return unknown(f"{summary}; it may contain code for {gpu} that is not listed")
    summary = f"{summary}; none of it runs on {gpu}"
    return fail(summary, *wheel.commands, fix=wheel.fix, sources=OF_BUILDS)


HAS_GPU_CODE = Check(
    code="TOR003",
    slug="build-has-gpu-code",
    title="The torch build has code for each GPU of the job",
    why="A wheel contains machine code for some architectures only; without code the first kernel "
    "raises 'no kernel image is available for execution on the device'. A cubin runs on its major "
    "version from its minor version on (sm_86 on 8.9), except on Jetson. PTX is compiled at the "
    "first launch and needs a driver as new as the build's CUDA.",
    passes=(
        "a kernel ran on each GPU, and its result was read back",
        "no kernel was run, and the build has a cubin that runs there, or on ROCm code for the gfx "
        "name",
    ),
    warns=("no kernel was run, and only PTX matches",),
    fails=(
        "the kernel failed, for want of code or because a variable such as CUDA_FORCE_PTX_JIT "
        "forbids the driver to use it",
        "no kernel was run, and no code matches",
    ),
    fix="Install a torch build with machine code for this GPU; compared with PTX it also avoids "
    "the compilation.",
    limits="that extensions built separately from torch (flash-attn, bitsandbytes, apex) have code "
    "for the GPU.",
    owner=Owner.ENVIRONMENT,
    judge=has_gpu_code,
    returns=True,
    required="always",
    sources=("ps-U28", *OF_BUILDS, *OF_ROCM),
    after=("TOR002",),
    targets=ON_CUDA,
    also=("read",),
)

CHECKS = (HAS_GPU_CODE,)
