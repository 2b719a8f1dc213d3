"""The GPUs while a training runs, as NVML saw them from outside; evaluated with --all."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import gib, shown
from doctor.checks.guard.observed import any_process
from doctor.facts.guard import Guarded
from doctor.facts.load import OtherProcess, Use, Watched
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown, warn

MINUTE = 12
"""Samples in a minute."""
SHARED_BYTES = 1 << 30
"""A desktop's processes and monitoring use less."""
SERVICES = ("nvidia-cuda-mps", "Xorg", "Xwayland", "gnome-shell", "dcgm", "nv-hostengine")
"""Names that begin so belong to the driver, the desktop or the monitoring."""
RISES = 5
"""Windows in a row, each with a higher lowest use than the one before."""
EVEN = 3.0
"""The largest rise of them is at most this many times the smallest: a leak is even, the cache of an
allocator grows more and more rarely."""
NO_GPUS = "no NVIDIA GPU was sampled"

Gpus = tuple[Watched, ...] | Unknown | None


def _alone(guard: Guarded, watched: Gpus) -> Verdict:
    if not any_process(guard, lambda process: process.all):
        return skip("GRD021 is off by default; doctor guard --all evaluates it")
    if isinstance(watched, Unknown):
        return unknown(f"the GPUs were not sampled: {shown(watched.reason)}")
    uses = [(gpu.uuid, gpu.use) for gpu in watched or () if gpu.use is not None]
    if not uses:
        return skip(NO_GPUS)
    sharing = [(uuid, other) for uuid, use in uses for other in use.others if _shares(other)]
    if sharing:
        return warn(_shared(*sharing[0]))
    if reasons := [f"{uuid}: {reason}" for uuid, use in uses if (reason := _unlisted(use))]:
        return unknown(reasons[0])
    least = min(use.with_training for _, use in uses)
    return ok(f"no other process used the GPUs for a minute, in {least:,} samples or more of each")


def _shares(other: OtherProcess) -> bool:
    enough = other.memory is None or other.memory >= SHARED_BYTES
    return enough and other.samples >= MINUTE and not other.name.startswith(SERVICES)


def _shared(uuid: str, other: OtherProcess) -> str:
    memory = "" if other.memory is None else f" up to {gib(other.memory)} of"
    return (
        f"process {other.pid} ({shown(other.name)}), which is not the training's, used{memory} GPU "
        f"{uuid} beside it, in {other.samples:,} samples"
    )


def _unlisted(use: Use) -> str:
    """Why nothing is known of other processes, "" if it is."""
    if reason := use.unread.get("processes"):
        return f"NVML's list of processes: {shown(reason)}"
    if use.with_training < MINUTE:
        return (
            f"NVML listed a process of the training in {use.with_training} of {use.samples} "
            f"samples, at least {MINUTE} required: the run was short, or its pids are those of a "
            "container"
        )
    return ""


def growth(use: Use) -> str:
    """How the memory that NVML reports grows without end, "" if it does not.

    The last windows rise one by one and evenly, and at that rate the GPU is full within as much
    time as has passed. The cache of torch's allocator only rises to its highest need.
    """
    rises = [after - before for before, after in zip(use.memory, use.memory[1:], strict=False)]
    last = rises[-RISES:]
    if len(last) < RISES or use.memory_total is None or min(last) <= 0:
        return ""
    rate = sum(last) / RISES / use.window_seconds
    left = (use.memory_total - use.memory[-1]) / rate
    if max(last) > EVEN * min(last) or left > use.window_seconds * len(use.memory):
        return ""
    return (
        f"NVML's memory in use rose {RISES} times in a row, from {gib(use.memory[-RISES - 1])} to "
        f"{gib(use.memory[-1])} of {gib(use.memory_total)}; at that rate it is full in "
        f"{left / 60:,.0f} minutes"
    )


ALONE = Check(
    code="GRD021",
    slug="gpus-alone",
    title="No other process uses the GPUs",
    why="A process that was left behind, or another user's, takes memory and time from the "
    "training: steps are slow, and the job runs out of memory where it did not before.",
    passes=("NVML lists no other process for a minute on the GPUs while the training runs",),
    warns=(
        "a process that does not descend from the command is listed for a minute, with at least "
        "1 GiB or without a known size",
    ),
    fix="End the process if it is yours and was left behind, or ask its owner. If both share the "
    "GPU on purpose (a server that generates samples), ignore this code.",
    commands=("nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",),
    owner=Owner.ENVIRONMENT,
    judge=_alone,
    limits="that processes in other containers are seen: NVML lists the host's pids, and the code "
    "is unknown where the training's own are not among them.",
    sources=("nvidia-docker-1483",),
)

CHECKS = (ALONE,)
