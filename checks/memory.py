"""Whether the training fits the GPUs, and the checkpoint the host."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import GIB, MIB, count, gib
from doctor.checkpoint.records import Checkpoint
from doctor.facts.machine import Host
from doctor.facts.memory.activations import told
from doctor.facts.memory.plan import Plan, draw, plan
from doctor.facts.memory.room import host_room
from doctor.facts.memory.training import table
from doctor.facts.training import ModelShape, OwnModel
from doctor.facts.views import JobGpus
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

ACTIVATIONS = 0.2
"""Left for activations and the allocator: the rule of the project's table for MEM001."""
RESERVE = 0.1
"""Left for the allocator's gaps and the CUDA context where activations are known. Our own."""
SMALLER_STEP = (
    "Take a smaller batch with more gradient accumulation, shorter samples, or gradient "
    "checkpointing (--checkpointing): the activations are what does not fit. Weights, gradients "
    "and optimizer state do."
)
CORES_PER_GPU = 2
"""Vast.ai's rule for hosts, machine-checks rank 9."""
SHM_FOLDER = "/dev/shm"  # noqa: S108 - only its size is read
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
    found = plan(job, target, chosen, job_gpus, checkpoint, host, shape, own)
    if found is None:
        return skip("the model's size is not known: --params 8B or --checkpoint PATH")
    if isinstance(found, Unknown):
        return unknown(found.reason)
    known, kept = found.activations, RESERVE
    rest = f"of state, {told(known)}, " if known else "before activations, "
    if known is None:
        kept = ACTIVATIONS
    said = (
        f"{count(found.size.parameters)} parameters ({found.size.said}), "
        f"{_recipe(job, found.chosen)}: {gib(found.state)} {rest}"
        f"{gib(found.free)} {found.where}, {gib(found.need / (1 - kept))} required"
    )
    if found.need <= found.free * (1 - kept):
        return ok(said)
    remedy = SMALLER_STEP if found.state <= found.free * (1 - ACTIVATIONS) else VRAM.fix
    fix = f"{remedy}\nBytes of this training:\n{_table(found)}"
    return fail(said, fix=fix) if _surely_too_much(job, found) else warn(said, fix=fix)


def _surely_too_much(job: Job, found: Plan) -> bool:
    """The state of a stated recipe, or a measured peak; an estimate alone proves nothing."""
    known = found.activations
    if known and known.measured and found.need > found.free:
        return True
    return job.recipe is not None and found.state > found.free


def _table(found: Plan) -> str:
    known = found.activations
    if known is None:
        return table(found.parts, found.shards)
    return f"{table(found.parts, found.shards, told(known))}\n{draw(found.bar)}"


def _recipe(job: Job, chosen: Chosen) -> str:
    named = job.recipe or ("assumed: fp32" if chosen.precision == "fp32" else "assumed: amp")
    trained = "" if job.trainable is None else f", {count(job.trainable)} of them trained"
    optimizer = {"adamw": "Adam"}.get(job.optimizer, job.optimizer)
    return f"recipe {named} with {optimizer}{trained}"


def host_memory(
    host: Host, job: Job, target: Target, job_gpus: JobGpus | Unknown, checkpoint: Checkpoint | None
) -> Verdict:
    verdicts = [_cores(host, target, _gpu_count(job, target, job_gpus))]
    room = host_room(host)
    if checkpoint is not None:
        verdicts.append(_holds(room, checkpoint))
    elif not isinstance(room, Unknown):
        verdicts.append(ok(f"{gib(room[0])} {room[1]}, no checkpoint to hold"))
    return worst(*verdicts)


def _holds(room: tuple[float, str] | Unknown, checkpoint: Checkpoint) -> Verdict:
    if isinstance(room, Unknown):
        return unknown(room.reason)
    free, where = room
    if free < checkpoint.files.largest:
        needed = f"the largest file of the checkpoint takes {gib(checkpoint.files.largest)}"
        return fail(f"{gib(free)} {where}, {needed}")
    said = f"{gib(free)} {where}, the checkpoint takes {gib(checkpoint.files.bytes)}"
    return ok(said) if free >= checkpoint.files.bytes else warn(said)


def _cores(host: Host, target: Target, gpus: int | None) -> Verdict:
    usable = [number for number in (host.cpus, host.cgroup_cpus) if number is not None]
    if host.cpus is None:
        return unknown("the usable processors could not be counted")
    said = f"{min(usable):g} usable cores"
    if target.kind in ("cpu", "mps"):
        return ok(said)
    if gpus is None:
        return unknown(f"{said}, the GPUs of the job could not be counted")
    said += f" for {gpus} GPU{'' if gpus == 1 else 's'}, >= {CORES_PER_GPU * gpus} required"
    return ok(said) if min(usable) >= CORES_PER_GPU * gpus else warn(said)


def _gpu_count(job: Job, target: Target, job_gpus: JobGpus | Unknown) -> int | None:
    """GPUs that the job uses: --gpus, else the visible ones."""
    if target.kind in ("cpu", "mps"):
        return 0
    if job.gpus is not None:
        return job.gpus
    return None if isinstance(job_gpus, Unknown) else len(job_gpus.gpus)


def shm(host: Host, job: Job, target: Target, job_gpus: JobGpus | Unknown) -> Verdict:
    if host.shm_total is None:
        return skip("this system has no /dev/shm")
    gpus = _gpu_count(job, target, job_gpus)
    said = f"{SHM_FOLDER} has {gib(host.shm_total)}, >= {gib(SHM_GOOD)} required"
    if host.shm_total >= SHM_GOOD:
        return ok(said)
    if host.shm_total <= SHM_DOCKER and gpus is not None and gpus > 1:
        return fail(f"{said}, {gpus} GPUs in the job")
    return warn(said if gpus is not None else f"{said}, the GPUs of the job could not be counted")


VRAM = Check(
    code="MEM001",
    slug="vram-fits",
    title="Weights, gradients and optimizer state fit the GPU with room for activations",
    why="A training keeps far more than its weights: with Adam in mixed precision 16 bytes of "
    "fp32 state for every trained parameter, and 2 more for autocast's copy. What does not fit "
    "shows as an out-of-memory error at the first optimizer step, not when the model is loaded. "
    "Casting the whole model to bf16 halves the bytes and freezes weights near 1.0: it is no "
    "remedy.",
    passes=(
        "the sum, divided by --shards, takes at most 80 % of the memory that is free "
        "on the GPU of the job with the least (of MemAvailable and the cgroup limit on "
        "integrated GPUs, MPS and CPU). Where activations are known, 90 % with them: "
        "measured by the step of --model or --hf at two batches, else estimated from "
        "config.json, --batch-size and --seq-len",
    ),
    warns=(
        "it fits with less room left",
        "it does not fit under a recipe that was assumed, or with activations that were estimated",
    ),
    fails=(
        "it does not fit under the recipe stated with --recipe, activations left aside",
        "the measured peak, at the job's batch and length, does not fit",
    ),
    fix="Train less of the model (LoRA: --trainable 40M), split the state over more GPUs (FSDP or "
    "ZeRO: --shards N), take an 8-bit or offloaded optimizer, or a GPU with more memory: the "
    "cheapest first. A smaller batch or gradient checkpointing helps activations only. If the job "
    "is another one, say so: --recipe, --params, --trainable, --shards, --optimizer.",
    limits="that the peak fits where activations were not measured: their estimate is no "
    "measurement.",
    owner=Owner.JOB,
    judge=vram_fits,
    sources=("fnr-memory", "ps-U10", "ps-U11", "activation-recomputation", "bnb-optimizers"),
)

HOST = Check(
    code="MEM002",
    slug="host-memory",
    title="The host's memory holds the checkpoint and every GPU has two cores",
    why="A container's memory limit is enforced by the kernel and not shown by free: what "
    "exceeds it is killed with nothing but 'Killed' (exit status 137). In the same way "
    "os.cpu_count shows the host's processors, not the quota, and too few of them starve the data "
    "loader.",
    passes=(
        "MemAvailable and what the tightest cgroup limit leaves hold the checkpoint, "
        "and there are at least 2 usable cores for each GPU of the job",
    ),
    warns=("less memory than the checkpoint takes, or fewer than 2 usable cores for each GPU",),
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
    title=f"{SHM_FOLDER} has at least 1 GiB",
    why="DataLoader workers hand batches over, and NCCL talks between the GPUs of one machine, "
    "through shared memory. Docker gives a container 64 MiB of it unless told otherwise; when it "
    "is full a worker dies with 'Bus error' or the job hangs.",
    passes=(f"{SHM_FOLDER} has 1 GiB or more",),
    warns=("less than 1 GiB",),
    fails=("64 MiB or less and more than one GPU in the job",),
    fix="Start the container with a larger /dev/shm (--shm-size, or --ipc=host; in Kubernetes an "
    "emptyDir with medium: Memory mounted at /dev/shm). Where that cannot be changed, "
    "torch.multiprocessing.set_sharing_strategy('file_system') or num_workers=0 spares it.",
    commands=("docker run --shm-size=8g ...",),
    limits="that 1 GiB is enough for many workers or large batches.",
    owner=Owner.ENVIRONMENT,
    judge=shm,
    sources=("pytorch-5040",),
)

CHECKS = (VRAM, HOST, SHM)
