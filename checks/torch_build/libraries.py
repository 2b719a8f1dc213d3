"""CUDA libraries in torch's process: whether the parts of each come from one directory."""

from __future__ import annotations

from pathlib import PurePosixPath

from doctor.facts.machine import Libraries, Torch
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown, warn
from doctor.judge.error_patterns import MIXED_CUDNN, ErrorPattern, match_error

LIBRARIES = {
    "libcudnn": "cuDNN",
    "libcublas": "cuBLAS",
    "libnccl": "NCCL",
    "libnvJitLink": "nvJitLink",
}

REFUSES_DEVICE = ErrorPattern(
    ("is not compatible with devices",),
    "This cuDNN no longer supports one of the visible GPUs: hide that GPU with "
    "CUDA_VISIBLE_DEVICES, or install torch from the cu126 index.",
)


def libraries_match(libraries: Libraries, torch: Torch) -> Verdict:
    if torch.cudnn_error:
        pattern = match_error(torch.cudnn_error, (REFUSES_DEVICE,)) or MIXED_CUDNN
        summary = f"cuDNN reports: {torch.cudnn_error}"
        return fail(summary, fix=pattern.fix, sources=pattern.sources)
    loaded = _directories(libraries.loaded)
    if mixed := _mixed(loaded):
        return mixed
    used = libraries.used
    if used is not None and not used.ok:
        if match_error(used.detail, (MIXED_CUDNN,)):
            return fail(f"cuDNN reports: {used.detail}")
        return unknown(f"no kernel ran, so the loaded libraries are not known: {used.detail}")
    if shadowed := _shadowed(loaded, _directories(libraries.offered)):
        return shadowed
    each = ", ".join(f"{library} in {paths[0]}" for library, paths in loaded.items())
    return ok(f"one directory per library: {each}" if each else "no such library is loaded")


def _mixed(loaded: dict[str, list[str]]) -> Verdict | None:
    """A failure if the parts of one library come from several directories."""
    for library, directories in loaded.items():
        if len(directories) > 1:
            fix = (
                f"Keep only one {library} for this process: remove the directory that does not "
                "belong to torch from LD_LIBRARY_PATH and LD_PRELOAD, or from the system's library "
                "path."
            )
            summary = (
                f"{library} is loaded from {' and '.join(directories)}; one directory required"
            )
            return fail(summary, fix=MIXED_CUDNN.fix if library == "cuDNN" else fix)
    return None


def _shadowed(loaded: dict[str, list[str]], offered: dict[str, list[str]]) -> Verdict | None:
    """A warning if the environment offers a second copy of a loaded library."""
    for library, directories in offered.items():
        others = [each for each in directories if each not in loaded.get(library, directories)]
        if others:
            return warn(
                f"the environment offers {library} in {others[0]}; only the loaded one in "
                f"{loaded[library][0]} expected",
                fix=f"Remove {others[0]} from LD_LIBRARY_PATH and LD_PRELOAD for training: torch "
                f"has its own {library}, and parts of this copy may be loaded instead.",
            )
    return None


def _directories(paths: tuple[str, ...]) -> dict[str, list[str]]:
    """Library -> the directories of its parts, each once."""
    directories: dict[str, list[str]] = {}
    for path in map(PurePosixPath, paths):
        for prefix, library in LIBRARIES.items():
            if path.name.startswith(prefix):
                known = directories.setdefault(library, [])
                known += [str(path.parent)] if str(path.parent) not in known else []
    return directories


LIBRARIES_MATCH = Check(
    code="TOR004",
    slug="libraries-match",
    title="All parts of each CUDA library come from one directory",
    why="cuDNN and cuBLAS consist of several files that load each other on first use. If "
    "LD_LIBRARY_PATH, LD_PRELOAD or the system offers another copy, parts of two versions mix in "
    "one process: it fails at the first convolution, or continues with an untested combination of "
    "kernels. Any single directory is correct: wheel, conda, container or source build.",
    passes=(
        "after a matmul and an attention call, every library's parts are mapped from one directory",
    ),
    warns=("LD_LIBRARY_PATH or LD_PRELOAD offers another copy, which was not loaded",),
    fails=(
        "parts of one library are mapped from two directories",
        "cuDNN's own version check reports an error",
    ),
    fix=MIXED_CUDNN.fix,
    limits="that libraries loaded later by other extensions come from the same directory.",
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

CHECKS = (LIBRARIES_MATCH,)
