"""Whether hardware, software, variables, network, limits and files are the same on all nodes."""

from __future__ import annotations

from collections.abc import Callable

from doctor._util.units import counted
from doctor.checks.fleet.words import difference, nodes
from doctor.facts.fleet import Fleet, Topic
from doctor.fleet.differences import is_serious
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

MEANT = "Decide whether the change is meant; if it is not, undo it."
TOLD = 6
"""Differences that a summary has; the table of the report has all."""


def _judge(topic: Topic) -> Callable[..., Verdict]:
    def judge(fleet: Fleet) -> Verdict:
        if len(fleet.nodes) < 2:
            return skip("one node alone")
        things = fleet.compared.get(topic, 0)
        found = [each for each in fleet.differences if each.topic == topic]
        if not found:
            if not things:
                return _nothing(topic)
            return ok(f"{counted(things, 'value')} equal on {counted(len(fleet.nodes), 'node')}")
        serious = [each for each in found if is_serious(each)]
        ordered = serious + [each for each in found if each not in serious]
        texts = [difference(each, fleet.since) for each in ordered[:TOLD]]
        more = f"; {len(ordered) - TOLD} more" if len(ordered) > TOLD else ""
        summary = "; ".join(texts) + more
        if fleet.since:
            return warn(summary, fix=MEANT)
        return (fail if serious else warn)(summary)

    return judge


def _nothing(topic: Topic) -> Verdict:
    if topic == "files":
        return skip("no node was examined with --checkpoint, --data or --output-dir")
    if topic == "variables":
        return ok("no node sets any of the variables that are recorded")
    return unknown(f"not recorded in the facts of two nodes: {topic}")


def network(fleet: Fleet) -> Verdict:
    """A node without any active port beside others that have some cannot join their ring."""
    verdict = _judge("network")(fleet)
    ports = next((each for each in fleet.differences if each.name == "active ports"), None)
    if ports is None:
        return verdict
    without = [node for group in ports.groups[1:] if group.value == "0" for node in group.nodes]
    if not without:
        return verdict
    return fail(f"no active InfiniBand or RoCE port on {nodes(without)}; {verdict.summary}")


HARDWARE = Check(
    code="FLT004",
    slug="same-hardware",
    title="All nodes have the same hardware",
    why="Every step waits for the slowest GPU, a job with one GPU less does not start, and a "
    "lower power limit or another VBIOS shows in no single node's report.",
    passes=("GPUs, memory, power limit, VBIOS, processors and memory are equal on all nodes",),
    warns=("one of them differs",),
    fails=("a node has fewer or more GPUs of the same model than the others",),
    fix="Look at the node that differs: `nvidia-smi -q` there. Ask the provider for equal nodes, "
    "or exclude it.",
    commands=("nvidia-smi -q -d POWER,ECC",),
    limits="that GPUs of one name are equally fast: FLT011 compares their rates.",
    owner=Owner.MACHINE,
    judge=_judge("hardware"),
    sources=("superbench-diagnosis",),
)

SOFTWARE = Check(
    code="FLT005",
    slug="same-software",
    title="All nodes have the same driver, CUDA, NCCL, torch, Python and packages",
    why="Nodes with different versions of NCCL or torch do not find each other, hang, or compute "
    "something else; such a mixture is the most frequent result of an image that was updated on "
    "a part of the nodes.",
    passes=("every version is equal on all nodes",),
    warns=("the driver, the kernel or another package differs",),
    fails=("torch, its CUDA, NCCL or Python differs",),
    fix="Give all nodes one image or one environment on shared storage.",
    limits="that the versions fit each other: the checks of each node judge that.",
    owner=Owner.ENVIRONMENT,
    judge=_judge("software"),
    sources=("nccl-447",),
)

VARIABLES = Check(
    code="FLT006",
    slug="same-variables",
    title="Variables of NCCL, torch, UCX and OpenMP are the same on all nodes",
    why="NCCL takes its algorithm, protocol and network from variables; ranks that disagree hang "
    "without a message.",
    passes=("every variable that is recorded has one value, or is set on no node",),
    warns=("one differs",),
    fix="Set variables in one place, for example in the job's script, and let the launcher carry "
    "them to all nodes. Names of network interfaces may differ for a reason.",
    limits="that variables which the doctor does not record are equal.",
    owner=Owner.JOB,
    judge=_judge("variables"),
    sources=("nccl-env", "nccl-2428"),
)

NETWORK = Check(
    code="FLT007",
    slug="same-network",
    title="All nodes have the same InfiniBand or RoCE adapters and active ports",
    why="With one node that has no InfiniBand, NCCL hangs or all nodes fall back to TCP, several "
    "times slower.",
    passes=("adapters, active ports, rates and firmware are equal on all nodes",),
    warns=("adapters, rates, link layers or firmware differ",),
    fails=("the number of active ports differs",),
    fix="Look at the node's adapters: is a cable or a port down, or does the container lack "
    "/dev/infiniband?",
    commands=("ibstat",),
    limits="that the network between the nodes works: doctor fleet --collectives shows that.",
    owner=Owner.MACHINE,
    judge=network,
    sources=("nccl-234",),
)

LIMITS = Check(
    code="FLT008",
    slug="same-limits",
    title="Limits of processes and containers are the same on all nodes",
    why="A node with a lower limit of open files, locked memory or shared memory fails hours "
    "later than the others start, and alone.",
    passes=("ulimit, /dev/shm and the limits of the control group are equal on all nodes",),
    warns=("one differs",),
    fix="Set limits where the launcher starts its tasks (PropagateResourceLimits of Slurm, the "
    "pod's resources), not in a login shell of single nodes.",
    limits="that the limits are high enough: the checks of each node judge that.",
    owner=Owner.ENVIRONMENT,
    judge=_judge("limits"),
    sources=("slurm-sinfo",),
)

FILES = Check(
    code="FLT009",
    slug="same-files",
    title="The checkpoint, tokenizer and data are the same on all nodes",
    why="A path that every node has is not shared storage yet: a rank that starts from another "
    "checkpoint or tokenizer trains something else, and no error says so.",
    passes=("sizes and contents at each path are equal on all nodes",),
    fails=("one differs, or could not be read on some nodes",),
    fix="Copy the files to all nodes again, or name a directory on shared storage.",
    limits="that bytes which only `doctor scan --deep` reads are equal.",
    owner=Owner.JOB,
    judge=_judge("files"),
    sources=("transformers-training-args",),
)

CHECKS = (HARDWARE, SOFTWARE, VARIABLES, NETWORK, LIMITS, FILES)
