"""Errors that the NVIDIA driver returns, and the remedy for each."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.judge.check import Owner

NO_LIBRARY = 12
NO_DEVICE = 100
MISMATCH = 18
KERNEL_LOG = "sudo dmesg | grep -iE 'xid|nvrm'"


@dataclass(frozen=True, slots=True)
class Remedy:
    """The remedy for one error."""

    fix: str
    owner: Owner = Owner.ENVIRONMENT
    commands: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


RETURN = (
    "Rented: return the machine and report the GPU's UUID. Your own: reboot it, and look for Xid "
    "lines in the kernel log."
)
HANGS = Remedy(
    "Rented: return the machine, torch hangs in the same call. Your own: reboot it, and look for "
    "Xid lines in the kernel log.",
    Owner.MACHINE,
    (KERNEL_LOG,),
)
CRASHES = Remedy(
    "Remove directories with other libraries from LD_LIBRARY_PATH, so that the driver's own are "
    "loaded. If it still crashes, reinstall the driver's user-space libraries in the version of "
    "the kernel module.",
    commands=("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",),
)
NOT_LOADED = Remedy(
    "In a container: start it with the GPUs (docker run --gpus all). On the host: load the kernel "
    "module; if that fails, reinstall the driver for this kernel.",
    commands=("sudo modprobe nvidia", KERNEL_LOG),
)
LIBRARY = Remedy(
    "In a container: start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility, "
    "which adds libcuda.so.1 and libnvidia-ml.so.1. On the host: install the NVIDIA driver.",
    commands=("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",),
)
IN_CONTAINER = Remedy(
    "Restart the container: `systemctl daemon-reload` on the host removes the GPUs from running "
    "containers. To prevent it, use the cgroupfs driver, or create the /dev/char links:\n"
    "nvidia-ctk system create-dev-char-symlinks",
    commands=("ls -l /dev/nvidia* /dev/char | head -40",),
    sources=("toolkit-48",),
)
MISMATCHED = Remedy(
    "The driver's files were upgraded under the running kernel module: reboot the host, or reload "
    "the module. This cannot be fixed inside a container; rented: return the machine.",
    Owner.MACHINE,
    ("cat /proc/driver/nvidia/version",),
    ("driver-mismatch",),
)
FABRIC = Remedy(
    "The NVSwitch fabric is not ready: the host's fabric manager does not run, or not in the "
    "driver's version. Rented: return the machine. Your own: start it and read its log.",
    Owner.MACHINE,
    ("sudo systemctl restart nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
    ("pytorch-35710",),
)
COMPAT = Remedy(
    "A libcuda.so.1 was loaded that does not match this driver or GPU, most often from a "
    "cuda-compat package: remove its directory from LD_LIBRARY_PATH. Only data-center GPUs support "
    "forward compatibility.",
    commands=("ldconfig -p | grep libcuda.so.1", "echo $LD_LIBRARY_PATH"),
    sources=("cuda-forward-compatibility",),
)
LOST = Remedy("A GPU is lost or requires a reset. " + RETURN, Owner.MACHINE, (KERNEL_LOG,))
FORBIDDEN = Remedy(
    "This user or container may not open the GPUs' device nodes: start the container with the "
    "GPUs, or grant access to /dev/nvidia*.",
    commands=("ls -l /dev/nvidia*",),
)
OTHER = Remedy(
    "Look up the error, compare the versions of the driver's libraries and the kernel module, and "
    "reboot if they differ.",
    commands=("nvidia-smi", KERNEL_LOG),
)
NVML_REMEDIES = {
    4: FORBIDDEN,
    9: NOT_LOADED,
    NO_LIBRARY: LIBRARY,
    15: LOST,
    16: LOST,
    17: FORBIDDEN,
    MISMATCH: MISMATCHED,
}
CUDA_REMEDIES = {
    34: Remedy(
        "The stub libcuda.so.1 of the CUDA toolkit was loaded: remove its stubs directory from "
        "LD_LIBRARY_PATH.",
        commands=("echo $LD_LIBRARY_PATH",),
    ),
    NO_DEVICE: Remedy(
        "The driver offers no device to CUDA. A GPU in MIG mode needs a compute instance; a "
        "container needs /dev/nvidia-uvm as well as /dev/nvidia0.",
        commands=("nvidia-smi -L", "ls -l /dev/nvidia*"),
    ),
    802: FABRIC,
    803: COMPAT,
    804: COMPAT,
}
NO_HARDWARE = Remedy(
    "Run on a machine with a GPU, or start the container with --gpus all. To train on the CPU, "
    "pass --device cpu.",
    Owner.JOB,
)
