"""Codes that the NVIDIA driver returns, and the remedy for each."""

from __future__ import annotations

from dataclasses import replace

from doctor.errors.cause import Cause
from doctor.judge.check import Owner
from doctor.judge.known_errors import (
    BROKEN_GPU,
    COMPAT,
    FABRIC,
    FORBIDDEN,
    GPU_TAKEN,
    KERNEL_LOG,
    LIBRARY,
    MISMATCHED,
    NOT_INITIALIZED,
    NOT_LOADED,
    STUB,
)

LIBRARIES = ("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",)
NO_LIBRARY = 12
NO_DEVICE = 100
MISMATCH = 18
NOT_READY = 802
UNKNOWN_ERROR = 999

RETURN = (
    "Rented: return the machine and report the GPU's UUID. Your own: reboot it, and look for Xid "
    "lines in the kernel log."
)


def _outcome(
    id: str,
    fix: str,
    *,
    owner: Owner = Owner.ENVIRONMENT,
    commands: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
) -> Cause:
    """What a code or an end of the driver's calls means, which has no message of its own."""
    return Cause(id=id, messages=(), examples=(), why="", fix=fix, owner=owner, commands=commands,
                 sources=sources)  # fmt: skip


HANGS = _outcome(
    "driver-hangs",
    "Rented: return the machine, torch hangs in the same call. Your own: reboot it, and look for "
    "Xid lines in the kernel log.",
    commands=KERNEL_LOG,
    owner=Owner.MACHINE,
)
BLOCKED = (
    "A reset of a GPU, the fabric manager or DCGM may hold the driver for a while. Run the doctor "
    "again, with a --budget for two starts (60 s, and 10 s for each further GPU). If the call does "
    "not return then either, the driver hangs."
)
CRASHES = _outcome(
    "driver-library-crashes",
    "Remove directories with other libraries from LD_LIBRARY_PATH, so that the driver's own are "
    "loaded. If it still crashes, reinstall the driver's user-space libraries in the version of "
    "the kernel module.",
    commands=LIBRARIES,
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
NODES = _outcome(
    "device-node-missing",
    "CUDA needs this device node. In a container: create the container anew with the GPUs (docker "
    "run --gpus all, or --device), as it keeps the nodes of its start. On the host: load the "
    "module nvidia_uvm and create the nodes with nvidia-modprobe, as root.",
    commands=("sudo nvidia-modprobe -u -c 0", "ls -l /dev/nvidia*", "grep nvidia /proc/devices"),
    sources=("nvidia-docker-396", "llama.cpp-7218"),
)
DENIED_NODES = _outcome(
    "device-node-denied",
    "This user may not open the device node. On a host: join the group that owns it, then log in "
    "again, or ask for its mode to be changed. Under a scheduler: request the GPUs (--gres), which "
    "allows their nodes.",
    commands=("ls -l /dev/nvidia*", "id"),
    sources=("nvidia-docker-396",),
)
OTHER_VERSION = "driver interface version"
"""Words of the line in which a fabric manager refuses the driver."""
FABRIC_VERSION = _outcome(
    "fabric-manager-of-other-version",
    "Install nvidia-fabricmanager in exactly the driver's version, hold both packages together, "
    "and start it. Without root access to the host, its administrator or provider does this; the "
    "GPUs are not at fault.",
    commands=("systemctl status nvidia-fabricmanager", "cat /proc/driver/nvidia/version"),
    sources=("pytorch-35710",),
)
STALE_UVM = _outcome(
    "driver-unknown-error",
    "The device nodes can be opened. A module nvidia_uvm that a suspend or an upgrade of the "
    "driver left behind is a frequent cause: load it anew while no program uses the GPU, or "
    "reboot. In a container: do so on the host, then restart the container.",
    commands=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm", *KERNEL_LOG),
    sources=("llama.cpp-7218",),
)
LOST = replace(BROKEN_GPU, fix="A GPU is lost or requires a reset. " + RETURN)
OTHER = _outcome(
    "driver-other-error",
    "Look up the error, compare the versions of the driver's libraries and the kernel module, and "
    "reboot if they differ.",
    commands=("nvidia-smi", *KERNEL_LOG),
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
    3: NOT_INITIALIZED,
    34: STUB,
    46: GPU_TAKEN,
    NO_DEVICE: _outcome(
        "no-cuda-device",
        "The driver offers no device to CUDA. A GPU in MIG mode needs a compute instance; a "
        "container needs /dev/nvidia-uvm as well as /dev/nvidia0.",
        commands=("nvidia-smi -L", "ls -l /dev/nvidia*"),
    ),
    214: LOST,
    NOT_READY: FABRIC,
    803: COMPAT,
    804: COMPAT,
}
NO_HARDWARE = _outcome(
    "no-nvidia-gpu",
    "Run on a machine with a GPU, start the container with --gpus all, or pass --device cpu to "
    "train on the CPU.",
    owner=Owner.JOB,
)
PERSISTENCE = (
    "Without persistence mode the driver initializes every GPU anew for the first process that "
    "opens it. Keep the GPUs initialized with the persistence daemon, or with the command; in a "
    "container, on the host."
)
