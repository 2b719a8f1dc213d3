"""Xids: the numbers under which NVIDIA's driver reports errors of a GPU, as its catalogue has them.

Source xid-catalog: the columns of A100, H100, B100 and GB200, the immediate and the investigatory
action, as of 2026-11-23. Numbers that the catalogue marks as unused are no rows.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

SOURCE = "xid-catalog"

Grade = Literal["process", "silent", "warn", "link", "memory", "lost", "fail"]
"""process: a process caused it, the GPU is well. silent: another event or NVML says the same.
warn: it works on, and the machine's owner should know. link: broken where a link is down or the
driver requests an action, else as warn. memory, lost, fail: the GPU is at fault until it is reset,
returned or repaired."""

Action = Literal[
    "", "nothing", "restart the process", "reset the GPU", "reboot the machine",
    "restart the virtual machine", "check seating and cables", "update driver and firmware",
    "as NVML's recovery action says", "reset the GPU if unified memory is used",
]  # fmt: skip
"""What brings the GPU back into service; "": the catalogue says nothing."""

Later = Literal[
    "", "nothing", "support", "check the program", "check the software", "check the link",
    "find the other event",
]  # fmt: skip
"""What finds the cause."""


class Xid(NamedTuple):
    """One number."""

    number: int
    meaning: str
    grade: Grade
    action: Action
    later: Later
    on: str = "AHBG"
    """Generations that report it: Ampere, Hopper, Blackwell (B100), GB200."""


_PROCESS: Final = "restart the process"
_RESET: Final = "reset the GPU"

XIDS = (
    Xid(8, "the GPU stopped processing", "process", _PROCESS, "support"),
    Xid(11, "invalid or corrupted commands", "process", _PROCESS, "check the program"),
    Xid(13, "exception of the graphics engine", "process", _PROCESS, "check the program"),
    Xid(14, "injected error", "process", "nothing", "support"),
    Xid(25, "invalid commands", "process", _PROCESS, "check the program"),
    Xid(31, "page fault in GPU memory", "process", _PROCESS, "check the program"),
    Xid(32, "corrupted commands: often the PCIe link", "warn", _PROCESS, "check the program"),
    Xid(37, "error of the driver's firmware", "warn", "nothing", "check the program"),
    Xid(38, "error of the driver's firmware", "warn", "nothing", "support"),
    *(Xid(n, "exception of a copy engine", "warn", _PROCESS, "support") for n in (39, 40, 41)),
    Xid(43, "a process was stopped after its own fault", "process", "nothing", "support"),
    Xid(44, "fault while the context was switched", "warn", "nothing", "support"),
    Xid(45, "a process was cleaned up after an earlier error", "process", "nothing",
        "find the other event"),
    Xid(46, "the GPU stopped processing", "fail", _RESET, "support"),
    Xid(48, "uncorrectable memory error", "memory", _RESET, "support"),
    Xid(54, "auxiliary power is not connected", "fail", "check seating and cables", "support",
        "AHB"),
    Xid(60, "exception of the video processor", "process", _PROCESS, "check the software"),
    Xid(62, "the GPU's controller halted", "fail", _RESET, "support"),
    Xid(63, "a row or page is replaced at the next reset", "warn", "nothing", "nothing"),
    Xid(64, "a row could not be remapped", "memory", _RESET, "support"),
    Xid(66, "illegal access by the driver", "warn", "nothing", "check the software"),
    Xid(67, "illegal access by the driver", "warn", "nothing", "support"),
    Xid(68, "exception of the video decoder", "process", _PROCESS, "support"),
    Xid(69, "class error of the graphics engine", "process", _PROCESS, "check the program"),
    *(Xid(n, "error of a copy engine", "warn", _PROCESS, "support")
      for n in (70, 71, 72, 75, 76, 77, 85)),
    Xid(74, "NVLink error", "link", _RESET, "support", "AH"),
    Xid(78, "a virtual GPU could not start", "warn", "update driver and firmware", "nothing"),
    Xid(79, "the GPU fell off the bus", "lost", "reboot the machine", "support"),
    Xid(80, "corrupted data sent to the GPU", "process", _PROCESS, "check the program", "AH"),
    *(Xid(n, "error of a video or image unit", "process", _PROCESS, "support")
      for n in (82, 83, 84, 86, 88, 89)),
    Xid(92, "many corrected memory errors", "warn", "nothing", "support"),
    Xid(93, "wear limit of the InfoROM", "warn", "nothing", "support", "A"),
    Xid(94, "contained memory error", "memory", _PROCESS, "find the other event"),
    Xid(95, "uncontained memory error", "memory", _RESET, "find the other event"),
    *(Xid(n, "error of a video or image unit", "process", _PROCESS, "support", "HBG")
      for n in range(96, 106)),
    Xid(106, "test message", "process", "nothing", "nothing"),
    Xid(107, "test message", "process", "nothing", "nothing"),
    Xid(109, "the context switch timed out", "process", _RESET, "support"),
    Xid(110, "security fault", "fail", _RESET, "check the software", "HBG"),
    Xid(119, "the GPU's system processor does not respond", "fail", _RESET, "check the software"),
    Xid(120, "error of the GPU's system processor", "fail", _RESET, "check the software"),
    Xid(121, "corrected errors of the link to the CPU", "warn", "nothing", "support", "G"),
    *(Xid(n, "error of a copy engine", "warn", _PROCESS, "support", "BG")
      for n in range(126, 136)),
    Xid(136, "an NVLink could not be trained", "link", _RESET, "check the link", "H"),
    Xid(137, "illegal access over NVLink", "process", "nothing", "check the program"),
    Xid(139, "error of a video or image unit", "process", _PROCESS, "support", "BG"),
    Xid(140, "unrecovered memory error", "memory", _RESET, "support"),
    Xid(141, "error of a fast path of CUDA", "warn", "nothing", "support", "HBG"),
    Xid(142, "error of a video or image unit", "process", "", "support", "G"),
    Xid(143, "the GPU could not be initialized", "fail", _RESET, "support", "HBG"),
    *(Xid(n, f"NVLink 5 error ({unit})", "link", "as NVML's recovery action says",
          "check the link", "BG")
      for n, unit in ((144, "SAW"), (145, "RLW"), (146, "TLW"), (147, "TREX"),
                      (148, "NVLPW_CTRL"), (149, "NETIR"), (150, "MSE"))),
    Xid(151, "the keys of confidential computing were not rotated", "warn",
        "restart the virtual machine", "support", "HBG"),
    Xid(154, "the recovery action changed", "silent", "as NVML's recovery action says",
        "find the other event"),
    Xid(155, "an NVLink was taken down by software", "link", _RESET, "check the software", "BG"),
    Xid(156, "a faulty unit is retired at the next reset", "warn", _RESET, "nothing", "HBG"),
    Xid(157, "a faulty unit could not be retired", "warn", "nothing", "support", "HBG"),
    Xid(158, "fatal timeout of the GPU", "fail", _RESET, "support"),
    Xid(159, "error of the link to the CPU", "warn", "reset the GPU if unified memory is used",
        "find the other event", "BG"),
    Xid(160, "a faulty memory channel was retired", "warn", "nothing", "check the software", "BG"),
    Xid(161, "a faulty memory channel could not be retired", "warn", "nothing",
        "check the software", "BG"),
    Xid(162, "power smoothing is on again", "silent", "", "", "BG"),
    Xid(163, "power smoothing was turned off, by heat or a timeout", "warn", "", "", "BG"),
    Xid(164, "the circuit that smooths power is nearly worn out", "warn", "", "", "BG"),
    Xid(165, "the circuit that smooths power is worn out", "warn", "", "", "BG"),
    Xid(166, "traffic before an encrypted NVLink was configured", "warn", "", "", "BG"),
    Xid(167, "fatal timeout of PCIe", "fail", "", "", "HBG"),
    Xid(168, "errors in protected memory: less memory is usable", "warn", "", ""),
    Xid(169, "the GPU's security controller halted", "fail", "", "", "HBG"),
    Xid(170, "interrupt of an encrypted NVLink", "warn", "", "", "BG"),
    Xid(171, "uncorrectable error in DRAM", "memory", "", "find the other event"),
    Xid(172, "uncorrectable error in SRAM", "memory", "", "find the other event"),
)  # fmt: skip

BY_NUMBER = {xid.number: xid for xid in XIDS}
BROKEN: tuple[Grade, ...] = ("memory", "lost", "fail")
"""Grades of a GPU that is at fault."""
