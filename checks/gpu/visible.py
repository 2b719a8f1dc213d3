"""Whether NVML and torch see the GPUs that the job needs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor._util.records import Unknown
from doctor.checks.driver.cuda_version import is_too_old
from doctor.checks.gpu import rocm
from doctor.checks.gpu.remedies import LOST
from doctor.checks.torch_build.replacement import JETSON
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Torch
from doctor.facts.machine import Driver, Gpu
from doctor.facts.views import NOT_IN_REPORT, JobGpu, JobGpus, is_undivided, visible_gpus
from doctor.hardware.vendors import ON_CUDA
from doctor.job.job import Job, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown, warn
from doctor.judge.known_errors import (
    ALLOCATOR_OPTIONS,
    GPU_NOT_STARTED,
    KERNEL_LOG,
    NO_INSTANCES,
    WSL1,
    WSL_DRIVER,
    fail_by,
    find_cause,
)

VARIABLE = "CUDA_VISIBLE_DEVICES"
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Options of torch's allocator of GPU memory; releases before 2.9 read only the last two."""
OF_SELECTION = ("cuda-environment",)
PROHIBITED, EXCLUSIVE = 2, 3
BUSY = "busy or unavailable"
NOT_BUILT = "not compiled with"
"""In the message of a torch without CUDA, see TOR002."""
WHERE_FROM = ('echo "$LD_LIBRARY_PATH" "$LD_PRELOAD"', "ls -l /dev/nvidia*")
NOT_STARTED = (
    "The process was given no GPU, or loads another CUDA than the driver's. Ask for a GPU (--gres, "
    "--gpus), and give a container NVIDIA_DRIVER_CAPABILITIES=compute,utility. Where the driver "
    "starts CUDA outside torch (DRV001 passes), compare the two: another libcuda.so.1 on "
    "LD_LIBRARY_PATH, a device node that is missing in the container, and variables that torch "
    "reads. If nothing differs, restart the container, then the host."
)
BUILD = "torch's build"
"""In the message where a report does not show it."""
UNKNOWN_BUILD = (
    "Where torch.version.cuda is None, torch is built for the CPU only, as PyPI's is for Windows "
    "and was for aarch64: install it from PyTorch's index for CUDA (pytorch.org/get-started). "
    "Otherwise the process was given no GPU, or the driver is older than torch's CUDA requires."
)
OF_JETSON = ("cat /etc/nv_tegra_release", 'python -c "import torch; print(torch.version.cuda)"')
NUMBER = re.compile(r"ValueError: sto(ull|ul|ll|l|i|d|f)")
"""The whole message of torch about an allocator's option whose value is no number."""
UNKNOWN_ERROR = "unknown error"
WSL_GPUS, OUT_OF_MEMORY = 3, "out of memory"
"""So many GPUs start in WSL2; beyond them cudaGetDeviceCount returns error 2, whatever is free."""
WSL_MANY = (
    "WSL2 starts CUDA with three GPUs and runs out of memory with more, whatever memory is free: "
    "disable GPUs in Windows' Device Manager until three remain, then wsl --shutdown. To use "
    "all of them, boot Linux."
)
NO_GPUS = re.compile(r"No (CUDA|HIP) GPUs are available")


def visible(
    job: Job,
    host: Host | Unknown,
    driver: Driver | Unknown | None,
    gpus: tuple[Gpu, ...] | Unknown | None,
    torch: Torch | Unknown,
    cuda: Cuda | Unknown | None,
    job_gpus: JobGpus | Unknown,
    target: Target,
) -> Verdict:
    selection = host.visible_devices if isinstance(host, Host) else None
    if target.kind == "rocm":
        gpus = None  # an NVIDIA GPU may be in the same machine
    listed = visible_gpus(gpus, selection) if isinstance(gpus, tuple) else None
    torch_count = _torch_count(cuda)
    is_old = target.kind == "nvidia" and is_too_old(driver, torch, cuda, job_gpus)
    reason = "the driver is too old for it, see DRV002" if is_old else _torch_reason(cuda)
    problem = (
        (target.kind == "rocm" and rocm.problem(host, torch_count, _start_error(cuda)))
        or _hidden(selection, gpus, torch_count)
        or _lost(listed)
        or _occupied(job_gpus, cuda)
        or _undivided(listed, torch_count)
        or (not is_old and _not_started(cuda, host, listed))
    )
    if problem:
        return problem
    counts = [n for n in (torch_count, None if listed is None else len(listed)) if n is not None]
    if not counts:
        return unknown(f"the number of GPUs is not known: {reason}")
    need, sliced = job.gpus or 1, any(gpu.slice for gpu in listed or ())
    if sliced and need > 1:
        return _sliced(listed or (), selection, need)
    summary = _summary(torch_count, listed, need)
    if min(counts) < need:
        is_rocm = target.kind == "rocm"
        return rocm.too_few(summary, host) if is_rocm else _too_few(summary, gpus, selection)
    if torch_count is None:
        return unknown(f"{summary}; {_uncounted(reason)}")
    if listed is not None and not sliced and len(listed) != torch_count:
        return warn(f"{summary}; both must see the same number", sources=OF_SELECTION)
    return ok(summary)


def _uncounted(reason: str) -> str:
    if reason == NOT_IN_REPORT:
        return f"{reason} how many torch sees"
    return f"torch could not count them: {reason}"


def _start_error(cuda: Cuda | Unknown | None) -> str | None:
    """torch's message where it did not start on the GPU."""
    return cuda.started.detail if isinstance(cuda, Cuda) and not cuda.started.ok else None


def _torch_count(cuda: Cuda | Unknown | None) -> int | None:
    """The number of GPUs that torch sees, None if it cannot say."""
    if not isinstance(cuda, Cuda):
        return None
    if cuda.started.ok:  # a report of an error alone does not name the GPUs
        return len(cuda.gpus) if all(gpu.name for gpu in cuda.gpus) else None
    return 0 if NO_GPUS.search(cuda.started.detail) else None


def _undivided(listed: Sequence[JobGpu] | None, torch_count: int | None) -> Verdict | None:
    """A failure if torch has no GPU, and each is in MIG mode without an instance."""
    if torch_count or not listed or not all(gpu.nvml and is_undivided(gpu.nvml) for gpu in listed):
        return None
    count = f"{len(listed)} GPUs are" if len(listed) > 1 else "The GPU is"
    return fail_by(NO_INSTANCES, f"{count} in MIG mode and no instance exists; one required")


def _not_started(
    cuda: Cuda | Unknown | None, host: Host | Unknown, listed: Sequence[JobGpu] | None
) -> Verdict | None:
    """A failure if torch.cuda.init raised, crashed or hung; cuInit did not, as DRV001 passes."""
    if not isinstance(cuda, Cuda) or cuda.started.ok or _torch_count(cuda) is not None:
        return None
    started = cuda.started
    if NOT_BUILT in started.detail:
        return None
    summary = f"CUDA does not start in torch: {started.detail or started.how}"
    pattern = find_cause(started)
    if pattern is ALLOCATOR_OPTIONS or NUMBER.fullmatch(started.detail):
        options = _allocator_options(host)
        if options:
            values = ", ".join(f"{name}={value[:80]!r}" for name, value in options.items())
            return fail(
                f"{summary} ({values})",
                f"unset {' '.join(options)}",
                fix=f"Correct or unset {' and '.join(options)}: this torch does not accept an "
                "option or a value in it. Options are written as name:value, separated by commas.",
                sources=ALLOCATOR_OPTIONS.sources,
            )
    if pattern is None and BUILD in started.detail:
        if isinstance(host, Host) and host.jetson:
            return fail(summary, *OF_JETSON, fix=JETSON, sources=("pytorch-jetson",))
        return fail(summary, 'python -c "import torch; print(torch.version.cuda)"',
                    "nvidia-smi", fix=UNKNOWN_BUILD, sources=("pytorch-install",))  # fmt: skip
    in_wsl = isinstance(host, Host) and host.wsl
    alone = pattern is None and isinstance(host, Host) and not host.container
    if in_wsl and (alone or UNKNOWN_ERROR in started.detail):
        return _in_wsl(summary, listed or (), host)
    return fail_by(pattern, summary) if pattern else fail(summary, *WHERE_FROM, fix=NOT_STARTED)


def _in_wsl(summary: str, listed: Sequence[JobGpu], host: Host | Unknown) -> Verdict:
    """The failure where the driver is that of Windows: WSL has no module nvidia_uvm."""
    if len(listed) > WSL_GPUS and OUT_OF_MEMORY in summary:
        return fail(summary, "nvidia-smi -L", fix=WSL_MANY, sources=("ck-916",))
    is_first = isinstance(host, Host) and host.sandbox == "WSL1"
    return fail_by(WSL1 if is_first else WSL_DRIVER, summary)


def _allocator_options(host: Host | Unknown) -> dict[str, str]:
    """The variables with options of torch's allocator that are set."""
    env = host.env if isinstance(host, Host) else {}
    return {name: env[name] for name in ALLOCATOR_VARIABLES if env.get(name)}


def _torch_reason(cuda: Cuda | Unknown | None) -> str:
    """Why torch does not report a number."""
    if cuda is None:
        return "torch was not examined"
    detail = cuda.reason if isinstance(cuda, Unknown) else cuda.started.detail
    return detail or "no GPU is named"


def _hidden(
    selection: str | None, gpus: tuple[Gpu, ...] | Unknown | None, torch_count: int | None
) -> Verdict | None:
    """A failure if the variable selects no GPU and torch sees none."""
    if selection is None or torch_count:
        return None
    if isinstance(gpus, tuple):
        selects_none = bool(gpus) and not visible_gpus(gpus, selection)
    else:
        selects_none = selection.strip() in ("", "-1")
    if not selects_none:
        return None
    total = f" of the {len(gpus)} GPUs that NVML lists" if isinstance(gpus, tuple) else ""
    return fail(
        f"{VARIABLE}={selection!r} selects none{total}; at least 1 required",
        f"unset {VARIABLE}",
        fix=f"Unset {VARIABLE}, or name existing GPUs: by index, or by a UUID that "
        "`nvidia-smi -L` prints.",
        sources=OF_SELECTION,
    )


def _lost(listed: Sequence[JobGpu] | None) -> Verdict | None:
    lost = [gpu for gpu in listed or () if gpu.nvml and gpu.nvml.lost]
    if not lost:
        return None
    errors = ", ".join(f"{_place(gpu)}: {gpu.nvml.lost}" for gpu in lost if gpu.nvml)
    summary = f"{errors}; every GPU must respond"
    return fail(summary, *KERNEL_LOG, fix=LOST, owner=Owner.MACHINE, sources=("xid-catalog",))


def _place(gpu: JobGpu) -> str:
    """NVML's number, which the host knows, or the address."""
    is_known = gpu.nvml is not None and not gpu.nvml.unnumbered
    return f"GPU {gpu.nvml.index}" if gpu.nvml and is_known else gpu.place


def _occupied(job_gpus: JobGpus | Unknown, cuda: Cuda | Unknown | None) -> Verdict | None:
    """A failure if the compute mode forbids processes, or another process uses the GPU alone."""
    start_error = cuda.started.detail if isinstance(cuda, Cuda) else ""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    for gpu in gpus:
        mode = gpu.nvml.compute_mode if gpu.nvml else None
        if mode not in (PROHIBITED, EXCLUSIVE) or (gpu.torch and gpu.torch.ran):
            continue
        if mode == PROHIBITED:
            return _in_mode(gpu, gpus, "is in compute mode prohibited; mode default required")
        kernel = gpu.torch.kernel if gpu.torch else None
        refused = BUSY in start_error or (kernel is not None and BUSY in kernel.detail)
        if refused or (gpu.nvml and gpu.nvml.processes):
            state = "is in compute mode exclusive process, and another process uses it"
            return _in_mode(gpu, gpus, f"{state}; a free GPU required")
    return None


def _in_mode(gpu: JobGpu, gpus: Sequence[JobGpu], state: str) -> Verdict:
    """The failure of one GPU, with the command for all of them that are in its mode."""
    mode = gpu.nvml.compute_mode if gpu.nvml else None
    same = [each.nvml.index for each in gpus if each.nvml and each.nvml.compute_mode == mode]
    also = f"; in this mode are GPUs {', '.join(map(str, same))}" if len(same) > 1 else ""
    return fail(
        f"{gpu.label} {state}{also}",
        *(f"sudo nvidia-smi -i {index} -c DEFAULT" for index in same),
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
        fix="Set the compute mode to default, or end the process that uses the GPU. Without root "
        "access, ask the host's administrator.",
        sources=("pytorch-100691",),
    )


def _sliced(listed: Sequence[JobGpu], selection: str | None, need: int) -> Verdict:
    """Several MIG slices: a process sees only one, so NVML counts them."""
    count = len(listed)
    if selection is None:
        count = sum(len(gpu.nvml.slices) if gpu.slice and gpu.nvml else 1 for gpu in listed)
    summary = f"{count} MIG slice{'s' * (count != 1)}; --gpus {need}"
    if count < need:
        fix = (
            "Use whole GPUs: a process uses one MIG slice, and NCCL between slices is "
            "experimental. Or train on one slice with --gpus 1."
        )
        return fail(f"{summary} required", fix=fix, sources=("pytorch-130181", "nccl-1716"))
    return warn(
        f"{summary} required, but a process uses one slice, and NCCL between slices is "
        "experimental",
        fix="Train on one slice with --gpus 1, or have MIG mode turned off.",
        sources=("pytorch-130181", "nccl-1716"),
    )


def _summary(torch_count: int | None, listed: Sequence[JobGpu] | None, need: int) -> str:
    parts = []
    if torch_count is not None:
        parts.append(f"torch sees {torch_count}")
    if listed is not None:
        names = dict.fromkeys(gpu.nvml.name for gpu in listed if gpu.nvml and gpu.nvml.name)
        parts.append(f"NVML {len(listed)}" + (f" ({', '.join(names)})" if names else ""))
    return f"GPUs: {', '.join(parts)}; {need} required"


def _too_few(
    summary: str, gpus: tuple[Gpu, ...] | Unknown | None, selection: str | None
) -> Verdict:
    if selection is not None:
        among = f"{VARIABLE}={selection!r} selects among the GPUs"
        fix = f"{among}: name more of them, or lower --gpus."
        return fail(summary, fix=fix, sources=OF_SELECTION)
    if gpus == ():
        commands = ("nvidia-smi -L", *KERNEL_LOG)
        return fail(summary, *commands, fix=NONE_LISTED, sources=GPU_NOT_STARTED.sources)
    return fail(summary, sources=("aicr-1858",))


NONE_LISTED = (
    "In a container: start it with the GPUs (docker run --gpus all, or the scheduler's request). "
    f"On the host: {GPU_NOT_STARTED.fix[0].lower()}{GPU_NOT_STARTED.fix[1:]}"
)

VISIBLE = Check(
    code="GPU001",
    slug="gpus-visible",
    title="torch and NVML see the GPUs that the job needs",
    why="A job that expects eight GPUs and sees seven starts nevertheless, or dies when the "
    "launcher requests the eighth. CUDA stops reading CUDA_VISIBLE_DEVICES at the first unknown "
    "entry, without a message. In exclusive compute mode a second process gets no context.",
    passes=(
        "torch and NVML see the same number of GPUs, at least --gpus (default 1)",
        "on ROCm, torch alone sees at least that number",
        "GPUs that this process has no permission to open do not count (Slurm's cgroups)",
    ),
    warns=(
        "the GPUs are MIG slices, and --gpus is more than 1",
        "torch and NVML see different numbers, both large enough",
    ),
    fails=(
        "fewer GPUs are visible",
        "CUDA_VISIBLE_DEVICES is empty or names no existing GPU",
        "a GPU is lost",
        "all GPUs are in MIG mode, and none has an instance",
        "CUDA does not start in torch, although the driver starts it in another process, as with "
        "an option in PYTORCH_CUDA_ALLOC_CONF that this torch does not know",
        "a GPU's compute mode is prohibited, or exclusive with another process on it",
    ),
    fix="Request the missing GPUs: the container's --gpus or the scheduler's request decides which "
    "are visible. Compare with `nvidia-smi -L` on the host.",
    limits="that the GPUs are fast or healthy: they are only counted.",
    owner=Owner.ENVIRONMENT,
    judge=visible,
    returns=True,
    required="gpus",
    commands=("nvidia-smi -L",),
    sources=("cuda-environment", "pytorch-130181", "nccl-1716", "pytorch-100691"),
    after=("DRV001",),
    targets=ON_CUDA,
    also=("read",),
)
