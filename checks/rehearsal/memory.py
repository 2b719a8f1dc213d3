"""Stage 1: it fits, on the GPU and on the host."""

from __future__ import annotations

import itertools

from doctor._util.units import gib
from doctor.checks.rehearsal.parts import WITHOUT_GRAPHS, unobserved
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import HostMemory, KeptGraphs, RehearsedRank, RehearsedRun
from doctor.judge.check import Check, Owner, Verdict, ok, unknown, warn

NEARLY_ALL = 0.95
"""Share of a memory that leaves too little for longer batches. Our own number."""
LEAST_SHM = 2**20
"""Bytes of /dev/shm that are worth naming: others use it too. Our own number."""
GRAPHS, TIMES = 4, 2
"""Tensors with graphs by which those in memory grow, and looks that see more than the one before.
Our own numbers: what a training keeps on purpose does not grow."""
GRAPHS_FIX = (
    f"{WITHOUT_GRAPHS} Keep numbers in lists and logs: loss.item(), or output.detach().cpu()."
)

CHAIN_FIX = (
    "Add up numbers, total += loss.item(), or loss.detach() where the wait for the device costs "
    "too much: a loss brings its graph along, and a sum or an average those of all steps."
)


HOOKS_FIX = (
    "Keep the handle, handle = module.register_forward_hook(f), and call handle.remove() after the "
    "evaluation, in a finally; or register once, before the training. Of what a hook keeps, keep "
    "numbers or .detach().cpu(), and clear the list."
)


def exhausted(run: RehearsedRun) -> str:
    """Of a run whose process was killed while nearly all of the host's memory was used; "" else."""
    held = run.memory
    if held is None or held.most < NEARLY_ALL * held.free:
        return ""
    return f"; its processes held {_host(run, held)}: the kernel kills where no memory is left"


def fits(rehearsal: Rehearsal) -> Verdict:
    run = rehearsal.run("run")
    if reason := unobserved(run):
        return reason
    assert run is not None
    if verdict := _graphs(run):
        return verdict
    shares = [*_gpu(run), *_on_host(run)]
    if not shares:
        return unknown("no GPU was used, and the host's free memory could not be read")
    summary = "; ".join(text for _, text in shares)
    most = max(share for share, _ in shares)
    return (
        warn(f"{summary}; at most {NEARLY_ALL:.0%} required") if most > NEARLY_ALL else ok(summary)
    )


def _graphs(run: RehearsedRun) -> Verdict | None:
    """The warning where graphs stay in memory, more and more of them."""
    for rank in run.ranks:
        if _hooked(rank.kept):
            first, last = rank.kept[0], rank.kept[-1]
            return warn(
                f"one module has {first.hooks} hooks after step {first.step} and {last.hooks} "
                f"after step {last.step}: they are registered again and never removed, each is "
                "called at every pass, and keeps what it keeps",
                fix=HOOKS_FIX,
            )
        if _grows(rank.kept):
            first, last = rank.kept[0], rank.kept[-1]
            more = last.used - first.used
            use = f"; the memory in use rose by {gib(more)}" if more >= LEAST_SHM else ""
            return warn(
                f"{first.graphs} tensors with a graph that no backward pass has freed are in "
                f"memory after step {first.step}, {last.graphs} after step {last.step}: outputs or "
                f"losses of an evaluation or a log are kept, each with its activations{use}",
                fix=GRAPHS_FIX,
            )
        if _lengthens(rank.kept):
            before, last = rank.kept[-2:]
            return warn(
                f"tensors in memory after step {last.step} reach {last.nodes} nodes of graphs from "
                f"before step {before.step + 1}, more with each look: a sum or an average of "
                "losses goes on from step to step with the graphs of all of them",
                fix=CHAIN_FIX,
            )
    return None


def _hooked(looks: tuple[KeptGraphs, ...]) -> bool:
    """Whether the hooks of a module become more and more."""
    steps = [after.hooks - before.hooks for before, after in itertools.pairwise(looks)]
    return sum(step > 0 for step in steps) >= TIMES and min(steps) >= 0


def _lengthens(looks: tuple[KeptGraphs, ...]) -> bool:
    """Whether each look sees at least as many nodes more as steps lie between it and the last."""
    pairs = list(itertools.pairwise(looks))
    rising = [after.nodes - before.nodes >= after.step - before.step for before, after in pairs]
    return len(pairs) >= TIMES and all(rising)


def _grows(looks: tuple[KeptGraphs, ...]) -> bool:
    steps = [after.graphs - before.graphs for before, after in itertools.pairwise(looks)]
    rising = sum(step > 0 for step in steps)
    return rising >= TIMES and min(steps) >= 0 and sum(steps) >= GRAPHS


def _gpu(run: RehearsedRun) -> list[tuple[float, str]]:
    """Share and words of the fullest GPU; none where none was used."""
    full = [
        rank for rank in run.ranks if rank.reserved and rank.total and rank.allocated is not None
    ]
    if not full:
        return []
    worst = max(full, key=_share)
    held = f"{gib(worst.allocated or 0)} of {gib(worst.total or 0)}"
    return [(_share(worst), f"rank {worst.rank}: torch held at most {held}")]


def _share(rank: RehearsedRank) -> float:
    return (rank.allocated or 0) / (rank.total or 1)


def _on_host(run: RehearsedRun) -> list[tuple[float, str]]:
    """Share and words of the host's memory, and of /dev/shm where it was used."""
    held = run.memory
    if held is None or not held.free:
        return []
    found = [(held.most / held.free, f"host: {_host(run, held)}")]
    if held.shm >= LEAST_SHM and held.shm_free:
        words = f"/dev/shm: {gib(held.shm)} of {gib(held.shm_free)} free before"  # noqa: S108
        found.append((held.shm / held.shm_free, words))
    return found


def _host(run: RehearsedRun, held: HostMemory) -> str:
    ranks = f" by {len(run.ranks)} ranks" if len(run.ranks) > 1 else ""
    return (
        f"at most {gib(held.loading)} while loading and {gib(held.running)} in the steps{ranks}, "
        f"of {gib(held.free)} free before"
    )


FITS = Check(
    code="RHS004",
    slug="memory-left",
    title="The rehearsed steps use at most 95 % of the memory: of GPU, host and /dev/shm",
    why="The batches of a few steps are seldom the longest ones of the data, and each rank that "
    "loads the whole model on the host needs its size again.",
    passes=(
        "the peak of torch's allocator is at most 95 % of the GPU's memory, on every rank; what "
        "all processes hold for themselves, and what they put into /dev/shm, at most 95 % of what "
        "was free before",
    ),
    warns=(
        "one of them is more",
        "tensors with graphs that no backward pass has freed stay in memory, more with each look",
        "the graphs of all steps hang together, as of a running average of losses",
        "the hooks of a module become more with each look",
    ),
    fix="GPU: lower the batch size, shorten the longest samples, or use activation checkpointing. "
    "Host, while loading: build the model on the meta device or load it on one rank and broadcast; "
    "in the steps: fewer workers, a smaller prefetch_factor. /dev/shm: fewer workers, or a larger "
    "one (docker --shm-size).",
    owner=Owner.JOB,
    judge=fits,
    limits="that the longest batch of the data fits. The host is looked at once a second; what is "
    "mapped from files is not counted, and what others take or free meanwhile is, in /dev/shm.",
)

CHECKS = (FITS,)
