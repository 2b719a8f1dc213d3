"""Peer-to-peer copies between GPUs are correct."""

from __future__ import annotations

from dataclasses import replace

from doctor._util.records import Ended, Unknown
from doctor._util.units import listed
from doctor.checks.gpu.remedies import LINK
from doctor.errors.cause import Cause
from doctor.facts.host import Host
from doctor.facts.load import PeerCopy, Peers, Watched
from doctor.facts.views import JobGpus
from doctor.hardware.find import find
from doctor.judge.check import Check, Owner, Status, Verdict, fail, ok, skip, unknown, warn
from doctor.judge.combine import worst
from doctor.judge.known_errors import KILLED, fail_by, find_cause
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
SLICED = "a MIG slice has no peer access"


def copies_arrive(
    peers: Peers | Unknown,
    watched: tuple[Watched, ...] | Unknown | None,
    job_gpus: JobGpus | Unknown,
    host: Host | Unknown,
) -> Verdict:
    if is_sliced(job_gpus):
        return skip(SLICED)
    if isinstance(peers, Unknown):
        return worst(*(_links(watched, job_gpus) or [unknown(peers.reason)]))
    if not peers.copies:
        return unknown(peers.unread.get("copies", "no copy between GPUs was tested"))
    verdict = _copies(peers.copies)
    if verdict.status is Status.FAIL and isinstance(host, Host):
        verdict = replace(verdict, summary="; ".join((verdict.summary, *_on_the_way(host))))
    if verdict.status is Status.FAIL and _p2p_disabled(host):
        summary = f"{verdict.summary}; NCCL's environment avoids these copies: keep it set"
        verdict = warn(summary, switches_off=P2P)
    verdict = worst(verdict, *_links(watched, job_gpus))
    if verdict.status is Status.PASS:
        return replace(verdict, summary=f"{verdict.summary}{_uncounted(watched)}")
    return verdict


def _on_the_way(host: Host) -> list[str]:
    """What may keep peer traffic from its way: it is normal on hosts of virtual machines."""
    texts = [f"the IOMMU is on ({host.iommu_groups} groups)"] if host.iommu_groups else []
    ports = [each.address for each in host.pcie or () if each.acs_redirects]
    if ports:
        texts.append(f"ACS redirects peer traffic at {listed(ports, SHOWN)}")
    return texts


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


def is_sliced(job_gpus: JobGpus | Unknown) -> bool:
    """Whether the job's GPUs are MIG slices."""
    return isinstance(job_gpus, JobGpus) and any(gpu.slice for gpu in job_gpus.gpus)


def _copies(copies: tuple[PeerCopy, ...]) -> Verdict:
    """Wrong data, a hang and the errors of a broken GPU condemn the machine; others do not."""
    broken = [f"{_pair(copy)}: {_wrong(copy)}" for copy in copies if _wrong(copy)]
    if broken:
        summary = f"{listed(broken, SHOWN)}; every value must arrive unchanged"
        return fail(summary, owner=Owner.MACHINE, switches_off=P2P)
    refused = [copy for copy in copies if _refused(copy)]
    if refused:
        return _failed(refused)
    untested = [f"{_pair(copy)}: {copy.ended.detail}" for copy in copies if _untested(copy)]
    if untested:
        return unknown(f"copies could not be tested: {listed(untested, SHOWN)}")
    apart = [copy for copy in copies if copy.ended.code in NO_PEER_ACCESS]
    if len(apart) == len(copies):
        return skip("the GPUs have no peer access; NCCL goes through host memory")
    rates = [copy.rate / GIGA for copy in copies if copy.rate]
    at = f" at {min(rates):.0f} GB/s or more" if rates else ""
    note = f"; no peer access: {listed([_pair(copy) for copy in apart], SHOWN)}" if apart else ""
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
    if find_cause(copy.ended) is KILLED:
        return False
    performed = copy.ended.how == "signal" or copy.ended.detail.startswith(COPYING)
    return performed or hardware_fault(copy.ended) is not None


def hardware_fault(ended: Ended) -> Cause | None:
    """The row of the table, if only the machine's owner can fix it."""
    pattern = find_cause(ended)
    return pattern if pattern and pattern.owner is Owner.MACHINE else None


def _failed(copies: list[PeerCopy]) -> Verdict:
    verbs = {"signal": "crashed", "error": "was refused"}
    texts = [f"{_pair(c)}: {verbs.get(c.ended.how, c.ended.how)}: {c.ended.detail}" for c in copies]
    summary = f"{listed(texts, SHOWN)}; every copy must complete"
    patterns = [hardware_fault(copy.ended) for copy in copies] + [find_cause(copies[0].ended)]
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


def _links(
    watched: tuple[Watched, ...] | Unknown | None, job_gpus: JobGpus | Unknown
) -> list[Verdict]:
    """A warning for each GPU with NVLink problems."""
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    partly = {gpu.nvml.uuid for gpu in gpus if gpu.nvml and _may_be_partly_wired(gpu.nvml.name)}
    records = watched if isinstance(watched, tuple) else ()
    usual = min((gpu.nvlinks_down for gpu in records if gpu.nvlinks_down is not None), default=0)
    summaries = []
    for gpu in records:
        if (gpu.nvlinks_down or 0) > (usual if gpu.uuid in partly else 0):
            summaries.append(f"{gpu.uuid}: {gpu.nvlinks_down} NVLinks are down; 0 expected")
        if gpu.nvlink_errors:
            summaries.append(
                f"{gpu.uuid}: {gpu.nvlink_errors} NVLink errors during the run; 0 expected"
            )
    return [warn(summary, fix=LINK, switches_off=P2P) for summary in summaries]


def _may_be_partly_wired(name: str) -> bool:
    """Whether sound machines leave NVLinks of it unused: bridges, 6 of 18 on an H100 NVL, and links
    from GPU to GPU, 2 of 6 where four V100 of a board are rented."""
    known = find(name)
    return known is None or known.product.wiring in ("bridge", "mesh")


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
        "where NVML counts no NVLink errors, the summary says so",
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
    sources=("nccl-troubleshooting", "nccl-2079", "pytorch-84803", "vllm-4992", "nvml-fields"),
    after=("DRV001",),
    targets=("nvidia",),
    also=("read",),
)

CHECKS = (COPIES_ARRIVE,)
