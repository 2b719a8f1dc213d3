"""Which rank made the others wait, by what the ranks of a log say of a collective."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from doctor.facts.log import Log, LogEvent, RankSeen

TIMEOUT = "nccl-timeout"
GROUP = re.compile(r"\b(?:PG ID \d+ )?PG (?:(?:ID|GUID) )?(\w{1,40})")
"""The process group of a watchdog's line: only sequence numbers of one group are comparable. The
GUID goes before the ID, which each process counts for itself."""
CLOSE = 2
"""Sequence numbers that differ by more are of different groups where lines name none."""
FEW = 0.25
"""Share of the ranks that may be the ones that the others wait for. Our own number."""
ALONE = (
    " Rank 0 may be at work alone, evaluating, saving or loading, while the others wait: let all "
    "ranks take part (DistributedSampler), or raise the limit (init_process_group(timeout=...), "
    "ddp_timeout of the Trainer)."
)
SOLO = (
    "Rank 0 works alone: it evaluates, generates or saves under `if rank == 0`. Through the "
    "wrapped model (DDP, FSDP) this begins collectives that no other rank enters: let all ranks "
    "evaluate, or call model.module under no_grad on rank 0 (DDP) with a barrier after it. "
)
BATCHES = (
    " The collectives are of other kinds: the ranks left the common order, most often by other "
    "numbers of batches. Give every rank the same number (drop_last, DistributedSampler, one seed "
    "for a sampler that forms batches by length, the Join context of DDP)."
)
NOTHING_ARRIVES = (
    "No rank of the log is missing: the path between the GPUs is blocked. Within a node try "
    "NCCL_P2P_DISABLE=1; if it runs with that, copies between the GPUs are redirected or refused: "
    "pass the IOMMU through (iommu=pt on the kernel's command line), switch ACS off on the PCIe "
    "bridges (dmesg then has no IO_PAGE_FAULT), or keep the variable in a virtual machine. Between "
    "nodes try NCCL_IB_DISABLE=1, and name the network that joins them in NCCL_SOCKET_IFNAME. A "
    "longer timeout does not help."
)
NUMBERS = ("seq", "work", "enqueued")
LOSSES = ("loss", "mean_loss")
PARTED = 4
"""Ranks from which on two groups are no accident: one of two or three is named as elsewhere or
behind. Our own number."""
NAMED = 8
"""Ranks that a sentence lists."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The ranks that the others waited for, and why they are named."""

    ranks: tuple[int, ...]
    summary: str
    fix: str


def waited_for(log: Log) -> Culprit | None:
    """The ranks that are behind by their sequence numbers, or that fell silent."""
    events = [each for each in log.events if each.name == TIMEOUT and each.rank is not None]
    return _behind(events) or _elsewhere(events) or _silent(log, events) or _blocked(log, events)


def _blocked(log: Log, events: list[LogEvent]) -> Culprit | None:
    """No rank: all of them entered the first collective of the run, and it does not end."""
    group = _usual_group(events)
    reports = {
        (_number(each), each.groups.get("op", ""), each.groups.get("numel", ""))
        for each in events
        if _group(each) == group
    }
    ranks = {each.rank for each in events}
    if len(reports) != 1 or len(ranks) < 2 or len(ranks) <= max(each.rank or 0 for each in events):
        return None
    ((number, op, _),) = reports
    if number != 1 or trained_before(log, events[0]):
        return None
    return Culprit(
        (),
        f"all {len(ranks)} ranks of the log wait in the first collective {op}".rstrip(),
        NOTHING_ARRIVES,
    )


def trained_before(log: Log, event: LogEvent) -> bool:
    """Whether losses were logged before an event, or in another file."""
    losses = (curve for curve in log.curves if curve.name in LOSSES and curve.values)
    return any(
        curve.path != event.path or not curve.lines or curve.lines[0] < event.line
        for curve in losses
    )


def _usual_group(events: list[LogEvent]) -> str | None:
    groups = Counter(group for event in events if (group := _group(event)) is not None)
    return groups.most_common(1)[0][0] if groups else None


def _elsewhere(events: list[LogEvent]) -> Culprit | None:
    """Ranks that wait in another collective than most ranks, under the same number."""
    group = _usual_group(events)
    reports = {
        each.rank: (each.groups["op"], int(each.groups["numel"]))
        for each in events
        if each.rank is not None and _group(each) == group and {"op", "numel"} <= each.groups.keys()
    }
    numbers = {_number(each) for each in events if _group(each) == group}
    if len(reports) < 2 or len(numbers) != 1 or len(set(reports.values())) < 2:
        return None
    (usual, alike), (_, others), *_ = Counter(reports.values()).most_common()
    ranks = sorted(rank for rank, own in reports.items() if own != usual)
    if alike == others or len(ranks) > max(1, FEW * len(reports)):
        return _parted(reports, numbers.pop() or 0, usual)
    op, numel = reports[ranks[0]]
    return Culprit(
        tuple(ranks),
        f"{_ranks(ranks)} elsewhere: collective {numbers.pop():,} is {op} of {numel:,} elements "
        f"there, and {usual[0]} of {usual[1]:,} on {alike:,} others",
        (SOLO if ranks == [0] else "")
        + f"Look at what {_ranks(ranks, '')} did before in its log: it left the common path. Most "
        "often it had fewer batches and went on to the evaluation or the end of the epoch alone: "
        "give all ranks the same number of batches (drop_last, DistributedSampler, shards of one "
        "size, the Join context of DDP). Else a branch that depends on the rank or the data. A "
        "longer timeout does not help.",
    )


def _parted(
    reports: dict[int, tuple[str, int]], number: int, usual: tuple[str, int]
) -> Culprit | None:
    """Two groups of ranks, each in a collective of its own, of which neither is the exception."""
    if len(reports) < PARTED or len(set(reports.values())) != 2:
        return None
    alike = sorted(rank for rank, own in reports.items() if own == usual)
    others = sorted(set(reports) - set(alike))
    op, numel = reports[others[0]]
    return Culprit(
        tuple(others),
        f"{_ranks(alike, '')} and {_ranks(others, '')} parted: collective {number:,} is {usual[0]} "
        f"of {usual[1]:,} elements there, and {op} of {numel:,} here",
        "The ranks took different branches. Most often each decided alone what comes next, by its "
        "own loss or metric (to save the best model, to stop early, to skip a step), its own clock "
        "or its own number of batches. Reduce the value over all ranks first (all_reduce, "
        "broadcast from rank 0) so that they decide alike, and let every rank enter the save or "
        "the evaluation of sharded weights. A longer timeout does not help.",
    )


def _behind(events: list[LogEvent]) -> Culprit | None:
    """Ranks whose collective has a lower number than that of most ranks."""
    group = _usual_group(events)
    if group is None:
        return None
    reports = {
        each.rank: (number, each.groups.get("op", ""))
        for each in sorted(events, key=lambda each: "enqueued" not in each.groups)
        if each.rank is not None and _group(each) == group and (number := _number(each))
    }
    if not reports:
        return None
    # Of two ranks that differ, the one that is further.
    firm = {each.rank for each in events if "enqueued" not in each.groups}
    waiting = [report for rank, report in reports.items() if rank in firm]
    # Enqueueing runs ahead of what is waited for: it only shows that a rank is behind.
    counts = Counter(waiting or reports.values())
    usual, alike = max(counts.items(), key=lambda item: (item[1], item[0]))
    behind = sorted(rank for rank, (number, _) in reports.items() if number < usual[0])
    if not behind or len(behind) > max(1, FEW * len(reports)):
        return None
    if not group and any(usual[0] - reports[rank][0] > CLOSE for rank in behind):
        return None
    own = reports[behind[0]]
    return Culprit(
        tuple(behind),
        f"{_ranks(behind)} behind: at collective {own[0]:,} {own[1]}".rstrip()
        + f", {alike:,} others at {usual[0]:,} {usual[1]}".rstrip(),
        f"Look at {_ranks(behind, '')} first: where it waits (py-spy dump --pid), what its log "
        "says before, and its host and GPU. It ran fewer collectives: less data, another branch, "
        "or a step that is stuck." + BATCHES * bool(own[1] and usual[1] and own[1] != usual[1]),
    )


def _group(event: LogEvent) -> str | None:
    if _number(event) is None:
        return None
    match = GROUP.search(event.text)
    return match[1] if match else ""


def _number(event: LogEvent) -> int | None:
    """Of the collective in which a rank waits, else of the last one that it began."""
    number = next((event.groups[each] for each in NUMBERS if event.groups.get(each)), None)
    return int(number) if number else None


def _silent(log: Log, events: list[LogEvent]) -> Culprit | None:
    """Ranks that wrote lines before, and no error when most others did; or the one number that is
    missing between those of the reports."""
    reported = {each.rank for each in log.events if each.rank is not None and not each.recovered}
    waiting = {each.rank for each in events if each.rank is not None}
    both_named = len(log.ranks) == 2 and all(each.named for each in log.ranks)
    if len(waiting) < 2 and not (waiting and both_named):
        return None
    size = max(waiting) + 1
    all_but_few = len(reported) >= (1 - FEW) * size
    seen = {
        each.rank: each
        for each in log.ranks
        if each.named or (all_but_few and each.rank < size)  # else a bare number may be a step
    }
    silent = sorted(set(seen) - reported)
    zero_alone = 0 not in reported and len(reported) == size - 1
    if not silent and len(waiting) > (2 if zero_alone else NAMED) and (zero_alone or all_but_few):
        silent = [0] if zero_alone else sorted(set(range(size)) - reported)
    everyone = len(reported | set(silent))
    if not silent or len(silent) > max(1, FEW * everyone):
        return None
    last = seen.get(silent[0])
    return Culprit(
        tuple(silent),
        f"{_ranks(silent)} silent: no error, while {len(waiting):,} ranks waited{_last(last)}",
        f"Look at {_ranks(silent, '')} first: where it hangs (py-spy dump --pid), its own log, the "
        "kernel log of its host (Xid, out of memory, a file system that does not answer)."
        + (ALONE if silent == [0] else ""),
    )


def _last(seen: RankSeen | None) -> str:
    if seen is None:
        return "; none of its lines is in the log"
    step = f", step {seen.step:,}" if seen.step is not None else ""
    return f"; last seen at {seen.path}:{seen.line}{step}"


def _ranks(ranks: list[int], verb: str | None = None) -> str:
    listed = ", ".join(map(str, ranks[:NAMED])) + (" ..." if len(ranks) > NAMED else "")
    many = len(ranks) > 1
    end = verb if verb is not None else " are" if many else " is"
    return f"rank{'s' * many} {listed}{end}"
