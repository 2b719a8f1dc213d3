"""Stage 2: the ranks have the same weights and other data."""

from __future__ import annotations

from doctor.checks.rehearsal.parts import not_tried, some, unobserved
from doctor.facts.rehearsal import Agreement, Rehearsal
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

WRAP = (
    "Wrap the module that holds them in DistributedDataParallel, too, or make it a part of the one "
    "that is wrapped: a loss with weights of its own (a temperature, class centers), a second "
    "network. Their gradients are exchanged by nobody else."
)


CALL_WRAPPED = (
    "Call the wrapped model, model(batch) and not model.module(batch) or a method of "
    "model.module, for every loss: only its forward pass makes backward() average the gradients. "
    "Compute the loss from what it returns, or move that method's code into forward(). Under "
    "no_sync() nothing is averaged, either: leave it for the last pass before each step. What "
    "changes gradients after the backward pass (noise, a clip) must be the same on all ranks."
)
EVERY_GRADIENT = (
    "Average the gradients of all parameters, of biases, norms and what was added later, too: look "
    "for a condition in the loop over them (dim(), a name, a list made before). Nothing, if each "
    "rank keeps these for itself on purpose, as experts, and saves its own."
)
OWN_RANK = (
    "Give DistributedSampler the rank of the process, rank=dist.get_rank() and "
    "num_replicas=dist.get_world_size(), or neither: with a constant (0, a default argument, the "
    "rank before init_process_group) all ranks take the same part. Its seed= must be one for all."
)
ONE_RATE = (
    "Give all ranks the same learning rate and the same schedule: scale it by the number of ranks "
    "(WORLD_SIZE), not by the number of the rank, and step the schedule on all ranks alike."
)
LEAST_ORDERED = 16
"""Samples whose order is the same by chance in one of 10^13 shuffles. Our own number."""


def _compared(rehearsal: Rehearsal) -> Agreement | Verdict:
    if reason := not_tried(rehearsal, "agrees") or unobserved(rehearsal.run("run")):
        return reason
    return rehearsal.agreement or unknown("the ranks were not compared")


def weights(rehearsal: Rehearsal) -> Verdict:
    found = _compared(rehearsal)
    if isinstance(found, Verdict):
        return found
    if not found.steps or max(found.steps) == 0:
        return unknown("no weights of all ranks were recorded after the same step")
    if found.parted and not found.whole:
        return skip(f"each rank holds another part of the {found.parted} weights")
    differ = some(found.names, found.count)
    if found.differ_from is None:
        steps = ", ".join(str(step) for step in found.steps if step)
        held = f"; of {found.parted} weights it holds a part" if found.parted else ""
        return ok(f"what several of {found.ranks} ranks hold is equal after step {steps}{held}")
    if found.replicated:
        return _replicas(rehearsal, found)
    if found.averaged and not found.differ_from:
        return fail(
            f"the weights of {found.ranks} ranks differ before the first step, and the gradients "
            f"of {found.averaged} of them are the same on all ranks: they are averaged, and each "
            f"rank applies them to a model of its own: {differ}",
            fix="Broadcast parameters and buffers from rank 0 after building or loading the model, "
            "or give all ranks one seed until then; DistributedDataParallel does both.",
        )
    if found.differ_from:
        return _drifting(found, differ)
    return unknown(
        f"the weights of {found.ranks} ranks differ from the start, and nothing says that they "
        "must not: sharded models differ"
    )


def _drifting(found: Agreement, differ: str) -> Verdict:
    """Equal at the start and no longer, without a wrapper that averages."""
    begun = (
        f"the weights of {found.ranks} ranks are equal at the start and differ after step "
        f"{found.differ_from}"
    )
    if found.exchanged and found.unaveraged:
        return warn(
            f"{begun}: {differ}; the gradients of {found.exchanged} others are averaged, and those "
            "of these are not",
            fix=EVERY_GRADIENT,
        )
    return warn(
        f"{begun}, without DistributedDataParallel: {differ}",
        fix="Wrap the model in DistributedDataParallel, or average the gradients before each "
        "step: each rank trains a model of its own.",
    )


WEIGHTS = Check(
    code="RHS013",
    slug="ranks-same-weights",
    title="All ranks have the same weights where they must",
    why="Ranks that drift apart, or never exchange gradients, train as many models as there are "
    "GPUs, of which one is saved.",
    passes=("the weights of all ranks have the same bits after steps 1 and 4",),
    warns=("without DistributedDataParallel they are equal at first and differ later",),
    fails=(
        "under DistributedDataParallel they differ",
        "they differ from the start, and their gradients are equal: the ranks average them",
    ),
    fix="Change weights only through the optimizer, on all ranks alike: no reset, no load and no "
    "weight decay on one rank, and no call of model.module in the training step.",
    owner=Owner.JOB,
    judge=weights,
    limits="that the parts of a sharded weight fit together: only ranks with the same part are "
    "compared, as along the replicated dimension of a mesh.",
)


def _replicas(rehearsal: Rehearsal, found: Agreement) -> Verdict:
    """Of weights that differ under DistributedDataParallel."""
    run = rehearsal.run("run")
    if found.lacking and run is not None and run.code:
        return skip("the gradients of some weights are missing, and were not averaged: see RHS003")
    when = f"after step {found.differ_from}" if found.differ_from else "before the first step"
    differ = some(found.names, found.count)
    text = f"the weights of {found.ranks} ranks differ {when}: {differ}"
    if found.unwrapped:
        return fail(f"{text}; no DistributedDataParallel holds them", fix=WRAP)
    if found.differ_from == 1 and found.unaveraged:
        return fail(f"{text}; their gradients differ, too: nothing averaged them", fix=CALL_WRAPPED)
    if found.rates:
        rates = ", ".join(f"{rate:.6g} on rank {n}" for n, rate in enumerate(found.rates[:4]))
        rate = f"the learning rate of step {found.rates_step} is {rates}"
        return fail(f"{text}; {rate}", fix=ONE_RATE)
    return fail(text)


def data(rehearsal: Rehearsal) -> Verdict:
    found = _compared(rehearsal)
    if rehearsal.trained and not rehearsal.own_trainer:
        return skip("the doctor distributed the batches, and not the job")
    if isinstance(found, Verdict):
        return found
    if found.distinct == found.batches and found.repeated >= LEAST_ORDERED:
        return warn(
            f"the second epoch takes its first {found.repeated:,} samples in the order of the "
            "first on each rank, although DistributedSampler shuffles",
            fix="Call sampler.set_epoch(epoch) at the beginning of every epoch, before its first "
            "batch (and with the epoch after a resume): until then each is epoch 0.",
        )
    if found.batches < 2:
        return unknown("the first batches of the ranks were not seen")
    if found.distinct == found.batches:
        return _apart(found)
    same = f"{found.batches} ranks have {found.distinct} different first batches"
    if not found.replicated and not found.data_parallel:
        return unknown(f"{same}; along a tensor or pipeline dimension they must be equal")
    if found.sampled:
        return fail(f"{same}, although each has a DistributedSampler", fix=OWN_RANK)
    return fail(same)


def _apart(found: Agreement) -> Verdict:
    """Of ranks whose first batches differ."""
    if not found.orders:
        return ok(f"the first batches of {found.batches} ranks differ")
    orders = ", ".join(f"{order} on rank {n}" for n, order in enumerate(found.orders[:4]))
    return warn(
        f"the DistributedSampler of each rank divides another order of the samples: {orders}; "
        "some are taken by several ranks, and others by none",
        fix="Give DistributedSampler the same seed on all ranks, and call set_epoch() with the "
        "number of the epoch alone: each rank takes its part of one order.",
    )


DATA = Check(
    code="RHS014",
    slug="ranks-other-data",
    title="Each data-parallel rank trains on other data",
    why="Without a distributed sampler every rank trains on the same samples: as many GPUs do the "
    "work of one, and nothing reports it.",
    passes=("the first batches of all ranks differ",),
    warns=(
        "a DistributedSampler that shuffles gives the second epoch the order of the first",
        "the DistributedSampler of each rank has another seed, or another epoch",
    ),
    fails=(
        "under DistributedDataParallel or FSDP over all ranks, ranks have the same first batch",
    ),
    fix="Use DistributedSampler, or give each rank its own part or seed of the data.",
    owner=Owner.JOB,
    judge=data,
    limits="that later batches differ, or that no sample is seen twice.",
)


def epochs(rehearsal: Rehearsal) -> Verdict:
    found = _compared(rehearsal)
    if rehearsal.trained and not rehearsal.own_trainer:
        return skip("the doctor distributed the batches, and not the job")
    if isinstance(found, Verdict):
        return found
    if not found.epoch:
        return skip("no loader of a known length was observed on all ranks")
    low, high = min(found.epoch), max(found.epoch)
    if low == high:
        return ok(f"an epoch has {low:,} batches on each of {found.ranks} ranks")
    counts = f"an epoch has {low:,} to {high:,} batches, by the samplers of {found.ranks} ranks"
    if found.uneven_end:
        return fail(f"{counts}; the epoch of one rank had ended when another waited for it")
    if found.joined:
        return ok(f"{counts}; it trains under Join")
    if found.went_on:
        return note(f"{counts}; the ranks went on after the end of an epoch")
    return note(
        f"{counts}: at its end the ranks with more of them wait for the others, unless the loop "
        "counts steps on all ranks"
    )


EPOCHS = Check(
    code="RHS018",
    slug="ranks-same-epoch",
    title="The epoch has as many batches on each rank",
    why="Gradients are exchanged at each step: the rank with one batch more waits at the end of "
    "the first epoch, hours after the start, until a time limit ends the job.",
    passes=("the samplers of all ranks have the same length", "they differ, and Join is used"),
    notes=(
        "they differ, and all ranks went on after the end of an epoch",
        "they differ, and no epoch ended in the steps",
    ),
    fails=("they differ, one rank's epoch ended, and the run did not end",),
    fix="Use DistributedSampler, which gives each rank as many samples, or drop_last on all ranks; "
    "else train under torch.distributed.algorithms.Join.",
    owner=Owner.JOB,
    judge=epochs,
    limits="that a sampler of the job's own returns as many batches as it says. Streams have no "
    "length.",
)

CHECKS = (WEIGHTS, DATA, EPOCHS)
