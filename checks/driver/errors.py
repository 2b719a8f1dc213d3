"""Codes that the NVIDIA driver returns, and the remedy for each."""

from __future__ import annotations

from dataclasses import replace

from doctor.judge.check import Owner
from doctor.judge.error_patterns import BROKEN_GPU, GPU_TAKEN, KERNEL_LOG, ErrorPattern
from doctor.judge.error_patterns.driver import (
    COMPAT,
    FABRIC,
    FORBIDDEN,
    LIBRARIES,
    LIBRARY,
    MISMATCHED,
    NOT_LOADED,
    STUB,
)

NO_LIBRARY = 12
NO_DEVICE = 100
MISMATCH = 18
UNKNOWN_ERROR = 999

RETURN = (
    "Rented: return the machine and report the GPU's UUID. Your own: reboot it, and look for Xid "
    "lines in the kernel log."
)
HANGS = ErrorPattern(
    (),
    "Rented: return the machine, torch hangs in the same call. Your own: reboot it, and look for "
    "Xid lines in the kernel log.",
    Owner.MACHINE,
    commands=KERNEL_LOG,
    cause="the driver hangs",
)
CRASHES = ErrorPattern(
    (),
    "Remove directories with other libraries from LD_LIBRARY_PATH, so that the driver's own are "
    "loaded. If it still crashes, reinstall the driver's user-space libraries in the version of "
    "the kernel module.",
    commands=LIBRARIES,
    cause="a library of the driver crashes",
)
MISMATCHED_HOST = replace(
    MISMATCHED,
    fix="The driver's files were upgraded under the running kernel module: reboot the host, or "
    "reload the module. This cannot be fixed inside a container; rented: return the machine.",
    owner=Owner.MACHINE,
)
"""The library that was loaded is the host's own."""
MISMATCHED_IMAGE = replace(
    MISMATCHED,
    fix="This image or environment brings a libnvidia-ml.so.1 of another driver version: remove "
    "the driver packages (libnvidia-compute, nvidia-utils) from it, or its directory from "
    "LD_LIBRARY_PATH. The host provides the right one (docker run --gpus all).",
)
"""The library that was loaded belongs to the image or environment."""
NODES = ErrorPattern(
    (),
    "CUDA needs this device node. In a container: create the container anew with the GPUs (docker "
    "run --gpus all, or --device), as it keeps the nodes of its start. On the host: load the "
    "module nvidia_uvm and create the nodes with nvidia-modprobe, as root.",
    commands=("sudo nvidia-modprobe -u -c 0", "ls -l /dev/nvidia*", "grep nvidia /proc/devices"),
    sources=("nvidia-docker-396", "llama.cpp-7218"),
    cause="a device node of the driver cannot be used",
)
DENIED_NODES = ErrorPattern(
    (),
    "This user may not open the device node. On a host: join the group that owns it, then log in "
    "again, or ask for its mode to be changed. Under a scheduler: request the GPUs (--gres), which "
    "allows their nodes.",
    commands=("ls -l /dev/nvidia*", "id"),
    sources=("nvidia-docker-396",),
    cause="a device node of the driver cannot be opened by this user",
)
STALE_UVM = ErrorPattern(
    (),
    "The device nodes can be opened. A module nvidia_uvm that a suspend or an upgrade of the "
    "driver left behind is a frequent cause: load it anew while no program uses the GPU, or "
    "reboot. In a container: do so on the host, then restart the container.",
    commands=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm", *KERNEL_LOG),
    sources=("llama.cpp-7218",),
    cause="an unknown error of the driver",
)
LOST = replace(BROKEN_GPU, fix="A GPU is lost or requires a reset. " + RETURN)
OTHER = ErrorPattern(
    (),
    "Look up the error, compare the versions of the driver's libraries and the kernel module, and "
    "reboot if they differ.",
    commands=("nvidia-smi", *KERNEL_LOG),
    cause="another error of the driver",
)
NVML_REMEDIES = {
    4: FORBIDDEN,
    8: replace(LOST, fix="A GPU has no external power: connect its power cables."),
    9: NOT_LOADED,
    NO_LIBRARY: LIBRARY,
    15: LOST,
    16: LOST,
    17: FORBIDDEN,
    MISMATCH: MISMATCHED,
}
CUDA_REMEDIES = {
    2: GPU_TAKEN,
    34: STUB,
    46: GPU_TAKEN,
    NO_DEVICE: ErrorPattern(
        (),
        "The driver offers no device to CUDA. A GPU in MIG mode needs a compute instance; a "
        "container needs /dev/nvidia-uvm as well as /dev/nvidia0.",
        commands=("nvidia-smi -L", "ls -l /dev/nvidia*"),
        cause="no device for CUDA",
    ),
    214: LOST,
    802: FABRIC,
    803: COMPAT,
    804: COMPAT,
}
NO_HARDWARE = ErrorPattern(
    (),
    "Run on a machine with a GPU, start the container with --gpus all, or pass --device cpu to "
    "train on the CPU.",
    Owner.JOB,
    cause="no NVIDIA GPU",
)
PERSISTENCE = (
    "Without persistence mode the driver initializes every GPU anew for the first process that "
    "opens it. Keep the GPUs initialized with the persistence daemon, or with the command; in a "
    "container, on the host."
)
