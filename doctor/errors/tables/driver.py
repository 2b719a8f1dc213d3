"""The driver itself: NVML, cuInit and their libraries."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG

ROWS = (
    Cause(id="gpu-not-started",
        errors=("RuntimeError",),
        messages=("RmInitAdapter failed",
            "rm_init_adapter failed",
            r"NVIDIA probe routine failed for \d+ device"),
        examples=("NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)",
            "NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0",
            "NVRM: The NVIDIA probe routine failed for 1 device(s)."),
        why="The kernel module is loaded and could not start a GPU.",
        fix="The kernel module is loaded but could not start this GPU; the kernel log says why. "
            "RTX 50 and other Blackwell GPUs require the open kernel module, GPUs before Turing "
            "the proprietary one, and large GPUs Above 4G Decoding in the BIOS. If a "
            "reinstalled driver does not help, the GPU, its power or its slot is at fault.",
        commands=(*KERNEL_LOG,
            "modinfo -F license nvidia"),
        yields_to=("driver-module-fails", "driver-parts-differ", "gpu-firmware-not-booted"),
        sources=("open-gpu-kernel-modules-246", "open-gpu-kernel-modules-862"),
        owner=Owner.ENVIRONMENT, next_check="GPU001"),
    Cause(id="driver-library-mismatch",
        errors=("RuntimeError",), refines=("cuda-unavailable", "container-without-gpu-runtime"),
        messages=("Driver/library version mismatch",
            "NVML/RM version mismatch"),
        examples=("Failed to initialize NVML: Driver/library version mismatch",
            "nvidia-container-cli: initialization error: nvml error: driver/library version "
            "mismatch: unknown",
            "nvmlInit: RM has detected an NVML/RM version mismatch."),
        why="A library of the driver has another version than the kernel module.",
        fix="On the host the driver was upgraded under the running kernel module: reboot it "
            "once running jobs have ended (or unload and load the nvidia modules while nothing "
            "uses them), and hold the driver's packages out of automatic upgrades; return a "
            "rented machine. Where it outlives the reboot, the module on the disk or in the "
            "initramfs is the old one (modinfo -F version nvidia): build it (dkms autoinstall), "
            "rebuild the initramfs, reboot. If nvidia-smi works on the host and fails in a "
            "container, the image brings its own libnvidia-ml.so.1 or libcuda.so.1: remove them "
            "there.",
        commands=("cat /proc/driver/nvidia/version",
            "ldconfig -p | grep -E 'libcuda|libnvidia-ml'"),
        sources=("driver-mismatch", "nvidia-driver-g06-25", "localcolabfold-127"),
        owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="fabric-not-ready",
        errors=("RuntimeError",), refines=("cuda-unavailable", "nccl-error"),
        messages=("system not yet initialized",
            "CUDA_ERROR_SYSTEM_NOT_READY"),
        examples=("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system "
            "not yet initialized",
            "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized",
            "NCCL WARN Cuda failure 802 'system not yet initialized'"),
        why="GPUs on NVSwitches need the host's fabric manager.",
        fix="The NVSwitch fabric is not ready: the host's fabric manager does not run, or not "
            "in the driver's version. Rented: return the machine. Your own: start it and read "
            "its log; from B200 on it also needs nvlsm and the kernel modules ib_umad and mlx5_ib "
            "(Ubuntu: linux-modules-extra). A GPU in confidential-computing mode waits for "
            "nvidia-smi conf-compute -srs 1 instead.",
        commands=("sudo systemctl restart nvidia-fabricmanager",
            "systemctl status nvidia-fabricmanager"),
        sources=("pytorch-35710",), owner=Owner.MACHINE, retry="node", next_check="DRV001"),
    Cause(id="libcuda-compat",
        errors=("RuntimeError",),
        messages=("unsupported display driver / cuda driver combination",
            "SYSTEM_DRIVER_MISMATCH"),
        examples=("Error 803: system has unsupported display driver / cuda driver combination",
            "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        wordings=(
            Wording(r"(?:forward compatibility was attempted|COMPAT_NOT_SUPPORTED|unsupported "
                r"display driver).{0,240}with kernel driver version",
                "Error 804: forward compatibility was attempted on non supported HW; Using CUDA "
                    "13.0 driver version 580.82.07 with kernel driver version 550.144.03",
                "The image is for a newer driver than the host's, and brings a libcuda.so.1 for "
                    "it, which this GPU does not take: forward compatibility is for data-center "
                    "GPUs.",
                "Upgrade the host's driver to the version that the image states (\"Using CUDA ... "
                    "driver version\") or a later one, or use an image of the CUDA version that "
                    "nvidia-smi shows. Removing cuda-compat alone ends in a driver that is too "
                    "old.",
                ("nvidia-smi",)),
            Wording(r"forward compatibility was attempted|COMPAT_NOT_SUPPORTED_ON_DEVICE",
                "Error 804: forward compatibility was attempted on non supported HW",
                "A libcuda.so.1 of a cuda-compat package was loaded, which is for drivers that are "
                    "older than it, on GPUs for data centers only.",
                "Compare the CUDA version of nvidia-smi with the image's. If the image's is newer, "
                    "upgrade the host's driver, or use an image of the driver's CUDA version. Else "
                    "make the driver's own libcuda.so.1 the first one: remove the image's "
                    "/etc/ld.so.conf.d/*compat*.conf and run ldconfig, and cuda-compat directories "
                    "from LD_LIBRARY_PATH.",
                more=("cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)",))),
        why="A libcuda.so.1 was loaded that does not match this driver or GPU: images bring one "
            "of a cuda-compat package, which is for drivers that are older than it. With a "
            "newer driver on the host it fails (803); on GPUs that are not for data centers it "
            "always does (804).",
        fix="Make the driver's own libcuda.so.1 the first one. In a container: set "
            "LD_LIBRARY_PATH to the directory in which the host's driver is mounted, or remove "
            "the image's /etc/ld.so.conf.d/*compat*.conf and run ldconfig. Remove cuda-compat "
            "directories from LD_LIBRARY_PATH. Without a container, after an upgrade of the "
            "driver: reboot.",
        commands=("ldconfig -p | grep libcuda.so.1",
            "export LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/lib/x86_64-linux-gnu",
            "grep -rs compat /etc/ld.so.conf.d"),
        title="The libcuda that is loaded is the driver's own",
        sources=("cuda-forward-compatibility", "gpustack-4678", "llm-d-706"),
        owner=Owner.ENVIRONMENT, next_check="DRV001", code="LOG076"),
    Cause(id="libcuda-stub",
        errors=("RuntimeError",),
        messages=("stub library",
            "CUDA_ERROR_STUB_LIBRARY"),
        examples=("RuntimeError: CUDA driver is a stub library",
            "cuInit: CUDA_ERROR_STUB_LIBRARY (34)"),
        why="The stub of the CUDA toolkit, which is for linking only, was loaded.",
        fix="The stub libcuda.so.1 of the CUDA toolkit was loaded: remove its stubs directory "
            "from LD_LIBRARY_PATH.",
        commands=("echo $LD_LIBRARY_PATH",), sources=("cuda-errors",),
        owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="driver-library-missing",
        errors=("RuntimeError",),
        messages=("NVML Shared Library Not Found",
            r"libcuda\.so\.1: cannot open",
            r"libnvidia-ml\.so\.1: cannot open",
            "CUDA Version: ERR!"),
        examples=("nvmlInit: NVML Shared Library Not Found",
            "dlopen: libcuda.so.1: cannot open shared object file: No such file or directory",
            "NVML: libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
            "| NVIDIA-SMI 545.23.06   Driver Version: 545.23.06   CUDA Version: ERR!  |"),
        why="A library of the driver is not in the image, or no driver is installed.",
        fix="In a container: start it with --gpus all and "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility, which adds libcuda.so.1 and "
            "libnvidia-ml.so.1. On the host: install the NVIDIA driver. In WSL: upgrade the "
            "driver of Windows, and remove any NVIDIA driver installed inside WSL.",
        commands=("ldconfig -p | grep -E 'libcuda|libnvidia-ml'",), sources=("nvml-errors",),
        owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="kernel-module-not-loaded",
        errors=("RuntimeError",), refines=("cuda-unavailable",),
        messages=("Driver Not Loaded",
            "communicate with the NVIDIA driver"),
        examples=("nvmlInit: Driver Not Loaded",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        why="The driver's kernel module is not loaded, or the container has no GPUs.",
        fix="On the host: load the kernel module (sudo modprobe nvidia); if that fails, its "
            "message and the kernel log say why. No module for this kernel: reinstall the driver "
            "or run dkms autoinstall. Secure Boot refuses an unsigned one: enroll its key. "
            "nouveau holds the GPU: blacklist it. In a container: start it with the GPUs (docker "
            "run --gpus all). In WSL: upgrade the driver of Windows and WSL itself.",
        commands=("sudo modprobe nvidia",
            "lsmod | grep nouveau",
            *KERNEL_LOG),
        yields_to=("driver-module-fails",),
        sources=("nvml-errors",), owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="container-lost-gpus",
        errors=("RuntimeError",), refines=("cuda-unavailable", "gpu-in-unknown-state"),
        messages=("NVML: Unknown Error",
            "nvmlInit: Unknown Error"),
        examples=("Failed to initialize NVML: Unknown Error",
            "nvmlInit: Unknown Error (999)",
            "Failed to initialize NVML: Unknown Error\nRuntimeError: CUDA unknown error - this may "
            "be due to an incorrectly set up environment"),
        why="The container lost access to the GPUs while it ran.",
        fix="Restart the container: `systemctl daemon-reload` on the host removes the GPUs from "
            "running containers. To prevent it, use the cgroupfs driver, or create the "
            "/dev/char links:\nnvidia-ctk system create-dev-char-symlinks",
        commands=("ls -l /dev/nvidia* /dev/char | head -40",),
        yields_to=("container-started-without-gpus",), sources=("toolkit-48",),
        owner=Owner.ENVIRONMENT, next_check="DRV001"),
    Cause(id="gpu-no-permission",
        errors=("RuntimeError",),
        messages=("Insufficient Permissions",
            "operating system has blocked the request"),
        examples=("nvmlInit: Insufficient Permissions",
            "The operating system has blocked the request."),
        why="The user or the container may not open the GPUs' device nodes.",
        fix="This user or container may not open the GPUs' device nodes: start the container "
            "with the GPUs, or grant access to /dev/nvidia*.",
        commands=("ls -l /dev/nvidia*",), sources=("nvml-errors",),
        owner=Owner.ENVIRONMENT, next_check="DRV001"),
)  # fmt: skip
