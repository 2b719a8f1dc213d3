"""Time and memory, evaluated with --all, and ranks."""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.records import Unknown
from doctor._util.units import listed
from doctor.checks.guard.gpus import growth
from doctor.checks.guard.observed import enough, observed
from doctor.facts.guard import GuardChecksums, Guarded, GuardedProcess
from doctor.facts.load import Watched
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn

DATA = Check(
    code="GRD017",
    slug="data-arrives",
    title="The training does not wait for data",
    why="A DataLoader that cannot keep up leaves the GPU without work, and nothing but the hourly "
    "bill shows it.",
    passes=(
        "waiting for batches takes at most 30 % of a step's time, or less than 10 ms (50 ms "
        "without a GPU)",
    ),
    notes=(
        "waiting takes more than half of the time, and at least 10 ms for each batch (also without "
        "--all)",
    ),
    warns=(
        "the median wait of 50 steps is more than 10 ms (50 ms without a GPU) and more than 30 % "
        "of a step, and the GPU has finished its work by then",
        "waiting takes more than half of the time, and for one batch the same file is opened for "
        "every second sample or more (without --all)",
    ),
    fix="Raise num_workers (0 loads in the training's own process), set persistent_workers=True "
    "and pin_memory=True, and move decoding and tokenizing out of the training.",
    owner=Owner.JOB,
    judge=observed(
        "GRD017",
        enough(
            "batches",
            70,
            "no long waits for {n} batches",
            "batches that were timed",
            "no batch of a torch.utils.data.DataLoader was observed",
        ),
        {
            "reopened": "Open and parse the file once, in __init__ or at the first sample of a "
            "worker, and index what was read: an array, a memory map (numpy.load(mmap_mode='r')), "
            "offsets of lines. More workers repeat the same work side by side.",
        },
        with_all=True,
    ),
    limits="that loaders other than torch.utils.data.DataLoader keep up.",
    sources=("torch-tuning-loading",),
)

SLOW_SECONDS = 60.0
"""How long steps must be slow to be reported (doctor.guard.thresholds)."""


def _speed(guard: Guarded) -> Verdict:
    verdict = enough(
        "timed",
        50,
        f"no slowdown of {SLOW_SECONDS:.0f} s or longer in {{n}} steps",
        "steps after the first 70 with the same work",
    )(guard)
    seconds = max((process.counts.seconds for process in guard.processes), default=0)
    if verdict.status is Status.PASS and seconds < SLOW_SECONDS:
        return unknown(
            f"the training took {seconds:.0f} s; only a slowdown of {SLOW_SECONDS:.0f} s or longer "
            "is reported"
        )
    return verdict


SPEED = Check(
    code="GRD018",
    slug="speed-holds",
    title="Steps do not become slower",
    why="A GPU that throttles, a disk cache that is used up, a log that grows or another program "
    "on the machine make steps slower in the middle of a run.",
    passes=(
        "the median time of 50 steps does not exceed 1.5 times that of steps 21 to 70 for a minute",
    ),
    warns=("it exceeds that in 50 steps in a row and for a minute, with the same work per step",),
    fix="Look at the GPU's clocks and temperature (nvidia-smi -q -d CLOCK,PERFORMANCE), at other "
    "programs on the machine, and at what the loop collects from step to step.",
    owner=Owner.JOB,
    judge=observed("GRD018", _speed, with_all=True),
    limits="that the first steps were fast.",
    sources=("torch-tuning-loading",),
)

_in_process = observed(
    "GRD019",
    enough(
        "memory_windows",
        6,
        "no lasting growth in {n} windows of 20 steps",
        "windows of 20 steps after the first 50",
    ),
    {
        "hooks": "Register the hook once, before the loop, or call remove() of the handle that "
        "register_forward_hook() returns at the end of each step. What the hooks store is to be "
        "emptied, too.",
        "graphs": "Add numbers: total += loss.item(), or loss.detach(), and the same in lists and "
        "running means; a loss that is kept holds the graph that made it.",
    },
    with_all=True,
)


def memory_holds(guard: Guarded, watched: tuple[Watched, ...] | Unknown | None) -> Verdict:
    """What the processes measured themselves, then what NVML saw of the whole GPU."""
    verdict = _in_process(guard)
    if verdict.status not in (Status.PASS, Status.UNKNOWN) or not isinstance(watched, tuple):
        return verdict
    for gpu in watched:
        if gpu.use is not None and (text := growth(gpu.use)):
            return warn(f"{gpu.uuid}: {text}")
    return verdict


MEMORY = Check(
    code="GRD019",
    slug="memory-holds",
    title="Memory does not grow with every step",
    why="Losses that are added up without .item() keep every step's graph, and lists of outputs "
    "keep their tensors. The job dies of it hours later.",
    passes=("the lowest use of 20 steps does not rise five times in a row",),
    warns=(
        "the graphs of 50 losses are in memory after their backward passes (also without --all)",
        "a module gets a hook of the same function in 20 steps and keeps them all (also without "
        "--all)",
        "it rises five times in a row, evenly, and at that rate the memory that is left lasts for "
        "less than 1,000 steps",
        "NVML's memory in use of a GPU rises five times in a row, evenly, in windows of at least a "
        "minute, and the GPU would be full within as much time as was observed",
    ),
    fix="Keep numbers, not tensors: loss.item() or loss.detach() in sums, lists and logs. Look for "
    "what else grows with tracemalloc, or torch.cuda.memory._record_memory_history().",
    owner=Owner.JOB,
    judge=memory_holds,
    limits="that there is no slow leak, and none in DataLoader workers.",
    sources=("torch-faq-memory", "ps-U9", "ps-U10"),
)


UNUSED = "finished reduction in the prior iteration"
"""In the error of DistributedDataParallel about parameters that a loss does not use: the gradients
of that step were not averaged."""


def _ranks(guard: Guarded) -> Verdict:
    world = max((process.world for process in guard.processes), default=0)
    if world < 2:
        return skip("a single rank trains")
    if not any(process.checksums for process in guard.processes):
        return skip("no DistributedDataParallel that averages gradients holds the parameters")
    if guard.error is not None and UNUSED in guard.error.message:
        return skip("DistributedDataParallel waited for gradients that a step had not made")
    compared = list(_compared(guard.processes))
    if not compared:
        return unknown(f"no step with checksums from two of {world} ranks")
    last = compared[-1][0]
    differing = [each for each in compared if each[2]]
    if differing:
        step, ranks, names = differing[0]
        summary = (
            f"step {step:,}: {len(names)} sampled parameters differ between ranks "
            f"{ranks[0]} and {ranks[1]} ({listed(names, 2)}); all replicas must be equal in bits"
        )
        again = differing[-1][0] == last > step
        return fail(f"{summary}; they differ until step {last:,}") if again else warn(summary)
    return ok(f"sampled parameters are equal in bits on all ranks that were read, to step {last:,}")


def _compared(
    processes: tuple[GuardedProcess, ...],
) -> Iterator[tuple[int, tuple[int, int], tuple[str, ...]]]:
    """Step, the two ranks, and the parameters that differ, for each step on two ranks."""
    first: dict[tuple[int, int], tuple[int, GuardChecksums]] = {}
    names: dict[int, tuple[str, ...]] = {}
    pairs = [(process.rank, each) for process in processes for each in process.checksums]
    for rank, each in sorted(pairs, key=lambda pair: (pair[1].step, pair[0])):
        names.setdefault(each.optimizer, each.names)
        rank_before, before = first.setdefault((each.optimizer, each.step), (rank, each))
        if rank_before != rank and len(before.values) == len(each.values):
            known = names[each.optimizer]
            differing = tuple(
                known[i] if i < len(known) else f"parameter {i}"
                for i, (a, b) in enumerate(zip(before.values, each.values, strict=True))
                if a != b
            )
            yield each.step, (rank_before, rank), differing


RANKS = Check(
    code="GRD020",
    slug="ranks-agree",
    title="The replicas on all ranks are equal",
    why="DistributedDataParallel averages gradients and never compares weights again: a learning "
    "rate, a clipping or a skipped step that differs by rank makes the replicas drift apart, and "
    "the checkpoint of rank 0 is not the model that was evaluated elsewhere.",
    passes=("samples of the parameters are equal in bits on all ranks after the same step",),
    warns=("a sampled parameter of DistributedDataParallel differs between two ranks at one step",),
    fails=("one does at the last comparison and at an earlier one",),
    fix="Call the wrapped model, model(x) and not model.module(x), for every loss: only its "
    "forward pass makes backward() average the gradients. Make every rank take the same steps: the "
    "same learning rate, scaler and conditions around optimizer.step(), clipping after the "
    "gradients are averaged, and no change of weights on one rank alone.",
    owner=Owner.JOB,
    judge=observed("GRD020", _ranks),
    limits="that buffers, sharded parameters (FSDP, tensor parallel) and other elements agree.",
    sources=("torch-ddp-notes",),
)

CHECKS = (DATA, SPEED, MEMORY, RANKS)
