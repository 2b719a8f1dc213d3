"""Ranks that left each other: one evaluates, or has left its loop, while others train."""

from __future__ import annotations

import re

from doctor._util.units import shown
from doctor.checks.rehearsal.parts import place, raised
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import RehearsedRun, Waiting
from doctor.judge.check import Verdict, fail

LOST_EACH_OTHER = re.compile(
    r"gloo|nccl|connection (?:reset|closed|refused)|collective|barrier|timed? ?out|op\.preamble",
    re.IGNORECASE,
)
"""In errors of ranks that called different collectives."""
ONE_TO_ONE = re.compile(r"send|recv|p2p", re.IGNORECASE)
"""Calls that only two ranks make."""
TOGETHER = (
    "Call the evaluation on every rank, with its own part of the data, and print on rank 0 alone: "
    "a collective in it (all_reduce, gather, barrier, a forward pass of DistributedDataParallel) "
    "waits for all ranks."
)
AS_MANY_EVALUATED = (
    "Give each rank as many batches of the evaluation (DistributedSampler repeats samples for it; "
    "accelerator.gather_for_metrics() drops them again), or let each rank add up its own sums in "
    "the loop and exchange them once after it: a collective in each turn waits for the rank that "
    "has fewer."
)
AS_MANY = (
    "Give each rank as many batches: DistributedSampler, drop_last, or the smallest number of all "
    "ranks (all_reduce with ReduceOp.MIN before the epoch); files or samples that are split by "
    "rank, or filtered on it, are seldom as many. Or train under model.join(), as "
    "torch.distributed.algorithms.Join. Where the numbers are equal, take the call out of the "
    "condition on the rank."
)
TOGETHER_STOPPED = (
    "Decide on all ranks alike: all_reduce the number that the decision is made by (the loss of "
    "early stopping, which each rank takes of its own samples) or broadcast rank 0's decision, and "
    "take calls that all ranks must make out of conditions on the rank."
)


SAME_CALLS = (
    "All ranks must call the same collectives in the same order: look for a condition on the rank, "
    "an exception that one rank catches, loops of unequal length, or a batch that one rank leaves "
    "out (continue on a loss that is not finite): all_reduce the reason with MAX before the "
    "backward pass, and decide by that."
)
MISMATCHED = (
    "Call the same collectives on all ranks, in the same order and with tensors of one size. Look "
    "for a call under a condition on the rank, such as `if rank == 0`: the state of sharded "
    "weights (get_model_state_dict(), get_optimizer_state_dict(), state_dict() of FSDP) is "
    "gathered from all ranks. Make such a call on all of them, and write the file on rank 0 alone."
)
ON_ALL = (
    "Make the call on all ranks, outside of the condition: a save of sharded weights, gather, "
    "barrier and a forward pass of DistributedDataParallel wait for each other. Leave in it what "
    "prints, or writes a file of its own."
)


def under(waiting: Waiting) -> str:
    """The condition on the rank in which it is; "" for none."""
    return f", under `{shown(waiting.condition, 300)}`" if waiting.condition else ""


def alone(run: RehearsedRun) -> str:
    """The ranks that evaluate while others train, if the ranks lost each other; "" otherwise."""
    inside = [rank for rank in run.ranks if rank.evaluating is not None]
    step = inside[0].evaluating if inside else None
    outside = [
        rank
        for rank in run.ranks
        if rank.evaluating is None and all(each.step != step for each in rank.evaluations)
    ]
    errors = [rank.error for rank in run.ranks] + list(run.tail)
    lost = bool(run.cut) or any(LOST_EACH_OTHER.search(error) for error in errors)
    if not inside or not outside or not lost:
        return ""
    return (
        f"rank {inside[0].rank} is in an evaluation after step {step} that rank {outside[0].rank} "
        "does not take part in"
    )


def _lost_only(run: RehearsedRun) -> bool:
    """No rank has an error of another kind than that it lost the others."""
    return all(LOST_EACH_OTHER.search(rank.error) for rank in run.ranks if rank.error)


def longer_evaluation(run: RehearsedRun) -> str:
    """The rank that is in an evaluation which another has left, if they lost each other, or it
    waits in a collective there; "" otherwise."""
    inside = next((rank for rank in run.ranks if rank.evaluating is not None), None)
    if inside is None or not _lost_only(run):
        return ""
    before = sum(each.step == inside.evaluating for each in inside.evaluations)
    done = [
        rank
        for rank in run.ranks
        if rank.evaluating is None
        and sum(each.step == inside.evaluating for each in rank.evaluations) > before
    ]
    waits = any(each.inside and each.rank == inside.rank for each in run.waiting)
    failed = any(rank.error for rank in run.ranks)
    if not done or not (failed or (run.cut and waits)):
        return ""
    calls = [e.calls for e in done[0].evaluations if e.step == inside.evaluating][before]
    return (
        f"rank {inside.rank} is in the evaluation after step {inside.evaluating} still, which rank "
        f"{done[0].rank} has left after {calls} calls of the model"
    )


def fewer_batches(rehearsal: Rehearsal, run: RehearsedRun) -> str:
    """How many batches the ranks have, if the one that evaluates has the fewest and is at the end
    of an epoch; "" otherwise."""
    found = rehearsal.agreement
    if found is None or found.joined or len(set(found.epoch)) < 2:
        return ""
    for rank in run.ranks:
        least = found.epoch[rank.rank] if rank.rank < len(found.epoch) else 0
        if rank.evaluating and least == min(found.epoch) and rank.evaluating % least == 0:
            return f"an epoch has {least:,} to {max(found.epoch):,} batches, by the ranks' samplers"
    return ""


def parted(run: RehearsedRun) -> str:
    """The rank that had left its steps while another exchanged the gradients of one, if the ranks
    lost each other; "" otherwise."""
    errors = [rank.error for rank in run.ranks] + list(run.tail)
    if not any(LOST_EACH_OTHER.search(error) for error in errors):
        return ""
    failed = {rank.rank for rank in run.ranks if rank.error}
    steps = {rank.rank: rank.steps for rank in run.ranks}
    training = [w for w in run.waiting if w.exchanging and not w.inside]
    left = [w for w in run.waiting if w.inside or (w.ended and w.rank not in failed)]
    if not training or not left:
        return ""
    gone, goes_on = left[0], training[0]
    place = f" at {shown(gone.place, 200)}{under(gone)}"
    does = f"is in {gone.collective}{place}" if gone.inside else "had ended"
    return (
        f"rank {gone.rank} {does} after {steps[gone.rank]} steps, rank {goes_on.rank} exchanges "
        f"the gradients of its step {steps[goes_on.rank] + 1} at {shown(goes_on.place, 200)}"
    )


def elsewhere(run: RehearsedRun) -> tuple[str, bool]:
    """Two ranks inside collectives at different places, if they lost each other, and whether one
    of them had evaluated after the last step and the other had not; "" otherwise."""
    if not any(rank.error for rank in run.ranks) or not _lost_only(run):
        return "", False
    inside = [
        w for w in run.waiting if w.inside and w.place and not ONE_TO_ONE.search(w.collective)
    ]
    other = next((w for w in inside[1:] if w.place != inside[0].place), None)
    if other is None:
        return "", False
    pair = (inside[0], other)
    places = [f"rank {w.rank} is in {w.collective} at {shown(w.place, 200)}{under(w)}"
              for w in pair]  # fmt: skip
    evaluated = {
        rank.rank for rank in run.ranks if any(each.step == rank.steps for each in rank.evaluations)
    }
    return ", ".join(places), len(evaluated & {w.rank for w in pair}) == 1


def mismatched(run: RehearsedRun) -> str:
    """That ranks called different collectives, if no rank has an error of another kind; "" else."""
    if not run.mismatch or not _lost_only(run):
        return ""
    places = [f"rank {w.rank} was at {shown(w.place, 200)}" for w in run.waiting if w.place]
    where = f"; {places[0]}" if places else ""
    return f"the ranks called different collectives: {shown(run.mismatch, 300)}{where}"


def of_parted(rehearsal: Rehearsal, summary: str) -> Verdict:
    """Of a rank that had left its steps, by whether its loader can have been the reason."""
    run, found = rehearsal.run("run"), rehearsal.agreement
    if run is not None and any(each.inside and each.condition for each in run.waiting):
        return fail(summary, fix=ON_ALL)
    if found is not None and found.epoch and len(set(found.epoch)) == 1:
        return fail(
            f"{summary}; an epoch has {found.epoch[0]:,} batches on each: one leaves its loop by a "
            "decision of its own, or calls alone what all must call",
            fix=TOGETHER_STOPPED,
        )
    return fail(
        f"{summary}: one has fewer batches than the other, or calls alone what all must call",
        fix=AS_MANY,
    )


def lost_each_other(rehearsal: Rehearsal, run: RehearsedRun, ended: str) -> Verdict | None:
    """Of ranks that are at different places of the program."""
    if apart := alone(run):
        return _apart(rehearsal, run, f"{ended}: {apart}", raised(run))
    if longer := longer_evaluation(run):
        return fail(f"{ended}: {longer}{place(run)}{raised(run)}", fix=AS_MANY_EVALUATED)
    if gone := parted(run):
        return of_parted(rehearsal, f"{ended}: {gone}")
    if apart := mismatched(run):
        return fail(f"{ended}: {apart}", fix=MISMATCHED)
    places, evaluates = elsewhere(run)
    if places:
        why = "; one of them had evaluated after the last step alone" * evaluates
        return fail(f"{ended}: {places}{why}", fix=TOGETHER if evaluates else SAME_CALLS)
    return None


def _apart(rehearsal: Rehearsal, run: RehearsedRun, summary: str, where: str) -> Verdict:
    """Of a rank that evaluates while another trains."""
    if uneven := fewer_batches(rehearsal, run):
        return fail(f"{summary}: {uneven}{where}", fix=AS_MANY)
    return fail(f"{summary}{where}", fix=TOGETHER)


def in_evaluations(rehearsal: Rehearsal, run: RehearsedRun, how: str, where: str) -> Verdict | None:
    """Of ranks that stand still, one of them in an evaluation."""
    still = f"{how}, none of the ranks goes on"
    if apart := alone(run):
        return _apart(rehearsal, run, f"{still}: {apart}", where)
    if longer := longer_evaluation(run):
        return fail(f"{still}: {longer}{where}", fix=AS_MANY_EVALUATED)
    return None
