"""Whether the nodes are there, are distinct, are ready, and agree on the time."""

from __future__ import annotations

import re

from doctor._util.units import counted, shown
from doctor.checks.fleet.words import nodes
from doctor.facts.fleet import Fleet, NodeLine, Problems
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

CLOCK_WARN, CLOCK_FAIL = 0.1, 1.0
"""Seconds. Our own numbers: logs of several nodes are merged by time, and tokens of object storage
expire; S3 refuses requests from 900 s on."""
LOOK = "Run `doctor report FACTS` on the facts of each node: it prints the fix."
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
"""A node or a code in a command to copy: others could be options, or words to the shell."""
PROBLEMS = 6
"""Checks of the nodes that a summary names."""


def present(fleet: Fleet) -> Verdict:
    there = f"{counted(len(fleet.nodes), 'node')} reported"
    verdicts = [_expected(fleet, there)]
    if fleet.unread:
        first = fleet.unread[0]
        where = shown(first.file, 200)
        kind = "node" if fleet.origin == "live" else "file"
        what = f"{counted(len(fleet.unread), kind)} could not be read, first {where}"
        verdicts.append(unknown(f"{what}: {shown(first.reason, 200)}"))
    if fleet.unexpected:
        verdicts.append(warn(f"not in the list of expected nodes: {nodes(fleet.unexpected)}"))
    return worst(*verdicts)


def _expected(fleet: Fleet, there: str) -> Verdict:
    if fleet.expected is None:
        return ok(f"{there}; how many there must be was not stated")
    required = f"{there}; {fleet.expected:,} required"
    if fleet.missing:
        return fail(f"{required}; missing: {nodes(fleet.missing)}")
    if len(fleet.nodes) < fleet.expected:
        ranks = ", ".join(map(str, fleet.missing_ranks[:8]))
        named = f"; missing: node rank {ranks}" if ranks else ""
        return fail(f"{required}{named}")
    if len(fleet.nodes) > fleet.expected and not fleet.unexpected:
        return warn(f"{there}; {fleet.expected:,} expected")
    return ok(required)


def distinct(fleet: Fleet) -> Verdict:
    if fleet.since:
        return skip("two files of one machine are compared")
    if len(fleet.nodes) < 2:
        return skip("one node alone")
    if fleet.doubled:
        return fail(
            "; ".join(
                f"{each.what} {shown(each.value, 80)} appears {len(each.nodes)} times: "
                f"{nodes(each.nodes)}"
                for each in fleet.doubled[:4]
            )
            + (f"; and {len(fleet.doubled) - 4} more" if len(fleet.doubled) > 4 else "")
        )
    return ok(
        f"the names, GPUs and network addresses of {counted(len(fleet.nodes), 'node')} are distinct"
    )


def ready(fleet: Fleet) -> Verdict:
    if not fleet.nodes:
        return unknown("no node reported")
    by_outcome = {
        outcome: [line for line in fleet.nodes if line.outcome == outcome]
        for outcome in ("return", "fix", "unknown")
    }
    verdicts = [_not_ready(fleet, *pair) for pair in by_outcome.items() if pair[1]]
    if not verdicts:
        warned = [each for each in fleet.problems if each.status == "warn"]
        if not warned:
            return ok(f"{counted(len(fleet.nodes), 'node')} passed all checks")
        return warn(f"all nodes are ready, with warnings: {_named(warned)}", fix=LOOK)
    return worst(*verdicts)


def _not_ready(fleet: Fleet, outcome: str, lines: list[NodeLine]) -> Verdict:
    codes = {code for line in lines for code in line.codes}
    named = [each for each in fleet.problems if each.status != "warn" and each.code in codes]
    summary = (
        f"{counted(len(lines), 'node')} of {len(fleet.nodes):,} {outcome.upper()}: "
        f"{nodes([line.node for line in lines])}"
    )
    summary += f" ({_named(named)})" if named else ""
    if outcome == "unknown":
        return unknown(summary)
    owner = Owner.MACHINE if outcome == "return" else Owner.ENVIRONMENT
    return fail(summary, *commands(fleet, lines), owner=owner)


def _named(problems: list[Problems]) -> str:
    texts = [f"{each.code} on {nodes(each.nodes)}" for each in problems[:PROBLEMS]]
    more = f"; {len(problems) - PROBLEMS} more checks" if len(problems) > PROBLEMS else ""
    return "; ".join(texts) + more


def commands(fleet: Fleet, lines: list[NodeLine]) -> tuple[str, ...]:
    """Lines to copy that take these nodes out of use, for the launcher that they have."""
    safe = [line for line in lines if _is_plain(line.node)]
    if fleet.drain == "slurm" and safe:
        names = ",".join(line.node for line in safe)
        found = {code for line in safe for code in line.codes if NAME.fullmatch(code)}
        codes = "+".join(sorted(found)) or "doctor"
        return (f'scontrol update NodeName={names} State=DRAIN Reason="doctor {codes}"',)
    if fleet.drain == "kubernetes":
        return tuple(f"kubectl taint nodes {line.node} doctor=bad:NoSchedule" for line in safe)
    return ()


def _is_plain(name: str) -> bool:
    """Whether a command takes it as the name of one node: for scontrol and kubectl, all is all."""
    return bool(NAME.fullmatch(name)) and name.lower() != "all"


def clocks(fleet: Fleet) -> Verdict:
    timed = [(line.node, line.clock) for line in fleet.nodes if line.clock is not None]
    if not timed:
        return skip("clocks are compared by doctor fleet, while the nodes run")
    node, clock = max(timed, key=lambda pair: abs(pair[1].offset) - pair[1].error)
    least = max(0.0, abs(clock.offset) - clock.error)
    summary = (
        f"largest offset from rank 0: {node}, {clock.offset:+.3f} s (± {clock.error:.3f} s); "
        f"less than {CLOCK_WARN:g} s required"
    )
    return (fail if least >= CLOCK_FAIL else warn if least >= CLOCK_WARN else ok)(summary)


PRESENT = Check(
    code="FLT001",
    slug="nodes-present",
    title="Every expected node reported",
    why="A job of 64 nodes does not start with 63, and launchers rarely name the node that is "
    "missing.",
    passes=("as many nodes reported as are expected, or all that are named",),
    warns=("a node reported that is not expected, or more than expected",),
    fails=("a node is missing",),
    fix="Look at the node that is missing: is it up, did its launcher start the doctor there, and "
    "did its facts reach this directory? Then run doctor there alone.",
    limits="that a node which nobody expects is there; state them by --expect-nodes or "
    "--nodes-from.",
    owner=Owner.MACHINE,
    judge=present,
    required="always",
    sources=("slurm-sinfo",),
)

DISTINCT = Check(
    code="FLT002",
    slug="nodes-distinct",
    title="No node, GPU or network address appears twice",
    why="Cloned virtual machines have one name or address, and a container that is started twice "
    "has the same GPUs: ranks then wait for each other, or two processes share a GPU.",
    passes=("each name, GPU UUID and network address belongs to one node",),
    fails=("one of them appears on two nodes",),
    fix="Start one task per node, and give each node its own name, GPUs and network address.",
    limits="that the addresses of nodes whose facts lack them are distinct.",
    owner=Owner.ENVIRONMENT,
    judge=distinct,
    sources=("nccl-1241",),
)

READY = Check(
    code="FLT003",
    slug="nodes-ready",
    title="Every node passes its own checks",
    why="A job is as good as its worst node: one that fails costs the time of all others.",
    passes=("every node is READY without warnings",),
    warns=("a node has a warning",),
    fails=("the verdict of a node is FIX or RETURN",),
    fix=f"Take the nodes out of use. {LOOK}",
    limits="that the nodes work together.",
    owner=Owner.ENVIRONMENT,
    judge=ready,
    returns=True,
    required="always",
    sources=("slurm-scontrol",),
)

CLOCKS = Check(
    code="FLT010",
    slug="clocks-agree",
    title=f"The clocks of the nodes differ by less than {CLOCK_WARN:g} s",
    why="Logs of several nodes are read in the order of time, and signed requests to object "
    "storage are refused where the clock is wrong.",
    passes=(f"each clock is within {CLOCK_WARN:g} s of that of rank 0",),
    warns=(f"one is {CLOCK_WARN:g} s off, or more",),
    fails=(f"one is {CLOCK_FAIL:g} s off, or more",),
    fix="Start time synchronization on the node, and check that it reaches its server.",
    commands=("chronyc tracking",),
    limits="that rank 0 has the right time.",
    owner=Owner.MACHINE,
    judge=clocks,
    sources=("aws-clock-180",),
)

CHECKS = (PRESENT, DISTINCT, READY, CLOCKS)
