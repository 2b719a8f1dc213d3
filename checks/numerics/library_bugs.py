"""Known bugs of the libraries that torch pins: named where the failure that they cause was seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from packaging.version import Version

from doctor._util.records import Ended, Unknown
from doctor._util.units import dotted
from doctor._util.versions import read_version
from doctor.facts.interpreter import Libraries, Torch
from doctor.facts.load import Load, Peers
from doctor.facts.machine import Driver
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Smoke
from doctor.facts.views import JobGpus
from doctor.judge.check import Check, Owner, Verdict, ok, unknown, warn
from doctor.judge.sources import issue

ANY = ((0, 0), (99, 9))
FIXED_CONV3D = 91500
"""cuDNN's version with which torch 2.9.1 uses it for Conv3d again."""


class LibraryBug(NamedTuple):
    """A bug of a library: the stacks that have it, the error that it causes, and its fix."""

    library: str
    torch: tuple[str, str]
    """From this version, to before that one."""
    cuda: tuple[str, ...]
    """CUDA versions of torch's build; () = any."""
    driver_before: int | None
    """The driver's CUDA version must be lower, as Driver.cuda_version spells it."""
    capability: tuple[tuple[int, int], tuple[int, int]]
    errors: tuple[str, ...]
    """Parts of the messages that it causes."""
    fix: str
    source: str
    command: str = ""
    loaded: str = ""
    """A part of the path of the library that must be mapped; "" = any."""
    effect: str = ""
    """What it causes where it raises no error of its own."""


BUGS = (
    LibraryBug(library="Triton 3.7 (ptxas of CUDA 13.1)", torch=("2.12.0", "3.0"), cuda=(),
        driver_before=13000, capability=((10, 0), (12, 9)),
        errors=("CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"),
        fix="Its ptxas writes code that drivers before 580 cannot load, so torch.compile fails on "
        "Blackwell: upgrade the driver to 580, set TRITON_PTXAS_BLACKWELL_PATH to the ptxas of "
        "CUDA 12.9, or install torch 2.11.", source="quack-182"),
    LibraryBug(library="cuBLAS 12.8.4.1", torch=("2.10.0", "2.11.0"), cuda=("12.8",),
        driver_before=None, capability=ANY, errors=("CUBLAS_STATUS_INVALID_VALUE",),
        fix="cuBLAS 12.9.1.4 worked there; pip then warns that torch pins another version.",
        source="pytorch-180713", command='python -m pip install "nvidia-cublas-cu12==12.9.1.4"'),
    LibraryBug(library="cuBLAS on B300", torch=("2.9.0", "3.0"), cuda=(), driver_before=None,
        capability=((10, 3), (10, 3)), errors=("CUBLAS_STATUS_INVALID_VALUE",),
        fix="No cause is known: try a newer torch, or bf16 where fp16 fails.",
        source="pytorch-170676"),
    LibraryBug(library="cuDNN before 9.15 (Conv3d in bf16 and fp16)", torch=("2.9.0", "2.10.0"),
        cuda=(), driver_before=None, capability=ANY, errors=(),
        fix="Install cuDNN 9.15 or newer beside torch 2.9.1, or torch 2.10.",
        source="pytorch-166643", effect="Conv3d takes up to 17 times the memory there"),
    LibraryBug(library="cuBLAS 13.5.1.27", torch=("2.10.0", "3.0"), cuda=(), driver_before=None,
        capability=((12, 0), (12, 1)), errors=("an illegal memory access was encountered",),
        fix="Install libcublas 13.4, which worked there.", source="pytorch-cpu-feedstock-521",
        command='conda install -c conda-forge "libcublas=13.4"', loaded="libcublas.so.13.5.1"),
    LibraryBug(library="NCCL of torch 2.8 for CUDA 12.6", torch=("2.8.0.dev0", "2.9.0"),
        cuda=("12.6",), driver_before=12030, capability=ANY,
        errors=("invalid argument", "unhandled cuda error", "ncclUnhandledCudaError"),
        fix="It does not start on drivers of CUDA 12.2: upgrade the driver, or install torch 2.7.",
        source="pytorch-150852"),
)  # fmt: skip


def no_library_bug(
    torch: Torch,
    driver: Driver | Unknown | None,
    job_gpus: JobGpus,
    smoke: Smoke | Unknown | None,
    load: tuple[Load, ...] | Unknown | None,
    peers: Peers | Unknown | None,
    own: OwnModel | Unknown | None,
    libraries: Libraries | Unknown | None,
) -> Verdict:
    version = read_version(torch.version)
    if version is None:
        return unknown(f"torch's version cannot be compared: {torch.version}")
    newest = driver.cuda_version if isinstance(driver, Driver) else None
    capabilities = {gpu.capability for gpu in job_gpus.gpus if gpu.capability}
    bugs = [bug for bug in BUGS if _matches(bug, version, torch, newest, capabilities)]
    loaded = libraries.loaded if isinstance(libraries, Libraries) else ()
    bugs = [bug for bug in bugs if any(bug.loaded in path for path in loaded) or not bug.loaded]
    if torch.cudnn and torch.cudnn >= FIXED_CONV3D:
        bugs = [bug for bug in bugs if bug.source != "pytorch-166643"]
    stack = f"torch {torch.version}, CUDA {torch.cuda or 'none'}"
    stack += "".join(f", capability {dotted(each)}" for each in sorted(capabilities))
    details = [ended.detail for ended in _failures(smoke, load, peers, own)]
    observed = [bug for bug in bugs if any(text in line for line in details for text in bug.errors)]
    if observed:
        named = "; ".join(f"{bug.library} ({issue(bug.source)})" for bug in observed)
        return warn(
            f"{stack}: a step failed with the error of a known bug: {named}",
            *(bug.command for bug in observed if bug.command),
            fix="\n".join(f"{bug.library}: {bug.fix}" for bug in observed),
            sources=tuple(bug.source for bug in observed),
        )
    notes = [
        f"{bug.library}: {bug.effect}"
        if bug.effect
        else f"{bug.library} has a known bug that was not seen here"
        for bug in bugs
    ]
    return ok(f"{stack}: {'; '.join(notes) or 'no known bug of a library matches'}")


def _matches(
    bug: LibraryBug,
    version: Version,
    torch: Torch,
    newest: int | None,
    capabilities: set[tuple[int, int]],
) -> bool:
    low, high = (Version(end) for end in bug.torch)
    if not low <= version or Version(version.public) >= high:
        return False
    if torch.cuda is None or (bug.cuda and torch.cuda not in bug.cuda):
        return False
    if bug.driver_before is not None and (newest is None or newest >= bug.driver_before):
        return False
    first, last = bug.capability
    return any(first <= capability <= last for capability in capabilities)


def _failures(
    smoke: Smoke | Unknown | None,
    load: tuple[Load, ...] | Unknown | None,
    peers: Peers | Unknown | None,
    own: OwnModel | Unknown | None,
) -> Iterator[Ended]:
    """How the steps ended that did not complete."""
    ends: list[Ended] = []
    if isinstance(own, OwnModel):
        ends += [own.built, *([own.compiled.ended] if own.compiled else [])]
    for step in (smoke, own.smoke if isinstance(own, OwnModel) else None):
        ends += [stage.ended for stage in step.stages] if isinstance(step, Smoke) else []
    ends += [each.ended for each in load] if isinstance(load, tuple) else []
    ends += [each.ended for each in peers.reductions] if isinstance(peers, Peers) else []
    return (ended for ended in ends if not ended.ok)


LIBRARY_BUGS = Check(
    code="NUM006",
    slug="library-bugs",
    title="No step failed because of a known bug of a library",
    why="torch pins cuBLAS, NCCL and Triton, and a few of these versions fail on some GPUs or "
    "drivers. Other machines with the same versions work, so the versions alone prove nothing: the "
    "check names a bug only if a step failed with its error.",
    passes=("no step failed with the error of a known bug that matches the versions",),
    warns=("a step failed with the error of a known bug that matches the versions",),
    fix="Install a version of the library without the bug, as the finding says.",
    limits="that libraries have no other bug: a few are known here.",
    owner=Owner.ENVIRONMENT,
    judge=no_library_bug,
    sources=(
        "quack-182",
        "pytorch-180713",
        "pytorch-170676",
        "pytorch-150852",
        "pytorch-166643",
        "pytorch-cpu-feedstock-521",
    ),
    after=("TOR001",),
    targets=("nvidia",),
)

CHECKS = (LIBRARY_BUGS,)
