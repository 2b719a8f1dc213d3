"""Communication between GPUs: peer-to-peer copies and an all-reduce return correct results."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor._util.records import Ended, Unknown
from doctor.checks.gpu.device import RETURN
from doctor.facts.load import AllReduce, PeerCopy, Peers, Watched
from doctor.facts.machine import Host
from doctor.facts.views import JobGpus
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.error_patterns import KILLED, ErrorPattern, fail_by, find_pattern
from doctor.judge.switches import VARIABLES, Switch

P2P = (Switch.NCCL_P2P,)
GIGA = 1e9
SHOWN = 4
"""Pairs named in a summary; the rest is counted."""
NO_PEER_ACCESS = (217, 801)
"""CUDA's codes for GPUs without peer access; NCCL then goes through host memory."""
COPYING = ("cuMemset", "cuMemcpy", "cuCtxSynchronize")
"""Calls that perform the copy; an error before them does not concern the connection."""
STARTING = ("inside dlopen", "inside cuInit", "inside cuDevice", "inside cuCtxSet", "inside cuMemA")
"""Where a process hangs that is slow to start CUDA: this does not concern the connection either."""
BRIDGED = re.compile(r"PCIe|\bNVL\b", re.IGNORECASE)
"""GPUs whose NVLinks use bridges, which leave some unused: 6 of 18 on an H100 NVL."""
SWITCHED = re.compile(r"SXM4|HBM3|NVIDIA H200$|\bG?B[23]00")
"""Boards whose NVLinks connect every GPU with every other one, directly or through switches."""
LEAST_OVER_NVLINK = 50 * GIGA
"""Bus bandwidth of an all-reduce of 16 MiB, in bytes per second. Our own number: PCIe and shared
memory stay below it, and NVLink of these boards carries several times as much."""
SLICED = "a MIG slice has no peer access"


def copies_arrive(
    peers: Peers,
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
) -> Verdict:
    if _sliced(job_gpus):
        return skip(SLICED)
    if not peers.copies:
        return unknown(peers.unread.get("copies", "no copy between GPUs was tested"))
    verdict = _copies(peers.copies)
    if verdict.status is Status.FAIL and _p2p_disabled(host):
        summary = f"{verdict.summary}; NCCL's environment avoids these copies: keep it set"
        verdict = warn(summary, switches_off=P2P)
    verdict = worst(verdict, *_links(watched, job_gpus))
    if verdict.status is Status.PASS:
        return replace(verdict, summary=f"{verdict.summary}{_uncounted(watched)}")
    return verdict


def _uncounted(watched: tuple[Watched, ...] | Unknown | None) -> str:
    """A note on NVLinks in use whose errors NVML does not count."""
    records = watched if isinstance(watched, tuple) else ()
    linked = [gpu for gpu in records if gpu.nvlinks_down is not None and gpu.nvlink_errors is None]
    if not linked:
        return ""
    reason = linked[0].unread.get("nvlink_errors", "not recorded")
    return f"; NVLink errors were not counted: {reason}"


def _p2p_disabled(host: Host | Unknown) -> bool:
    """Whether the environment turns peer-to-peer traffic off in NCCL."""
    env = host.env if isinstance(host, Host) else {}
    disabled = env.get("NCCL_P2P_DISABLE", "0") not in ("", "0")
    return disabled or env.get("NCCL_P2P_LEVEL") in ("LOC", "0")


def _sliced(job_gpus: JobGpus | Unknown) -> bool:
    return isinstance(job_gpus, JobGpus) and any(gpu.slice for gpu in job_gpus.gpus)


def _copies(copies: tuple[PeerCopy, ...]) -> Verdict:
    """Wrong data, a hang and the errors of a broken GPU condemn the machine; others do not."""
    broken = [f"{_pair(copy)}: {_wrong(copy)}" for copy in copies if _wrong(copy)]
    if broken:
        summary = f"{_some(broken)}; every value must arrive unchanged"
        return fail(summary, owner=Owner.MACHINE, switches_off=P2P)
    refused = [copy for copy in copies if _refused(copy)]
    if refused:
        return _failed(refused)
    untested = [f"{_pair(copy)}: {copy.ended.detail}" for copy in copies if _untested(copy)]
    if untested:
        return unknown(f"copies could not be tested: {_some(untested)}")
    apart = [copy for copy in copies if copy.ended.code in NO_PEER_ACCESS]
    if len(apart) == len(copies):
        return skip("the GPUs have no peer access; NCCL goes through host memory")
    rates = [copy.rate / GIGA for copy in copies if copy.rate]
    at = f" at {min(rates):.0f} GB/s or more" if rates else ""
    note = f"; no peer access: {_some([_pair(copy) for copy in apart])}" if apart else ""
    return ok(f"{len(copies) - len(apart)} of {len(copies)} peer-to-peer copies correct{at}{note}")


def _wrong(copy: PeerCopy) -> str:
    """What proves that the connection of two GPUs is broken, "" if nothing does."""
    ended = copy.ended
    if copy.wrong:
        return f"{copy.wrong:,} elements arrived with another value"
    if ended.how == "timeout" and not any(place in ended.detail for place in STARTING):
        return f"hung: {ended.detail}"
    return ""


def _refused(copy: PeerCopy) -> bool:
    """Whether the copy crashed, or a call that performs it returned an error."""
    if find_pattern(copy.ended) is KILLED:
        return False
    performed = copy.ended.how == "signal" or copy.ended.detail.startswith(COPYING)
    return performed or _hardware(copy.ended) is not None


def _hardware(ended: Ended) -> ErrorPattern | None:
    """The row of the table, if only the machine's owner can fix it."""
    pattern = find_pattern(ended)
    return pattern if pattern and pattern.owner is Owner.MACHINE else None


def _failed(copies: list[PeerCopy]) -> Verdict:
    verbs = {"signal": "crashed", "error": "was refused"}
    texts = [f"{_pair(c)}: {verbs.get(c.ended.how, c.ended.how)}: {c.ended.detail}" for c in copies]
    summary = f"{_some(texts)}; every copy must complete"
    patterns = [_hardware(copy.ended) for copy in copies] + [find_pattern(copies[0].ended)]
    if pattern := next(filter(None, patterns), None):
        return replace(fail_by(pattern, summary), switches_off=P2P)
    fix = f"Run without peer-to-peer traffic:\n{OFF}\nIf it is needed: {ASK}"
    return fail(summary, fix=fix, owner=Owner.ENVIRONMENT, switches_off=P2P)


def _untested(copy: PeerCopy) -> bool:
    if copy.ended.ok:
        return copy.wrong is None
    return copy.ended.code not in NO_PEER_ACCESS


def _pair(copy: PeerCopy) -> str:
    return f"GPU {copy.source} to GPU {copy.target}"


def _some(texts: list[str]) -> str:
    rest = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _links(
    watched: tuple[Watched, ...] | Unknown | None, job_gpus: JobGpus | Unknown
) -> list[Verdict]:
    """A warning for each GPU with NVLink problems."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    bridged = {gpu.nvml.uuid for gpu in gpus if gpu.nvml and BRIDGED.search(gpu.nvml.name)}
    records = watched if isinstance(watched, tuple) else ()
    usual = min((gpu.nvlinks_down for gpu in records if gpu.nvlinks_down is not None), default=0)
    summaries = []
    for gpu in records:
        if (gpu.nvlinks_down or 0) > (usual if gpu.uuid in bridged else 0):
            summaries.append(f"{gpu.uuid}: {gpu.nvlinks_down} NVLinks are down; 0 expected")
        if gpu.nvlink_errors:
            summaries.append(
                f"{gpu.uuid}: {gpu.nvlink_errors} NVLink errors during the run; 0 expected"
            )
    return [warn(summary, switches_off=P2P) for summary in summaries]


OFF = f"export {VARIABLES[Switch.NCCL_P2P]}"
ASK = "Ask the provider to turn off the IOMMU and PCIe ACS for these GPUs, or for another machine."

COPIES_ARRIVE = Check(
    code="GPU007",
    slug="peer-copies-arrive",
    title="Peer-to-peer copies between GPUs are correct",
    why="With the IOMMU or PCIe access control (ACS) between GPUs, a driver may report peer access "
    "while stores hang, vanish or arrive garbled; training then hangs or diverges without an "
    "error. A process per GPU writes into another GPU's memory, and the owner compares every "
    "value: each pair for up to four GPUs, neighbors in both directions for more.",
    passes=(
        "every element of every copy arrived, and no NVLink is down or counts errors",
        "GPUs without peer access are skipped: NCCL then goes through host memory",
        "where NVML counts no NVLink errors (Blackwell), the summary says so",
    ),
    warns=(
        "some NVLinks are down while others work (on bridged GPUs: more than on the other GPUs)",
        "an NVLink counted errors during the run",
        "copies fail, and NCCL_P2P_LEVEL=LOC or NCCL_P2P_DISABLE=1 is set",
    ),
    fails=(
        "an element arrived with another value",
        "a copy hung",
        "a copy crashed or was refused by the driver: only the error of a broken GPU means to "
        "return the machine",
    ),
    fix=f"Until this is fixed, run without peer-to-peer traffic:\n{OFF}\n{ASK}",
    limits="that the copies stay correct under hours of load.",
    owner=Owner.MACHINE,
    judge=copies_arrive,
    returns=True,
    commands=(OFF, "nvidia-smi topo -m", "nvidia-smi nvlink --status"),
    sources=("nccl-troubleshooting", "nccl-2079", "pytorch-84803", "vllm-4992"),
    after=("DRV001",),
    targets=("nvidia",),
)


def adds_up(
    peers: Peers,
    job_gpus: JobGpus | Unknown,
    watched: tuple[Watched, ...] | Unknown | None = None,
) -> Verdict:
    if _sliced(job_gpus):
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
    if hardware := next(filter(None, (_hardware(each.ended) for each in peers.reductions)), None):
        return fail_by(hardware, summary)
    if others and not (second := _problem(others[0])):
        return _only_without_p2p(first, summary)
    summary += f"; with NCCL_P2P_DISABLE=1 it {second}" if others else ""
    if any(each.wrong for each in peers.reductions):
        return fail(summary, fix=RETURN + WRONG, owner=Owner.MACHINE)
    pattern = find_pattern(first.ended)
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
        gpu.nvml is not None and gpu.nvml.uuid in active and SWITCHED.search(gpu.name)
        for gpu in gpus
    )


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
        "(SXM boards from A100 on)",
    ),
    fails=("it raised, crashed or hung", "an element is wrong"),
    fix="Run with NCCL_DEBUG=INFO and read NCCL's messages, and which transport and interface it "
    "uses. In a container provide shared memory (--ipc=host or --shm-size=16g, see MEM003). If it "
    "hangs in a fresh environment too, ask the provider for another machine.",
    owner=Owner.ENVIRONMENT,
    judge=adds_up,
    returns=True,
    commands=("export NCCL_DEBUG=INFO",),
    sources=("nccl-troubleshooting", "nccl-tests-117", "nccl-2079", "nccl-1716"),
    after=("DRV001",),
    targets=("nvidia",),
)

CHECKS = (COPIES_ARRIVE, ADDS_UP)
