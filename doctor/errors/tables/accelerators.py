"""Why GPUs of AMD and Intel, Gaudi, Neuron and TPU do not start, or are smaller than their name;
and CUDA in WSL.

`doctor.pasted.accelerators` writes those lines that no tool prints.
"""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(
        id="gpu-partitioned",
        messages=(r"the GPUs are partitioned as [CDQT]PX\b", r"the GPUs' memory is split as NPS\d"),
        examples=(
            "the GPUs are partitioned as CPX, NPS4",
            "the GPUs' memory is split as NPS4",
        ),
        why="An MI300 is offered as several GPUs, each with a part of its units (DPX, QPX, CPX) "
        "and, with NPS2 or NPS4, of its memory.",
        fix="Make each GPU a whole one again, as root and while no program uses it: amd-smi set "
        "--memory-partition NPS1 and amd-smi set --compute-partition SPX (older: rocm-smi "
        "--setmemorypartition NPS1, --setcomputepartition SPX). torch must then count the boards.",
        owner=Owner.MACHINE,
        role="warning",
        commands=("amd-smi static --partition", "rocm-smi --showcomputepartition"),
        sources=("amdsmi-partitions",),
    ),
    Cause(id="accelerator-not-set-up",
        refines=("library-does-not-fit",),
        wordings=(
            Wording(r"Gaudi's driver is of release [\d.]{3,9}, its torch of",
                "Gaudi's driver is of release 1.17, its torch of 1.21",
                "The kernel's driver of Gaudi and the software of a container are made for each "
                "other, release by release.",
                "Take the container of the driver's release "
                "(vault.habana.ai/gaudi-docker/RELEASE), or upgrade habanalabs driver and "
                "firmware on the host to that of the container, and reboot. hl-smi prints the "
                "driver's.",
                ("hl-smi | head -5",
                    "python -m pip list | grep -i habana")),
            Wording(r"torch is built for \w{2,4}[\d.]{0,5}, and the GPU is one of Intel",
                "torch is built for cu124, and the GPU is one of Intel",
                "PyPI's wheels are for NVIDIA's GPUs on Linux and for the CPU on Windows; those "
                "for Intel's GPUs are in an index of their own.",
                "Replace torch: python -m pip uninstall torch torchvision torchaudio, then "
                "python -m pip install torch torchvision torchaudio --index-url "
                "https://download.pytorch.org/whl/xpu. torch.xpu.is_available() must then be "
                "True, and the code must name the device xpu.",
                ("python -m pip list | grep -i torch",)),
            Wording(r"synStatus=\d{1,3} .{0,60}Device acquire failed|synDeviceAcquire.{0,40}fail",
                "RuntimeError: synStatus=26 [Generic failure] Device acquire failed.",
                "Another process holds the Gaudi card, the container was started without it, or "
                "its driver is of another release than the container.",
                "Look at hl-smi in this container: without cards start it with --runtime=habana "
                "-e HABANA_VISIBLE_DEVICES=all; with a process beside a card end it, one "
                "process uses one card; else compare its driver version with pip list | grep "
                "habana.",
                ("hl-smi",
                    "python -m pip list | grep -i habana"),
                more=("synDeviceAcquireByDeviceType failed",)),
            Wording(r"no neuron device found|Could not open the nd\d|Failed to open Neuron "
                r"device",
                "neuron-ls: error: Failed to open Neuron device: no neuron device found",
                "The kernel module of AWS Neuron is not loaded, was not built for this kernel, "
                "or the container has no /dev/neuron*.",
                "Build and load it for the running kernel (linux-headers-$(uname -r), reinstall "
                "aws-neuronx-dkms, sudo modprobe neuron); neuron-ls must list the devices. In a "
                "container: --device=/dev/neuron0 for each, in Kubernetes aws.amazon.com/neuron.",
                ("ls /dev/neuron*",
                    "dkms status; lsmod | grep neuron",
                    "neuron-ls"),
                more=("ERROR   TDRV:tdrv_init_mla_phase1  Could not open the nd0",
                    "Failed to open Neuron device")),
            Wording(r"TPU is already in use by|open\(/dev/(?:accel|vfio/)\d.{0,10}\): Device or "
                r"resource busy",
                "The TPU is already in use by process with pid 4211. Not attempting to load "
                "libtpu.so in this process.",
                "One process uses a TPU at a time, and another one has it.",
                "End that process, a notebook's kernel or a run that is left over (sudo lsof -w "
                "/dev/accel* /dev/vfio/*); delete /tmp/libtpu_lockfile only if none runs.",
                ("sudo lsof -w /dev/accel* /dev/vfio/*",),
                more=("TPU initialization failed: open(/dev/vfio/0): Device or resource busy",)),
            Wording(r"open\(/dev/(?:accel|vfio/)\d.{0,10}\): Operation not permitted|Couldn't "
                r"open (?:device|iommu group): /dev/(?:accel|vfio)",
                "TPU initialization failed: open(/dev/accel0): Operation not permitted",
                "The process may not open the TPU: a container without privileges or device, a "
                "user without rights, or another process that has it.",
                "Run as a user that may open /dev/accel* or /dev/vfio/*; in a container docker "
                "run --privileged --net=host; and end other processes that use the TPU.",
                ("ls -l /dev/accel* /dev/vfio",
                    "sudo lsof -w /dev/accel* /dev/vfio/*"),
                more=("Couldn't open device: /dev/accel0",)),
            Wording(r"lib(?:hccl|ascendcl|ascend_hal|ge_runner|msprofiler|runtime)\.so\S{0,8}: "
                r"cannot open|dcmi mod\w{2,4} initialize failed",
                "ImportError: libhccl.so: cannot open shared object file: No such file or "
                "directory",
                "This shell or container does not have Ascend's driver and CANN: their "
                "libraries are found through variables, and the container needs the card's "
                "devices and the driver's directory.",
                "In the shell of the job: source /usr/local/Ascend/ascend-toolkit/set_env.sh, "
                "and LD_LIBRARY_PATH with /usr/local/Ascend/driver/lib64. As a user of the "
                "group HwHiAiUser. In a container: --device=/dev/davinci0 (each), "
                "/dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc, and -v "
                "/usr/local/Ascend/driver and /usr/local/dcmi.",
                ("npu-smi info",
                    "ls -l /dev/davinci*; id"),
                more=("dcmi module initialize failed. ret is -8005",)),
            Wording("torch finds no Intel GPU, and this user is not in the group",
                "torch finds no Intel GPU, and this user is not in the group render",
                "The device nodes of the GPU in /dev/dri may be opened by that group alone.",
                "sudo gpasswd -a USER render, then log in again. In a container: --device "
                "/dev/dri and --group-add with the number of that group.",
                ("ls -l /dev/dri",
                    "id -nG")),
            Wording("sycl-ls lists no GPU beside the processor",
                "sycl-ls lists no GPU beside the processor, and torch finds no Intel GPU",
                "torch for Intel GPUs needs Intel's compute runtime (Level Zero) on the system; "
                "the wheels bring SYCL alone.",
                "Install the GPU runtime of Intel's repository: libze-intel-gpu1 (older: "
                "intel-level-zero-gpu), libze1 and intel-opencl-icd, in a release that knows "
                "this GPU; the kernel's module i915 or xe must have started it. sycl-ls must "
                "list level_zero:gpu.",
                ("sycl-ls",
                    "sudo dmesg | grep -iE 'i915|xe '"))),
        why="An accelerator that is no GPU of NVIDIA or AMD is not usable: its driver or "
            "runtime is missing, it is denied, or another process has it.",
        sources=("gaudi-support-matrix",), owner=Owner.ENVIRONMENT),
    Cause(
        id="intel-gpu-small-window",
        messages=(
            r"(?:Resizable BAR not|Small BAR) detected for device",
            r"\bxe .{0,40}Small BAR device",
        ),
        examples=(
            "WARNING: Resizable BAR not detected for device 0000:03:00.0",
            "xe 0000:67:00.0: [drm] Small BAR device",
        ),
        why="The firmware gives the Intel GPU a window of 256 MB only: Intel's runtime refuses "
        "the GPU or is slow.",
        fix="Switch on Above 4G Decoding and Resizable BAR in the firmware (CSM off), update it "
        "if it lacks them; lspci -vv must then show a region of the GPU's memory.",
        owner=Owner.MACHINE,
        role="warning",
        commands=("sudo lspci -vv | grep -A12 -E 'VGA|Display' | grep -E 'Region|BAR'", "sycl-ls"),
    ),
    Cause(
        id="intel-gpu-lost",
        messages=(
            r"UR_RESULT_ERROR_DEVICE_LOST",
            r"ZE_RESULT_ERROR_DEVICE_LOST",
            r"xe [\da-f]{4}:(?!00:)[\da-f]{2}:\S{4,5} .{0,40}"
            r"(?:Engine reset|GPU HANG|reset failed)",
        ),
        examples=(
            "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
            "ze error: ZE_RESULT_ERROR_DEVICE_LOST",
            "xe 0000:03:00.0: [drm] GT0: Engine reset: engine_class=ccs, guc_id=9",
        ),
        why="The Intel GPU did not finish a kernel in time, and its driver reset it: programs on "
        "it lose their memory.",
        fix="Upgrade the kernel (xe or i915), linux-firmware and Intel's compute runtime, which "
        "know newer GPUs better. For kernels that are long but right raise the limit of the "
        "engine: /sys/class/drm/card*/device/tile*/gt*/engines/ccs/job_timeout_ms. If one GPU of "
        "several does it, that one is at fault.",
        owner=Owner.ENVIRONMENT,
        commands=("sudo dmesg | grep -iE 'xe |i915|guc'", "sycl-ls"),
    ),
    Cause(
        id="mac-python-of-intel",
        messages=(r"Python is built for Intel \(x86_64\) on a Mac of Apple's",),
        examples=("Python is built for Intel (x86_64) on a Mac of Apple's, and torch has no MPS",),
        why="A Python for Intel runs in Rosetta on this Mac, and pip and conda install builds of "
        "torch for Intel, which have no MPS.",
        fix="Install a Python for arm64 (Miniforge for arm64, or CONDA_SUBDIR=osx-arm64 for a new "
        "environment) and torch in it; platform.machine() must print arm64.",
        owner=Owner.ENVIRONMENT,
        commands=('python -c "import platform; print(platform.machine())"',),
    ),
    Cause(
        id="wsl-linux-driver",
        messages=(r"in WSL a driver for Linux hides that of Windows",),
        examples=("in WSL a driver for Linux hides that of Windows: libcuda.so.1 is /lib/x.so.1",),
        why="In WSL the driver is that of Windows, in /usr/lib/wsl/lib. A driver for Linux that "
        "was installed inside WSL is found first and has no kernel module.",
        fix="Remove the packages of the driver for Linux inside WSL (sudo apt purge "
        "'nvidia-*-[0-9][0-9][0-9]*' 'libnvidia-*-[0-9][0-9][0-9]*', and cuda-drivers where dpkg "
        "lists it; nvidia-container-toolkit and cuda-toolkit may stay), then run sudo ldconfig, "
        "and wsl --shutdown in Windows. If none is installed: run nvidia-smi in Windows, and "
        "upgrade its driver and WSL (wsl --update).",
        owner=Owner.ENVIRONMENT,
        commands=(
            "dpkg -l | grep -E 'nvidia|cuda-drivers'",
            "which -a nvidia-smi; ldconfig -p | grep libcuda",
        ),
        next_check="DRV001",
        sources=("wsl-guide",),
    ),
    Cause(
        id="wsl-container-toolkit-old",
        messages=(
            r"\b(?:Error|failure:?) 500: named symbol not found",
            r"CUDA_ERROR_NOT_FOUND\W{1,4}named symbol not found",
            r"cuda driver library init failure: 500",
        ),
        examples=(
            "Unexpected error from cudaGetDeviceCount(). Error 500: named symbol not found",
            'DriverError(CUDA_ERROR_NOT_FOUND, "named symbol not found")',
            "cuda driver library init failure: 500",
        ),
        why="CUDA does not start in a container on WSL: since 555 the driver of Windows has a "
        "library more (libnvdxgdmal.so.1), which an older Docker Desktop or container toolkit does "
        "not pass into containers.",
        fix="Upgrade Docker Desktop (4.31 or newer), or in WSL nvidia-container-toolkit (1.15 or "
        "newer), and create the container anew.",
        owner=Owner.ENVIRONMENT,
        commands=("docker version", "nvidia-ctk --version"),
        sources=("nvidia-container-toolkit-520",),
    ),
    Cause(
        id="jax-without-cuda",
        messages=(
            r"Unable to use CUDA because of the following issues|Outdated \w{3,10} installation "
            r"found|Unable to load cu\w{3,8}\. Is it installed",
        ),
        examples=(
            "RuntimeError: Unable to use CUDA because of the following issues with CUDA "
            "components:",
        ),
        why="JAX finds a CUDA library that is missing or older than the one that it was built "
        "with, leaves the GPU out and goes on with the CPU. Often it is a system's library, or one "
        "that torch brought into the same environment.",
        fix="Let JAX bring its own libraries: python -m pip install -U 'jax[cuda12]' (cuda13 for a "
        "driver from 580 on), with LD_LIBRARY_PATH unset; or upgrade the one that the message "
        "names (nvidia-cudnn-cu12). torch pins its cuDNN: give it an environment of its own.",
        owner=Owner.ENVIRONMENT,
        commands=("unset LD_LIBRARY_PATH", "python -c 'import jax; print(jax.devices())'"),
    ),
    Cause(
        id="jax-library-not-started",
        messages=(
            r"DNN library initialization failed|DNN library is not found|"
            r"Failed to (?:create|initialize) (?:cuDNN|cuBLAS|cublas|cudnn) handle",
        ),
        examples=(
            "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library "
            "initialization failed.",
        ),
        why="XLA could not start cuDNN or cuBLAS: mostly the GPU's memory is already full (another "
        "process, torch or TensorFlow in this one, JAX's own reserve of three quarters), else the "
        "cuDNN that was found is older than the one that it was built with.",
        fix="Look at nvidia-smi and end what holds the memory; set "
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.7 (or XLA_PYTHON_CLIENT_PREALLOCATE=false), and "
        "tf.config.set_visible_devices([], 'GPU') where TensorFlow only loads the data. If the GPU "
        "is free: python -m pip install -U 'jax[cuda12]' with LD_LIBRARY_PATH unset; lines above "
        "name the versions (Loaded runtime CuDNN library).",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi", "unset LD_LIBRARY_PATH"),
    ),
)  # fmt: skip
