"""Errors and Xid events of a GPU while the doctor's own steps ran on it."""

from __future__ import annotations

from doctor.facts.load import Watched
from doctor.facts.machine import Gpu

APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)
"""Caused by a process, not the hardware: NVIDIA's device plugin for Kubernetes ignores them."""
PENDING_XIDS = (63, 92)
"""A row or page is marked for replacement; many corrected errors. The GPU keeps working."""
HARDWARE_XIDS = {
    48: "uncorrectable memory error",
    62: "the GPU's controller halted",
    64: "a row could not be remapped",
    79: "the GPU fell off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the GPU's system processor does not respond",
    120: "error of the GPU's system processor",
    140: "unrecovered memory error",
    143: "the GPU could not be initialized",
}
_COUNTED = {
    "uncorrected": "uncorrected errors",
    "corrected": "corrected errors",
    "remapped_rows": "remapped rows",
}


def failures(run: Watched) -> list[str]:
    """Events during the run that mean that the GPU is broken."""
    events = [
        f"Xid {xid} during the run ({HARDWARE_XIDS[xid]})"
        for xid in dict.fromkeys(run.xids or ())
        if xid in HARDWARE_XIDS
    ]
    if run.uncorrected:
        events.append(f"{run.uncorrected} new uncorrected memory errors during the run")
    if run.remapped_rows:
        events.append(f"{run.remapped_rows} rows remapped during the run")
    return events


def warnings(run: Watched) -> list[str]:
    """Events during the run that need attention."""
    known = (*HARDWARE_XIDS, *APPLICATION_XIDS)
    return [
        f"Xid {xid} during the run"
        + (" (a row or page is replaced at the next reset)" if xid in PENDING_XIDS else "")
        for xid in dict.fromkeys(run.xids or ())
        if xid not in known
    ]


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
