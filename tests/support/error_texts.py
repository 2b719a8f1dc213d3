"""What CUDA, cuBLAS, cuDNN, NCCL, NVML and the kernel print, by the id of the row.

The messages are those of the libraries' own tables of errors and of public threads.
"""

from __future__ import annotations

TEXTS: dict[str, tuple[str, ...]] = {
    "allocator-options": (
        "ValueError: Unrecognized key 'foo' in CUDA allocator config.",
        "RuntimeError: Unrecognized CachingAllocator option: expandable_segments",
        "RuntimeError: Error, expecting max_split_size_mb value",
        "ValueError: Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'",
    ),
    "no-kernel-image": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: HIP error: invalid device function",
        "NVIDIA B200 with CUDA capability sm_100 is not compatible with the current PyTorch "
        "installation",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling `cublasSgemm`",
    ),
    "cudnn-mismatch": (
        "RuntimeError: cuDNN version incompatibility: PyTorch was compiled  against (9, 8, 0) but "
        "found runtime version (9, 5, 1)",
        "RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
        "Could not load library libcudnn_cnn_train.so.8. Error: undefined symbol: _ZN5cudnn3ops",
    ),
    "cudnn-refuses-gpu": (
        "RuntimeError: cuDNN version 91002 is not compatible with devices with SM < 7.5",
    ),
    "gpu-full-or-in-use": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(h)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (46)",
    ),
    "gpu-at-fault": (
        "AcceleratorError: CUDA error: uncorrectable ECC error encountered",
        "cuCtxSynchronize: CUDA_ERROR_ECC_UNCORRECTABLE (214)",
        "CUDA error: uncorrectable NVLink error detected during the execution",
        "nvmlDeviceGetHandleByIndex: GPU is lost (15)",
        "nvmlInit: GPU requires reset (16)",
        "GPU 0000:03:00.0: GPU has fallen off the bus.",
        "Unable to determine the device handle for GPU0000:CA:00.0: Unknown Error",
        "nvmlInit: Insufficient External Power (8)",
        "ValueError: the sum came back as 3.0, not 16777216",
    ),
    "fabric-not-ready": (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet "
        "initialized",
        "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802), system not yet initialized",
    ),
    "libcuda-compat": (
        "Error 804: forward compatibility was attempted on non supported HW",
        "Error 803: system has unsupported display driver / cuda driver combination",
        "cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)",
        "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
    ),
    "libcuda-stub": (
        "RuntimeError: CUDA driver is a stub library",
        "cuInit: CUDA_ERROR_STUB_LIBRARY (34)",
    ),
    "ptx-newer-than-driver": (
        "CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ),
    "gpu-code-not-loadable": (
        "CUDA error: device kernel image is invalid",
        "RuntimeError: Triton Error [CUDA]: a PTX JIT compilation failed",
    ),
    "driver-too-old": (
        "The NVIDIA driver on your system is too old (found version 12020). Please update",
        "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    ),
    "cuda-unavailable": (
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have one",
    ),
    "kernel-not-supported": (
        "RuntimeError: CUDA error: operation not supported",
        "NCCL WARN Cuda failure 'operation not supported'",
        "cuLaunchKernel: CUDA_ERROR_NOT_SUPPORTED (801)",
    ),
    "rocm-device-denied": (
        "Unable to open /dev/kfd read-write: Permission denied",
        "ROCk module is NOT loaded, possibly no GPU devices",
    ),
    "rocm-no-gpu": (
        "RuntimeError: No HIP GPUs are available",
        "RuntimeError: HIP error: no ROCm-capable device is detected",
    ),
    "hip-architecture": (
        "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
    ),
    "nccl-two-packages": ("ImportError: libtorch_cuda.so: undefined symbol: ncclCommResume",),
    "gpu-not-visible": (
        "CUDA error: no CUDA-capable device is detected",
        "CUDA error: invalid device ordinal",
    ),
    "device-side-assert": ("RuntimeError: CUDA error: device-side assert triggered",),
    "cuda-illegal-access": (
        "AcceleratorError: CUDA error: an illegal memory access was encountered",
        "CUDA error: an illegal instruction was encountered",
        "CUDA error: unspecified launch failure",
        "CUDA error: misaligned address",
        "CUDA error: invalid program counter",
        "CUDA error: hardware stack error",
        "CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
        "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)",
        "cuMemsetD32_v2: CUDA_ERROR_LAUNCH_FAILED (719)",
    ),
    "display-time-limit": ("CUDA error: the launch timed out and was terminated",),
    "cudnn-attention-failed": (
        "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support "
        "the graph.",
        "RuntimeError: Expected mha_graph.execute(handle, variant_pack, ptr).is_good() to be true",
    ),
    "cublas-refuses-call": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx( handle`",
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx`",
    ),
    "cublas": (
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
        "RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate`",
    ),
    "cudnn-error": (
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    ),
    "library-does-not-fit": (
        "OSError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4",
    ),
    "ranks-share-gpu": (
        "NCCL error: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4000",
    ),
    "nccl-versions-differ": ("NCCL WARN Mismatched NCCL version detected : rank 0 version 22603",),
    "disk-full": ("OSError: [Errno 28] No space left on device",),
    "nccl-timeout": (
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLR",
    ),
    "nccl-error": (
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp, unhandled system error",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "ncclInternalError: Internal check failed.",
        "ncclRemoteError: A call failed possibly due to a network error",
    ),
    "driver-library-mismatch": (
        "Failed to initialize NVML: Driver/library version mismatch",
        "nvmlInit: RM has detected an NVML/RM version mismatch.",
    ),
    "driver-library-missing": (
        "nvmlInit: NVML Shared Library Not Found",
        "dlopen: libcuda.so.1: cannot open shared object file: No such file or directory",
    ),
    "gpu-not-started": (
        "NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)",
        "NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0",
    ),
    "wsl-gpu-blocked": ("Failed to initialize NVML: GPU access blocked by the operating system",),
    "cuda-not-initialized": (
        "CUDA driver initialization failed, you might not have a CUDA gpu.",
        "cuInit(0) returned 3: CUDA_ERROR_NOT_INITIALIZED",
    ),
    "kernel-module-not-loaded": ("nvmlInit: Driver Not Loaded",),
    "container-lost-gpus": ("Failed to initialize NVML: Unknown Error",),
    "gpu-no-permission": (
        "nvmlInit: Insufficient Permissions",
        "The operating system has blocked the request.",
    ),
    "killed-sigkill": ("SIGKILL",),
    "shm-bus-error": ("SIGBUS",),
    "segmentation-fault": ("SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE"),
}
