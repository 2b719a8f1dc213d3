"""What the nodes of a fleet do together: see one directory, and reduce in pairs."""

from __future__ import annotations

from collections import Counter

from doctor._util.units import counted, shown
from doctor.checks.fleet.meeting import NO_MEETING
from doctor.checks.fleet.words import nodes
from doctor.facts.fleet import Fleet
from doctor.facts.meeting import Pair, Shared
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst

NAMED = 4
"""Pairs that a summary names."""


def shared(fleet: Fleet) -> Verdict:
    if fleet.meeting is None:
        return skip(NO_MEETING)
    if fleet.meeting.shared is None:
        return skip("no --output-dir was given")
    return worst(*map(_shared, fleet.meeting.shared))


def _shared(each: Shared) -> Verdict:
    path = shown(each.path)
    if not each.written.ok:
        return unknown(f"{path}: no file could be written on node 0: {each.written.detail}")
    if each.unseen:
        node, reason = next(iter(each.unseen.items()))
        return warn(
            f"{path}: a file of node 0 is not seen on {nodes(list(each.unseen))} "
            f"({node}: {shown(reason, 160)})"
        )
    if each.silent or not each.seen:
        silent = nodes(list(each.silent)) if each.silent else "every other node"
        return unknown(f"{path}: no answer in time from {silent}")
    return ok(f"{path}: a file of node 0 is seen on {counted(len(each.seen), 'node')}")


def pairs(fleet: Fleet) -> Verdict:
    if fleet.meeting is None:
        return skip(NO_MEETING)
    if fleet.meeting.pairs is None:
        return skip("no GPUs; --collectives runs all-reduces on the processors")
    done = fleet.meeting.pairs
    if not done:
        return unknown("no two nodes could be paired")
    cut_off = [pair for pair in done if pair.ended.how == "budget"]
    failed = [pair for pair in done if not pair.good and pair.ended.how != "budget"]
    if failed:
        return fail(f"{_culprits(done, failed)}: {'; '.join(map(_failed, failed[:NAMED]))}")
    if cut_off:
        which = f"{counted(len(cut_off), 'pair')} of {len(done)} without a result"
        return unknown(f"{which}, a longer --deadline is required: {_failed(cut_off[0])}")
    rates = sorted(pair.rate or 0.0 for pair in done)
    return ok(
        f"{counted(len(done), 'pair')} by {fleet.meeting.backend}: correct sums, "
        f"{rates[0] / 1e9:.2f} to {rates[-1] / 1e9:.2f} GB/s"
    )


def _culprits(done: tuple[Pair, ...], failed: list[Pair]) -> str:
    """A node where two pairings with different partners say so, else the links."""
    bad = Counter(node for pair in failed for node in (pair.first, pair.second))
    good = {node for pair in done if pair.good for node in (pair.first, pair.second)}
    accused = [node for node, count in bad.items() if count > 1 and node not in good]
    if accused:
        return f"{nodes(accused)} failed with every partner"
    return f"{counted(len(failed), 'pair')} of {len(done)} failed, the link or one of its ends"


def _failed(pair: Pair) -> str:
    what = f"{pair.wrong} wrong elements" if pair.ended.ok else pair.ended.detail or pair.ended.how
    return f"{pair.first} with {pair.second}: {shown(what, 200)}"


SHARED = Check(
    code="FLT018",
    slug="output-directory-shared",
    title="All nodes see one output directory",
    why="Where each node writes to a disk of its own, a sharded checkpoint has a part on every "
    "node, and no run can resume from it.",
    passes=("a file that node 0 wrote to --output-dir is read on every other node",),
    warns=("a node does not see the file, or sees another one",),
    fix="Mount the same file system at this path on all nodes, or gather the checkpoints of a "
    "local directory after each save.",
    commands=("findmnt --target .",),
    limits="that writes of several nodes at once are safe there.",
    owner=Owner.ENVIRONMENT,
    judge=shared,
    sources=("torch-dcp-shared",),
)

PAIRS = Check(
    code="FLT019",
    slug="pairs-communicate",
    title="Pairs of nodes reduce correctly",
    why="A cable or a switch port that is bad stops the whole job, and the error names no node.",
    passes=("every pair that was tried returned the correct sum in time",),
    fails=("a pair hangs, breaks off or returns a wrong sum",),
    fix="Take the node that failed with every partner out of use; for a single pair look at the "
    "cable and the switch between its nodes.",
    limits="that all nodes reduce at once, or that other GPUs than the first of each node do.",
    owner=Owner.MACHINE,
    judge=pairs,
    sources=("imbue-p2p",),
)

CHECKS = (SHARED, PAIRS)
