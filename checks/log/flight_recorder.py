"""Flight-recorder dumps: whether every rank called the same operations."""

from __future__ import annotations

from collections.abc import Iterable

from doctor.facts.flight_recorder import FlightRecorder, Mismatch, Operation, Stopped
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown
from doctor.judge.place import Place

NAMED = 8
"""Ranks that a summary lists before it counts. Our own number."""

EVIDENCE = {
    "not called": "did not call it and waits for no other rank",
    "not completed": "called it and did not complete it; all others did",
    "not started": "called it and did not start it; others did",
    "behind": "did not call it, though its peers did that wait as it does",
    "no dump": "has no dump; every rank with one called it",
}

REMEDIES = {
    "not called": "Read the last lines of this rank's log. Its process stopped in Python before "
    "the call: an exception, a data loader, a checkpoint being saved, a lock. While the job hangs, "
    "py-spy shows the line.",
    "not completed": "Examine this rank's GPU and host: Xid messages in the kernel log, ECC "
    "errors, a kernel of its own that does not end.",
    "not started": "Examine this rank's GPU: an earlier kernel does not end, or the GPU failed.",
    "behind": "Read the last lines of this rank's log as well.",
    "no dump": "Read the end of this rank's log: its process ended before it could write a dump.",
}

COMMANDS = {
    "not called": "py-spy dump --pid PID_OF_THE_RANK",
    "not completed": "sudo dmesg -T | grep -i -E 'xid|nvrm'",
    "not started": "sudo dmesg -T | grep -i -E 'xid|nvrm'",
}


def ranks_in_step(flight_recorder: FlightRecorder) -> Verdict:
    recorder = flight_recorder
    if recorder.stopped:
        return _stopped(recorder)
    if recorder.waits:
        first = recorder.waits[0]
        return fail(
            f"{_ranks(first.arrived)} wait in {_label(first.operation)} for "
            f"{_ranks(first.missing)}, which wait for others in turn; no rank stopped by itself",
            fix="Compare the order in which these ranks call operations of different groups.",
            owner=Owner.JOB,
        )
    if recorder.hung:
        return _hung(recorder)
    if missing := recorder.without_dump:
        return unknown(
            f"no operation is pending on {_ranks(recorder.ranks)}; no dump of {_ranks(missing)}"
        )
    if recorder.unread:
        name, reason = next(iter(recorder.unread.items()))
        return unknown(f"no operation is pending; {len(recorder.unread)} unread: {name}: {reason}")
    if len(recorder.ranks) < 2:
        return unknown("a single dump: there is nothing to compare it with")
    return ok(f"{len(recorder.ranks)} ranks called the same operations, and all are complete")


def _stopped(recorder: FlightRecorder) -> Verdict:
    evidence = {each.evidence for each in recorder.stopped}
    parts = [_group(each) for each in _by_operation(recorder.stopped)]
    gpu = evidence <= {"not completed", "not started"}
    return fail(
        "; ".join(parts),
        *dict.fromkeys(COMMANDS[each] for each in COMMANDS if each in evidence),
        fix="\n".join(REMEDIES[each] for each in REMEDIES if each in evidence),
        owner=Owner.MACHINE if gpu else Owner.JOB,
        places=tuple(_place(recorder, each) for each in recorder.stopped),
    )


def _by_operation(stopped: Iterable[Stopped]) -> list[list[Stopped]]:
    """Those with the same evidence in the same kind of operation, together."""
    together: dict[tuple[str, str, int], list[Stopped]] = {}
    for each in stopped:
        key = each.evidence, each.operation.name, each.operation.sequence
        together.setdefault(key, []).append(each)
    return list(together.values())


def _group(stopped: list[Stopped]) -> str:
    first = stopped[0]
    ranks = _ranks(tuple(each.rank for each in stopped))
    waiting = sorted({rank for each in stopped for rank in each.waiting})
    names = dict.fromkeys(_name(each.operation) for each in stopped)
    operation = f"{first.operation.name} {first.operation.sequence} of group {', '.join(names)}"
    return (
        f"{ranks} stopped: {operation} ({EVIDENCE[first.evidence]}); "
        f"{_ranks(tuple(waiting))} called it"
    )


def _place(recorder: FlightRecorder, stopped: Stopped) -> Place:
    paths = dict(zip(recorder.ranks, recorder.paths, strict=False))
    waiting = [paths[rank] for rank in stopped.waiting if rank in paths]
    path = paths.get(stopped.rank) or (waiting or list(recorder.paths) or [""])[0]
    message = f"rank {stopped.rank} stopped: {_label(stopped.operation)}"
    return Place(path=path, rank=stopped.rank, message=message)


def _hung(recorder: FlightRecorder) -> Verdict:
    first, *others = recorder.hung
    if others:
        return fail(
            f"{_ranks(first.arrived)} are in {_label(first.operation)}, "
            f"{_ranks(others[0].arrived)} in {_label(others[0].operation)}; every operation was "
            "called by all its ranks and none completes",
            fix="Call operations of different groups in the same order on every rank.",
            owner=Owner.JOB,
        )
    return fail(
        f"all of {_ranks(first.operation.ranks)} called {_label(first.operation)} and none "
        "completed it: no rank is missing, the operation itself hangs",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET torchrun ...",
        fix="Test the links between these GPUs and hosts: NCCL_DEBUG=INFO names the network "
        "that it uses; Xid messages and link errors name a GPU or a port.",
        owner=Owner.MACHINE,
    )


def calls_match(flight_recorder: FlightRecorder) -> Verdict:
    mismatches = flight_recorder.mismatches
    if not mismatches and len(flight_recorder.ranks) < 2:
        return unknown("a single dump: there is nothing to compare it with")
    if not mismatches:
        return ok(f"no call of {_ranks(flight_recorder.ranks)} differs from the others'")
    return fail("; ".join(map(_mismatch, mismatches[:3])))


def _mismatch(mismatch: Mismatch) -> str:
    variants = ", ".join(
        f"{_ranks(variant.ranks)} {variant.value or 'none'}" for variant in mismatch.variants[:4]
    )
    what = {"operation": "different operations", "size": "different sizes", "dtype": "dtypes"}
    operation = mismatch.operation
    place = f"call {operation.sequence} of group {_name(operation)}"
    return f"{what[mismatch.by]} in {place}: {variants}"


def _label(operation: Operation) -> str:
    return f"{operation.name} {operation.sequence} of group {_name(operation)}"


def _name(operation: Operation) -> str:
    description = operation.description
    return f"{operation.group} ({description})" if description else operation.group


def _ranks(ranks: tuple[int, ...]) -> str:
    """ "rank 3", "ranks 0-3, 8"; beyond a few runs, their count."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    if len(runs) > NAMED:
        return f"{len(ranks)} ranks"
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {text}"


RANKS_IN_STEP = Check(
    code="LOG080",
    slug="ranks-in-step",
    title="No rank stopped in a collective operation",
    why="All ranks of a group must call each collective operation. When one stops, all others "
    "wait until the watchdog ends the job, and every log shows the same timeout. The dumps of the "
    "flight recorder show which rank did not come.",
    passes=("every dump has called the same operations, and none is pending",),
    fails=(
        "ranks wait for a rank that did not call an operation, or did not complete it",
        "all ranks called an operation and none completed it",
    ),
    fix="Examine the ranks that stopped; those that wait for them are not at fault.",
    commands=("py-spy dump --pid PID_OF_THE_RANK",),
    limits="that no rank stops later.",
    owner=Owner.JOB,
    judge=ranks_in_step,
    sources=("flight-recorder",),
)

CALLS_MATCH = Check(
    code="LOG081",
    slug="collectives-match",
    title="All ranks call the same collective operations with the same sizes",
    why="NCCL does not compare what the ranks call. Where one calls another operation or another "
    "size, the job hangs, or gradients are wrong without an error.",
    passes=("under each sequence number, all ranks called the same operation, size and dtype",),
    fails=("ranks called different operations, sizes or dtypes under one sequence number",),
    fix="Make the ranks take the same branch: uneven data, a condition on the rank, and unused "
    "parameters are the usual reasons. TORCH_DISTRIBUTED_DEBUG=DETAIL names the call.",
    commands=("TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...",),
    limits="that earlier calls, which the ring buffer no longer holds, were the same.",
    owner=Owner.JOB,
    judge=calls_match,
    sources=("flight-recorder",),
)

CHECKS = (RANKS_IN_STEP, CALLS_MATCH)
