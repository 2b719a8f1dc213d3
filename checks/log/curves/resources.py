"""Memory that grows over a run, ranks that are slower than others, samples left out."""

from __future__ import annotations

from collections import Counter

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, finite_of, partner, place_at, values_of
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
        "__getitem__, logged tensors, images of matplotlib that are not closed. Test with "
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


def memory_holds(log: Log) -> Verdict:
    verdicts = [each_curve(log, name, _memory) for name in MEMORIES]
    return next((each for each in verdicts if each.fix), verdicts[0])


def grown(log: Log, name: str) -> str:
    """What to say where a process ran out of this memory; "" where it did not grow."""
    verdict = each_curve(log, name, _memory)
    return f"{verdict.summary.capitalize()}. {verdict.fix}" if verdict.fix else ""


def _memory(curve: Curve) -> Verdict:
    values, places = finite_of(curve)
    what, fix = MEMORIES[curve.name]
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
    ranks = partner(log, ratios, "slowest_rank")
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


def samples_left(log: Log) -> Verdict:
    filtered = each_curve(log, "samples_left_out", _left_out)
    counted = each_curve(log, "samples", _count)
    return counted if counted.fix and not filtered.fix else filtered


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
