"""Debugging variables in the environment that slow the job or change its results."""

from __future__ import annotations

from typing import NamedTuple

from doctor.facts.host import Host
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, ok, warn

MAX_LENGTH = 80
"""Characters of a value in a summary."""
OFF = frozenset({"", "0", "off", "false", "no", "n"})
"""Values that turn a flag off."""


class Leftover(NamedTuple):
    """A variable and its effect. `inactive` are values without effect."""

    name: str
    effect: str
    inactive: frozenset[str] = OFF


SET = frozenset({""})
"""For variables that name a file or a mode, where "0" has a meaning."""
_PROFILER = "starts the CUDA command-line profiler"
_INJECTION = "loads that library into every CUDA process, as profilers do"
_FORCED_JIT = "ignores machine code: compiles it from PTX at each start, or no kernel runs"

LEFTOVERS = (
    Leftover("CUDA_LAUNCH_BLOCKING", "waits for every kernel: slow, and hides races"),
    Leftover("CUDA_FORCE_PTX_JIT", _FORCED_JIT),
    Leftover("CUDA_FORCE_JIT", _FORCED_JIT),
    Leftover("CUDA_PROFILE", _PROFILER),
    Leftover("COMPUTE_PROFILE", _PROFILER),
    Leftover("OPENCL_PROFILE", "starts the OpenCL profiler"),
    Leftover("NSIGHT_CUDA_DEBUGGER", "prepares every CUDA process for the Nsight debugger"),
    Leftover("CUDA_INJECTION32_PATH", _INJECTION, SET),
    Leftover("CUDA_INJECTION64_PATH", _INJECTION, SET),
    Leftover("CUDA_AUTO_BOOST", "overrides the GPU's own choice of clocks", SET),
    Leftover("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "writes the GPU's memory to disk on a fault"),
    Leftover("CUDA_COREDUMP_FILE", "names the file of such a core dump", SET),
    Leftover("CUDA_DEVICE_WAITS_ON_EXCEPTION", "a faulting process waits for a debugger: it hangs"),
    Leftover("NCCL_P2P_DISABLE", "sends traffic between GPUs through host memory: slow"),
    Leftover("NCCL_DEBUG", "logs every communicator", frozenset({"", "version", "warn"})),
    Leftover("TORCH_DISTRIBUTED_DEBUG", "checks every collective: slow", frozenset({"", "off"})),
    Leftover("TORCH_NCCL_BLOCKING_WAIT", "blocks the host on every collective"),
    Leftover("TORCH_NCCL_DESYNC_DEBUG", "tracks every collective"),
    Leftover("TORCH_CPP_LOG_LEVEL", "logs from C++", frozenset({"", "warning", "error", "fatal"})),
    Leftover("TORCH_LOGS", "logs the compiler", SET),
    Leftover("TORCH_TRACE", "writes compiler traces into that directory", SET),
    Leftover("TORCH_COMPILE_DEBUG", "writes the compiler's debug files: slow"),
    Leftover("TORCHDYNAMO_DISABLE", "turns torch.compile off without a message"),
    Leftover("PYTORCH_NO_CUDA_MEMORY_CACHING", "calls cudaMalloc for every tensor: very slow", SET),
    Leftover(
        "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK",
        "allows torch to run with a cuDNN it was not built for",
    ),
)


def environment_clean(host: Host, target: Target) -> Verdict:
    active = [
        leftover
        for leftover in LEFTOVERS
        if _applies(leftover, target)
        and leftover.name in host.env
        and host.env[leftover.name].strip().lower() not in leftover.inactive
    ]
    if not active:
        idle = [leftover.name for leftover in LEFTOVERS if leftover.name in host.env]
        note = (
            f" has an effect here (set, without effect: {', '.join(idle)})" if idle else " is set"
        )
        return ok(f"no debugging variable{note}")
    values = (f"{row.name}={_short(host.env[row.name])} ({row.effect})" for row in active)
    return warn(
        f"{', '.join(values)}; required: unset", f"unset {' '.join(row.name for row in active)}"
    )


def _applies(leftover: Leftover, target: Target) -> bool:
    """Variables of CUDA and NCCL have no effect on a job on the CPU or on MPS."""
    return target.on_cuda or leftover.name.startswith("TORCH")


def _short(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= MAX_LENGTH else f"{line[:MAX_LENGTH]}..."


CLEAN = Check(
    code="NUM004",
    slug="environment-clean",
    title="No debugging variable is set in the environment",
    why="Variables that were set to find a bug remain in images, shell profiles and job templates. "
    "They slow every step or change results, and the training log does not mention them.",
    passes=(
        "no known debugging, profiling, core-dump or logging variable is set to a value with an "
        "effect",
    ),
    warns=("one of these is set: " + ", ".join(row.name for row in LEFTOVERS),),
    fix="Unset the variable before the real run: debugging and training need separate "
    "environments. If NCCL_P2P_DISABLE is set because peer-to-peer copies hang on this machine, "
    "keep it and fix that first.",
    limits="that no variable outside the list matters, or that the script sets none itself.",
    owner=Owner.ENVIRONMENT,
    judge=environment_clean,
    sources=("torch-cuda-semantics", "cuda-environment"),
)

CHECKS = (CLEAN,)
