"""GPUs that talk to each other: what one writes arrives, and a sum over all of them is right."""

from __future__ import annotations

import re

from doctor._util.records import Unknown
from doctor.checks.gpu.device import RETURN
from doctor.facts.load import AllReduce, PeerCopy, Peers, Watched
from doctor.facts.machine import Host
from doctor.facts.views import JobGpus
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.switches import VARIABLES, Switch

P2P = (Switch.NCCL_P2P,)
GIGA = 1e9
SHOWN = 4
"""Pairs in a summary; the rest is counted."""
NO_PEER_ACCESS = (217, 801)
"""CUDA's codes where GPUs have no direct way to each other; NCCL goes through host memory then."""
COPYING = ("cuMemset", "cuMemcpy", "cuCtxSynchronize")
"""Calls that do the copy; before them nothing is known of the way between the GPUs."""
STARTING = ("inside dlopen", "inside cuInit", "inside cuDevice", "inside cuCtxSet", "inside cuMemA")
"""Where a process stands that is slow to start CUDA: it does not tell of the way either."""
BRIDGED = re.compile(r"PCIe|\bNVL\b", re.IGNORECASE)
"""Cards whose NVLinks go through bridges, which leave some unused: 6 of 18 on an H100 NVL."""
SLICED = "a MIG slice has no peers that it can write to"


def copies_arrive(
    peers: Peers,
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
) -> Verdict:
    if _sliced(job_gpus):
        return skip(SLICED)
    if not peers.copies:
        return unknown("no copy between GPUs was tried")
    found = _copies(peers.copies)
    if found.status is Status.FAIL and _avoided(host):
        said = f"{found.summary}; NCCL_P2P_DISABLE=1 keeps NCCL away from it: leave it set"
        found = warn(said, switches_off=P2P)
    return worst(found, *_links(watched, job_gpus))


def _avoided(host: Host | Unknown) -> bool:
    """The user has told NCCL to go another way."""
    env = host.env if isinstance(host, Host) else {}
    return env.get("NCCL_P2P_DISABLE", "0") not in ("", "0")


def _sliced(job_gpus: JobGpus | Unknown) -> bool:
    return isinstance(job_gpus, JobGpus) and any(gpu.slice for gpu in job_gpus.gpus)


def _copies(copies: tuple[PeerCopy, ...]) -> Verdict:
    broken = [f"{_pair(copy)}: {_wrong(copy)}" for copy in copies if _wrong(copy)]
    if broken:
        return fail(f"{_some(broken)}; every value must arrive", switches_off=P2P)
    untried = [f"{_pair(copy)}: {copy.ended.detail}" for copy in copies if _untried(copy)]
    if untried:
        return unknown(f"copies could not be tried: {_some(untried)}")
    apart = [copy for copy in copies if copy.ended.code in NO_PEER_ACCESS]
    if len(apart) == len(copies):
        return skip("the GPUs have no direct way to each other; NCCL goes through host memory")
    rates = [copy.rate / GIGA for copy in copies if copy.rate]
    at = f" at {min(rates):.0f} GB/s or more" if rates else ""
    said = f"{len(copies) - len(apart)} copies between GPUs arrived whole{at}"
    return ok(
        said + (f"; no direct way: {_some([_pair(copy) for copy in apart])}" if apart else "")
    )


def _wrong(copy: PeerCopy) -> str:
    """What is wrong with the way between two GPUs, "" if nothing is known to be."""
    ended = copy.ended
    if copy.wrong:
        return f"{copy.wrong:,} elements arrived with another value"
    if ended.how == "timeout" and any(place in ended.detail for place in STARTING):
        return ""
    if ended.how in ("timeout", "signal"):
        return f"{'hung' if ended.how == 'timeout' else 'crashed'}: {ended.detail}"
    return ended.detail if ended.how == "error" and ended.detail.startswith(COPYING) else ""


def _untried(copy: PeerCopy) -> bool:
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
    """Complaints about NVLinks, one GPU each."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    bridged = {gpu.nvml.uuid for gpu in gpus if gpu.nvml and BRIDGED.search(gpu.nvml.name)}
    seen = watched if isinstance(watched, tuple) else ()
    usual = min((gpu.nvlinks_down for gpu in seen if gpu.nvlinks_down is not None), default=0)
    found = []
    for gpu in seen:
        if (gpu.nvlinks_down or 0) > (usual if gpu.uuid in bridged else 0):
            said = f"{gpu.uuid}: {gpu.nvlinks_down} NVLinks are down, all expected up"
            found.append(warn(said, switches_off=P2P))
        if gpu.nvlink_errors:
            said = f"{gpu.uuid}: {gpu.nvlink_errors} NVLink errors during the run"
            found.append(warn(said, switches_off=P2P))
    return found


OFF = f"export {VARIABLES[Switch.NCCL_P2P]}"
ASK = (
    "Ask the provider to switch off the IOMMU and PCIe ACS for these GPUs, or for another machine."
)

COPIES_ARRIVE = Check(
    code="GPU007",
    slug="peer-copies-arrive",
    title="What one GPU writes into another's memory arrives",
    why="Where the IOMMU or PCIe access control (ACS) stands between GPUs, a driver may report "
    "that they reach each other while stores hang, vanish or come out garbled, and training hangs "
    "or diverges without an error. What frameworks call a copy between devices is routed around "
    "that, so each GPU's own process opens the other's buffer through CUDA's interprocess handles, "
    "stores into it, and the owner compares every value. Up to four GPUs each writes to each, more "
    "write to their neighbours both ways round.",
    passes=(
        "every element of every copy arrived, and no NVLink is down or counts errors. "
        "GPUs without a direct way to each other are skipped: NCCL then goes through "
        "host memory",
    ),
    warns=(
        "some NVLinks are down beside others that work (on cards with bridges: more "
        "than on the card beside it), one counted errors during the run, or copies "
        "fail and NCCL_P2P_DISABLE=1 is set",
    ),
    fails=(
        "an element arrived with another value, or a copy hung, crashed or was refused "
        "by the driver",
    ),
    fix=f"Until it is mended run without peer-to-peer traffic: {OFF}. {ASK}",
    limits="that the copies stay right under hours of load.",
    owner=Owner.MACHINE,
    judge=copies_arrive,
    returns=True,
    commands=(OFF, "nvidia-smi topo -m", "nvidia-smi nvlink --status"),
    sources=("nccl-troubleshooting", "nccl-2079", "pytorch-84803", "vllm-4992"),
    after=("DRV001",),
    targets=("nvidia",),
)


def adds_up(peers: Peers, job_gpus: JobGpus | Unknown) -> Verdict:
    if _sliced(job_gpus):
        return skip("NCCL between MIG slices is experimental")
    if not peers.reductions:
        return unknown("no sum over the GPUs was tried")
    first, *others = peers.reductions
    if not (said := _failed(first)):
        rate = f" at {first.rate / GIGA:.0f} GB/s" if first.rate else ""
        off = "" if first.p2p else ", with NCCL_P2P_DISABLE=1 in the environment"
        return ok(f"the sum over {first.ranks} GPUs through {first.backend} is right{rate}{off}")
    said = f"the sum over {first.ranks} GPUs through {first.backend} {said}; the right sum required"
    if others and not (again := _failed(others[0])):
        return fail(
            f"{said}; with NCCL_P2P_DISABLE=1 it is right: traffic between the GPUs is broken",
            OFF,
            fix=f"Run with {OFF}, which goes through host memory and is slower. {ASK}",
            owner=Owner.MACHINE,
            switches_off=P2P,
        )
    said += f"; with NCCL_P2P_DISABLE=1 it {again}" if others else ""
    if any(each.wrong for each in peers.reductions):
        return fail(said, fix=RETURN + WRONG, owner=Owner.MACHINE)
    return fail(said)


def _failed(reduction: AllReduce) -> str:
    """How it failed, "" if it did not."""
    ended = reduction.ended
    if not ended.ok:
        ways = {"error": "raised", "signal": "crashed", "timeout": "hung"}
        return f"{ways[ended.how]} ({ended.detail})"
    if reduction.wrong is None:
        return "gave no result"
    return f"has {reduction.wrong:,} wrong elements" if reduction.wrong else ""


WRONG = "Your own: look at GPU003, GPU006 and GPU007, which may tell the GPU."

ADDS_UP = Check(
    code="GPU008",
    slug="all-reduce-adds-up",
    title="A sum over all GPUs of the job is right",
    why="Every step of a job on several GPUs sums gradients over them. Where that hangs or adds up "
    "wrong the job never starts, stands still at the first step, or trains on noise. The doctor "
    "sums small whole numbers, which fp32 holds exactly, over all GPUs with a deadline; when it "
    "fails it tries once more with NCCL_P2P_DISABLE=1, which names the cause.",
    passes=("the sum came back in time and every element of it is right",),
    fails=("it raised, crashed, hung, or an element is wrong",),
    fix="Run with NCCL_DEBUG=INFO and read what NCCL says, and which transport and interface it "
    "takes. In a container give it shared memory (--ipc=host or --shm-size=16g, see MEM003). If "
    "it hangs in a fresh environment too, ask the provider for another machine.",
    owner=Owner.ENVIRONMENT,
    judge=adds_up,
    returns=True,
    commands=("export NCCL_DEBUG=INFO",),
    sources=("nccl-troubleshooting", "nccl-tests-117", "nccl-2079", "nccl-1716"),
    after=("DRV001",),
    targets=("nvidia",),
)

CHECKS = (COPIES_ARRIVE, ADDS_UP)
