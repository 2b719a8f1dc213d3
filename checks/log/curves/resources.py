"""Memory that grows over a run, ranks that are slower than others, samples left out."""

from __future__ import annotations

from collections import Counter

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    partner,
    place_at,
    sequences_grow,
    states,
    values_of,
)
from doctor.facts.log import Curve, Log
from doctor.judge.check import Owner, Verdict, ok, skip, warn

GROWN, GOES_ON = 1.3, 0.5
"""The last third by the first one, and its rise by the one before: memory that only settles rises
less and less. Our own numbers."""
MEMORIES = {
    "device_memory": (
        "the memory of the GPU",
        "Something keeps tensors of every step: a sum of losses or predictions without .item() or "
        ".detach(), a list of outputs, a metric that is never reset, retain_graph=True, hooks. "
        "Append .detach().cpu(), reset metrics per epoch, and read "
        "torch.cuda.memory._dump_snapshot where that does not find it. If lengths differ, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    ),
    "host_memory": (
        "the memory of the host",
        "Something is kept per step or per sample: DataLoader workers that touch lists of Python "
        "objects (each gets its own copy: use numpy arrays, Arrow or a file), caches in "
        "__getitem__, logged tensors, images of matplotlib that are not closed, subprocesses (of a "
        "reward function, of environments) that are not ended. Test with "
        "num_workers=0, persistent_workers=False, and count with tracemalloc.",
    ),
}
SLOWER, SAME, LINES = 1.3, 0.8, 3
"""By what one rank is slower than the median of the others, the share of lines that name the same
one, and how many there are, which is no accident. Our own numbers."""
STRAGGLER = (
    "All ranks wait for it at each step. Look at that GPU and its node first: clock, temperature "
    "and power (nvidia-smi -q -d CLOCK,TEMPERATURE,PERFORMANCE), the PCIe link, other processes, "
    "the cores and the storage of its host. If another rank is slow after a restart on other "
    "nodes, its share of data is larger."
)
MOST_LEFT_OUT = 0.9
"""Share of the samples, from which on a filter was hardly meant so. Our own number."""
TINY = 2
"""Samples with which nothing is learned. Our own number."""
FILTER = (
    "Look at what the filter counts before training on the rest: a limit of length that is too "
    "short (raise max_length, cut or split in place of dropping), other column names, a "
    "condition that is reversed, labels that are empty."
)
REFUSALS, KEEPS = 3, 0.5
"""Lines that say that a sample is skipped, and the share of the samples that is left, which a few
broken samples do not explain. Our own numbers."""
UNFIT = (
    "Read why the first ones are skipped: most often all samples have another form than the "
    "configuration says (names of columns, roles and tags such as user and human, a key that is "
    "missing, a path that does not exist on this machine). Correct it, delete the prepared cache, "
    "and compare the number of examples before the run goes on."
)
EQUAL, EXACT = 5, 1.0
"""Lines with the losses of all ranks that are equal, which is no accident. Our own number."""
SAME_DATA = (
    "All ranks read the same samples: each computes what the others compute, so that more GPUs "
    "bring nothing and the batch is that of one rank. Give each rank its own part "
    "(DistributedSampler, split_dataset_by_node, split_by_node of WebDataset, or every "
    "world_size-th sample from its rank on), or a seed that contains the rank for a stream that is "
    "drawn at random. If what is printed is already reduced over the ranks, print the local loss "
    "to be sure."
)


ALONE = (
    "Print torch.distributed.is_initialized() and get_world_size() in each process. If it is no "
    "group or one of 1, the processes train the same model several times and write over each "
    "other's checkpoints: start the script so that each learns its number and that of all, by "
    "torchrun --nproc-per-node N train.py or accelerate launch (one task per node under srun), or "
    "export RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from SLURM_PROCID, "
    "SLURM_LOCALID and SLURM_NTASKS."
)


def ranks_differ(log: Log) -> Verdict:
    return _alone(log) or each_curve(log, "ranks_alike", lambda curve: _alike(log, curve))


def _alike(log: Log, curve: Curve) -> Verdict:
    if len(curve.values) < EQUAL or min(values_of(curve)) < EXACT:
        return ok("the losses of the ranks differ")
    if _has(log, SPLIT_MODEL):
        return ok("the ranks hold parts of one model, and see the same samples")
    return warn(
        f"the losses of all ranks are equal to the last digit in all {len(curve.values):,} lines "
        "that print one for each",
        fix=SAME_DATA,
        places=(place_at(curve, 0),),
    )


def _alone(log: Log) -> Verdict | None:
    """Several ranks write into the log, it states that there is one, and each logs what the others
    do: the trainings of a search differ in their losses."""
    worlds = {each.number for each in log.stated if each.name == "world_size"}
    for loss in (each for each in log.curves if each.name == "loss" and worlds == {1}):
        ranks = {each.rank for each in log.ranks if each.path == loss.path}
        of_step: dict[int, list[float]] = {}
        for step, value in zip(loss.steps, values_of(loss), strict=True):
            of_step.setdefault(step, []).append(value)
        several = [each for each in of_step.values() if len(each) > 1]
        if len(ranks) > 1 and len(several) >= EQUAL and all(len({*each}) == 1 for each in several):
            return warn(
                f"{len(ranks)} processes write into the log, which states that there is 1, and "
                "their losses are equal to the last digit: each may train by itself",
                fix=ALONE,
                places=(place_at(loss, 0),),
            )
    return None


SPLIT_MODEL, PACKED = "model-is-split", "samples-packed"
"""Conditions without which equal losses, or few samples, are a fault."""


def _has(log: Log, condition: str) -> bool:
    return any(event.name == condition for event in log.harmless)


def memory_holds(log: Log) -> Verdict:
    verdicts = [each_curve(log, name, lambda curve: _memory(log, curve)) for name in MEMORIES]
    return next((each for each in verdicts if each.fix), verdicts[0])


def grown(log: Log, name: str) -> str:
    """What to say where a process ran out of this memory; "" where it did not grow."""
    verdict = each_curve(log, name, lambda curve: _memory(log, curve))
    summary = verdict.summary[:1].upper() + verdict.summary[1:]
    return f"{summary}. {verdict.fix}" if verdict.fix else ""


def _memory(log: Log, curve: Curve) -> Verdict:
    values, places = finite_of(curve)
    what, fix = MEMORIES[curve.name]
    if curve.name == "device_memory" and (states(log, "stages") or sequences_grow(log, curve)):
        return skip("the sequences become longer, or the training goes in stages")
    if len(values) < series.FEWEST:
        return skip(f"{len(values)} values; fewer than {series.FEWEST} are not judged")
    third = len(values) // 3
    first, middle, last = (
        median(values[at : at + third]) for at in (0, third, len(values) - third)
    )
    if last < GROWN * first or last - middle < GOES_ON * (middle - first) or last <= middle:
        return ok(f"{what} went from {values[0]:.3g} to {values[-1]:.3g} GiB")
    return warn(
        f"{what} grows over the whole run, from {values[0]:.3g} to {values[-1]:.3g} GiB",
        fix=fix,
        places=(place_at(curve, places[-1]),),
    )


def ranks_keep_pace(log: Log) -> Verdict:
    return each_curve(log, "slowest_by", lambda curve: _pace(log, curve))


def _pace(log: Log, ratios: Curve) -> Verdict:
    ranks, tables = partner(log, ratios, "slowest_rank"), partner(log, ratios, "slow_ranks")
    if ranks is not None and tables is not None:
        return _of_tables(ratios, ranks, tables)
    if ranks is None or len(ratios.values) < LINES:
        return skip("too few lines have a time for each rank")
    (rank, times), *_ = Counter(values_of(ranks)).most_common(1)
    by = median(values_of(ratios))
    if times < SAME * len(ranks.values) or by < SLOWER:
        return ok("no rank is slower than the others time after time")
    return warn(
        f"rank {rank:.0f} takes {by:.2g} times as long as the others, in {times:,} of "
        f"{len(ranks.values):,} lines",
        fix=STRAGGLER,
        owner=Owner.MACHINE,
        places=(place_at(ratios, 0),),
    )


def _of_tables(ratios: Curve, ranks: Curve, tables: Curve) -> Verdict:
    """Tables with a time for each of many ranks, some of which are slower than all others."""
    at = ratios.lines.index(tables.lines[-1])
    by, many, last = values_of(ratios)[at], values_of(tables)[-1], values_of(ranks)[at]
    if by < SLOWER:
        return ok("no rank is far slower than the others")
    who = f"{many:.0f} ranks, the last of them {last:.0f}," if many > 1 else f"rank {last:.0f}"
    return warn(
        f"{who} take{'s' * (many == 1)} {by:.2g} times as long as the others or longer",
        fix=STRAGGLER,
        owner=Owner.MACHINE,
        places=(place_at(ratios, at),),
    )


def samples_left(log: Log) -> Verdict:
    filtered = each_curve(log, "samples_left_out", _left_out)
    counted = each_curve(log, "samples", lambda curve: _refused(log, curve) or _count(curve))
    return counted if counted.fix and not filtered.fix else filtered


def _refused(log: Log, counts: Curve) -> Verdict | None:
    """Lines that say that a sample is skipped, and a training set that is far smaller than what was
    prepared; packing alone makes it smaller, too."""
    filtered = partner(log, counts, "samples_filtered")
    prepared = filtered or partner(log, counts, "samples_prepared")
    refused = partner(log, counts, "sample_refused")
    skips = refused is not None and len(refused.values) >= REFUSALS
    whole, left = max(values_of(prepared)) if prepared else 0.0, values_of(counts)[0]
    if left > (KEEPS if skips else 1 - MOST_LEFT_OUT if filtered else 0) * whole:
        return None
    if prepared is None or not (skips or filtered) or _has(log, PACKED):
        return None
    if refused is None or not skips:
        return warn(
            f"{left:,.0f} of {whole:,.0f} filtered samples are left",
            fix=FILTER,
            places=(place_at(prepared, 0), place_at(counts, 0)),
        )
    return warn(
        f"{left:,.0f} of {whole:,.0f} prepared samples are trained on; lines say that samples are "
        "skipped",
        fix=UNFIT,
        places=(place_at(refused, 0), place_at(counts, 0)),
    )


def _left_out(curve: Curve) -> Verdict:
    share = max(values_of(curve))
    if share < MOST_LEFT_OUT:
        return ok(f"at most {share:.0%} of the samples are left out")
    at = values_of(curve).index(share)
    return warn(
        f"{share:.1%} of the samples are left out", fix=FILTER, places=(place_at(curve, at),)
    )


def _count(curve: Curve) -> Verdict:
    count = min(values_of(curve))
    if not 0 < count <= TINY:
        return ok(f"{count:,.0f} samples")
    return warn(
        f"the training set has {count:.0f} samples", fix=FILTER, places=(place_at(curve, 0),)
    )
