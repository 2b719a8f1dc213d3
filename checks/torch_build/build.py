"""torch in the training environment: whether it imports and is built for these GPUs."""

from __future__ import annotations

import shlex

from doctor._util.records import Ended, Unknown
from doctor._util.units import dotted
from doctor.checks.torch_build.gpu_code import Capability, cubins, may_hide_ptx, ptx
from doctor.checks.torch_build.replacement import Replacement, replace_torch
from doctor.facts.machine import Driver, Host, Interpreter, Torch
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.error_patterns import (
    BROKEN_GPU,
    KILLED,
    MIXED_CUDNN,
    NO_GPU_CODE,
    ErrorPattern,
    fail_by,
    find_pattern,
    match_error,
)

SLOW_IMPORT = 30.0
"""Seconds. A cold import from a local disk takes a few; more means a slow network file system."""

IMPORT_ERRORS = (
    ErrorPattern(
        ("UnsupportedPython",),
        "Name the interpreter that trains with --python: torch 2 requires Python 3.8 or newer.",
    ),
    ErrorPattern(
        ("is not an installed PyTorch",),
        "Another file or directory called torch is found before PyTorch, if that is installed: "
        "rename it, or remove its directory from PYTHONPATH.",
        commands=('echo "$PYTHONPATH"',),
    ),
    ErrorPattern(
        ("static TLS block",),
        "A library was loaded too late for its thread-local memory: preload the one that the error "
        "names with LD_PRELOAD, or import torch before other packages.",
    ),
    ErrorPattern(
        (
            *("MemoryError", "bad_alloc", "Memory allocation still failed"),
            *("failed to map segment", "Cannot allocate memory"),
        ),
        "The process may not use enough memory to load torch's libraries: raise its limit of "
        "address space (ulimit -v unlimited) or the memory of the container.",
        commands=("ulimit -v",),
    ),
    ErrorPattern(
        ("can't start new thread", "Resource temporarily unavailable"),
        "The limit of processes is reached: raise it (ulimit -u, or pids.max of the container), or "
        "end other processes of this user.",
        commands=("ulimit -u",),
    ),
    ErrorPattern(
        ("__nvJitLinkComplete",),
        "An older libnvJitLink is found before torch's own: remove its directory from "
        "LD_LIBRARY_PATH, or install torch 2.6 or newer, which loads its own first.",
        sources=("pytorch-134929",),
    ),
    MIXED_CUDNN,
    ErrorPattern(
        ("undefined symbol",),
        "Two libraries that were not built for each other were loaded: remove other copies of the "
        "CUDA libraries from LD_LIBRARY_PATH and LD_PRELOAD, then reinstall torch together with "
        "the packages that it requires.",
        sources=("pytorch-134929",),
    ),
    ErrorPattern(
        ("cannot open shared object file",),
        "A library that torch needs is missing: reinstall torch together with the packages that it "
        "requires.",
    ),
)


def imports(
    interpreter: Interpreter,
    torch: Torch | Unknown,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
    target: Target,
) -> Verdict:
    ended, path = interpreter.importing, shlex.quote(interpreter.path)
    where = f"{interpreter.path} ({interpreter.chosen})"
    if ended.ok:
        version = f" {torch.version}" if isinstance(torch, Torch) else ""
        if ended.seconds > SLOW_IMPORT:
            summary = f"import torch{version} took {ended.seconds:.0f} s in {where}"
            return warn(f"{summary}; at most {SLOW_IMPORT:.0f} s required", seconds=ended.seconds)
        return ok(f"torch{version} imports in {where}", seconds=ended.seconds)
    if "No module named 'torch'" in ended.detail:
        wheel = Replacement("", ("python -m pip install torch",))
        if target.kind == "nvidia" and isinstance(job_gpus, JobGpus) and job_gpus.gpus:
            wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
        fix = "Install torch there, or name the training interpreter with --python."
        return fail(
            f"torch is not installed in {where}",
            *wheel.commands,
            fix=f"{fix} {wheel.fix}".strip(),
            seconds=ended.seconds,
        )
    summary = f"import torch {_how(ended)} in {where}"
    pattern = match_error(f"{ended.detail}\n{interpreter.traceback}", IMPORT_ERRORS)
    if find_pattern(ended) is KILLED:
        return fail_by(KILLED, summary, seconds=ended.seconds)
    if pattern:
        return fail_by(pattern, summary, seconds=ended.seconds)
    return fail(summary, f"{path} -X faulthandler -c 'import torch'", seconds=ended.seconds)


def _how(ended: Ended) -> str:
    verb = {"error": "raised", "signal": "crashed", "timeout": "hung"}.get(ended.how, ended.how)
    return f"{verb}: {ended.detail or 'no message'}"


TORCH_IMPORTS = Check(
    code="TOR001",
    slug="torch-imports",
    title="torch imports in the training interpreter",
    why="All further checks use the torch of the training interpreter. A failing import names a "
    "library that is missing or was found in the wrong place; a slow one reads from a slow file "
    "system, and every worker process repeats it.",
    passes=(f"import torch succeeds within {SLOW_IMPORT:.0f} s in the training interpreter",),
    warns=(f"the import takes more than {SLOW_IMPORT:.0f} s",),
    fails=("torch is not installed there", "the import raises, crashes or does not return"),
    fix="Reinstall torch together with the packages that it requires. If the import is slow, move "
    "the environment to a local disk.",
    limits="that anything computes: an import uses no GPU.",
    owner=Owner.ENVIRONMENT,
    judge=imports,
    returns=True,
    required="always",
    sources=("ps-U28", "pytorch-install"),
)


def built_for_this_gpu(
    torch: Torch,
    host: Host | Unknown,
    target: Target,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus | Unknown,
    interpreter: Interpreter | Unknown,
) -> Verdict:
    built = f"torch {torch.version} is built for {_built_for(torch)}"
    vendor, platform = ("AMD", "ROCm") if target.kind == "rocm" else ("NVIDIA", "CUDA")
    if torch.hip if target.kind == "rocm" else torch.cuda:
        return ok(f"{built}; {platform} required for {vendor} GPUs")
    if isinstance(host, Unknown):
        return unknown(f"{built}; whether the host has GPUs is unknown: {host.reason}")
    if not (host.has_nvidia or host.amd_devices):
        if not host.pci_listed:
            return unknown(f"{built}; whether the host has GPUs could not be read")
        return skip(f"{built}, and the host has no GPU")
    summary = f"{built}; a {platform} build required for {vendor} GPUs"
    if target.kind == "rocm":
        return fail(summary, "python -m pip uninstall torch", "rocminfo", fix=ROCM_BUILD)
    wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
    return fail(summary, *wheel.commands, fix=wheel.fix)


ROCM_BUILD = (
    "Remove torch and install PyTorch's ROCm build for the ROCm version of this machine; "
    "pytorch.org/get-started names the index. The default wheels are CUDA builds."
)


def _built_for(torch: Torch) -> str:
    if torch.cuda:
        return f"CUDA {torch.cuda}"
    return f"ROCm {torch.hip}" if torch.hip else "the CPU only"


BUILT_FOR_THIS_GPU = Check(
    code="TOR002",
    slug="torch-built-for-this-gpu",
    title="torch is built for the GPUs' vendor",
    why="A build for the CPU only, or for the other vendor's GPUs, trains on the CPU or not at "
    "all. torch.version.cuda and torch.version.hip state what a build is for; the suffix of its "
    "version does not, because it depends on the index that the wheel came from.",
    passes=(
        "the host has NVIDIA GPUs and torch.version.cuda is set",
        "the host has AMD GPUs and torch.version.hip is set",
        "torch.version.hip is set and torch sees AMD GPUs, whatever else the host has",
    ),
    fails=("the host has a GPU, and torch is built for the CPU only or for the other vendor",),
    fix="Install a build for this vendor that the driver runs; pytorch.org/get-started names the "
    "index. On x86_64 Linux the default wheels are CUDA builds (for CUDA 13 from torch 2.11 on, "
    "which requires driver 580).",
    owner=Owner.ENVIRONMENT,
    judge=built_for_this_gpu,
    returns=True,
    required="always",
    sources=("ps-U28", "pytorch-install", "cuda-minor-compatibility"),
    after=("TOR001",),
    targets=("nvidia", "rocm"),
)

_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


def has_gpu_code(
    torch: Torch,
    job_gpus: JobGpus,
    driver: Driver | Unknown | None,
    host: Host | Unknown,
    interpreter: Interpreter | Unknown,
) -> Verdict:
    """The verdict of the worst GPU; among passes, one that follows from the table alone."""
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    wheel = replace_torch(torch, driver, job_gpus, host, interpreter)
    verdicts = [(_code_for(torch, gpu, wheel), _kernel_ran(gpu)) for gpu in job_gpus.gpus]
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


def _code_for(torch: Torch, gpu: JobGpu, wheel: Replacement) -> Verdict:
    kernel = gpu.torch.kernel if gpu.torch else None
    capability = gpu.capability
    code = f"torch {torch.version} has {' '.join(torch.archs) or 'no list of its GPU code'}"
    version = "" if capability is None or torch.hip else f", {dotted(capability)}"
    label = f"{gpu.label}{version}"
    if kernel is not None and kernel.ok:
        return ok(f"{label}: a kernel ran and its result was read back; {code}")
    if kernel is not None:
        summary = f"{label}: the kernel {_how(kernel)}; {code}"
        return _kernel_failed(summary, kernel, torch, wheel)
    if torch.hip:
        return unknown(f"{label}: no kernel was run; {code}")
    if capability is None:
        return unknown(f"{label}: the compute capability could not be read; {code}")
    return _by_table(f"{label}: no kernel was run; {code}", torch, capability, wheel)


def _kernel_failed(summary: str, kernel: Ended, torch: Torch, wheel: Replacement) -> Verdict:
    pattern = find_pattern(kernel)
    if pattern is NO_GPU_CODE:
        return fail(summary) if torch.hip else fail(summary, *wheel.commands, fix=wheel.fix)
    if pattern is None and kernel.how == "timeout":
        pattern = BROKEN_GPU
    if pattern is None:
        return fail(summary, fix="Fix the error that was raised, then run the doctor again.")
    return fail_by(pattern, summary)


def _by_table(summary: str, torch: Torch, capability: Capability, wheel: Replacement) -> Verdict:
    gpu = dotted(capability)
    if native := cubins(torch.archs, capability):
        return ok(f"{summary}; {native[-1]} runs on {gpu}")
    if compiled := ptx(torch.archs, capability):
        return warn(f"{summary}; only {compiled[-1]} (PTX) matches {gpu}")
    if not torch.archs or may_hide_ptx(torch.cuda, capability):
        return unknown(f"{summary}; it may contain code for {gpu} that is not listed")
    return fail(f"{summary}; none of it runs on {gpu}", *wheel.commands, fix=wheel.fix)


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
        "no kernel was run, and the build has a cubin that runs there",
    ),
    warns=("no kernel was run, and only PTX matches",),
    fails=("the kernel failed", "no kernel was run, and no code matches"),
    fix="Install a torch build with machine code for this GPU; compared with PTX it also avoids "
    "the compilation.",
    limits="that extensions built separately from torch (flash-attn, bitsandbytes, apex) have code "
    "for the GPU.",
    owner=Owner.ENVIRONMENT,
    judge=has_gpu_code,
    returns=True,
    required="always",
    sources=(
        "ps-U28",
        "cuda-binary-compatibility",
        "cuda-gpus",
        "pytorch-172352",
        "pytorch-157517",
        "cuda-minor-compatibility",
    ),
    after=("TOR002",),
    targets=("nvidia", "rocm"),
)

CHECKS = (TORCH_IMPORTS, BUILT_FOR_THIS_GPU, HAS_GPU_CODE)
