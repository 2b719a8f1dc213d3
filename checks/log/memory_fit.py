"""What would fit, by the numbers of an out-of-memory message and the job that the facts state."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor._util.units import count, gib
from doctor.errors.memory_numbers import (
    FULL,
    ONE_REQUEST,
    OTHER_PROCESS,
    Numbers,
    describe_oom,
    read_numbers,
)
from doctor.errors.memory_stage import Stage, stage_of
from doctor.facts.log import Log, LogEvent
from doctor.facts.memory.plan import Plan
from doctor.job.job import Job

NOT_STATED = (
    "What would fit is not known: no size of the model is stated. `doctor run --params 8B "
    "--batch-size N --save-facts box.json` on the machine, then --facts box.json here, computes it."
)

FITTED = 10
"""Logged steps before the failure after which the size of a step did fit. Our own number."""


def stage_of_event(event: LogEvent) -> Stage | None:
    """The part of the program that failed; None where the numbers say something else than that the
    step needs too much."""
    described = describe_oom(event.text)
    if described is not None and described.kind != FULL:
        return None
    return stage_of(event.groups.get("functions", ""))


OF_GPU = re.compile(r"\bGPU (\d{1,3}) has a total")


def ranks_on_one_gpu(log: Log, event: LogEvent) -> str:
    """That several ranks filled one GPU, whose memory other processes hold: each other's."""
    described, gpu = describe_oom(event.text), OF_GPU.search(event.text)
    if described is None or described.kind != OTHER_PROCESS or gpu is None:
        return ""
    alike = (
        each.rank
        for each in log.events
        if each.name == event.name and (of := OF_GPU.search(each.text)) and of[1] == gpu[1]
    )
    ranks = {rank for rank in alike if rank is not None}
    if len(ranks) < 2:
        return ""
    return (
        f"{len(ranks)} ranks allocate on GPU {gpu[1]}: let each use its own, before anything is "
        'put on a GPU: torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), .to(local_rank) in '
        'place of .to("cuda:0"), and map_location for torch.load.'
    )


def fitted_before(log: Log, event: LogEvent) -> str:
    """That many steps were logged before: no setting of the batch is too large in general."""
    own = (curve for curve in log.curves if curve.path == event.path and curve.name == "loss")
    loss = next(own, None)
    steps = 0 if loss is None else loss.thinned * sum(line < event.line for line in loss.lines)
    if loss is None or steps < FITTED:
        return ""
    return (
        f"{'About ' * (loss.thinned > 1)}{steps:,} steps were logged before it, so a usual step "
        "fits: look for one batch of longer samples (cut them off, or bound the tokens of a "
        "batch), for memory that grows (a loss kept without .item(), outputs in a list), and "
        "for what a later step adds (an evaluation, a checkpoint)."
    )


def what_fits(text: str, job: Job, needs: Plan | Unknown | None) -> str:
    """Sentences for the remedy; "" where the message has no numbers, or its kind needs none."""
    described = describe_oom(text)
    if described is None or described.kind == ONE_REQUEST:
        return ""
    if needs is None and described.kind != FULL:
        return ""
    numbers = read_numbers(text)
    missing = _missing(numbers)
    return " ".join(part for part in (missing, _by_the_model(numbers, job, needs)) if part)


def _missing(numbers: Numbers) -> str:
    if numbers.request is None or numbers.free is None:
        return ""
    missing = numbers.request - numbers.free - (numbers.reserved or 0.0)
    if missing <= 0:
        return ""
    return f"This request alone lacks {gib(missing)}; later ones may lack more."


def _by_the_model(numbers: Numbers, job: Job, needs: Plan | Unknown | None) -> str:
    if needs is None:
        return NOT_STATED
    if isinstance(needs, Unknown):
        return f"What would fit is not known: {needs.reason}."
    assert numbers.request is not None
    assert numbers.capacity is not None
    recipe = f"recipe {job.recipe}" if job.recipe else "an assumed recipe"
    state = (
        f"By the memory model (MEM001), {count(needs.size.parameters)} parameters under {recipe} "
        f"take {gib(needs.state)} of state per GPU"
    )
    if needs.state > numbers.capacity:
        return f"{state}, more than the GPU has: no batch size fits. {_shards(numbers, needs)}"
    if numbers.allocated is None:
        room = gib(numbers.capacity - needs.state)
        return (
            f"{state}, which leaves at most {room} for activations; how many "
            "there are is not in the message."
        )
    return f"{state}. {_share(numbers, job, needs.state)}"


def _shards(numbers: Numbers, needs: Plan) -> str:
    assert numbers.capacity is not None
    shards = int(needs.state * needs.shards // numbers.capacity) + 1
    return (
        f"Split the state over at least {shards} such GPUs (FSDP or ZeRO-3), or train less of the "
        "model (LoRA)."
    )


def _share(numbers: Numbers, job: Job, state: float) -> str:
    """The share of the batch that fits at most: the failing step had not ended."""
    assert numbers.request is not None
    assert numbers.capacity is not None
    assert numbers.allocated is not None
    beyond = numbers.allocated + numbers.request - state
    if beyond <= 0:
        return (
            f"Only {gib(numbers.allocated + numbers.request)} were in use or requested: it failed "
            "before the state was complete, or the stated model is another one. What would fit is "
            "not known."
        )
    share = (numbers.capacity - state) / beyond
    if share >= 1:
        return (
            "With what was allocated and requested it would fit an empty GPU: look for other "
            "processes and fragmentation first."
        )
    head = f"The rest of this step took at least {gib(beyond)}, of which {int(100 * share)} % fit"
    if job.batch_size is None:
        return f"{head}: at most that share of the micro-batch fits."
    largest = int(job.batch_size * share)
    if largest == 0:
        return (
            f"{head}: not even one sample of this length fits. Use gradient checkpointing or "
            "shorter samples."
        )
    return (
        f"{head}: a micro-batch of at most {largest} instead of {job.batch_size}, if that was "
        "the batch."
    )
