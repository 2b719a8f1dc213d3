"""Whether the GPUs that the job needs are there, as NVML and as torch see them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor._util.records import Unknown
from doctor.checks.driver.errors import KERNEL_LOG, RETURN
from doctor.facts.machine import Cuda, Gpu, Host
from doctor.facts.views import JobGpu, JobGpus, visible_gpus
from doctor.job.job import Job
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown, warn

VARIABLE = "CUDA_VISIBLE_DEVICES"
PROHIBITED, EXCLUSIVE = 2, 3
BUSY = "busy or unavailable"
NONE_THERE = re.compile(r"No (CUDA|HIP) GPUs are available")


def visible(
    job: Job,
    host: Host | Unknown,
    gpus: tuple[Gpu, ...] | Unknown | None,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
) -> Verdict:
    wanted = host.visible_devices if isinstance(host, Host) else None
    listed = visible_gpus(gpus, wanted) if isinstance(gpus, tuple) else None
    torch_sees = _torch_sees(cuda)
    trouble = _hidden(wanted, gpus, torch_sees) or _lost(listed) or _held(job_gpus, cuda)
    if trouble:
        return trouble
    known = [n for n in (torch_sees, None if listed is None else len(listed)) if n is not None]
    if not known:
        return unknown(f"neither NVML nor torch could tell: {_why_torch_did_not(cuda)}")
    need, sliced = job.gpus or 1, any(gpu.slice for gpu in listed or ())
    if sliced and need > 1:
        return _sliced(listed or (), wanted, need)
    said = _said(torch_sees, listed, need)
    if min(known) < need:
        return fail(said, fix=_why_fewer(wanted))
    if torch_sees is None:
        return unknown(f"{said}; torch could not tell: {_why_torch_did_not(cuda)}")
    if listed is not None and not sliced and len(listed) != torch_sees:
        return warn(f"{said}; both must see the same")
    return ok(said)


def _torch_sees(cuda: Cuda | Unknown | None) -> int | None:
    if not isinstance(cuda, Cuda):
        return None
    if cuda.started.ok:
        return len(cuda.gpus)
    return 0 if NONE_THERE.search(cuda.started.detail) else None


def _why_torch_did_not(cuda: Cuda | Unknown | None) -> str:
    if cuda is None:
        return "it was not asked"
    return cuda.reason if isinstance(cuda, Unknown) else cuda.started.detail


def _hidden(
    wanted: str | None, gpus: tuple[Gpu, ...] | Unknown | None, torch_sees: int | None
) -> Verdict | None:
    """The variable leaves nothing, and torch did not see anything all the same."""
    if wanted is None or torch_sees:
        return None
    if isinstance(gpus, tuple):
        names_none = bool(gpus) and not visible_gpus(gpus, wanted)
    else:
        names_none = wanted.strip() in ("", "-1")
    if not names_none:
        return None
    there = f" of the {len(gpus)} GPUs that NVML lists" if isinstance(gpus, tuple) else ""
    return fail(
        f"{VARIABLE}={wanted!r} leaves none{there}; at least 1 is required",
        f"unset {VARIABLE}",
        fix=f"Unset {VARIABLE}, or name GPUs that are there: by index, or by a UUID that "
        "`nvidia-smi -L` prints.",
    )


def _lost(listed: Sequence[JobGpu] | None) -> Verdict | None:
    lost = [gpu for gpu in listed or () if gpu.nvml and gpu.nvml.lost]
    if not lost:
        return None
    said = "; ".join(
        f"GPU {gpu.nvml.index}: {gpu.nvml.lost}; it must answer" for gpu in lost if gpu.nvml
    )
    return fail(said, KERNEL_LOG, fix=RETURN, owner=Owner.MACHINE)


def _held(job_gpus: JobGpus | Unknown, cuda: Cuda | Unknown | None) -> Verdict | None:
    """A compute mode that lets nobody in, or one process that is not ours."""
    at_start = cuda.started.detail if isinstance(cuda, Cuda) else ""
    for gpu in job_gpus.gpus if isinstance(job_gpus, JobGpus) else ():
        mode = gpu.nvml.compute_mode if gpu.nvml else None
        if mode not in (PROHIBITED, EXCLUSIVE) or (gpu.torch and gpu.torch.ran):
            continue
        if mode == PROHIBITED:
            return _in_mode(gpu, "is in compute mode prohibited; default is required")
        kernel = gpu.torch.kernel if gpu.torch else None
        refused = BUSY in at_start or (kernel is not None and BUSY in kernel.detail)
        if refused or (gpu.nvml and gpu.nvml.processes):
            said = "is in compute mode exclusive process and held by another; it must be free"
            return _in_mode(gpu, said)
    return None


def _in_mode(gpu: JobGpu, said: str) -> Verdict:
    index = gpu.nvml.index if gpu.nvml else 0
    return fail(
        f"{gpu.label} {said}",
        f"sudo nvidia-smi -i {index} -c DEFAULT",
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
        fix="Set the compute mode to default, or end the process that holds the GPU; both are the "
        "host's to do where you are not root.",
        sources=("pytorch-100691",),
    )


def _sliced(listed: Sequence[JobGpu], wanted: str | None, need: int) -> Verdict:
    """A process sees one MIG slice, whatever there is; the slices are counted through NVML."""
    there = len(listed)
    if wanted is None:
        there = sum(len(gpu.nvml.slices) if gpu.slice and gpu.nvml else 1 for gpu in listed)
    said = f"{there} MIG slice{'s' * (there != 1)}, --gpus {need}"
    if there < need:
        fix = (
            "Take whole GPUs: one process uses one MIG slice, and NCCL between slices is "
            "experimental. Or train on one slice with --gpus 1."
        )
        return fail(f"{said} required", fix=fix, sources=("pytorch-130181", "nccl-1716"))
    return warn(
        f"{said}: a process uses one slice, and NCCL between slices is experimental",
        fix="Train on one slice with --gpus 1, or have MIG mode switched off.",
        sources=("pytorch-130181", "nccl-1716"),
    )


def _said(torch_sees: int | None, listed: Sequence[JobGpu] | None, need: int) -> str:
    parts = []
    if torch_sees is not None:
        parts.append(f"torch sees {torch_sees}")
    if listed is not None:
        names = dict.fromkeys(gpu.nvml.name for gpu in listed if gpu.nvml and gpu.nvml.name)
        parts.append(f"NVML {len(listed)}" + (f" ({', '.join(names)})" if names else ""))
    return f"GPUs: {', '.join(parts)}; {need} required"


def _why_fewer(wanted: str | None) -> str | None:
    if wanted is None:
        return None
    return f"{VARIABLE}={wanted!r} chooses among the GPUs: name more of them, or lower --gpus."


VISIBLE = Check(
    code="GPU001",
    slug="gpus-visible",
    title="torch and NVML see the GPUs that the job needs",
    why="A job that was paid for eight GPUs and sees seven starts all the same, or dies when the "
    "launcher asks for the eighth. CUDA stops reading CUDA_VISIBLE_DEVICES at the first entry that "
    "it does not know and says nothing. In exclusive compute mode a second process gets no "
    "context.",
    passes=(
        "torch and NVML see the same number of GPUs, and at least --gpus of them (1 if "
        "the job does not say). On ROCm torch is asked alone",
    ),
    warns=(
        "they are MIG slices and --gpus is more than 1",
        "torch and NVML see different numbers, both large enough",
    ),
    fails=(
        "fewer are visible",
        "CUDA_VISIBLE_DEVICES is empty or names nothing that is there",
        "a GPU is lost",
        "its compute mode is prohibited, or exclusive and another process holds it",
    ),
    fix="Ask for the missing GPUs: the container's --gpus or the scheduler's request decides what "
    "is visible. Compare with `nvidia-smi -L` on the host.",
    limits="that the GPUs are fast or healthy: they are only seen.",
    owner=Owner.ENVIRONMENT,
    judge=visible,
    returns=True,
    required="gpus",
    commands=("nvidia-smi -L",),
    sources=("pytorch-130181", "nccl-1716", "pytorch-100691"),
    after=("DRV001",),
    targets=("nvidia", "rocm"),
)
