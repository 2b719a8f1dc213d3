"""The GPUs of the job: free, healthy and not slowed down."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import gib
from doctor.checks.gpu.counters import CORRECTED, Fault, faults, summarize, unread_during
from doctor.checks.gpu.each_gpu import Named, named, of_each
from doctor.checks.gpu.remedies import MEMORY, remedy
from doctor.checks.gpu.visible import VISIBLE
from doctor.facts.host import Host, KernelEvent
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.facts.memory.room import shares_memory
from doctor.facts.views import UNLISTED, USED_BYTES, JobGpu, JobGpus
from doctor.hardware.xids import BROKEN, XIDS
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

USED_SHARE = 0.3
"""Above it another training runs there: the limit of DLRover's node check."""
SLOWDOWNS = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
"""Bits of NVML's clock event reasons. 0x1 is idle and 0x4 the power cap: both normal."""
HEAT, BRAKE = 0x20 | 0x40, 0x80
SETTINGS = {0x2: "a setting of the application clocks", 0x10: "sync boost", 0x100: "a display"}
"""Bits of limits that somebody chose. Fleets do so on purpose."""


def free(job_gpus: JobGpus, host: Host | Unknown) -> Verdict:
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    found = (
        _host_free(host) if not gpu.slice and shares_memory(gpu) else _free(gpu)
        for gpu in job_gpus.gpus
    )
    return of_each(zip(_named(job_gpus), found, strict=True), partly_shown=job_gpus.partly_shown)


def _named(job_gpus: JobGpus) -> list[Named]:
    return list(map(named, job_gpus.gpus))


def _host_free(host: Host | Unknown) -> Verdict:
    """The same for a GPU without memory of its own."""
    shared = "it shares the host's memory"
    if isinstance(host, Unknown) or not host.memory_total or host.memory_available is None:
        return skip(f"{shared}, and MemAvailable was not read")
    share = 1 - host.memory_available / host.memory_total
    summary = (
        f"{shared}: {gib(host.memory_available)} of {gib(host.memory_total)} available, "
        f"{share:.0%} used; at most {USED_SHARE:.0%} expected"
    )
    return warn(summary) if share > USED_SHARE else ok(summary)


def _free(gpu: JobGpu) -> Verdict:
    used, total = gpu.memory_used, gpu.memory_total
    if used is None:
        if gpu.nvml and gpu.nvml.lacks("memory_used"):
            return skip("NVML does not report the memory in use on this GPU")
        reason = gpu.nvml.unread.get("memory_used", "") if gpu.nvml else "NVML has no record of it"
        return unknown(f"memory in use could not be read: {reason}".rstrip(": "))
    share = used / total if total else 0.0
    of_total = f" of {gib(total)} ({share:.0%})" if total else ""
    reserve = gpu.nvml and "memory_reserved" in gpu.nvml.unread
    note = " (including the driver's reserve)" if reserve else ""
    if gpu.nvml and gpu.nvml.held:
        note += f", beside {gib(gpu.nvml.held)} of this process"
    summary = f"{gib(used)}{of_total} used before torch{note}; at most {gib(USED_BYTES)} expected"
    if used <= USED_BYTES:
        return ok(summary)
    if gpu.other_processes:
        summary += f" (NVML lists {gpu.other_processes} compute processes)"
    elif gpu.nvml and gpu.nvml.display_active:
        return warn(f"{summary}; a desktop runs on it", fix=CLOSE_DESKTOP)
    if gpu.nvml and gpu.nvml.unread.get("processes") == UNLISTED:
        return warn(
            f"{summary}; no process is listed, and the GPU is idle",
            FUSER,
            fix=ORPHANED,
            sources=("pai-3372",),
        )
    return fail(summary) if share > USED_SHARE else warn(summary)


FUSER = "sudo fuser -v /dev/nvidia*"
ORPHANED = (
    "A process that nvidia-smi cannot list holds the memory: one that was orphaned, or one in "
    "another container. Find it on the host (outside of containers) with fuser and end it; if "
    "nothing holds the GPU, reset it. A server that reserves memory in this container is not "
    "listed either."
)
CLOSE_DESKTOP = (
    "Close browsers and other graphical programs, or train without a desktop: what they use is not "
    "available to the job."
)

FREE = Check(
    code="GPU002",
    slug="gpu-free",
    title="GPU memory is free",
    why="Memory used by others is not available to the job, and a second training halves the "
    "speed. Process ids belong to the host, so a container may list no process although the memory "
    "is used: the memory is the evidence. On a GPU in MIG mode the slice is read, and for an "
    "integrated GPU the host's MemAvailable.",
    passes=(
        f"every GPU of the job: at most {gib(USED_BYTES)} used before torch's first CUDA call",
    ),
    warns=(
        f"more than {gib(USED_BYTES)} used on a GPU",
        f"more than {USED_SHARE:.0%} of the host's memory used, with an integrated GPU",
    ),
    fails=(
        f"more than {gib(USED_BYTES)} and more than {USED_SHARE:.0%} of the memory used on a GPU, "
        "unless a desktop and no compute process runs there",
    ),
    fix="End your own leftover processes. If none of yours uses the memory, another tenant or a "
    "dead container does: take another GPU, or return the machine.",
    limits="that it stays free during the run: it was read once, before torch.",
    owner=Owner.ENVIRONMENT,
    judge=free,
    returns=True,
    commands=("nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",),
    sources=("ps-U10", "ps-U11"),
    after=("DRV001",),
    targets=("nvidia",),
    also=("read",),
)


def memory_healthy(
    job_gpus: JobGpus, watched: tuple[Watched, ...] | Unknown | None, host: Host | Unknown
) -> Verdict:
    if not job_gpus.gpus:
        return unknown("no GPU of the job is visible")
    runs = {gpu.uuid: gpu for gpu in watched} if isinstance(watched, tuple) else {}
    logged = (host.kernel_events if isinstance(host, Host) else None) or ()
    found = (_healthy(gpu.nvml, runs, logged) for gpu in job_gpus.gpus)
    return of_each(zip(_named(job_gpus), found, strict=True), partly_shown=job_gpus.partly_shown)


def _first(broken: list[Fault]) -> Fault:
    """The one to repair: no reset that the driver requests brings back a GPU that is lost."""
    return next((fault for fault in broken if fault.text.startswith("lost: ")), broken[0])


def _healthy(
    gpu: Gpu | None, watched: dict[str, Watched], logged: tuple[KernelEvent, ...]
) -> Verdict:
    if gpu is None:
        return unknown("NVML has no record of it")
    run = watched.get(gpu.uuid)
    identity = gpu.uuid or "UUID unknown"
    own = [event for event in logged if event.address and event.address == gpu.address]
    found = faults(gpu, run, own)
    if broken := [fault for fault in found if fault.broken]:
        texts = ", ".join(fault.text for fault in broken)
        return fail(f"{texts} ({identity}); none is allowed", fix=remedy(_first(broken)))
    unread = _unread(gpu)
    during = unread_during(gpu, run) if run else []
    note = f"; not readable: {', '.join(unread + during)}" if unread + during else ""
    if found:
        reset = f"sudo nvidia-smi -i {gpu.uuid} --gpu-reset"
        texts = ", ".join(fault.text for fault in found)
        commands = (reset,) if any(fault.remap for fault in found) else ()
        return warn(f"{texts} ({identity}); none expected{note}", *commands, fix=remedy(found[0]))
    if all(getattr(gpu, field) is None for field in (*_COUNTERS, *_PENDING)):
        if all(_missing(gpu, field) for field in _COUNTERS):
            return skip(f"no counters of memory errors{summarize(run)}")
        return unknown(f"nothing could be read: {', '.join(unread)}")
    read = ", ".join(name for field, name in _COUNTERS.items() if getattr(gpu, field) is not None)
    return ok(f"no errors reported ({read or 'page retirement'}){summarize(run)}{note}")


_COUNTERS = {
    "remap_failed": "row remap",
    "uncorrected": "uncorrected errors",
    "corrected": "corrected errors",
    "recovery_action": "recovery action",
}
_PENDING = ("remap_pending", "retired_pages_pending")


def _missing(gpu: Gpu, field: str) -> bool:
    """The GPU or its driver has no such counter, as opposed to a reading that failed."""
    return gpu.lacks(field) or gpu.unread.get(field, "").endswith(_NOT_IN_DRIVER)


_NOT_IN_DRIVER = ("(2)", "(13)")
"""NVML's codes Invalid Argument and Function Not Found: drivers before 570 have no recovery action,
and their answer to an unknown field is one of these or Not Supported."""


def _unread(gpu: Gpu) -> list[str]:
    return [
        f"{name} ({gpu.unread.get(field, 'not recorded')})"
        for field, name in _COUNTERS.items()
        if getattr(gpu, field) is None
    ]


_PROCESS = ", ".join(str(xid.number) for xid in XIDS if xid.grade == "process")
_HARDWARE = ", ".join(str(xid.number) for xid in XIDS if xid.grade in BROKEN)

MEMORY_HEALTHY = Check(
    code="GPU003",
    slug="gpu-memory-healthy",
    title="The GPU's memory has no errors",
    why="An uncorrected error ends the process that reads the cell, hours later. If a row "
    "could not be remapped, the GPU must be replaced; a pending remap is applied at the next "
    "reset. Some errors occur only under load, so counters and Xid events of the doctor's own run "
    "count too. GeForce has no counters, and MIG hides row remaps.",
    passes=(
        "no counter that can be read on a GPU of the job reports an error",
        f"no error occurred during the run, apart from Xids that a process causes ({_PROCESS})",
    ),
    warns=(
        "a row remap or a page retirement is pending, or rows were remapped during the run",
        f"there are more than {CORRECTED:,} corrected errors",
        "a bank of the memory has no spare row left for the next fault",
        "the NVLink fabric is still in progress of its start",
        "an Xid occurred during the run after which the GPU works on, or the catalogue lacks it",
        "an NVLink reported an error (Xid 74, 136, 144 to 150, 155), no link is down, and the "
        "driver requests no action",
        "the kernel log has an Xid of this GPU since the driver was loaded, and the driver is too "
        "old to say whether an action is needed (570)",
    ),
    fails=(
        "the driver's recovery action is other than none (driver 570 and newer)",
        "the GPU is lost",
        "a row remap has failed, or the threshold of errors in SRAM is exceeded",
        "there are uncorrected errors, or new ones occurred during the run",
        f"an Xid of the hardware occurred during the run ({_HARDWARE})",
        "an NVLink reported an error, and a link is down or the driver requests an action",
    ),
    fix=f"{MEMORY} What to do depends on the event: docs/hardware.md lists the Xids.",
    limits="that the memory is intact: only recorded errors are read, since the driver was loaded, "
    "and without ECC none are recorded.",
    owner=Owner.MACHINE,
    judge=memory_healthy,
    returns=True,
    leads=True,
    commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",),
    sources=("row-remap", "xid-catalog", "device-plugin-xids"),
    after=("DRV001",),
    targets=("nvidia",),
    also=("read", "guard"),
)


def not_slowed(watched: tuple[Watched, ...], job_gpus: JobGpus | Unknown) -> Verdict:
    gpus = job_gpus.gpus if isinstance(job_gpus, JobGpus) else ()
    names: dict[str, Named] = {gpu.nvml.uuid: named(gpu) for gpu in gpus if gpu.nvml}
    sampled = [gpu for gpu in watched if gpu.uuid in names or not names]
    missing = [uuid for uuid in names if uuid not in {gpu.uuid for gpu in sampled}]
    found = [(names.get(gpu.uuid, (None, gpu.uuid)), _not_slowed(gpu)) for gpu in sampled]
    found += [(names[uuid], unknown("its clocks were not sampled")) for uuid in missing]
    if not found:
        return unknown("no GPU's clocks were sampled")
    partly_shown = isinstance(job_gpus, JobGpus) and job_gpus.partly_shown
    return of_each(found, partly_shown=partly_shown)


def _not_slowed(gpu: Watched) -> Verdict:
    slowdowns = [name for bit, name in SLOWDOWNS.items() if gpu.mask & bit]
    peak = f" at up to {gpu.temperature} C" if gpu.temperature is not None else ""
    if slowdowns:
        fix = COOLING if gpu.mask & HEAT else POWER if gpu.mask & BRAKE else ""
        return warn(
            f"{', '.join(slowdowns)} in {gpu.samples} samples{peak}; none expected", fix=fix
        )
    settings = [name for bit, name in SETTINGS.items() if gpu.mask & bit]
    if settings:
        at = f" at up to {gpu.clock} MHz" if gpu.clock else ""
        return note(f"{' and '.join(settings)} limits the clock{at}", fix=RESET_CLOCKS)
    if gpu.samples == 0:
        reason = gpu.unread.get("samples", "")
        if reason.startswith("Not Supported"):
            return skip("NVML does not report why its clocks change")
        return unknown(f"NVML returned no sample of its clocks: {reason}".rstrip(": "))
    return ok(f"no slowdown in {gpu.samples} samples{peak}")


COOLING = (
    "The GPU is too hot, not the program too slow: check fans, dust, airflow, thermal pads and the "
    "distance to the next card. Until then a lower power limit (sudo nvidia-smi -pl WATTS) on all "
    "GPUs keeps the clock even. Rented: take another machine."
)
POWER = (
    "The board must draw less power: check its power cables, the power supply and the limit "
    "of the chassis or rack. No software limits it. Rented: take another machine."
)
RESET_CLOCKS = (
    "If nobody chose that, restore the clocks as root: `nvidia-smi -rac` for application clocks, "
    "`nvidia-smi -rgc` for locked ones."
)

NOT_SLOWED = Check(
    code="GPU004",
    slug="gpu-not-slowed",
    title="Heat and power do not slow the GPU down",
    why="A GPU that is too hot or short of power lowers its clock, to a fraction at worst, and "
    "every GPU of the job waits for the slowest one. The reasons are sampled while the smoke step "
    "and the load run. The software power cap is normal under load.",
    passes=(
        "no hardware slowdown, thermal slowdown or power brake was sampled during the smoke step "
        "and the load",
    ),
    notes=("application clocks, sync boost or a display limit the clock",),
    warns=("a hardware slowdown, a thermal slowdown or the power brake was sampled",),
    fix="Rented: take another machine if the slowdown persists. Your own: check airflow, dust, "
    "power cables and the power supply.",
    limits="that hours of load stay cool: the samples cover seconds.",
    owner=Owner.MACHINE,
    judge=not_slowed,
    returns=True,
    commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",),
    sources=("thermal-throttling", "azurehpc-595"),
    after=("DRV001",),
    targets=("nvidia",),
    also=("read", "guard"),
)

CHECKS = (VISIBLE, FREE, MEMORY_HEALTHY, NOT_SLOWED)
