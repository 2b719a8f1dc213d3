"""What to do about a fault of a GPU: the remedy follows the event."""

from __future__ import annotations

from doctor.checks.gpu.counters import ACTIONS, FABRIC_NOT_READY, PARTLY_READ, Fault
from doctor.hardware.xids import BY_NUMBER
from doctor.judge.known_errors import FABRIC

RETURN = "Rented: return the machine and report the GPU's UUID. "
OF_LINK = "uncorrectable NVLink error"
"""In the message of CUDA that a report has."""
AGAIN = "If it comes back, return a rented machine and report the GPU's UUID; on your own machine, "
LOST = (
    f"The GPU does not answer on the PCI bus, and no reset from a job brings it back. {RETURN}"
    "Your own: power-cycle the machine, then check its seat, its power cables and the slot."
)
MEMORY = (
    f"{RETURN}Your own: reset the GPU, or reboot, once nothing uses it: since Ampere a reset "
    "remaps the row of an uncorrected error. If it comes back, replace the GPU."
)
SPENT = (
    "The GPU must be replaced: no reset repairs this. Rented: return the machine and report the "
    "GPU's UUID."
)
CONTAINED = (
    "Only the process that met the error ends: start the job again, and reset the GPU once nothing "
    f"uses it, so that the row is remapped. {AGAIN}replace the GPU."
)
RESET = (
    f"{RETURN}Your own: reset the GPU, or reboot, once nothing uses it, and run the doctor again. "
    "If it comes back, update driver and firmware, then replace the GPU."
)
LINK = (
    f"{RETURN}Your own: reset all GPUs of the machine together, or reboot, once nothing uses them: "
    "the link's other end may be at fault. If it comes back, read the link's counters with "
    "`nvidia-smi nvlink -e`, then replace the board or the cable."
)
CABLES = f"Connect the board's auxiliary power, and check its seat. {RETURN}"
REQUEST = (
    f"{RETURN}Your own: do what the driver requests ({{}}), once nothing uses the GPU. If it comes "
    "back, update driver and firmware, check power, seat and heat, then replace the GPU."
)
DRAIN = (
    "Reset the GPU when convenient, after draining the node: the row or page is then replaced, and "
    "the GPU works on until then."
)
REPORT = "The GPU works on. Report it to the machine's owner, with the Xid and the GPU's UUID."
CAME_BACK = (
    "It came back after the driver was loaded anew, so that a reset does not end it. Load the GPU "
    "alone for an hour (gpu-burn), and look at the kernel log: if the Xid is there again, return a "
    "rented machine; on your own look at the GPU's seat, power and firmware, then replace it."
)
PARTLY = (
    "Look for its Xids in the kernel log, then reset the GPU, or reboot, once nothing uses it. If "
    "it comes back, check its power, seat and heat, and report it to the machine's owner."
)
PROCESS = "Start the job again. If it comes back on this GPU alone, report it to its owner."


def remedy(fault: Fault) -> str:
    """What to do about it."""
    xid = BY_NUMBER.get(fault.xid or 0)
    if fault.action:
        return REQUEST.format(ACTIONS.get(fault.action, f"recovery action {fault.action}"))
    if fault.again:
        return CAME_BACK
    if fault.remap and not fault.broken:
        return DRAIN
    if xid and xid.action == "check seating and cables":
        return CABLES
    if (xid and xid.grade == "link") or OF_LINK in fault.text:
        return LINK
    if fault.spent or fault.grade == "lost":
        return SPENT if fault.spent else LOST
    restarts = bool(xid and xid.action == "restart the process")
    if fault.grade == "memory":
        return CONTAINED if restarts else MEMORY
    by_text = {FABRIC_NOT_READY: FABRIC.fix, PARTLY_READ: PARTLY}
    named = (fix for text, fix in by_text.items() if text in fault.text)
    otherwise = RESET if fault.grade == "fail" else PROCESS if restarts else REPORT
    return next(named, otherwise)
