"""GPUs in logs: their driver, their kernels, their faults."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG, LD_PATHS, MEMORY_FAULT

ROWS = (
    Cause(id="no-kernel-image", code="LOG010",
        title="The build has code for the GPU",
        wordings=(
            Wording(r"no kernel image is available[^\n]{0,80}(?:bitsandbytes|csrc[\\/]ops\.cu)",
                "Error no kernel image is available for execution on the device at line 167 in "
                    "file D:\\bitsandbytes\\csrc\\ops.cu",
                "The compiled library of bitsandbytes has no code for this GPU; torch is not "
                    "concerned.",
                "Upgrade it: python -m pip install -U bitsandbytes. Builds for Windows of other "
                    "people (bitsandbytes-windows) are old: uninstall them first. A GPU that the "
                    "newest release does not support (below compute capability 6.0, for int8 "
                    "below 7.5) needs another optimizer, adamw_torch, and no 8-bit or 4-bit "
                    "weights.",
                ("python -m bitsandbytes",)),),
        messages=(r"no kernel image is available|cudaErrorNoKernelImageForDevice",
            r"CUDA capability sm_\d+a? is not compatible",
            r"which is of compute capability \(CC\) (?!(?:12\.1|10\.3)\b)[\d.]{1,6}",
            r"PyTorch no longer supports this GPU because it is too old",
            r"invalid device function",
            r"is not compatible with the current PyTorch installation",
            r"CU(?:BLAS|DNN)_STATUS_ARCH_MISMATCH"),
        examples=("RuntimeError: CUDA error: no kernel image is available for execution on the "
              "device",
            "NVIDIA GeForce RTX 3090 with CUDA capability sm_86 is not compatible with the current "
              "PyTorch installation.",
            "Found GPU0 Tesla P100 which is of compute capability (CC) 6.0.",
            "PyTorch no longer supports this GPU because it is too old.",
            "RuntimeError: HIP error: invalid device function",
            "NVIDIA B200 with CUDA capability sm_100 is not compatible with the current PyTorch "
              "installation",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling `cublasSgemm`"),
        why="The torch wheel, or a compiled extension, holds neither machine code nor PTX for this "
            "GPU's architecture.",
        fix="Install a torch wheel whose architecture list has this GPU (TOR003): cu128 or newer "
            "for RTX 50, B200 and GB10 (sm_100 to sm_121), cu126 or older for GPUs below sm_75, "
            "which cu130 left out. If torch alone works, rebuild the extension with "
            "TORCH_CUDA_ARCH_LIST set.",
        owner=Owner.ENVIRONMENT,
        commands=('python -c "import torch; print(torch.cuda.get_arch_list())"',),
        sources=("pytorch-31285", "pytorch-81883", "mish-cuda-10"), next_check="TOR003",
    ),
    Cause(id="hip-architecture",
        refines=("no-kernel-image",),
        messages=(r"HIP error: (?:invalid device function|no kernel image)",
            r"rocBLAS error: Cannot read .{0,200}Tensile",
            r"Illegal seek for GPU arch"),
        examples=("RuntimeError: HIP error: invalid device function",
            "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal "
              "seek for GPU arch : gfx1032"),
        wordings=(
            Wording("hipErrorNoBinaryForGpu|HSA_STATUS_ERROR_INVALID_ISA",
                "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
                "The ROCm build has no code for this GPU's architecture, or for another one "
                    "that is visible, often the processor's own GPU.",
                "Hide GPUs that do not train with HIP_VISIBLE_DEVICES. If it is this GPU: "
                    "install a build with code for its gfx name (TOR003), or run the code of a "
                    "similar one with HSA_OVERRIDE_GFX_VERSION (10.3.0 for gfx103x, 11.0.0 for "
                    "gfx110x; one of another family aborts), which AMD does not support.",
                ("rocminfo | grep -E 'Marketing|gfx'", "export HIP_VISIBLE_DEVICES=0",),
                more=("Queue 0x7f aborting with error : HSA_STATUS_ERROR_INVALID_ISA: The "
                        "instruction set architecture is invalid. code: 0x100f",)),
        ),
        why="The ROCm build or its libraries have no code for this GPU's gfx number, often that "
            "of the processor's own GPU, or an extension of the program has none.",
        fix="Install a ROCm build of torch with code for this GPU's gfx name (rocminfo prints "
            "it): the newest for gfx115x and gfx12; no current wheel has gfx803 (RX 400 and "
            "500). Hide a GPU of the processor beside the card: HIP_VISIBLE_DEVICES with the "
            "card's number. A consumer GPU runs with the code of a sibling: "
            "HSA_OVERRIDE_GFX_VERSION=10.3.0 for gfx1031 to gfx1036, 11.0.0 for gfx1101 to "
            "gfx1103. Rebuild extensions with PYTORCH_ROCM_ARCH set.",
        owner=Owner.ENVIRONMENT,
        commands=("rocminfo | grep gfx",),
        sources=("pytorch-164346", "pytorch-103973"),
    ),
    Cause(id="driver-too-old", code="LOG011",
        title="The driver is recent enough for the CUDA runtime",
        messages=(r"NVIDIA driver on your system is too old(?: \(found version "
              r"(?P<version>\d+)\))?",
            r"CUDA driver version is insufficient",
            r"PTX was compiled with an unsupported toolchain",
            r"driver version is insufficient"),
        examples=("UserWarning: CUDA initialization: The NVIDIA driver on your system is too old "
              "(found version 11040).",
            "RuntimeError: cuda runtime error (35) : CUDA driver version is insufficient for CUDA "
              "runtime version at torch/csrc/cuda/Module.cpp:51",
            "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported "
              "toolchain."),
        why="The CUDA runtime in the wheel is newer than the driver supports. The number in the "
            "message is 1000 x major + 10 x minor of the driver's CUDA version: 11040 is 11.4. As "
            "a UserWarning the training goes on, on the CPU.",
        fix="Install a torch wheel built for the driver's CUDA version, or upgrade the driver.",
        owner=Owner.ENVIRONMENT,
        commands=("nvidia-smi",), next_check="DRV002",
        sources=("fooocus-1313", "sglang-11395", "cuda-minor-compatibility"),
    ),
    Cause(id="cudnn-mismatch", code="LOG012",
        title="cuDNN is the version that torch was built with",
        messages=(r"cuDNN version (?:incompatibility|mismatch)",
            r"cuDNN version \d+ is not compatible with devices with SM",
            r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH",
            r"Could not load library libcudnn\w{0,40}\.so|Unable to load any of \{libcudnn|Invalid "
              r"handle\. Cannot load symbol cudnn"),
        examples=("RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (8, "
              "7, 0) but found runtime version (8, 5, 0).",
            "RuntimeError: cuDNN version 91002 is not compatible with devices with SM < 7.5.",
            "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
            "Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open"),
        why="Another cuDNN than the one in the wheel was loaded, most often through "
            "LD_LIBRARY_PATH, or the wheel's cuDNN no longer supports the GPU.",
        fix="Make torch load only its own cuDNN: where pip lists nvidia-cudnn twice (cu11, cu12), "
            "uninstall the one of another CUDA than torch's and reinstall the other, as both write "
            "the same files; and remove directories with another libcudnn from "
            "LD_LIBRARY_PATH and LD_PRELOAD. With torch 2.12 and 2.13, whose cuDNN 9.20 wheel "
            "lacks libcudnn_engines_tensor_ir, a system cuDNN that ldconfig lists has the same "
            "effect: upgrade torch, or remove the system's cuDNN.",
        owner=Owner.ENVIRONMENT,
        commands=LD_PATHS,
        sources=("pytorch-80637", "pytorch-188892", "kohya-ss-1096", "audiocraft-186"),
        next_check="TOR004",
    ),
    Cause(id="device-side-assert", code="LOG013",
        title="No assertion failed in a CUDA kernel",
        messages=(r"block: \[\d+, ?\d+, ?\d+\], thread: .{0,60}Assertion",
            r"device-side assert triggered",
            r"Assertion `(?P<assertion>t >= 0 && t < n_classes|srcIndex < srcSelectDimSize|"
              r"-sizes\[i\] <= index|input_val >= zero|idx_dim >= 0|[^`]{1,200})` failed"),
        examples=("block: [4770,0,0], thread: [374,0,0] Assertion indexValue >= 0 && indexValue < "
              "tensor.sizes[dim] failed.",
            "RuntimeError: CUDA error: device-side assert triggered",
            "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: "
              "block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed."),
        wordings=(
            Wording(r"t ?< ?n_classes|cur_target [<>]",
                "nll_loss_forward_reduce_cuda_kernel_2d: Assertion `t >= 0 && t < n_classes` "
                    "failed.",
                "A label is outside the classes of the loss.",
                "Fix the labels: one is outside the classes, 0 <= label < classes. Count the "
                    "classes that the last layer has, map labels that start at 1 to 0, and mark "
                    "what is to be ignored with -100."),
            Wording(r"(?:input|target)_val >= zero",
                "Loss.cu:94: operator(): Assertion `input_val >= zero && input_val <= one` failed.",
                "binary_cross_entropy got a value outside [0, 1], or NaN.",
                "Pass probabilities to binary_cross_entropy: inputs and targets in [0, 1], and no "
                    "NaN. binary_cross_entropy_with_logits takes raw outputs."),
            Wording(r"srcIndex < srcSelectDimSize|ind_dim_size|vectorized gather",
                "indexSelectLargeIndex: block: [63,0,0], thread: [0,0,0] Assertion `srcIndex < "
                    "srcSelectDimSize` failed.",
                "An index exceeds the rows of an embedding, index_select or gather.",
                "Fix the index of an embedding, index_select or gather: it exceeds the rows of the "
                    "table. After adding tokens call resize_token_embeddings; compare positions "
                    "with the model's length, and do not use a label of -100 as an index."),
            Wording(r"-sizes\[i\] <= index|index < sizes\[i\]|idx_dim < index_size|idx_dim >= 0",
                "IndexKernel.cu: operator(): Assertion `-sizes[i] <= index && index < sizes[i] && "
                    '"index out of bounds"` failed.',
                "An index of x[index], gather or scatter exceeds the dimension.",
                "Fix the index of x[index], gather or scatter: it exceeds the dimension that it "
                    "selects from. A label of -100 is no index: use labels.clamp(min=0), and mask "
                    "the result.")),
        why="A kernel found an index out of range and ended the CUDA context; everything after it "
            "fails as well.",
        fix="Check the labels and token ids on the CPU. After adding tokens call "
            "model.resize_token_embeddings(len(tokenizer)); mark padding with -100. "
            "CUDA_LAUNCH_BLOCKING=1 makes the traceback point to the call.",
        commands=("CUDA_LAUNCH_BLOCKING=1 python train.py",),
        sources=("pytorch-unet-375", "ms-swift-3267"), next_check="CKP011",
    ),
    Cause(id="xid-hardware", code="LOG014", refines=("gpu-at-fault",),
        title="The driver reports no failing GPU",
        messages=(r"NVRM: Xid \([^)]{1,80}\): (?P<xid>(?P<confirmed>48|62|63|64|74|79|92|94|95|109|"
              r"119|120|140|143|145|149|154)\b|\d+)",
            r"uncorrectable NVLink error",
            r"NVRM: .{0,200}Cannot attach gpu"),
        examples=("NVRM: Xid (PCI:0000:3b:00): 62, pid=1234, 2027(22f4) 00000000 00000000",
            "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
            "NVRM: GPU 0000:09:00.0: RmAttach: Cannot attach gpu"),
        wordings=(
            Wording(r"[Ff]allen off the bus|Unable to determine the device handle|GPU is lost|"
                r"NVRM: Xid \([^)]{1,80}\): 79\b",
                "[12345.678] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
                "The driver lost the GPU, which does not answer on the PCI bus: power, the slot "
                "or its cable, or heat.",
                "Move the job to another machine, drain the node and report the GPU's UUID. "
                "Rented: return the machine. Your own: power-cycle it, then check the GPU's seat, "
                "its power cables, the slot and the temperature.",
                more=("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
                    "Unable to determine the device handle for GPU0: GPU is lost.  Reboot the "
                        "system",
                    "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error")),
            Wording(r"[Uu]ncorrectable ECC error|ECC_UNCORRECTABLE|"
                r"NVRM: Xid \([^)]{1,80}\): (?:48|64|94|95|140|171|172)\b",
                "RuntimeError: CUDA error: uncorrectable ECC error encountered", *MEMORY_FAULT,
                more=("NVRM: Xid (PCI:0000:9b:00): 94, pid=1234, name=python3, Contained ECC "
                    "error",)),
            Wording(r"(?:rerun_state_machine|iteration #\d{1,9}):.{0,120}?(?P<transient>Possible "
                r"transient error!)",
                "ERROR:megatron.core.rerun_state_machine:Rank 43, node n118, device 3, iteration "
                    "#81352: Possible transient error!",
                "Megatron's rerun of the step on the same GPU gave another result: the GPU of the "
                    "rank in this line computed wrongly once, unless the kernels of the training "
                    "are not deterministic.",
                "Note node and device of the line, and resume from the last checkpoint. If the "
                    "same GPU is named again, leave its node out, read its Xid lines and ECC "
                    "counters, and have it tested (dcgmi diag -r 3, doctor run --only GPU006)."),
            Wording(r"(?:rerun_state_machine|iteration #\d{1,9}):.{0,120}?(?P<persistent>Possible "
                r"persistent error!)|suspicious node: \S{1,80}, suspicious device",
                "ERROR:megatron.core.rerun_state_machine:Rank 43, node n071, device 3, iteration "
                    "#81352: Possible persistent error!",
                "Megatron ran the step again: the same GPU repeated the result, another GPU did "
                    "not. The first GPU computes wrongly, and neither the data nor the learning "
                    "rate is the reason.",
                "Leave the node of the first run out (the line \"First rerun: unexpected result is "
                    "reproducible\" names its node and device; the line of the persistent error "
                    "names those of the second run, which are right), resume from the checkpoint, "
                    "and have that GPU tested or exchanged (dcgmi diag -r 3, doctor run --only "
                    "GPU006). Rented: return the machine.",
                more=("  suspicious node: n118, suspicious device: cuda:3",))),
        why="The driver lost the GPU or reports an error of its hardware. Xid 79: power, PCIe or "
            "heat. Xid 48, 63, 64, 94, 95: memory errors. Xid 13, 31, 43 and 45 are mostly the "
            "application's own.",
        fix="Move the job to another machine. For Xid 79, 48, 63, 64, 94, 95 and 119 drain the "
            "node and report the GPU's UUID; for 13, 31, 43 look for an error of the training "
            "first.",
        owner=Owner.MACHINE, retry="node",
        commands=KERNEL_LOG, sources=("xid-catalog", "gpu-burn-1", "open-gpu-kernel-modules-507"),
        next_check="GPU003",
    ),
    Cause(id="xid-of-program",
        refines=("xid-hardware",),
        messages=(r"NVRM: Xid \([^)]{1,80}\): (?:13|31|43|45|68|69)\b",),
        examples=("NVRM: Xid (PCI:0000:3b:00): 31, pid=77, MMU Fault",),
        why="The driver reports a fault of the program's own kernel, such as an index out of range "
            "or memory that was freed; 43 and 45 follow from a process that ended.",
        fix="Look for the error of the program at that time (illegal memory access, device-side "
            "assert). Only if known-good code fails on this GPU alone, examine the GPU.",
        commands=("CUDA_LAUNCH_BLOCKING=1 python train.py",), sources=("xid-catalog",),
    ),
    Cause(id="xid-firmware",
        refines=("xid-hardware",),
        messages=(r"NVRM: Xid \([^)]{1,80}\): (?:119|120)\b",),
        examples=("NVRM: Xid (PCI:0000:3b:00): 119, pid=1, Timeout after 6s of waiting for RPC "
              "response from GPU0 GSP!",),
        why="The GPU's own processor (GSP) no longer answers the driver.",
        fix="Drain the node, reset the GPU or restart the machine, and upgrade the driver: several "
            "branches had this defect. Return the machine if it comes back.",
        owner=Owner.MACHINE, retry="node",
        commands=KERNEL_LOG, sources=("xid-catalog",),
    ),
    Cause(id="cuda-unavailable", code="LOG015",
        title="CUDA is available to the training",
        messages=(r"Torch not compiled with CUDA enabled",
            r"CUDA driver initialization failed, you might not have a CUDA gpu",
            r"cannot find any torch accelerator|No supported gpu backend found|Unsloth currently "
              r"only works on",
            r"CUDA_ERROR_NOT_INITIALIZED",
            r"No CUDA GPUs are available",
            r"no CUDA-capable device is detected|invalid device ordinal",
            r"cuda runtime error \((?:38|100)\)",
            r"Attempting to deserialize object on (?:a CUDA device|CUDA device \d+) but "
              r"torch\.cuda",
            r"NVIDIA-SMI has failed because it couldn't communicate",
            r"Failed to initialize NVML: \w{3,}",
            r"Unexpected error from cudaGetDeviceCount.{0,160}Error (?:802|101|3)\b",
            r"Cannot access accelerator device when none is available"),
        examples=("AssertionError: Torch not compiled with CUDA enabled",
            "UserWarning: CUDA initialization: CUDA driver initialization failed, you might not "
              "have a CUDA gpu.",
            "CUDA_ERROR_NOT_INITIALIZED: initialization error",
            "RuntimeError: No CUDA GPUs are available",
            "RuntimeError: CUDA error: invalid device ordinal",
            "RuntimeError: cuda runtime error (100) : no CUDA-capable device is detected",
            "RuntimeError: Attempting to deserialize object on a CUDA device but "
              "torch.cuda.is_available() is False.",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            "Failed to initialize NVML: Driver/library version mismatch",
            "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you "
              "run some cuda functions before calling NumCudaDevices() that might have already set "
              "an error? Error 802: system not yet initialized",
            "RuntimeError: Cannot access accelerator device when none is available.",
            "RuntimeError: Please install PyTorch with CUDA: cannot find any torch accelerator"),
        wordings=(
            Wording(r"CUDA-capable device\(s\) is/are busy or unavailable",
                "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
                "The GPU takes no further process: it is in exclusive-process mode (E. Process of "
                    "nvidia-smi) and another one holds it, often another rank of this job that "
                    "selects the same device; or the GPU is in a faulty state.",
                "Each rank must select its own GPU: "
                'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) '
                    'and a device of that ' "number, not cuda:0, and no CUDA_VISIBLE_DEVICES=0 for "
                    "all ranks. If the ranks differ, end the other process on the GPU or choose a "
                    "free one. If no process holds it, look for Xids in the kernel log.",
                ("nvidia-smi --query-gpu=index,compute_mode --format=csv",
                    "nvidia-smi --query-compute-apps=pid,name,gpu_uuid --format=csv",
                    "sudo dmesg -T | grep -i xid")),
            Wording(r"Found no NVIDIA driver on your system",
                "RuntimeError: Found no NVIDIA driver on your system. Please check that you have "
                    "an NVIDIA GPU",
                "This torch is built for CUDA, and no driver is visible to it: the container was "
                    "started without its GPUs, or the host's driver is not installed or not "
                    "loaded.",
                "In a container: start it with the GPUs (docker run --gpus all, apptainer --nv, "
                    "nvidia.com/gpu in Kubernetes). On the host: nvidia-smi must work first; "
                    "install or load the driver. Torch need not be reinstalled. On a machine "
                    "without a GPU choose the CPU in the code.",
                ("nvidia-smi", "docker run --rm --gpus all ubuntu nvidia-smi")),
            Wording(r"CUDA unknown error(?: - this may be due to an incorrectly set up|\s{0,9}$)|"
                r"failed to initialize CUDA: unknown error|Unable to init GPU: unknown error",
                "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
                    "environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program "
                    "start.",
                "cuInit returns 999. Where nvidia-smi lists the GPUs, the module nvidia_uvm is the "
                    "usual reason: a suspend or an upgrade of the driver left it behind, or its "
                    "device node is missing.",
                "Load nvidia_uvm anew while no program uses the GPU (sudo rmmod nvidia_uvm; sudo "
                    "modprobe nvidia_uvm), or reboot. In a container: create it anew with the "
                    "GPUs, as /dev/nvidia-uvm must exist in it. In the program: set "
                    "CUDA_VISIBLE_DEVICES before torch is imported.",
                ("ls -l /dev/nvidia-uvm*", "sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm"),
                more=("ggml_cuda_init: failed to initialize CUDA: unknown error",
                    "Unable to init GPU: unknown error")),
            Wording("Torch not compiled with CUDA enabled|Tried to instantiate dummy base class",
                "AssertionError: Torch not compiled with CUDA enabled",
                "The code asks for a GPU, and this build of torch has no CUDA.",
                "For a training on a GPU install a CUDA build of torch "
                    "(pytorch.org/get-started prints the command, and PyPI's builds for Windows "
                    "have none); for one on the CPU write .to(device) in place of .cuda(), "
                    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu'). "
                    "Inside of a model or a loss make tensors on the device of those that they "
                    "are used with: device=x.device, x.new_zeros(...), a buffer "
                    "(register_buffer), .to(x.device).",
                owner=Owner.JOB,
                more=("RuntimeError: Tried to instantiate dummy base class CUDAGraph",))),
        why="The code asks for a GPU that this process cannot use: torch is a CPU build, another "
            "process holds the GPU in exclusive mode, no driver is visible (a container without "
            "--gpus), or CUDA_VISIBLE_DEVICES and the rank's device number do not fit the machine.",
        fix="Install a CUDA build of torch, start the container with its GPUs, and check "
            "CUDA_VISIBLE_DEVICES. On a machine without a GPU choose the CPU in the code, and load "
            "checkpoints with map_location.",
        owner=Owner.ENVIRONMENT,
        commands=('python -c "import torch; print(torch.__version__, torch.cuda.is_available())"',),
        sources=("pytorch-30664", "torch-cuda-init",), next_check="GPU001",
    ),
    Cause(id="cuda-illegal-access", code="LOG016",
        title="No CUDA kernel accessed invalid memory",
        messages=(r"an illegal memory access was encountered",
            r"(?:CUDA|HIP) error: (?:unspecified launch failure|misaligned address|an "
              r"illegal instruction)",
            r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_FAILED)|cudaErrorIllegalAddress",
            r"CUDA error: (?:invalid program counter|hardware stack error|Invalid access of peer "
              r"GPU memory)",
            r"Memory access fault by GPU node|Memory critical error by agent|HW Exception by GPU",
            r"amdgpu: .{0,60}page fault"),
        examples=("RuntimeError: CUDA error: an illegal memory access was encountered",
            "RuntimeError: CUDA error: unspecified launch failure",
            "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access",
            "CUDA error: invalid program counter",
            "CUDA error: hardware stack error",
            "CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
            "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x7f. Reason: "
              "Unknown.",
            "amdgpu 0000:c1:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8)"),
        why="A kernel read or wrote memory that is not its own: a defect of a custom or fused "
            "kernel, an index that is not checked, or rarely a failing GPU. The CUDA context is "
            "lost.",
        fix="Find the kernel: run with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, and "
            "look at the indices and bounds of your own Triton or CUDA kernels. Replace custom "
            "kernels " 'one at a time (attn_implementation="eager", no torch.compile, no fused '
            'optimizer), and ' "rebuild extensions for this torch and this GPU (NUM003 and TOR004 "
            "examine cuDNN's). An error that follows the job to other machines is the program's; "
            "if one machine alone fails with the same code, test its GPU.",
        owner=Owner.ENVIRONMENT,
        commands=("CUDA_LAUNCH_BLOCKING=1 python train.py",), sources=("pytorch-169849",),
        next_check="GPU006", yields_to=("xid-hardware",),
    ),
    Cause(id="cuda-fork", code="LOG022",
        title="CUDA was not used in a forked process",
        messages=(r"Cannot re-initialize (?:CUDA|XPU|MPS) in forked subprocess",
            r"CUDA error: initialization error"),
        examples=("RuntimeError: CUDA error: initialization error",
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
              "multiprocessing, you must use the 'spawn' start method"),
        why="CUDA was started in the parent, and a forked child (a DataLoader worker, a launcher's "
            "function) used it again.",
        fix="Keep CUDA tensors out of datasets and collate functions, start CUDA only in the "
            'children, or use the "spawn" start method.',
        sources=("pytorch-40403", "torch-multiprocessing"),
    ),
)  # fmt: skip
