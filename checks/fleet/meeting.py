"""Whether the nodes of a fleet could speak to each other, and trust what was said."""

from __future__ import annotations

from doctor._util.units import counted, shown
from doctor.checks.fleet.words import nodes
from doctor.facts.fleet import Fleet
from doctor.facts.meeting import Absence, Meeting
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.combine import worst

NO_MEETING = "files were compared; nodes meet in doctor fleet"
SLOW_NAME = 1.0
"""Seconds to resolve a name. Our own number: every rank of the training resolves it again."""
FILES_BEYOND = 64
"""Open files that the store's process needs beside one for each node. Our own number."""


def reported(fleet: Fleet) -> Verdict:
    meeting = fleet.meeting
    if meeting is None:
        return skip(NO_MEETING)
    if meeting.failed and not meeting.arrivals:
        return unknown(f"no node could be met: {meeting.failed}")
    refused = [each for each in meeting.absences if each.reason]
    silent = [each for each in meeting.absences if each.joined and not each.reason]
    verdicts = [
        fail(f"{counted(len(refused), 'node')} refused: {'; '.join(map(_refused, refused[:4]))}")
        if refused
        else None,
        fail(
            f"joined and did not report within {meeting.deadline:g} s: "
            f"{nodes([each.node for each in silent])}"
        )
        if silent
        else None,
    ]
    if found := [each for each in verdicts if each]:
        return worst(*found)
    came = len(meeting.arrivals) + 1
    return ok(
        f"{counted(came, 'node')} joined, and each of them reported within {meeting.deadline:g} s"
    )


def _refused(absence: Absence) -> str:
    return f"{absence.node}: {shown(absence.reason, 200)}"


def reachable(fleet: Fleet) -> Verdict:
    meeting = fleet.meeting
    if meeting is None:
        return skip(NO_MEETING)
    where = f"node 0, {shown(meeting.address)} port {meeting.port}"
    if meeting.failed:
        return fail(f"{where}: {meeting.failed}")
    if not meeting.arrivals:
        return unknown(f"no other node reached {where} within {meeting.deadline:g} s")
    return worst(_files(meeting), _names(meeting, where))


def _files(meeting: Meeting) -> Verdict:
    """The store's server needs a descriptor for each node."""
    required = meeting.nodes + FILES_BEYOND
    if meeting.open_files is None:
        return ok("torchrun's agent serves the store")
    summary = f"{meeting.open_files:,} open files allowed; {required:,} required (ulimit -n)"
    return (ok if meeting.open_files >= required else fail)(summary)


def _names(meeting: Meeting, where: str) -> Verdict:
    slow = [each for each in meeting.arrivals if each.resolving >= SLOW_NAME]
    if slow:
        worst_one = max(slow, key=lambda each: each.resolving)
        return warn(
            f"the name {shown(meeting.address)} took {worst_one.resolving:.1f} s to resolve on "
            f"{nodes([each.node for each in slow])}; less than {SLOW_NAME:g} s required"
        )
    slowest = max(each.connecting for each in meeting.arrivals)
    ways = sorted({each.interface for each in meeting.arrivals if each.interface})
    by = f" by {', '.join(ways[:4])}" if ways else ""
    return ok(
        f"{where} was reached from {counted(len(meeting.arrivals), 'node')}{by} in {slowest:.2f} s"
    )


def authenticated(fleet: Fleet) -> Verdict:
    meeting = fleet.meeting
    if meeting is None:
        return skip(NO_MEETING)
    if meeting.authenticated:
        return ok("the messages of the nodes are sealed with a key")
    return note("the messages are not authenticated: whoever reaches the port can forge them")


REPORTED = Check(
    code="FLT015",
    slug="nodes-reported",
    title="Every node that joined the fleet reported in time",
    why="A node that hangs while it is examined hangs in the job, too, and all others wait for it.",
    passes=("each node that joined delivered its result before the deadline",),
    fails=(
        "a node joined and delivered nothing before the deadline",
        "what came under its name was refused: another key, an earlier run, or malformed",
    ),
    fix="Run doctor on that node alone; its own output names the call that hangs. Where messages "
    "were refused, give all nodes the same key.",
    limits="that the nodes which never joined are healthy: FLT001 names them.",
    owner=Owner.MACHINE,
    judge=reported,
    sources=("vllm-internode",),
)

REACHABLE = Check(
    code="FLT016",
    slug="first-node-reachable",
    title="The first node can be reached by its name and port",
    why="The training meets in the same way: by a store of torch on the first node. A name that "
    "resolves slowly or a limit on open files looks like a firewall.",
    passes=("every node that came resolved the name within a second and connected",),
    warns=(f"the name took {SLOW_NAME:g} s or longer to resolve on a node",),
    fails=(
        "the store could not be served: the port is taken, or the address is none of the node's",
        f"fewer open files are allowed than nodes plus {FILES_BEYOND}",
    ),
    fix="Name an address of the first node that the others can reach with --address and a free "
    "port with --port; raise the limit with ulimit -n in the job.",
    commands=("ss -ltnp", "ulimit -n"),
    limits="that other ports, or InfiniBand, are open between the nodes.",
    owner=Owner.ENVIRONMENT,
    judge=reachable,
    sources=("torch-libuv-store",),
)

AUTHENTICATED = Check(
    code="FLT017",
    slug="messages-authenticated",
    title="The nodes' messages are authenticated",
    why="Neither torch's store nor its process groups know who speaks. With a key, a stranger on "
    "the network can make a node appear missing, but cannot speak for it.",
    passes=("every message carries a code that only holders of the key can make",),
    notes=("no key was given: whoever reaches the port can forge messages",),
    fix="Set DOCTOR_FLEET_SECRET to a random value where the launcher starts the tasks, or name "
    "a file with --secret-file.",
    commands=("export DOCTOR_FLEET_SECRET=$(openssl rand -hex 32)",),
    limits="that the network is private: the messages are not encrypted.",
    owner=Owner.JOB,
    judge=authenticated,
    sources=("vllm-internode",),
)

CHECKS = (REPORTED, REACHABLE, AUTHENTICATED)
