"""Errors of CUDA, cuBLAS and cuDNN that name one fault."""

from __future__ import annotations

from doctor._util.owner import Owner
from doctor.errors.cause import Cause, Wording
from doctor.errors.tables.commands import KERNEL_LOG, LD_PATHS, MEMORY_FAULT, WHO_USES_IT

ROWS = (
    Cause(id="allocator-options",
        errors=("ValueError", "RuntimeError"),
        messages=("allocator config|ConfigTokenizer",
            "CachingAllocator (?:option|settings)",
            "Error, expecting (?:max_split_size_mb|max_non_split_rounding_mb|"
            "garbage_collection_threshold|roundup_power2_divisions|backend value)",
            "True/False argument for expandable_segments",
            "garbage_collect_threshold",
            "For roundups, the",
            "Unknown allocator backend",
            "Allocator backend parsed at runtime"),
        examples=("ValueError: Unrecognized key 'foo' in CUDA allocator config.",
            "RuntimeError: Unrecognized CachingAllocator option: expandable_segments",
            "RuntimeError: Error, expecting max_split_size_mb value",
            "ValueError: Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'",
            "RuntimeError: Expected a single True/False argument for expandable_segments",
            "RuntimeError: garbage_collect_threshold too big, set it 0.0-1.0",
            "RuntimeError: For roundups, the setting has to be power of 2",
            "RuntimeError: Unknown allocator backend, options are native and cudaMallocAsync",
            "RuntimeError: Allocator backend parsed at runtime != allocator backend parsed at "
            "load time"),
        why="This torch does not accept an option or a value of its memory allocator.",
        fix="Correct or unset PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF and "
            "PYTORCH_HIP_ALLOC_CONF: this torch does not accept an option or a value of the one "
            "that is set. Options are written as name:value, separated by commas; "
            "expandable_segments exists since torch 2.1.",
        commands=("env | grep ALLOC_CONF",), sources=("torch-cuda-semantics", "pytorch-123505"),
        owner=Owner.ENVIRONMENT, next_check="GPU001"),
    Cause(id="cudnn-refuses-gpu",
        errors=("RuntimeError",),
        messages=(r"cuDNN version \d+ is not compatible with devices",),
        examples=("RuntimeError: cuDNN version 91002 is not compatible with devices with SM < "
            "7.5",),
        why="This cuDNN no longer supports one of the visible GPUs.",
        fix="This cuDNN no longer supports one of the visible GPUs: hide that GPU with "
            "CUDA_VISIBLE_DEVICES, or install torch from the cu126 index.",
        sources=("torch-cudnn",), owner=Owner.ENVIRONMENT, next_check="TOR004"),
    Cause(id="ptx-newer-than-driver",
        errors=("RuntimeError",),
        messages=("PTX was compiled with an unsupported toolchain",
            "UNSUPPORTED_PTX_VERSION"),
        examples=("CUDA error: the provided PTX was compiled with an unsupported toolchain.",
            "cuModuleLoadData: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"),
        why="The driver is older than the toolkit that built this code.",
        fix="The driver is older than the toolkit that built this code: install a build for the "
            "driver's CUDA version (DRV002), or upgrade the driver.",
        sources=("cuda-minor-compatibility",), owner=Owner.ENVIRONMENT, next_check="DRV002"),
    Cause(id="gpu-code-not-loadable",
        errors=("RuntimeError",),
        messages=("device kernel image is invalid",
            "PTX JIT compilation failed",
            "CUDA_ERROR_INVALID_IMAGE",
            "(?<!500: )(?<!NOT_FOUND, .)named symbol not found"),
        examples=("CUDA error: device kernel image is invalid",
            "RuntimeError: Triton Error [CUDA]: a PTX JIT compilation failed",
            "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (200)",
            "Error named symbol not found at line 529 in file /src/csrc/ops.cu"),
        why="The driver cannot load the code that was built for the GPU, or a library has no "
            "code for this GPU.",
        fix="The GPU's code could not be loaded: reinstall torch, and check that ptxas and the "
            "build are not newer than the driver (DRV002). Where a library's own file is named "
            "(bitsandbytes ops.cu), install a build of it for this GPU and for torch's CUDA.",
        sources=("cuda-minor-compatibility",), owner=Owner.ENVIRONMENT, next_check="DRV002"),
    Cause(id="kernel-not-supported",
        errors=("RuntimeError",),
        messages=("CUDA(?: driver)? error: operation not supported",
            r"Cuda failure (?:\d{1,4} )?'operation not supported'",
            "CUDA_ERROR_NOT_SUPPORTED"),
        examples=("RuntimeError: CUDA error: operation not supported",
            "NCCL WARN Cuda failure 'operation not supported'",
            "cuLaunchKernel: CUDA_ERROR_NOT_SUPPORTED (801)"),
        why="This driver, or the virtual GPU, does not have a function that was called.",
        fix="With a driver before 530, upgrade it: kernels of CUDA 12.1 and newer with large "
            "parameters require 530, or install a build for CUDA 11.8. On a virtual GPU (vGPU, "
            "WSL) enable unified memory in its profile, and unset expandable_segments in "
            "PYTORCH_CUDA_ALLOC_CONF.",
        commands=("nvidia-smi",), sources=("pytorch-135126", "pytorch-161046", "unsloth-1446"),
        owner=Owner.ENVIRONMENT, next_check="DRV002"),
    Cause(id="gpu-not-visible",
        errors=("RuntimeError",),
        messages=("No CUDA GPUs are available",
            "no CUDA-capable device",
            "CUDA_ERROR_NO_DEVICE",
            "CUDA_ERROR_INVALID_DEVICE"),
        examples=("CUDA error: no CUDA-capable device is detected",
            "RuntimeError: No CUDA GPUs are available",
            "cuInit: CUDA_ERROR_NO_DEVICE (100)",
            "cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101)"),
        wordings=(
            Wording("invalid device ordinal",
                "CUDA error: invalid device ordinal",
                "A rank asks for a GPU whose number is beyond those that this process sees.",
                "Start as many processes per node as GPUs are visible (--nproc_per_node, "
                "num_processes), or request more GPUs from the scheduler (--gres=gpu:N, "
                "nvidia.com/gpu) and name them all in CUDA_VISIBLE_DEVICES. A rank takes "
                "LOCAL_RANK as its device, not RANK.",
                ("nvidia-smi -L",
                    "echo $CUDA_VISIBLE_DEVICES $LOCAL_RANK $LOCAL_WORLD_SIZE")),),
        why="The process sees no GPU of this number: CUDA_VISIBLE_DEVICES, the container or the "
            "scheduler hides it.",
        fix="No such GPU is visible to this process: see GPU001 and CUDA_VISIBLE_DEVICES.",
        owner=Owner.ENVIRONMENT, next_check="GPU001", sources=("cuda-environment",)),
    Cause(id="gpu-full-or-in-use",
        errors=("RuntimeError",),
        messages=(r"(?:CUDA|HIP|GPU|XPU|MPS)\b.{0,40}out of memory",
            "STATUS_ALLOC_FAILED",
            "(?:CUBLAS|CUDNN)_STATUS_NOT_INITIALIZED",
            "DEVICE_ALLOCATION_FAILED",
            "busy or unavailable",
            "CUDA_ERROR_DEVICE_UNAVAILABLE"),
        examples=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
            "RuntimeError: CUDA error: out of memory",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
            "`cublasCreate(handle)`",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
            "`cublasCreate(h)`",
            "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
            "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
            "AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
            "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (46)"),
        told_by="nvidia-smi shows memory of other processes, or the job needs little",
        why="The GPU's memory is held by another process or by this one, or the GPU is in "
            "exclusive mode.",
        fix="Free the GPU: another process holds its memory, or holds the GPU in exclusive "
            "compute mode. If it is free, a CUBLAS or CUDNN status follows from an earlier "
            "assertion of a kernel (an index out of range: run with CUDA_LAUNCH_BLOCKING=1, or "
            "on the CPU) or from other CUDA libraries than torch's.",
        commands=WHO_USES_IT, sources=("serve-1993", "pytorch-100691"),
        owner=Owner.ENVIRONMENT, next_check="MEM001"),
    Cause(id="graph-capture-failed",
        errors=("RuntimeError", "AcceleratorError"),
        messages=("(?:previous error during|permitted when stream is) captur",
            "in a capturing stream|outside graph capture"),
        examples=("torch.AcceleratorError: CUDA error: operation failed due to a previous error "
            "during capture",
            "HIP error: operation not permitted on an event last recorded in a capturing stream"),
        why="While a CUDA graph is captured, no operation may wait for the GPU, allocate in "
            "another way or use the default random generator.",
        fix="Switch graphs off to see the first error: enforce_eager=True of the engine, no "
            'mode="reduce-overhead" of torch.compile. Then warm up before the capture, and keep '
            ".item(), prints and random numbers out of it.",
        sources=("cuda-errors",)),
    Cause(id="gpu-at-fault",
        errors=("RuntimeError",),
        messages=("GPU is lost",
            "GPU requires re",
            "fallen off the bus",
            "Unable to determine the device handle",
            "Insufficient External Power",
            "the sum came back as"),
        examples=("nvmlDeviceGetHandleByIndex: GPU is lost (15)",
            "nvmlInit: GPU requires reset (16)",
            "GPU 0000:03:00.0: GPU has fallen off the bus.",
            "Unable to determine the device handle for GPU0000:CA:00.0: Unknown Error",
            "nvmlInit: Insufficient External Power (8)",
            "ValueError: the sum came back as 3.0, not 16777216"),
        wordings=(
            Wording("uncorrectable ECC|ECC_UNCORRECTABLE",
                "AcceleratorError: CUDA error: uncorrectable ECC error encountered",
                *MEMORY_FAULT),
            Wording("uncorrectable NVLink|NVLINK_UNCORRECTABLE",
                "CUDA error: uncorrectable NVLink error detected during the execution",
                "A link between two GPUs, or to their switch, failed: either end or the board "
                "may be at fault.",
                "Rented: return the machine. Your own: reset all GPUs of the machine together, or "
                "reboot, once nothing uses them. If it comes back, read the counters of the links "
                "(nvidia-smi nvlink -e), then replace the board or the bridge. NCCL_P2P_DISABLE=1 "
                "avoids the link until then, slowly.",
                ("nvidia-smi nvlink -s; nvidia-smi nvlink -e",
                    *KERNEL_LOG))),
        why="The GPU, its power or its connection failed.",
        fix="Try the same job on another GPU with the same environment; if it works there, return "
            "this machine and report the GPU's UUID.",
        commands=KERNEL_LOG, sources=("cuda-errors", "nvml-errors", "xid-catalog"),
        owner=Owner.MACHINE, retry="node", next_check="GPU003"),
    Cause(id="display-time-limit",
        errors=("RuntimeError",),
        messages=("launch timed out",
            "CUDA_ERROR_LAUNCH_TIMEOUT"),
        examples=("CUDA error: the launch timed out and was terminated",
            "cuCtxSynchronize: CUDA_ERROR_LAUNCH_TIMEOUT (702)"),
        why="A display driver ends kernels that run for seconds.",
        fix="A display driver ends kernels that run for seconds: use a GPU that drives no "
            "display.",
        sources=("cuda-errors",), owner=Owner.ENVIRONMENT),
    Cause(id="cudnn-attention-failed",
        errors=("RuntimeError",),
        messages=(r"No (?:valid )?execution plans? (?:support|built|found)",
            "mha_graph"),
        examples=("RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No valid execution "
            "plans built.",
            "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution "
            "plans support the graph.",
            "RuntimeError: Expected mha_graph.execute(handle, variant_pack, ptr).is_good() to "
            "be true"),
        why="cuDNN attention does not support this shape, mask or dtype in this version.",
        fix="cuDNN attention failed: call torch.backends.cuda.enable_cudnn_sdp(False) before "
            "training, or upgrade torch; see NUM003.",
        sources=("bts-fix3", "pytorch-190321"), owner=Owner.ENVIRONMENT, next_check="NUM003"),
    Cause(id="cublas-refuses-call",
        errors=("RuntimeError",),
        messages=("CUBLAS_STATUS_INVALID_VALUE",
            "CUBLAS_STATUS_NOT_SUPPORTED",
            "CUBLAS_STATUS_LICENSE"),
        examples=("RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling "
            "`cublasGemmEx( handle`",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`",
            "RuntimeError: CUDA error: CUBLAS_STATUS_LICENSE_ERROR"),
        wordings=(
            Wording(r"CUBLAS_STATUS_(?:NOT_SUPPORTED|INVALID_VALUE)[^\n]{0,200}CUDA_R_16BF",
                "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx( "
                "handle, opa, opb, m, n, k, &falpha, a, CUDA_R_16BF, lda`",
                "A product in bf16 was refused: GPUs before Ampere (compute capability below 8.0) "
                "have none; elsewhere another cuBLAS was loaded than torch's.",
                "nvidia-smi --query-gpu=compute_cap --format=csv: below 8.0 train in fp16 or fp32. "
                "Else remove other copies of cuBLAS from LD_LIBRARY_PATH.", LD_PATHS),
        ),
        why="cuBLAS refuses a call of torch: another cuBLAS was loaded, or this one does not "
            "support the GPU.",
        fix="cuBLAS refuses a call of torch: another cuBLAS was loaded (TOR004), or the one "
            "that torch pins does not support this GPU. Remove other copies from "
            "LD_LIBRARY_PATH, then try another torch release.",
        commands=LD_PATHS, sources=("pytorch-180713",),
        owner=Owner.ENVIRONMENT, next_check="TOR004"),
    Cause(id="library-does-not-fit",
        errors=("OSError", "ImportError"), refines=("file-missing",),
        messages=("Error in dlopen",
            r"cannot open shared object file|[Ll]ibrary \S{3,60}\.(?:dll|so[.\d]{0,8}) is not "
            r"found",
            r"Could not find module '[^'\n]{1,300}\.dll'",
            r"Library (?:cublas|cublasLt|cudart|nvrtc|cuda) is not initialized",
            "undefined symbol"),
        examples=("RuntimeError: Library cublas64_11.dll is not found or cannot be loaded",
            "RuntimeError: Error in dlopen: libnvrtc.so: cannot open shared object file",
            r"FileNotFoundError: Could not find module 'C:\dgl\dgl.dll' (or one of its "
              "dependencies). Try using the full path with constructor syntax.",
            "OSError: libcudart.so.13: cannot open shared object file: No such file or directory",
            "RuntimeError: Library cublasLt is not initialized",
            "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4"),
        unless=r"dlopen\(\"lib|Can't load library lib",  # what nvidia-bug-report.sh tries
        wordings=(
            Wording(r"(?:^|[^\w/.-])lib(?!cu|nv|nccl|torch|c10|caffe|hip|roc|rccl|MIOpen|mkl|python)"
                r"[\w+-]{1,40}\.so[.\d]{0,8}: cannot open shared object file",
                "OSError: libsndfile.so.1: cannot open shared object file: No such file",
                "The loader does not find a library of the operating system, which no package of "
                "torch brings.",
                "Install the system's package that has the file that the message names (apt-file "
                "search FILE, dnf provides '*/FILE'), in a container in its image, or conda's "
                "package of it. If it is installed, add its directory to LD_LIBRARY_PATH.",
                ("ldconfig -p | grep FILE",)),),
        why="A shared library is missing, or was built for another one.",
        fix="Libraries are missing, or were not built for each other: remove other copies of "
            "the CUDA libraries from LD_LIBRARY_PATH and LD_PRELOAD, then reinstall torch "
            "together with the packages that it requires. A number in the name (cublas64_11, "
            "libcudart.so.13) is the CUDA version that the package was built for: install the "
            "build of it for torch's CUDA, or that library (pip install nvidia-cublas-cu12).",
        commands=LD_PATHS, yields_to=("requirement-of-torch-broken", "wheel-for-other-torch"),
        sources=("pytorch-134929",), owner=Owner.ENVIRONMENT, next_check="TOR004"),
    Cause(id="cudnn-libraries-not-found",
        errors=("OSError",), refines=("cudnn-mismatch", "library-does-not-fit"),
        messages=(r"Could not load library libcudnn\w{0,40}\.so"
              r"(?![^\n]{0,200}: (?:undefined )?symbol\b)|Unable to load any of \{libcudnn",
            r"libcudnn\w{0,40}\.so[.\d]{0,8}: cannot open shared object file"),
        examples=("Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9.1, "
            "libcudnn_cnn.so.9}",
            "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: "
            "cannot open",
            "ImportError: libcudnn.so.9: cannot open shared object file: No such file or "
            "directory"),
        why="A library opens the parts of cuDNN by their names, and the loader does not find "
            "them: torch's cuDNN lies in its wheel, where others (ctranslate2, onnxruntime, "
            "TensorFlow) do not look, or they need another major version.",
        fix="Put the wheel's directory on the loader's path: export LD_LIBRARY_PATH=$(python -c "
            "'import nvidia.cudnn as c; print(list(c.__path__)[0])')/lib:$LD_LIBRARY_PATH (it "
            "ends in nvidia/cudnn/lib). For .so.8 install the release of the program that is "
            "built for cuDNN 9, or python -m pip install 'nvidia-cudnn-cu12==8.*' in an "
            "environment of its own. If torch alone fails, reinstall it, and remove other "
            "directories with libcudnn from LD_LIBRARY_PATH.",
        commands=LD_PATHS, sources=("ctranslate2-1826",),
        owner=Owner.ENVIRONMENT, next_check="TOR004"),
)  # fmt: skip
