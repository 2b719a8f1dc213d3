"""torch in the training environment: its import, and whether it was built for these GPUs."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from doctor._util.records import Ended, Unknown
from doctor._util.units import dotted
from doctor.checks.torch_build.gpu_code import Capability, cubins, may_hide_ptx, ptx, wheel_for
from doctor.facts.machine import Host, Interpreter, Libraries, Torch
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.error_patterns import (
    BROKEN_GPU,
    GPU_TAKEN,
    MIXED_CUDNN,
    NO_GPU_CODE,
    ErrorPattern,
    match_error,
)

SLOW_IMPORT = 30.0
"""Seconds. A cold import from a local disk takes a few; more is a slow network file system."""

IMPORT_ERRORS = (
    ErrorPattern(
        ("__nvJitLinkComplete",),
        "An older libnvJitLink was found before torch's own: take its folder out of "
        "LD_LIBRARY_PATH, or install torch 2.6 or newer, which loads its own first.",
        sources=("pytorch-134929",),
    ),
    MIXED_CUDNN,
    ErrorPattern(
        ("undefined symbol",),
        "Two libraries that were not built for each other were loaded: take other copies of the "
        "CUDA libraries out of LD_LIBRARY_PATH and LD_PRELOAD, then reinstall torch together with "
        "the packages that it requires.",
        sources=("pytorch-134929",),
    ),
    ErrorPattern(
        ("cannot open shared object file",),
        "A library that torch needs is not there: reinstall torch together with the packages "
        "that it requires.",
    ),
)


def imports(interpreter: Interpreter, torch: Torch | Unknown) -> Verdict:
    ended, path = interpreter.importing, shlex.quote(interpreter.path)
    where = f"{interpreter.path} ({interpreter.chosen})"
    if ended.ok:
        version = f" {torch.version}" if isinstance(torch, Torch) else ""
        if ended.seconds > SLOW_IMPORT:
            said = f"import torch{version} took {ended.seconds:.0f} s in {where}"
            return warn(f"{said}; required: at most {SLOW_IMPORT:.0f} s", seconds=ended.seconds)
        return ok(f"torch{version} imports in {where}", seconds=ended.seconds)
    if "No module named 'torch'" in ended.detail:
        return fail(
            f"torch is not installed for {where}",
            f"{path} -m pip install torch",
            fix="Install torch there, or name the interpreter that trains with --python.",
            seconds=ended.seconds,
        )
    said = f"import torch {_how(ended)} in {where}"
    known = match_error(f"{ended.detail}\n{interpreter.traceback}", IMPORT_ERRORS)
    if known:
        return fail(said, fix=known.fix, sources=known.sources, seconds=ended.seconds)
    return fail(said, f"{path} -X faulthandler -c 'import torch'", seconds=ended.seconds)


def _how(ended: Ended) -> str:
    verb = {"error": "raised", "signal": "crashed", "timeout": "hung"}.get(ended.how, ended.how)
    return f"{verb}: {ended.detail or 'no message'}"


TORCH_IMPORTS = Check(
    code="TOR001",
    slug="torch-imports",
    title="torch imports in the training interpreter",
    why="Everything else is asked of the torch that trains. An import that fails names a library "
    "that is missing or was found in the wrong place; one that takes long is read over a slow file "
    "system, and every worker process pays for it again.",
    passes=(f"import torch succeeds within {SLOW_IMPORT:.0f} s in the interpreter that trains",),
    warns=(f"it succeeds and takes more than {SLOW_IMPORT:.0f} s",),
    fails=("torch is not installed there, or its import raises, crashes or gives no answer",),
    fix="Reinstall torch together with the packages that it requires; a slow import wants the "
    "environment on a local disk.",
    limits="that anything computes: an import touches no GPU.",
    owner=Owner.ENVIRONMENT,
    judge=imports,
    returns=True,
    required="always",
    sources=("ps-U28", "pytorch-install"),
)


def built_for_this_gpu(torch: Torch, host: Host | Unknown, target: Target) -> Verdict:
    built = f"torch {torch.version} is built for {_built_for(torch)}"
    maker, wanted = ("AMD", "ROCm") if target.kind == "rocm" else ("NVIDIA", "CUDA")
    if torch.hip if target.kind == "rocm" else torch.cuda:
        return ok(f"{built}; required beside {maker} GPUs: {wanted}")
    if isinstance(host, Unknown):
        return unknown(f"{built}, and whether GPUs are beside it is unknown: {host.reason}")
    if not (host.has_nvidia or host.amd_devices):
        return skip(f"{built}, and no GPU was found beside it")
    said = f"{built}; required beside {maker} GPUs: a {wanted} build"
    if target.kind == "rocm":
        return fail(said, "python -m pip uninstall torch", "rocminfo", fix=ROCM_BUILD)
    return fail(said)


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
    title="torch is built for the maker of the GPUs",
    why="A build for the CPU alone, or for the other maker's GPUs, trains on the CPU or not at "
    "all. The build says of itself what it is for (torch.version.cuda and torch.version.hip); the "
    "suffix of its version does not, because it depends on the index that it came from.",
    passes=("torch.version.cuda is set beside NVIDIA GPUs, torch.version.hip beside AMD GPUs",),
    fails=("neither is, or the other one, although a GPU is there",),
    fix="Remove torch and install a build for this maker; pytorch.org/get-started names the index. "
    "On x86_64 Linux the default wheels are CUDA builds (for CUDA 13 from torch 2.11 on).",
    owner=Owner.ENVIRONMENT,
    judge=built_for_this_gpu,
    returns=True,
    required="always",
    commands=("python -m pip uninstall torch", "python -m pip install torch"),
    sources=("ps-U28", "pytorch-install"),
    after=("TOR001",),
    targets=("nvidia", "rocm"),
)

READ_BACK = "a kernel ran and its result was read back"
_WORST_FIRST = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS)


def has_gpu_code(torch: Torch, job_gpus: JobGpus) -> Verdict:
    """The worst of its GPUs; among those that are well, one that is so by the table alone."""
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    verdicts = [_code_for(torch, gpu) for gpu in job_gpus.gpus]
    worst = min(verdicts, key=lambda v: (_WORST_FIRST.index(v.status), READ_BACK in v.summary))
    if worst.status is Status.PASS and len(verdicts) > 1:
        return ok(f"{worst.summary}; the other {len(verdicts) - 1} GPUs pass too")
    return worst


def _code_for(torch: Torch, gpu: JobGpu) -> Verdict:
    kernel = gpu.torch.kernel if gpu.torch else None
    on = gpu.capability
    has = f"torch {torch.version} has {' '.join(torch.archs) or 'no list of its GPU code'}"
    card = gpu.label if on is None or torch.hip else f"{gpu.label}, {dotted(on)}"
    if kernel is not None and kernel.ok:
        return ok(f"{card}: {READ_BACK}; {has}")
    if kernel is not None:
        return _kernel_failed(f"{card}: the kernel {_how(kernel)}; {has}", kernel, on, torch)
    if torch.hip:
        return unknown(f"{card}: no kernel was tried; {has}")
    if on is None:
        return unknown(f"{card}: the compute capability could not be read; {has}")
    return _by_table(f"{card}: no kernel was tried; {has}", torch, on)


def _kernel_failed(said: str, kernel: Ended, on: Capability | None, torch: Torch) -> Verdict:
    if any(text in kernel.detail for text in NO_GPU_CODE):
        if on is None or torch.hip:
            return fail(said)
        wheel = wheel_for(on)
        return fail(said, *wheel.commands, fix=wheel.said)
    known = match_error(kernel.detail, (GPU_TAKEN, BROKEN_GPU))
    if known is None and kernel.how == "timeout":
        known = BROKEN_GPU
    if known is None:
        return fail(said, fix="Mend what the error names, then run the doctor again.")
    return fail(said, fix=known.fix, owner=known.owner)


def _by_table(said: str, torch: Torch, on: Capability) -> Verdict:
    if fitting := cubins(torch.archs, on):
        return ok(f"{said}, of which {fitting[-1]} runs on {dotted(on)}")
    if compiled := ptx(torch.archs, on):
        return warn(f"{said}, of which only {compiled[-1]} (PTX) fits {dotted(on)}")
    if not torch.archs or may_hide_ptx(torch.cuda, on):
        return unknown(f"{said}; code for {dotted(on)} may be there without being listed")
    wheel = wheel_for(on)
    return fail(f"{said}; none of it runs on {dotted(on)}", *wheel.commands, fix=wheel.said)


HAS_GPU_CODE = Check(
    code="TOR003",
    slug="build-has-gpu-code",
    title="The torch build has code for each GPU of the job",
    why="A wheel carries machine code for some architectures only. A cubin runs on GPUs of its "
    "own major version from its own minor version on, so sm_86 serves 8.9 and sm_120 serves 12.1, "
    "while Jetson chips want code of their own. Without code the first kernel fails with 'no "
    "kernel image is available for execution on the device'. PTX is compiled on the first launch "
    "and wants a driver at least as new as the build's CUDA; the Linux wheels for "
    "CUDA 13 carry PTX for 12.0 that torch's list does not show.",
    passes=(
        "on each GPU a kernel ran and its result was read back",
        "where none was tried, the build has a cubin that runs there",
    ),
    warns=("no kernel was tried, and only PTX fits",),
    fails=("the kernel failed, or none was tried and no code fits",),
    fix="Install a torch build with code for this GPU; where only PTX fits, it also saves the "
    "compilation.",
    limits="that extensions built apart from torch (flash-attn, bitsandbytes, apex) have code "
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
    ),
    after=("TOR002",),
    targets=("nvidia", "rocm"),
)

FAMILIES = {
    "libcudnn": "cuDNN",
    "libcublas": "cuBLAS",
    "libnccl": "NCCL",
    "libnvJitLink": "nvJitLink",
}

REFUSES_DEVICE = ErrorPattern(
    ("is not compatible with devices",),
    "This cuDNN has dropped one of the visible GPUs: hide that GPU with CUDA_VISIBLE_DEVICES, or "
    "install torch from the cu126 index.",
)


def libraries_match(libraries: Libraries, torch: Torch) -> Verdict:
    loaded = _folders(libraries.loaded)
    used = libraries.used
    if torch.cudnn_error:
        known = match_error(torch.cudnn_error, (REFUSES_DEVICE,)) or MIXED_CUDNN
        return fail(f"cuDNN says: {torch.cudnn_error}", fix=known.fix, sources=known.sources)
    for family, folders in loaded.items():
        if len(folders) > 1:
            fix = (
                f"Leave one {family} to this process: take the folder that torch did not bring out "
                "of LD_LIBRARY_PATH and LD_PRELOAD, or remove it from the system's library path."
            )
            said = f"{family} is loaded from {' and '.join(folders)}; required: one directory"
            return fail(said, fix=MIXED_CUDNN.fix if family == "cuDNN" else fix)
    if used is not None and not used.ok:
        if match_error(used.detail, (MIXED_CUDNN,)):
            return fail(f"cuDNN says: {used.detail}")
        return unknown(f"no kernel ran, so what they load was not seen: {used.detail}")
    for family, folders in _folders(libraries.offered).items():
        if family in loaded and (others := [f for f in folders if f not in loaded[family]]):
            said = f"the environment offers {family} in {others[0]}"
            fix = (
                f"Take {others[0]} out of LD_LIBRARY_PATH and LD_PRELOAD for training: torch has "
                f"its own {family}, and a part of this one may be loaded instead."
            )
            return warn(f"{said}; loaded: the one in {loaded[family][0]}", fix=fix)
    said = ", ".join(f"{family} in {folders[0]}" for family, folders in loaded.items())
    return ok(f"one directory each: {said}" if said else "no such library is loaded as a file")


def _folders(paths: tuple[str, ...]) -> dict[str, list[str]]:
    """Library -> the directories its parts are in, each once."""
    found: dict[str, list[str]] = {}
    for path in map(PurePosixPath, paths):
        for prefix, family in FAMILIES.items():
            if path.name.startswith(prefix):
                folders = found.setdefault(family, [])
                folders += [str(path.parent)] if str(path.parent) not in folders else []
    return found


LIBRARIES_MATCH = Check(
    code="TOR004",
    slug="libraries-match",
    title="All parts of each CUDA library come from one directory",
    why="cuDNN and cuBLAS consist of several files that load each other on first use. When "
    "LD_LIBRARY_PATH, LD_PRELOAD or the system offers another copy, the parts of two versions meet "
    "in one process: it fails at the first convolution, or goes on with kernels that nobody tested "
    "together. Which directory it is does not matter: wheels, conda, a container and a source "
    "build are all right.",
    passes=(
        "after a matmul and an attention call, every library's parts are mapped from one directory",
    ),
    warns=("LD_LIBRARY_PATH or LD_PRELOAD offers another copy, which was not loaded",),
    fails=(
        "parts of one library are mapped from two directories, or cuDNN's own version "
        "check refuses",
    ),
    fix=MIXED_CUDNN.fix,
    limits="that libraries loaded later by other extensions come from there too.",
    owner=Owner.ENVIRONMENT,
    judge=libraries_match,
    returns=True,
    commands=(
        'echo "$LD_LIBRARY_PATH" "$LD_PRELOAD"',
        "ldconfig -p | grep -E 'libcudnn|libcublas|libnccl|libnvJitLink'",
    ),
    sources=("ps-U28", "pytorch-188892", "pytorch-134929"),
    after=("TOR002",),
    targets=("nvidia",),
)

CHECKS = (TORCH_IMPORTS, BUILT_FOR_THIS_GPU, HAS_GPU_CODE, LIBRARIES_MATCH)
