"""What the driver counted and reported of a GPU while the doctor's own steps ran on it."""

from __future__ import annotations

from doctor.facts.load import Watched
from doctor.facts.machine import Gpu

APPLICATION_XIDS = (13, 31, 43, 45, 68, 109)
"""What a process did, not the hardware: NVIDIA's device plugin for Kubernetes ignores them."""
PENDING_XIDS = (63, 92)
"""A row or page is marked to be replaced; many corrected errors. The GPU goes on working."""
HARDWARE_XIDS = {
    48: "uncorrectable memory error",
    62: "the GPU's controller halted",
    64: "a row could not be remapped",
    79: "the GPU fell off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the GPU's system processor does not answer",
    120: "error of the GPU's system processor",
    140: "unrecovered memory error",
    143: "the GPU could not be initialised",
}
_COUNTED = {
    "uncorrected": "uncorrected errors",
    "corrected": "corrected errors",
    "remapped_rows": "remapped rows",
}


def broke(run: Watched) -> list[str]:
    """What happened while the steps ran, and means that the GPU is broken."""
    found = [
        f"Xid {xid} during the run ({HARDWARE_XIDS[xid]})"
        for xid in dict.fromkeys(run.xids or ())
        if xid in HARDWARE_XIDS
    ]
    if run.uncorrected:
        found.append(f"{run.uncorrected} new uncorrected memory errors during the run")
    if run.remapped_rows:
        found.append(f"{run.remapped_rows} rows remapped during the run")
    return found


def came(run: Watched) -> list[str]:
    """What happened while the steps ran, and wants to be looked at."""
    known = (*HARDWARE_XIDS, *APPLICATION_XIDS)
    return [
        f"Xid {xid} during the run"
        + (" (a row or page is to be replaced at the next reset)" if xid in PENDING_XIDS else "")
        for xid in dict.fromkeys(run.xids or ())
        if xid not in known
    ]


def counted(run: Watched | None) -> str:
    """The end of a summary that says what was counted while the steps ran."""
    if run is None:
        return ""
    found = [
        f"{count} new {name}"
        for field, name in _COUNTED.items()
        if (count := getattr(run, field)) is not None
    ]
    if run.xids is not None:
        others = ", ".join(str(xid) for xid in dict.fromkeys(run.xids))
        found.append(f"Xid {others} of an application" if others else "no Xid")
    return f"; during the run {', '.join(found)}" if found else ""


def unread_during(gpu: Gpu, run: Watched) -> list[str]:
    """Counters of the run that could not be read, but for those named as not readable before."""
    standing = {"remapped_rows": gpu.remap_failed, "xids": True}
    wanted = {**_COUNTED, "xids": "Xid events"}
    return [
        f"{name} during the run ({run.unread.get(field, 'not recorded')})"
        for field, name in wanted.items()
        if getattr(run, field) is None
        and standing.get(field, getattr(gpu, field, None)) is not None
    ]
