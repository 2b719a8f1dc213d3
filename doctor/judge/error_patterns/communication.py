"""Errors of NCCL, and the signals that end a process."""

from __future__ import annotations

from doctor.facts import error_texts
from doctor.judge.error_patterns.pattern import KERNEL_LOG, LD_PATHS, ErrorPattern

KILLED = ErrorPattern(
    error_texts.KILLED,
    "Another process ended it, most often the kernel's out-of-memory killer: give the container or "
    "the job more host memory (MEM002), then run the doctor again.",
    commands=("sudo dmesg | grep -i 'killed process'",),
    cause="killed from outside",
)
BUS_ERROR = ErrorPattern(
    ("SIGBUS", "Bus error", "insufficient shared memory"),
    "Shared memory ran out, or a file that is mapped became unreadable: enlarge /dev/shm "
    "(--ipc=host or --shm-size=16g, see MEM003) and check the disk.",
    sources=("pytorch-5040",),
    cause="shared memory is exhausted",
)
CRASHED = ErrorPattern(
    ("SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP"),
    "Libraries that were not built for each other crash in this way: check TOR004, LD_LIBRARY_PATH "
    "and LD_PRELOAD first, then reinstall torch in a fresh environment. If it crashes there too, "
    "look for an Xid of this GPU in the kernel log.",
    commands=(*LD_PATHS, *KERNEL_LOG),
    cause="a crash inside a library",
)
SIGNALS = (KILLED, BUS_ERROR, CRASHED)

DEBUG = ("export NCCL_DEBUG=INFO",)
NCCL = (
    ErrorPattern(
        ("Duplicate GPU detected",),
        "Two ranks use the same GPU: select it by LOCAL_RANK, and check CUDA_VISIBLE_DEVICES.",
        sources=("nccl-troubleshooting",),
        commands=('echo "$CUDA_VISIBLE_DEVICES"',),
        cause="two ranks on one GPU",
    ),
    ErrorPattern(
        ("Mismatched NCCL version", "NCCL version mismatch"),
        "Several NCCL libraries are in use: install the same torch for every rank, and remove "
        "other copies of libnccl from LD_LIBRARY_PATH.",
        sources=("nccl-troubleshooting",),
        commands=LD_PATHS,
        cause="several NCCL versions",
    ),
    ErrorPattern(
        ("Error while creating shared memory segment", "No space left on device"),
        "Shared memory or the disk is full: enlarge /dev/shm (--ipc=host or --shm-size=16g, see "
        "MEM003).",
        sources=("nccl-troubleshooting", "pytorch-5040"),
        commands=("df -h /dev/shm",),
        cause="no space for shared memory",
    ),
    ErrorPattern(
        ("Watchdog caught collective operation timeout", "wait timeout after"),
        "Compare the last collective of each rank: equal ones mean a slow or blocked link, "
        "different ones that the ranks diverged. NCCL_DEBUG=INFO names the transport.",
        sources=("nccl-troubleshooting",),
        commands=DEBUG,
        cause="a collective that did not finish",
    ),
    ErrorPattern(
        (
            "ncclUnhandledCudaError",
            "unhandled cuda error",
            "ncclSystemError",
            "unhandled system error",
            "ncclInternalError",
            "ncclInvalidUsage",
            "ncclInvalidArgument",
            "ncclRemoteError",
        ),
        "Run with NCCL_DEBUG=INFO and read the last NCCL WARN line. Frequent causes are too little "
        "shared memory (MEM003), a network interface that the ranks cannot use "
        "(NCCL_SOCKET_IFNAME), and an NCCL that is newer than the driver (DRV002).",
        sources=("nccl-troubleshooting", "pytorch-150852"),
        commands=DEBUG,
        cause="NCCL failed",
    ),
)
