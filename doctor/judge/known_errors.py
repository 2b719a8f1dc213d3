"""What an error of a driver, a CUDA library or a process means for the verdict.

The rows are those of `doctor.errors`. Only rows that the machine's owner must fix condemn hardware;
a message in no row never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from doctor._util.owner import Owner
from doctor._util.records import Ended
from doctor.errors.cause import Cause
from doctor.errors.fitted import worded
from doctor.errors.match import first, row
from doctor.errors.tables.commands import KERNEL_LOG as KERNEL_LOG
from doctor.judge.check import Verdict, fail, unknown

SEVERAL = "Causes that have this message:"
"""The first line of a fix that does not decide between causes."""


def _row(id: str) -> Cause:
    """The row as it holds for a program of the doctor's own: the job's code is not at fault."""
    cause = row(id)
    return replace(cause, owner=Owner.ENVIRONMENT) if cause.owner is Owner.JOB else cause


GPU_NOT_STARTED = _row("gpu-not-started")
"""Also where nvidia-smi prints Not Found instead of a device handle."""
MISMATCHED = _row("driver-library-mismatch")
"""Where the library came from decides who can fix it, see DRV001."""
PARTS_DIFFER = _row("driver-parts-differ")
"""A mismatch that a restart does not end."""
FABRIC = _row("fabric-not-ready")
CONFIDENTIAL = _row("confidential-gpu-not-ready")
COMPAT = _row("libcuda-compat")
STUB = _row("libcuda-stub")
LIBRARY = _row("driver-library-missing")
NOT_INITIALIZED = _row("cuda-not-initialized")
WSL_DRIVER = _row("wsl-linux-driver")
WSL1 = _row("wsl1-listed")
NOT_LOADED = _row("kernel-module-not-loaded")
IN_CONTAINER = _row("container-lost-gpus")
FORBIDDEN = _row("gpu-no-permission")
ALLOCATOR_OPTIONS = _row("allocator-options")
NO_GPU_CODE = _row("no-kernel-image")
NO_HIP_CODE = _row("hip-architecture")
GPU_TAKEN = _row("gpu-full-or-in-use")
NO_INSTANCES = _row("mig-without-instances")
BROKEN_GPU = _row("gpu-at-fault")
MIXED_CUDNN = _row("cudnn-mismatch")
REFUSES_DEVICE = _row("cudnn-refuses-gpu")
KILLED = _row("killed-sigkill")

DRIVER = (GPU_NOT_STARTED, MISMATCHED, FABRIC, COMPAT, STUB, LIBRARY, NOT_LOADED, IN_CONTAINER,
          FORBIDDEN, _row("wsl-gpu-blocked"))  # fmt: skip
OF_LIBRARIES = (
    *DRIVER,
    ALLOCATOR_OPTIONS,
    NO_GPU_CODE,
    _row("ptx-newer-than-driver"),
    _row("gpu-code-not-loadable"),
    _row("driver-too-old"),
    _row("kernel-not-supported"),
    _row("gpu-not-visible"),
    _row("rocm-device-denied"),
    _row("rocm-no-gpu"),
    NO_HIP_CODE,
    GPU_TAKEN,
    BROKEN_GPU,
    _row("device-side-assert"),
    _row("cuda-illegal-access"),
    _row("display-time-limit"),
    REFUSES_DEVICE,
    MIXED_CUDNN,
    _row("cudnn-attention-failed"),
    _row("cublas-refuses-call"),
    _row("cublas"),
    _row("cudnn-error"),
    _row("nccl-two-packages"),
    _row("library-does-not-fit"),
    _row("ranks-share-gpu"),
    _row("nccl-versions-differ"),
    _row("shm-bus-error"),
    _row("disk-full"),
    _row("nccl-timeout"),
    _row("nccl-error"),
    NOT_INITIALIZED,
    _row("cuda-unavailable"),
)
"""The first that has the message counts, so the more specific row comes first."""
BY_SIGNAL = {
    "SIGKILL": KILLED,
    "SIGBUS": _row("shm-bus-error"),
    **dict.fromkeys(
        ("SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP"), _row("segmentation-fault")
    ),
}
PATTERNS = tuple(dict.fromkeys((*OF_LIBRARIES, *BY_SIGNAL.values())))


def find_cause(ended: Ended) -> Cause | None:
    """The row for how a call or a child process ended, None if there is none."""
    if ended.ok:
        return None
    for name, cause in BY_SIGNAL.items():
        if name in ended.detail:
            return cause
    return first(ended.detail, PATTERNS)


def further(causes: Iterable[Cause]) -> tuple[str, ...]:
    """A line for each further cause: what distinguishes it, its id, its fix."""
    return tuple(
        f"Or, if {each.told_by} ({each.id}): {each.fix}"
        if each.told_by
        else f"Or {each.id}: {each.fix}"
        for each in causes
    )


def any_of(causes: Sequence[Cause]) -> str:
    """The fix of the only cause, or those of all, each with what distinguishes it."""
    if len(causes) == 1:
        return causes[0].fix
    lines = (
        f"{f'If {each.told_by}' if each.told_by else 'In general'} ({each.id}): {each.fix}"
        for each in causes
    )
    return "\n".join([SEVERAL, *lines])


def fail_by(row: Cause, summary: str, *, seconds: float = 0.0) -> Verdict:
    """The failure that a row explains, with the remedy for this wording; unknown if the process was
    killed."""
    row = worded(row, summary)
    if row.id == KILLED.id:
        return unknown(f"{summary}; killed from outside, most often for want of memory: MEM002")
    return fail(
        summary,
        *row.commands,
        fix=row.fix,
        owner=row.owner,
        sources=row.sources,
        seconds=seconds,
        causes=(row.id,),
    )
