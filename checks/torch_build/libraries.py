"""CUDA libraries in torch's process: whether the parts of each come from one directory."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from doctor._util.records import Unknown
from doctor._util.units import dotted
from doctor.checks.torch_build.wheels import torchvision_of
from doctor.errors.match import first
from doctor.facts.interpreter import Interpreter, Libraries, Torch
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.known_errors import MIXED_CUDNN, PATTERNS, REFUSES_DEVICE, fail_by, find_cause

LIBRARIES = {
    "libcudnn": "cuDNN",
    "libcublas": "cuBLAS",
    "libnccl": "NCCL",
    "libnvJitLink": "nvJitLink",
}

SAME_FILE = ("nccl", "cudnn", "cusparselt", "nvshmem")
"""Libraries whose packages for CUDA 11, 12 and 13 all write nvidia/NAME/lib; those of the others
have the major version in their directory or file name."""

JUDGED_HERE = (MIXED_CUDNN, REFUSES_DEVICE)
"""Errors of the matmul and the attention call that say something of the libraries."""
DIRECT = ("libcublas", "libnccl", "libnvJitLink")
"""Libraries that torch loads through its own path whatever LD_LIBRARY_PATH says: its wheels have a
DT_RPATH or load them first, measured on torch 2.9 to 2.15. cuDNN's parts can come from it."""


RELEASE = re.compile(r"(\d)\.(\d{1,2})\.\d{1,2}(?:\+(cu|cpu|rocm)(\d{1,2})?[\d.]*)?$")
"""A published build; those of nightlies and of NVIDIA's containers fit each other otherwise."""
CUDA_12_SINCE, CUDNN_9_SINCE = (2, 1), (2, 4)
"""Releases of torch: PyPI's wheels are for CUDA 12, and the wheels are linked to cuDNN 9."""
CUDNN_8 = "8.9.2.26"
"""What torch 2.1 to 2.3 require."""
SAME_NUMBER_UNTIL = (2, 8)
"""torchaudio has torch's own number up to here."""


def libraries_match(
    libraries: Libraries | Unknown | None,
    torch: Torch | Unknown,
    interpreter: Interpreter | Unknown,
) -> Verdict:
    other = companions(interpreter)
    if isinstance(torch, Unknown):
        return other or written_twice(interpreter, None) or unknown(torch.reason)
    if torch.cudnn_error:
        known = first(torch.cudnn_error, PATTERNS) or MIXED_CUDNN
        text = f"cuDNN reports: {torch.cudnn_error}"
        packages = written_twice(interpreter, torch.cuda, ("cudnn",))
        if packages and known == MIXED_CUDNN:
            return fail(f"{text}; {packages.summary}", *packages.commands, fix=packages.fix or "")
        return fail_by(known, text)
    loaded = _loaded(libraries)
    twice = other or written_twice(interpreter, torch.cuda)
    if twice and loaded.status in (Status.PASS, Status.SKIP, Status.UNKNOWN):
        return twice
    return loaded


def _loaded(libraries: Libraries | Unknown | None) -> Verdict:
    if libraries is None:
        return skip("the loaded libraries were not examined")
    if isinstance(libraries, Unknown):
        return unknown(f"could not be read: {libraries.reason}")
    loaded = _directories(libraries.loaded)
    if mixed := _mixed(loaded):
        return mixed
    used = libraries.used
    if used is not None and not used.ok:
        pattern = find_cause(used)
        if pattern and (pattern in JUDGED_HERE or pattern.owner is Owner.MACHINE):
            return fail_by(pattern, f"a matmul and an attention call raised: {used.detail}")
        return unknown(f"no kernel ran, so the loaded libraries are not known: {used.detail}")
    offered, unused = _offered(libraries)
    if shadowed := _shadowed(loaded, _directories(offered)):
        return shadowed
    each = ", ".join(f"{library} in {paths[0]}" for library, paths in loaded.items())
    summary = f"one directory per library: {each}" if each else "no such library is loaded"
    return ok(f"{summary}; offered and not used: {', '.join(unused)}" if unused else summary)


def written_twice(
    interpreter: Interpreter | Unknown, cuda: str | None, libraries: tuple[str, ...] = SAME_FILE
) -> Verdict | None:
    """A warning if two installed packages contain the same file: the one installed last stays."""
    packages = interpreter.packages if isinstance(interpreter, Interpreter) else ()
    for library in libraries:
        rows = [each for each in packages if re.match(rf"nvidia-{library}-cu\d\d==", each)]
        if len({each.partition("==")[0] for each in rows}) < 2:
            continue
        major = (cuda or "").partition(".")[0]
        own = next((each for each in rows if f"-cu{major}==" in each), None)
        others = [each.partition("==")[0] for each in rows if each != own]
        keep = own.partition("==")[0] if own else "the one of torch's CUDA version"
        commands = [f"python -m pip uninstall {' '.join(others)}"] if own else []
        commands += [f'python -m pip install --force-reinstall --no-deps "{own}"'] if own else []
        return warn(
            f"{' and '.join(rows)} write the same files below nvidia/{library}; one expected",
            *(commands or ("python -m pip list | grep -i nvidia",)),
            fix=f"Keep {keep} only: uninstall the others, then reinstall it, because the files of "
            "the package that was installed last are in place, and uninstalling removes them.",
            sources=("pytorch-186591", "returnn-1802"),
        )
    return None


def other_cudnn(interpreter: Interpreter | Unknown) -> Verdict | None:
    """A warning if the package of cuDNN has another major version than a wheel of this torch is
    linked to. conda's torch has its own."""
    rows = (interpreter.installed or ()) if isinstance(interpreter, Interpreter) else ()
    versions = dict(row.split("==", 1) for row in rows if "==" in row)
    torch = RELEASE.match(versions.get("torch", ""))
    if torch is None or torch[3] not in (None, "cu"):
        return None
    release = int(torch[1]), int(torch[2])
    cuda = torch[4] or ("12" if release >= CUDA_12_SINCE else "11")
    needs = 9 if release >= CUDNN_9_SINCE else 8
    name = f"nvidia-cudnn-cu{cuda[:2]}"
    has = versions.get(name, "")
    if not has or has.startswith(f"{needs}.") or release < (2, 0):
        return None
    own = f"torch=={versions['torch']}"
    again = f'"{name}=={CUDNN_8}"' if needs == 8 else f'--force-reinstall "{own}"'
    return warn(
        f"{name} {has} is installed; {own} is linked to cuDNN {needs}",
        f"python -m pip install {again}",
        fix=f"Install the {name} of this torch again, which another package replaced, and keep "
        "what needs the other (faster-whisper and ctranslate2, onnxruntime, TensorFlow) in an "
        "environment of its own or in a release for this cuDNN; or move torch, torchvision and "
        f"torchaudio together to a release with cuDNN {has[0]} (9 since torch 2.4).",
    )


def companions(interpreter: Interpreter | Unknown) -> Verdict | None:
    """A warning if torchvision or torchaudio was built for another torch than the installed one."""
    rows = (interpreter.installed or ()) if isinstance(interpreter, Interpreter) else ()
    versions = dict(row.split("==", 1) for row in rows if "==" in row)
    torch = RELEASE.match(versions.get("torch", ""))
    for name in ("torchvision", "torchaudio") if torch else ():
        own = RELEASE.match(versions.get(name, ""))
        if torch and own and (why := _other_torch(name, own, torch)):
            build = versions["torch"].partition("+")[2]
            index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
            wanted = f'"{name}=={dotted(_fitting(name, torch))}.*"'
            return warn(
                f"{name} {versions[name]} is {why}; torch {versions['torch']} is installed",
                f"python -m pip install --force-reinstall --no-deps {wanted}{index}",
                fix=f"Install the {name} that was built for this torch. With another one the "
                "import fails (operator torchvision::nms does not exist, undefined symbol), or it "
                "has no kernels for the GPU.",
            )
    return None


def _fitting(name: str, torch: re.Match[str]) -> tuple[int, int]:
    """The release of it that belongs to this torch."""
    release = int(torch[1]), int(torch[2])
    return release if name == "torchaudio" else torchvision_of(release)


def _other_torch(name: str, own: re.Match[str], torch: re.Match[str]) -> str:
    """What it was built for, "" for the installed torch."""
    release, number = (int(torch[1]), int(torch[2])), (int(own[1]), int(own[2]))
    numbered = (
        (1, 8) <= release < (3, 0)
        if name == "torchvision"
        else ((2, 0) <= release <= SAME_NUMBER_UNTIL)
    )
    if numbered and number != _fitting(name, torch):
        return f"for another torch than {dotted(release)}"
    builds = {
        (match[3], match[4] if match[3] == "cu" else "") for match in (own, torch) if match[3]
    }
    return f"a build for {own[3]}{own[4] or ''}" if len(builds) > 1 else ""


def _offered(libraries: Libraries) -> tuple[tuple[str, ...], list[str]]:
    """The offered files that may be loaded beside torch's own, and directories of the others.

    A file of another major version has another name to the linker: libcublas.so.11 never stands in
    for libcublas.so.13.
    """
    majors: dict[str, set[str]] = {}
    for path in libraries.loaded:
        majors.setdefault(_library(path), set()).add(_major(path))
    usable, unused = [], {}
    own = {str(PurePosixPath(path).parent) for path in libraries.loaded}
    for path in libraries.offered:
        library, name = _library(path), PurePosixPath(path).name
        if _major(path) in majors.get(library, {_major(path)}) and not name.startswith(DIRECT):
            usable.append(path)
        elif library in majors and (directory := str(PurePosixPath(path).parent)) not in own:
            unused[f"{library} in {directory}"] = True
    return tuple(usable), list(unused)


def _library(path: str) -> str:
    """ "cuBLAS" for any of its parts, "" for another library."""
    name = PurePosixPath(path).name
    return next((known for prefix, known in LIBRARIES.items() if name.startswith(prefix)), "")


def _major(path: str) -> str:
    """ "12" of "/usr/lib/libcublas.so.12.8.4"."""
    return PurePosixPath(path).name.partition(".so.")[2].partition(".")[0]


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
    for path in paths:
        if library := _library(path):
            known = directories.setdefault(library, [])
            directory = str(PurePosixPath(path).parent)
            known += [directory] if directory not in known else []
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
        "LD_LIBRARY_PATH offers cuBLAS, NCCL or nvJitLink, or a library of another major version, "
        "which torch does not load",
    ),
    warns=(
        "LD_LIBRARY_PATH or LD_PRELOAD offers another cuDNN of the same major version",
        "packages for two CUDA versions that write the same files are installed "
        "(nvidia-nccl-cu12 and nvidia-nccl-cu13)",
        "torchvision or torchaudio was built for another release of torch, or for another major "
        "version of CUDA, than the installed one",
    ),
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
    also=("read",),
)

CHECKS = (LIBRARIES_MATCH,)
