"""The GPUs of the job: all there, free, healthy and not slowed down."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import GIB, gib
from doctor.checks.gpu.counters import HARDWARE_XIDS, broke, came, counted, unread_during
from doctor.checks.gpu.visible import VISIBLE
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown, warn
from doctor.judge.combine import worst

RETURN = "Rented: return the machine and name the GPU's UUID. "

USED_BYTES = 2 * GIB
"""A desktop or a driver's daemon stays below; a training does not."""
USED_SHARE = 0.3
"""Above, somebody else trains there: the limit of DLRover's node check."""
CORRECTED = 50_000_000
"""Volatile corrected errors: the limit of Meta's GPU cluster monitoring (gcm)."""
SLOWDOWNS = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of NVML's clocks event reasons. 0x1 is idle and 0x4 the power cap: both normal."""
ACTIONS = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic",
    4: "drain, then reset the GPU",
    5: "recover the IMEX domain",
    6: "reset the PCIe bus",
    7: "reboot the system",
}


def free(job_gpus: JobGpus) -> Verdict:
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    return worst(*(_free(gpu) for gpu in job_gpus.gpus))


def _free(gpu: JobGpu) -> Verdict:
    used, total = gpu.memory_used, gpu.memory_total
    if used is None:
        reason = gpu.nvml.unread.get("memory_used", "") if gpu.nvml else "NVML has no record of it"
        return unknown(f"{gpu.label}: memory in use could not be read: {reason}".rstrip(": "))
    share = used / total if total else 0.0
    of = f" of {gib(total)} ({share:.0%})" if total else ""
    said = f"{gpu.label}: {gib(used)}{of} used before torch, at most {gib(USED_BYTES)} expected"
    if gpu.nvml and "memory_reserved" in gpu.nvml.unread:
        said += " (the driver's reserve is in it)"
    if used <= USED_BYTES:
        return ok(said)
    if gpu.nvml and gpu.nvml.processes:
        said += f"; NVML sees {gpu.nvml.processes} compute processes"
    return fail(said) if share > USED_SHARE else warn(said)


FREE = Check(
    code="GPU002",
    slug="gpu-free",
    title="Nobody else uses the GPU's memory",
    why="Memory that somebody else holds is missing to the job, and a second training halves the "
    "speed. Process ids are the host's, so that a container may see no process at all while the "
    "memory is used: the memory is the proof. Of a MIG GPU the slice is read.",
    passes=(
        f"at most {gib(USED_BYTES)} is used before torch's first CUDA call, on every GPU of "
        "the job",
    ),
    warns=("more is used",),
    fails=(f"more is used, and more than {USED_SHARE:.0%} of the memory",),
    fix="End your own processes that were left behind. If none of yours holds it, another tenant "
    "or a dead container does: take another GPU, or give the machine back.",
    limits="that nobody comes during the run: it was looked at once, before torch.",
    owner=Owner.ENVIRONMENT,
    judge=free,
    returns=True,
    commands=("nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",),
    sources=("ps-U10", "ps-U11", "pai-3372"),
    after=("DRV001",),
    targets=("nvidia",),
)


def memory_healthy(job_gpus: JobGpus, watched: tuple[Watched, ...] | Unknown | None) -> Verdict:
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    seen = {gpu.uuid: gpu for gpu in watched} if isinstance(watched, tuple) else {}
    return worst(*(_healthy(gpu.label, gpu.nvml, seen) for gpu in job_gpus.gpus))


def _healthy(label: str, gpu: Gpu | None, watched: dict[str, Watched]) -> Verdict:
    if gpu is None:
        return unknown(f"{label}: NVML has no record of it")
    run = watched.get(gpu.uuid)
    who = f"{label}, {gpu.uuid or 'UUID unknown'}"
    if broken := _broken(gpu) + (broke(run) if run else []):
        return fail(f"{who}: {', '.join(broken)}; none is allowed")
    unread = _unread(gpu)
    if len(unread) == len(_QUESTIONS) and gpu.retired_pages_pending is None:
        return unknown(f"{who}: nothing could be read: {', '.join(unread)}")
    unread += unread_during(gpu, run) if run else []
    but = f"; not readable: {', '.join(unread)}" if unread else ""
    if soon := _soon(gpu) + (came(run) if run else []):
        return warn(f"{who}: {', '.join(soon)}{but}", f"sudo nvidia-smi -i {gpu.uuid} --gpu-reset")
    read = ", ".join(name for field, name in _QUESTIONS.items() if getattr(gpu, field) is not None)
    return ok(f"{who}: well by {read or 'page retirement'}{counted(run)}{but}")


def _broken(gpu: Gpu) -> list[str]:
    action = gpu.recovery_action or 0
    found = {
        "row remap failed": gpu.remap_failed,
        f"{gpu.uncorrected} uncorrected memory errors": gpu.uncorrected,
        f"the driver's advice is to {ACTIONS.get(action, f'take action {action}')}": action,
        f"lost: {gpu.lost}": gpu.lost,
    }
    return [text for text, true in found.items() if true]


def _soon(gpu: Gpu) -> list[str]:
    corrected = gpu.corrected or 0
    found = {
        "row remap pending until the GPU is reset": gpu.remap_pending,
        "page retirement pending until the driver is loaded again": gpu.retired_pages_pending,
        f"{corrected:,} corrected memory errors, at most {CORRECTED:,} expected": (
            corrected > CORRECTED
        ),
    }
    return [text for text, true in found.items() if true]


_QUESTIONS = {
    "remap_failed": "row remap",
    "uncorrected": "uncorrected errors",
    "corrected": "corrected errors",
    "recovery_action": "recovery action",
}


def _unread(gpu: Gpu) -> list[str]:
    return [
        f"{name} ({gpu.unread.get(field, 'not recorded')})"
        for field, name in _QUESTIONS.items()
        if getattr(gpu, field) is None
    ]


MEMORY_HEALTHY = Check(
    code="GPU003",
    slug="gpu-memory-healthy",
    title="The GPU's memory has no errors",
    why="An uncorrected error ends the process that reads the cell, hours into a run. A row that "
    "could not be remapped stays broken, and the GPU is to be exchanged; one whose remap is "
    "pending works and is mended at the next reset. From driver 570 on the driver itself says what "
    "a GPU needs. Counters are those since the driver was loaded; GeForce has none, and row remaps "
    "cannot be read on a GPU that is sliced by MIG. Some errors show under load only: so the "
    "counters are read before and after the doctor's own steps, and the driver's Xid events are "
    "listened to meanwhile. The Xids 13, 31, 43, 45, 68 and 109 come from what a process did.",
    passes=(
        "no error stands in what can be read on each GPU of the job, and none came during the run",
        "what cannot be read is named",
    ),
    warns=(
        "a row remap or a page retirement is pending, there are more than "
        f"{CORRECTED:,} corrected errors, or an Xid came that is neither an application's nor "
        "known to be the hardware's",
    ),
    fails=(
        "a row remap has failed, there are uncorrected errors, the driver's recovery action is "
        "other than none, or the GPU is lost",
        "during the run an uncorrected error, a remapped row or "
        f"an Xid of the hardware came ({', '.join(map(str, HARDWARE_XIDS))})",
    ),
    fix=f"{RETURN}Your own: stop what runs there, reset the GPU or reboot, and have it exchanged "
    "if the error comes back or a row remap has failed.",
    limits="that the memory is sound: only what its counters recorded is read, and without ECC "
    "nothing counts.",
    owner=Owner.MACHINE,
    judge=memory_healthy,
    returns=True,
    commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",),
    sources=("row-remap", "xid-catalog", "device-plugin-xids"),
    after=("DRV001",),
    targets=("nvidia",),
)


def not_slowed(watched: tuple[Watched, ...], job_gpus: JobGpus | Unknown) -> Verdict:
    known = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    labels = {gpu.nvml.uuid: gpu.label for gpu in known if gpu.nvml}
    seen = [gpu for gpu in watched if gpu.uuid in labels or not labels]
    missing = [labels[uuid] for uuid in labels.keys() - {gpu.uuid for gpu in seen}]
    verdicts = [_not_slowed(labels.get(gpu.uuid, gpu.uuid), gpu) for gpu in seen]
    verdicts += [unknown(f"{label}: its clocks were not watched") for label in missing]
    return worst(*verdicts) if verdicts else unknown("no GPU's clocks were watched")


def _not_slowed(label: str, gpu: Watched) -> Verdict:
    found = [name for bit, name in SLOWDOWNS.items() if gpu.mask & bit]
    if found:
        hot = f" at up to {gpu.temperature} C" if gpu.temperature is not None else ""
        said = f"{label}: {', '.join(found)} in {gpu.samples} samples{hot}; none is expected"
        return warn(said)
    if gpu.samples == 0:
        reason = gpu.unread.get("samples", "")
        return unknown(f"{label}: NVML gave no sample of its clocks: {reason}".rstrip(": "))
    hot = f", at most {gpu.temperature} C" if gpu.temperature is not None else ""
    return ok(f"{label}: no slowdown in {gpu.samples} samples{hot}")


NOT_SLOWED = Check(
    code="GPU004",
    slug="gpu-not-slowed",
    title="Heat and power do not slow the GPU down",
    why="A GPU that is too hot or short of power lowers its clock, to a fraction at worst, and "
    "every GPU of the job waits for the slowest. The reasons are sampled while the smoke step and "
    "the load run, each bit for itself. The software power cap is normal under load. Both last "
    "seconds: what needs minutes to get hot is not seen.",
    passes=(
        "neither a hardware slowdown nor a thermal one nor the power brake was sampled "
        "during the smoke step and the load",
    ),
    warns=("one of these was",),
    fix="Rented: take another machine if it stays so. Your own: look at airflow, dust, "
    "power cables and the power supply.",
    limits="that hours of load stay cool: the samples are of seconds.",
    owner=Owner.MACHINE,
    judge=not_slowed,
    returns=True,
    commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",),
    sources=("thermal-throttling", "azurehpc-595"),
    after=("DRV001",),
    targets=("nvidia",),
)

CHECKS = (VISIBLE, FREE, MEMORY_HEALTHY, NOT_SLOWED)
