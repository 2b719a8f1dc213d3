"""Errors of the driver itself: NVML, cuInit, and their libraries."""

from __future__ import annotations

from doctor.judge.check import Owner
from doctor.judge.error_patterns.pattern import ErrorPattern

LIBRARIES = ("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",)
VERSIONS = ("cat /proc/driver/nvidia/version", *LIBRARIES)

FABRIC = ErrorPattern(
    ("system not yet initialized", "CUDA_ERROR_SYSTEM_NOT_READY"),
    "The NVSwitch fabric is not ready: the host's fabric manager does not run, or not in the "
    "driver's version. Rented: return the machine. Your own: start it and read its log.",
    Owner.MACHINE,
    ("pytorch-35710",),
    ("sudo systemctl restart nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
    "the NVSwitch fabric is not ready",
)
COMPAT = ErrorPattern(
    (
        "forward compatibility was attempted",
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "unsupported display driver / cuda driver combination",
        "SYSTEM_DRIVER_MISMATCH",
    ),
    "A libcuda.so.1 was loaded that does not match this driver or GPU, most often from a "
    "cuda-compat package: remove its directory from LD_LIBRARY_PATH. Only data-center GPUs support "
    "forward compatibility.",
    sources=("cuda-forward-compatibility",),
    commands=("ldconfig -p | grep libcuda.so.1", "echo $LD_LIBRARY_PATH"),
    cause="a libcuda that does not match the driver",
)
GPU_NOT_STARTED = ErrorPattern(
    ("RmInitAdapter failed", "rm_init_adapter failed"),
    "The kernel module is loaded but could not start this GPU; the kernel log says why. RTX 50 and "
    "other Blackwell GPUs require the open kernel module, GPUs before Turing the proprietary one, "
    "and large GPUs Above 4G Decoding in the BIOS. If a reinstalled driver does not help, the GPU, "
    "its power or its slot is at fault.",
    sources=("open-gpu-kernel-modules-246", "open-gpu-kernel-modules-862"),
    commands=("sudo dmesg | grep -iE 'xid|nvrm'", "modinfo -F license nvidia"),
    cause="the kernel module could not start a GPU",
)
"""Also where nvidia-smi prints Not Found instead of a device handle."""
NOT_LOADED = ErrorPattern(
    ("Driver Not Loaded", "communicate with the NVIDIA driver"),
    "In a container: start it with the GPUs (docker run --gpus all). On the host: load the kernel "
    "module. If that fails, the kernel log says why: nouveau holds the GPU (blacklist it), Secure "
    "Boot refuses an unsigned module, or it was built for another kernel (reinstall the driver). "
    "In WSL: upgrade the driver of Windows and WSL itself.",
    sources=("nvml-errors",),
    commands=("sudo modprobe nvidia", "lsmod | grep nouveau", "sudo dmesg | grep -iE 'xid|nvrm'"),
    cause="the kernel module is not loaded",
)
LIBRARY = ErrorPattern(
    (
        "NVML Shared Library Not Found",
        "libcuda.so.1: cannot open",
        "libnvidia-ml.so.1: cannot open",
        "CUDA Version: ERR!",
    ),
    "In a container: start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility, "
    "which adds libcuda.so.1 and libnvidia-ml.so.1. On the host: install the NVIDIA driver. In "
    "WSL: upgrade the driver of Windows, and remove any NVIDIA driver installed inside WSL.",
    sources=("nvml-errors",),
    commands=LIBRARIES,
    cause="a library of the driver is missing",
)
MISMATCHED = ErrorPattern(
    ("Driver/library version mismatch", "NVML/RM version mismatch"),
    "Run nvidia-smi on the host. If it works there, this image or environment brings its own "
    "libnvidia-ml.so.1 or libcuda.so.1: remove them there. If it fails there too, the driver was "
    "upgraded under the running kernel module: reboot the host; rented, return the machine.",
    sources=("driver-mismatch", "localcolabfold-127"),
    commands=VERSIONS,
    cause="a library of another driver version",
)
"""Where the library came from decides who can fix it, see DRV001."""
IN_CONTAINER = ErrorPattern(
    ("NVML: Unknown Error", "nvmlInit: Unknown Error"),
    "Restart the container: `systemctl daemon-reload` on the host removes the GPUs from running "
    "containers. To prevent it, use the cgroupfs driver, or create the /dev/char links:\n"
    "nvidia-ctk system create-dev-char-symlinks",
    sources=("toolkit-48",),
    commands=("ls -l /dev/nvidia* /dev/char | head -40",),
    cause="the container lost its GPUs",
)
FORBIDDEN = ErrorPattern(
    ("Insufficient Permissions", "blocked the request"),
    "This user or container may not open the GPUs' device nodes: start the container with the "
    "GPUs, or grant access to /dev/nvidia*.",
    sources=("nvml-errors",),
    commands=("ls -l /dev/nvidia*",),
    cause="no permission for the GPU",
)
STUB = ErrorPattern(
    ("stub library", "CUDA_ERROR_STUB_LIBRARY"),
    "The stub libcuda.so.1 of the CUDA toolkit was loaded: remove its stubs directory from "
    "LD_LIBRARY_PATH.",
    commands=("echo $LD_LIBRARY_PATH",),
    sources=("cuda-errors",),
    cause="the stub libcuda was loaded",
)
DRIVER = (
    GPU_NOT_STARTED,
    MISMATCHED,
    FABRIC,
    COMPAT,
    STUB,
    LIBRARY,
    NOT_LOADED,
    IN_CONTAINER,
    FORBIDDEN,
)
