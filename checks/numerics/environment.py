"""Variables left over from debugging that slow the job or change its results."""

from __future__ import annotations

from typing import NamedTuple

from doctor.facts.machine import Host
from doctor.job.job import Target
from doctor.judge.check import Check, Owner, Verdict, ok, warn

SHOWN = 80
"""Characters of a value that are shown."""
OFF = frozenset({"", "0", "off", "false", "no", "n"})
"""Values that switch a flag off."""


class Leftover(NamedTuple):
    """A variable and what it does while it is set. `quiet` are values that do nothing."""

    name: str
    does: str
    quiet: frozenset[str] = OFF


SET = frozenset({""})
"""For variables that name a file or a mode, where "0" means something."""
_PROFILER = "starts the CUDA command-line profiler"
_INJECTION = "loads that library into every CUDA process, as profilers do"

LEFTOVERS = (
    Leftover("CUDA_LAUNCH_BLOCKING", "waits for every kernel: slow, and it hides races"),
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
    Leftover("TORCH_TRACE", "writes compiler traces into that folder", SET),
    Leftover("TORCH_COMPILE_DEBUG", "writes the compiler's debug files: slow"),
    Leftover("TORCHDYNAMO_DISABLE", "turns torch.compile off without a word"),
    Leftover("PYTORCH_NO_CUDA_MEMORY_CACHING", "calls cudaMalloc for every tensor: very slow", SET),
    Leftover(
        "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK",
        "lets torch run with a cuDNN it was not built for",
    ),
)


def environment_clean(host: Host, target: Target) -> Verdict:
    found = [
        leftover
        for leftover in LEFTOVERS
        if _acts(leftover, target)
        and leftover.name in host.env
        and host.env[leftover.name].strip().lower() not in leftover.quiet
    ]
    if not found:
        idle = [leftover.name for leftover in LEFTOVERS if leftover.name in host.env]
        more = f" that acts here (set, without effect: {', '.join(idle)})" if idle else ""
        return ok(f"no leftover of debugging in the environment{more}")
    said = (f"{row.name}={_short(host.env[row.name])} ({row.does})" for row in found)
    return warn(
        f"set, required unset: {'; '.join(said)}", f"unset {' '.join(r.name for r in found)}"
    )


def _acts(leftover: Leftover, target: Target) -> bool:
    """What only CUDA or NCCL reads does nothing to a job on the CPU or on MPS."""
    return target.kind in ("nvidia", "rocm") or leftover.name.startswith("TORCH")


def _short(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."


CLEAN = Check(
    code="NUM004",
    slug="environment-clean",
    title="No debugging variables are left in the environment",
    why="Variables that were set to find a bug stay in images, shell profiles and job templates. "
    "They slow every step or change results, and nothing in the training log says so.",
    passes=(
        "none of the known debugging, profiling, core-dump and logging variables is "
        "set to a value that does something",
    ),
    warns=("one is set: " + ", ".join(row.name for row in LEFTOVERS),),
    fix="Unset it before the real run: locating a bug and running for results are two "
    "environments. NCCL_P2P_DISABLE may be there because peer-to-peer copies hang on this machine: "
    "then keep it and mend that first.",
    limits="that no variable matters which is not on the list, or that the script sets none "
    "itself.",
    owner=Owner.ENVIRONMENT,
    judge=environment_clean,
    sources=("ps-P9", "ps-P19"),
)

CHECKS = (CLEAN,)
