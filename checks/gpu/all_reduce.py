"""An all-reduce over the job's GPUs returns the correct result."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor.checks.gpu.peer_copies import ASK, GIGA, OFF, P2P, hardware_fault, is_sliced
from doctor.checks.gpu.remedies import RETURN
from doctor.facts.load import AllReduce, Peers, Watched
from doctor.facts.views import JobGpus
from doctor.hardware.find import find
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.known_errors import fail_by, find_cause

LEAST_OVER_NVLINK = 50 * GIGA
"""Bus bandwidth of an all-reduce of 16 MiB, in bytes per second. Our own number: PCIe and shared
memory stay below it, and NVLink of these boards carries several times as much."""


def adds_up(
    peers: Peers, job_gpus: JobGpus | Unknown, watched: tuple[Watched, ...] | Unknown | None = None
) -> Verdict:
    if is_sliced(job_gpus):
        return skip("NCCL between MIG slices is experimental")
    if not peers.reductions:
        return unknown(peers.unread.get("reductions", "no all-reduce over the GPUs was run"))
    first, *others = peers.reductions
    what = f"the all-reduce over {first.ranks} GPUs with {first.backend}"
    if not (problem := _problem(first)):
        rate = f" at {first.rate / GIGA:.0f} GB/s" if first.rate else ""
        off = "" if first.p2p else ", with peer-to-peer turned off in the environment (NCCL_P2P_*)"
        summary = f"{what} is correct{rate}{off}"
        if (
            first.p2p
            and first.rate
            and first.rate < LEAST_OVER_NVLINK
            and _all_linked(watched, job_gpus)
        ):
            required = f"at least {LEAST_OVER_NVLINK / GIGA:.0f} GB/s required over NVLink"
            return warn(f"{summary}; {required}, and the GPUs' NVLinks are active", fix=SLOW_FIX)
        return ok(summary)
    summary = f"{what} {problem}; the correct sum required"
    if hardware := next(
        filter(None, (hardware_fault(each.ended) for each in peers.reductions)), None
    ):
        return fail_by(hardware, summary)
    if others and not (second := _problem(others[0])):
        return _only_without_p2p(first, summary)
    summary += f"; with NCCL_P2P_DISABLE=1 it {second}" if others else ""
    if any(each.wrong for each in peers.reductions):
        return fail(summary, fix=RETURN + WRONG, owner=Owner.MACHINE)
    pattern = find_cause(first.ended)
    return fail_by(pattern, summary) if pattern else fail(summary)


def _all_linked(watched: tuple[Watched, ...] | Unknown | None, job_gpus: JobGpus | Unknown) -> bool:
    """Whether NVLink connects every GPU of the job with every other one, and no link is down."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    active = (
        {gpu.uuid for gpu in watched if gpu.nvlinks_down == 0}
        if isinstance(watched, tuple)
        else set()
    )
    return bool(gpus) and all(
        gpu.nvml is not None and gpu.nvml.uuid in active and _is_switched(gpu.name) for gpu in gpus
    )


def _is_switched(name: str) -> bool:
    """Whether NVLinks connect every GPU of such a machine with every other one."""
    known = find(name)
    return known is not None and known.product.wiring == "switch"


def _only_without_p2p(first: AllReduce, summary: str) -> Verdict:
    """The sum is right only without peer-to-peer traffic: a fault of the machine, if observed."""
    observed = bool(first.wrong) or first.ended.how == "timeout"
    return fail(
        f"{summary}; with NCCL_P2P_DISABLE=1 it is correct: peer-to-peer traffic is broken",
        OFF,
        fix="Run without peer-to-peer traffic, through host memory, which is slower:\n"
        f"{OFF}\n{ASK}",
        owner=Owner.MACHINE if observed else Owner.ENVIRONMENT,
        switches_off=P2P,
    )


def _problem(reduction: AllReduce) -> str:
    """What is wrong with it, "" if nothing is."""
    ended = reduction.ended
    if not ended.ok:
        verbs = {"error": "raised", "signal": "crashed", "timeout": "hung", "budget": "was cut off"}
        return f"{verbs[ended.how]} ({ended.detail})"
    if reduction.wrong is None:
        return "returned no result"
    return f"has {reduction.wrong:,} wrong elements" if reduction.wrong else ""


SLOW_FIX = (
    "Find out why NCCL does not use NVLink: run with NCCL_DEBUG=INFO and look for the transport of "
    "each channel (P2P, NVLS, SHM, NET). NCCL_P2P_LEVEL, NCCL_P2P_DISABLE and NCCL_TOPO_FILE in "
    "the environment or in /etc/nccl.conf restrict it, and so does a container that sees only a "
    "part of the GPUs' devices."
)
WRONG = "Your own: see GPU003, GPU006 and GPU007, which may identify the GPU."

ADDS_UP = Check(
    code="GPU008",
    slug="all-reduce-adds-up",
    title="All-reduce across the job's GPUs returns the correct result",
    why="Every step of a job on several GPUs sums gradients over them. If that hangs or returns "
    "wrong sums, the job stops at the first step or trains on noise. The doctor sums small "
    "integers, which fp32 represents exactly, with a deadline; after a failure it repeats the sum "
    "with NCCL_P2P_DISABLE=1 to isolate the cause.",
    passes=("the sum is returned in time, and every element is correct",),
    warns=(
        f"it is slower than {LEAST_OVER_NVLINK / GIGA:.0f} GB/s although NVLink connects all GPUs "
        "(boards with NVLink switches)",
    ),
    fails=("it raised, crashed or hung", "an element is wrong"),
    fix="Run with NCCL_DEBUG=INFO and read NCCL's messages, and which transport and interface it "
    "uses. In a container provide shared memory (--ipc=host or --shm-size=16g, see MEM003). If it "
    "hangs in a fresh environment too, ask the provider for another machine.",
    owner=Owner.ENVIRONMENT,
    judge=adds_up,
    returns=True,
    commands=("export NCCL_DEBUG=INFO",),
    sources=("nccl-troubleshooting", "nccl-tests-117", "nccl-2079"),
    after=("DRV001",),
    targets=("nvidia",),
)

CHECKS = (ADDS_UP,)
