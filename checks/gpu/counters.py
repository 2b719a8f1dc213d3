"""What is wrong with a GPU: its standing counters, and its errors while the doctor's steps ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from doctor.facts.host import KernelEvent
from doctor.facts.load import Watched
from doctor.facts.machine import Gpu
from doctor.hardware.xids import BROKEN, BY_NUMBER, Grade

CORRECTED = 50_000_000
"""Volatile corrected errors: the limit of Meta's GPU cluster monitoring (gcm)."""
ACTIONS = {
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic",
    4: "drain, then reset the GPU",
    5: "recover the IMEX domain",
    6: "reset the PCIe bus",
    7: "reboot the system",
}
OF_MEMORY = "uncorrectable ECC error"
"""In the message of CUDA that a report has."""
PARTLY_READ = "prints ERR! for"
"""In what nvidia-smi shows of a GPU that answers in part."""
IN_PROGRESS = 2
FABRIC_NOT_READY = "the NVLink fabric is in progress of its start; completed required"
REMAPS = (63, 156)
"""Xids of a row or unit that the next reset replaces."""
_COUNTED = {
    "uncorrected": "uncorrected errors",
    "corrected": "corrected errors",
    "remapped_rows": "remapped rows",
}


class Fault(NamedTuple):
    """One thing that is wrong."""

    text: str
    grade: Grade
    """What to do about it; "warn" and "link" are no failures."""
    action: int = 0
    """The driver's recovery action, if that is what is wrong."""
    xid: int | None = None
    remap: bool = False
    """A row or page that a reset replaces."""
    spent: bool = False
    """No reset repairs it."""
    again: bool = False
    """It came back after the driver was loaded anew."""

    @property
    def broken(self) -> bool:
        return self.grade in BROKEN


def faults(gpu: Gpu, run: Watched | None, logged: Iterable[KernelEvent]) -> list[Fault]:
    """What is wrong with it, the driver's own request first."""
    logged = tuple(logged)
    action = _action(gpu, logged)
    conditions = (
        (action, Fault(_request(action), "fail", action)),
        (gpu.lost, Fault(f"lost: {gpu.lost}", "lost")),
        (gpu.remap_failed, Fault("row remap failed", "memory", spent=True)),
        (gpu.diagnosed, Fault(gpu.diagnosed, _grade_of(gpu.diagnosed))),
        (gpu.uncorrected, Fault(f"{gpu.uncorrected} uncorrected memory errors", "memory")),
        (
            gpu.sram_threshold,
            Fault("the threshold of errors in SRAM is exceeded", "memory", spent=True),
        ),
        (gpu.fabric == IN_PROGRESS, Fault(FABRIC_NOT_READY, "warn")),
        (gpu.remap_pending, Fault("row remap pending until the GPU is reset", "warn", remap=True)),
        (
            _spent_banks(gpu),
            Fault(f"{_spent_banks(gpu)} banks of the memory have no spare row left", "warn"),
        ),
        (
            gpu.retired_pages_pending,
            Fault("page retirement pending until the driver is reloaded", "warn", remap=True),
        ),
        (
            (gpu.corrected or 0) > CORRECTED,
            Fault(
                f"{gpu.corrected or 0:,} corrected memory errors (at most {CORRECTED:,})", "warn"
            ),
        ),
    )
    found = [fault for applies, fault in conditions if applies]
    if gpu.lost:  # what a log says of the same
        return found
    during = _during(run, action, _fatal(gpu, logged)) if run else []
    return found + during + _logged(gpu, run, logged)


def _grade_of(diagnosis: str) -> Grade:
    if OF_MEMORY in diagnosis:
        return "memory"
    return "warn" if PARTLY_READ in diagnosis else "fail"


def _spent_banks(gpu: Gpu) -> int:
    """Banks in which the next faulty row cannot be replaced."""
    return gpu.remap_banks[-1] if gpu.remap_banks else 0


def _action(gpu: Gpu, logged: Iterable[KernelEvent]) -> int:
    """NVML's recovery action; where it has none, the last that the kernel log reports."""
    if gpu.recovery_action is not None:
        return gpu.recovery_action
    return next((each.action for each in reversed([*logged]) if each.action is not None), 0)


def _fatal(gpu: Gpu, logged: Iterable[KernelEvent]) -> frozenset[int]:
    """Xids that the kernel log calls fatal, where NVML does not say that no action is needed."""
    if gpu.recovery_action is not None:
        return frozenset()
    return frozenset(each.xid for each in logged if each.fatal and each.xid is not None)


def _request(action: int) -> str:
    return f"the driver requests: {ACTIONS.get(action, f'recovery action {action}')}"


def _during(run: Watched, action: int, fatal: frozenset[int]) -> list[Fault]:
    """Events of the run. A row remap without an uncorrected error leaves the GPU working."""
    when = "during the run" if run.samples else "in the kernel log"
    found = [
        Fault(
            f"Xid {number} {when}{_meaning(number)}",
            _grade(number, run, action or (number in fatal)),
            xid=number,
            remap=number in REMAPS,
        )
        for number in dict.fromkeys(run.xids or ())
    ]
    if run.uncorrected:
        text = f"{run.uncorrected} new uncorrected memory errors during the run"
        found.append(Fault(text, "memory"))
    if run.remapped_rows:
        text = f"{run.remapped_rows} rows remapped during the run"
        found.append(Fault(text, "warn", remap=True))
    return [fault for fault in found if fault.grade not in ("process", "silent")]


def _grade(number: int, run: Watched | None, action: int) -> Grade:
    """A link's error breaks the GPU where a link is down, it is fatal, or the driver requests an
    action."""
    xid = BY_NUMBER.get(number)
    if xid is None:
        return "warn"
    if xid.grade == "link":
        return "fail" if action or (run and run.nvlinks_down) else "warn"
    return xid.grade


def _meaning(number: int) -> str:
    xid = BY_NUMBER.get(number)
    return f" ({xid.meaning})" if xid else ""


def _logged(gpu: Gpu, run: Watched | None, logged: Iterable[KernelEvent]) -> list[Fault]:
    """Xids of the kernel log. Where the driver says that no action is needed, it is right; where it
    is too old to say so, they are a warning: the GPU may have been reset since."""
    if gpu.recovery_action is not None:
        return []
    seen = set((run.xids if run else None) or ())
    return [
        Fault(f"Xid {event.xid} in the kernel log {_when(event)}"
              f"{_meaning(event.xid)}", "warn", xid=event.xid, remap=event.xid in REMAPS,
              again=event.loads > 0)
        for event in logged
        if event.xid is not None and event.xid not in seen
        and _grade(event.xid, run, 0) not in ("process", "silent")
    ]  # fmt: skip


def _when(event: KernelEvent) -> str:
    if not event.loads:
        return "since the driver was loaded"
    return f"of {event.loads} earlier loads of the driver, and not of the last one"


def summarize(run: Watched | None) -> str:
    """The end of a summary: the counters of the run."""
    if run is None:
        return ""
    parts = [
        f"{count} new {name}"
        for field, name in _COUNTED.items()
        if (count := getattr(run, field)) is not None
    ]
    if run.xids is not None:
        others = ", ".join(str(xid) for xid in dict.fromkeys(run.xids))
        parts.append(f"Xid {others} of an application" if others else "no Xid")
    return f"; during the run {', '.join(parts)}" if parts else ""


def unread_during(gpu: Gpu, run: Watched) -> list[str]:
    """Counters of the run that could not be read, except those reported as unreadable before."""
    readable_before = {"remapped_rows": gpu.remap_failed, "xids": True}
    counters = {**_COUNTED, "xids": "Xid events"}
    return [
        f"{name} during the run ({run.unread.get(field, 'not recorded')})"
        for field, name in counters.items()
        if getattr(run, field) is None
        and readable_before.get(field, getattr(gpu, field, None)) is not None
    ]
