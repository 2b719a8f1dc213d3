"""MEM: whether the training fits the GPUs, and the checkpoint the host."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import GIB, MIB, count, gib
from doctor.checkpoint.records import Checkpoint
from doctor.facts.host import Host
from doctor.facts.memory.activations import describe
from doctor.facts.memory.plan import Plan, draw, plan
from doctor.facts.memory.room import host_room
from doctor.facts.memory.training import table
from doctor.facts.own_model import OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

ACTIVATIONS = 0.2
"""Share of the free memory reserved for activations and the allocator (the rule of MEM001)."""
RESERVE = 0.1
"""The same if activations are known: for fragmentation and the CUDA context. Our own number."""
SMALLER_STEP = (
    "Use a smaller batch with more gradient accumulation, shorter samples, or gradient "
    "checkpointing (--checkpointing): the activations do not fit, while weights, gradients and "
    "optimizer state do."
)
STEAL = 0.05
"""Our own number: below it, steal time is not worth a word."""
SLOW_CORE = 300_000
"""Our own number: rounds of SHA-512 per second. Cores from 2014 on reach 800,000 at 2 GHz, half of
that beside a busy sibling; one that is held at 400 MHz does not reach 300,000."""
BUSY = 1.0
"""Processes per processor from which a slow core says nothing."""
CORES_PER_GPU = 2
"""Vast.ai's rule for hosts, machine-checks rank 9."""
SHM_PATH = "/dev/shm"  # noqa: S108 - only its size is read
SHM_GOOD = GIB
SHM_DOCKER = 64 * MIB
"""Docker's default size of /dev/shm (pytorch#5040)."""


def vram_fits(
    job: Job,
    target: Target,
    chosen: Chosen | Unknown,
    job_gpus: JobGpus | Unknown,
    checkpoint: Checkpoint | Unknown | None,
    host: Host | Unknown,
    shape: ModelShape | Unknown | None,
    own: OwnModel | Unknown | None,
) -> Verdict:
    needs = plan(job, target, chosen, job_gpus, checkpoint, host, shape, own)
    if needs is None:
        return skip("the size of the model is not stated: --params 8B or --checkpoint PATH")
    if isinstance(needs, Unknown):
        return unknown(needs.reason)
    known = needs.activations
    reserve = RESERVE if known else ACTIVATIONS
    counted = f"of state, {describe(known)}" if known else "before activations"
    summary = (
        f"{count(needs.size.parameters)} parameters ({needs.size.basis}), "
        f"{_recipe(job, needs.chosen)}: {gib(needs.state)} {counted}; "
        f"{gib(needs.free)} {needs.where}, {gib(needs.need / (1 - reserve))} required"
    )
    if needs.need <= needs.free * (1 - reserve):
        return ok(summary)
    remedy = SMALLER_STEP if needs.state <= needs.free * (1 - ACTIVATIONS) else VRAM.fix
    fix = f"{remedy}\nBytes of this training:\n{_table(needs)}"
    return fail(summary, fix=fix) if _certain(job, needs) else warn(summary, fix=fix)


def _certain(job: Job, needs: Plan) -> bool:
    """The state of a stated recipe, or a measured peak; an estimate alone proves nothing."""
    activations = needs.activations
    if activations and activations.measured and needs.need > needs.free:
        return True
    return job.recipe is not None and needs.state > needs.free


def _table(needs: Plan) -> str:
    activations = needs.activations
    if activations is None:
        return table(needs.parts, needs.shards)
    return f"{table(needs.parts, needs.shards, describe(activations))}\n{draw(needs.bar)}"


def _recipe(job: Job, chosen: Chosen) -> str:
    recipe = job.recipe or ("assumed: fp32" if chosen.precision == "fp32" else "assumed: amp")
    trained = "" if job.trainable is None else f", {count(job.trainable)} of them trained"
    optimizer = {"adamw": "Adam"}.get(job.optimizer, job.optimizer)
    return f"recipe {recipe} with {optimizer}{trained}"


def host_memory(
    host: Host, job: Job, target: Target, job_gpus: JobGpus | Unknown, checkpoint: Checkpoint | None
) -> Verdict:
    verdicts = [_cores(host, target, _gpu_count(job, target, job_gpus))]
    room = host_room(host)
    if checkpoint is not None:
        verdicts.append(_holds(room, checkpoint))
    elif not isinstance(room, Unknown):
        verdicts.append(ok(f"{gib(room[0])} {room[1]}, no checkpoint named"))
    return worst(*verdicts)


def _holds(room: tuple[float, str] | Unknown, checkpoint: Checkpoint) -> Verdict:
    if isinstance(room, Unknown):
        return unknown(room.reason)
    free, where = room
    if free < checkpoint.files.largest:
        size = gib(checkpoint.files.largest)
        return fail(f"{gib(free)} {where}; {size} required by the checkpoint's largest file")
    summary = f"{gib(free)} {where}; {gib(checkpoint.files.bytes)} required by the checkpoint"
    return ok(summary) if free >= checkpoint.files.bytes else warn(summary)


def _cores(host: Host, target: Target, gpus: int | None) -> Verdict:
    usable = [number for number in (host.cpus, host.cgroup_cpus) if number is not None]
    if host.cpus is None:
        return unknown("the usable CPU cores could not be counted")
    summary = f"{min(usable):g} usable CPU cores"
    if target.kind in ("cpu", "mps"):
        return ok(summary)
    if gpus is None:
        options = "--gpus N" if host.has_nvidia else "--gpus N or --device cpu"
        return unknown(f"{summary}; the GPUs of the job could not be counted: pass {options}")
    required = CORES_PER_GPU * gpus
    summary += f" for {gpus} GPU{'' if gpus == 1 else 's'}; at least {required} required"
    if host.steal and host.steal >= STEAL:
        summary += f"; the host gave {host.steal:.0%} of their time to others since boot"
    verdict = ok(summary) if min(usable) >= required else warn(summary)
    return worst(verdict, warn(slow, fix=COOL)) if (slow := _slow_core(host)) else verdict


def _slow_core(host: Host) -> str:
    """What a core lacks in speed, "" if nothing: measured twice, and not on a busy machine."""
    if host.core_speed is None or max(host.core_speed) >= SLOW_CORE:
        return ""
    if host.busy is None or host.busy >= BUSY or (host.steal or 0) >= STEAL:
        return ""
    first, second = (f"{speed / 1e3:.0f}" for speed in host.core_speed)
    return (
        f"a core computes {first} and {second} thousand rounds of SHA-512 per second; at least "
        f"{SLOW_CORE / 1e3:.0f} required"
    )


COOL = (
    "Look at the processors' clock and why it is low: a power limit, a fan, a power supply that "
    "failed, a governor. Rented: ask for another machine."
)


def _gpu_count(job: Job, target: Target, job_gpus: JobGpus | Unknown) -> int | None:
    """Number of GPUs that the job uses: --gpus, else the visible ones."""
    if target.kind in ("cpu", "mps"):
        return 0
    if job.gpus is not None:
        return job.gpus
    return None if isinstance(job_gpus, Unknown) else len(job_gpus.gpus)


def shm(host: Host, job: Job, target: Target, job_gpus: JobGpus | Unknown) -> Verdict:
    if host.shm_total is None:
        return skip("this system has no /dev/shm, or its size is not stated")
    gpus = _gpu_count(job, target, job_gpus)
    summary = f"{SHM_PATH} is {gib(host.shm_total)}; at least {gib(SHM_GOOD)} required"
    if host.shm_total >= SHM_GOOD:
        return ok(summary)
    if host.shm_total <= SHM_DOCKER and gpus is not None and gpus > 1:
        return fail(f"{summary} ({gpus} GPUs in the job)")
    note = "" if gpus is not None else " (the GPUs of the job could not be counted)"
    return warn(f"{summary}{note}")


VRAM = Check(
    code="MEM001",
    slug="vram-fits",
    title="Weights, gradients and optimizer state fit the GPU with room for activations",
    why="With Adam in mixed precision every trained parameter takes 16 bytes of fp32 state, and 2 "
    "more for autocast's copy. Too much shows as an out-of-memory error at the first optimizer "
    "step, not when the model is loaded. Casting the whole model to bf16 is no remedy: it halves "
    "the bytes and loses small updates, so norms stay frozen.",
    passes=(
        "activations unknown: the state, divided by --shards, takes at most 80 % of the free "
        "memory on the fullest GPU of the job",
        "activations known: the state and they take at most 90 % (measured with --model or --hf "
        "at two batch sizes, else estimated from config.json, --batch-size and --seq-len)",
        "on integrated GPUs, MPS and CPU: the same share of MemAvailable and of the cgroup limit",
    ),
    warns=(
        "it fits with less room left",
        "it does not fit, but the recipe is assumed or the activations are estimated",
    ),
    fails=(
        "it does not fit under the recipe stated with --recipe, even without activations",
        "the measured peak, at the job's batch size and length, does not fit",
    ),
    fix="Try the cheapest first: train less of the model (LoRA: --trainable 40M), split the state "
    "over more GPUs (FSDP or ZeRO: --shards N), use an 8-bit or offloaded optimizer, or use a GPU "
    "with more memory. A smaller batch or gradient checkpointing reduces activations only. If the "
    "job is different, state it with --recipe, --params, --trainable, --shards and --optimizer.",
    limits="that the peak fits if activations were estimated and not measured.",
    owner=Owner.JOB,
    judge=vram_fits,
    sources=("fnr-memory", "ps-U10", "ps-U11", "activation-recomputation", "bnb-optimizers"),
    also=("read",),
)

HOST = Check(
    code="MEM002",
    slug="host-memory",
    title="The host's memory holds the checkpoint, and every GPU has two CPU cores",
    why="The kernel enforces a container's memory limit, and free does not show it: a process "
    "that exceeds it ends with nothing but 'Killed' (exit status 137). os.cpu_count shows the "
    "host's CPUs, not the quota; too few of them starve the data loader.",
    passes=(
        "MemAvailable and the room under the tightest cgroup limit hold the checkpoint",
        f"at least {CORES_PER_GPU} CPU cores are usable per GPU of the job",
    ),
    warns=(
        "less memory than the checkpoint takes",
        f"fewer than {CORES_PER_GPU} usable CPU cores per GPU",
        f"a core computes less than {SLOW_CORE / 1e3:.0f} thousand rounds of SHA-512 per second, "
        "measured twice while the machine was not busy",
    ),
    fails=("less memory than the largest file of the checkpoint takes",),
    fix="Raise the container's memory limit or its CPU quota, or load the checkpoint shard by "
    "shard (safetensors reads one tensor at a time; low_cpu_mem_usage in transformers 4). With few "
    "cores lower num_workers of the DataLoader.",
    limits="that data loading is fast enough with these cores.",
    owner=Owner.MACHINE,
    judge=host_memory,
    sources=("ps-U9", "vast-docker"),
)

SHM = Check(
    code="MEM003",
    slug="shm",
    title=f"{SHM_PATH} has at least 1 GiB",
    why="DataLoader workers pass batches, and NCCL communicates between the GPUs of one machine, "
    "through shared memory. Docker gives a container 64 MiB by default; when it is full, a worker "
    "dies with 'Bus error' or the job hangs.",
    passes=(f"{SHM_PATH} has 1 GiB or more",),
    warns=(f"{SHM_PATH} has less than 1 GiB",),
    fails=(f"{SHM_PATH} has 64 MiB or less, and the job has more than one GPU",),
    fix=f"Start the container with a larger {SHM_PATH}: --shm-size or --ipc=host; in Kubernetes an "
    f"emptyDir with medium: Memory mounted at {SHM_PATH}. If that is not possible, set "
    "num_workers=0, or call\ntorch.multiprocessing.set_sharing_strategy('file_system')",
    commands=("docker run --shm-size=8g ...",),
    limits="that 1 GiB is enough for many workers or large batches.",
    owner=Owner.ENVIRONMENT,
    judge=shm,
    sources=("pytorch-5040",),
    also=("read",),
)

CHECKS = (VRAM, HOST, SHM)
