"""Errors of CUDA, cuBLAS, cuDNN and the dynamic linker."""

from __future__ import annotations

from doctor.facts import error_texts
from doctor.judge.check import Owner
from doctor.judge.error_patterns.pattern import KERNEL_LOG, LD_PATHS, WHO_USES_IT, ErrorPattern

NO_GPU_CODE = ErrorPattern(
    error_texts.NO_GPU_CODE,
    "The build has no code for this GPU: see TOR003.",
    sources=("ps-U28",),
    cause="no code for this GPU in the build",
)
MIXED_CUDNN = ErrorPattern(
    error_texts.MIXED_CUDNN,
    "Make torch load only its own cuDNN: remove directories with another libcudnn from "
    "LD_LIBRARY_PATH and LD_PRELOAD. With torch 2.12 and 2.13, whose cuDNN 9.20 wheel lacks "
    "libcudnn_engines_tensor_ir, a system cuDNN that ldconfig lists has the same effect: upgrade "
    "torch, or remove the system's cuDNN.",
    sources=("pytorch-188892",),
    cause="parts of two cuDNN versions",
)
REFUSES_DEVICE = ErrorPattern(
    error_texts.REFUSES_DEVICE,
    "This cuDNN no longer supports one of the visible GPUs: hide that GPU with "
    "CUDA_VISIBLE_DEVICES, or install torch from the cu126 index.",
    cause="cuDNN dropped this GPU",
)
GPU_TAKEN = ErrorPattern(
    error_texts.GPU_TAKEN,
    "Free the GPU: another process holds its memory, or holds the GPU in exclusive compute mode. "
    "On a full GPU cuBLAS and cuDNN report that they could not be initialized.",
    sources=("serve-1993", "pytorch-100691"),
    commands=WHO_USES_IT,
    cause="the GPU is full or in use",
)
BROKEN_GPU = ErrorPattern(
    error_texts.BROKEN_GPU,
    "Known-good code failed on this GPU. Try it on another GPU with the same environment; if it "
    "works there, return this machine and report the GPU's UUID.",
    Owner.MACHINE,
    ("cuda-errors", "nvml-errors", "xid-catalog"),
    KERNEL_LOG,
    cause="the GPU is at fault",
)

ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Options of torch's allocator of GPU memory; releases before 2.9 read only the last two."""
ALLOCATOR_OPTIONS = ErrorPattern(
    error_texts.ALLOCATOR_OPTIONS,
    "Correct or unset PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF and PYTORCH_HIP_ALLOC_CONF: this "
    "torch does not accept an option or a value of the one that is set. Options are written as "
    "name:value, separated by commas; expandable_segments exists since torch 2.1.",
    sources=("torch-cuda-semantics", "pytorch-123505"),
    commands=("env | grep ALLOC_CONF",),
    cause="an option of torch's memory allocator",
)

CUDA = (
    ALLOCATOR_OPTIONS,
    NO_GPU_CODE,
    ErrorPattern(
        ("PTX was compiled with an unsupported toolchain", "UNSUPPORTED_PTX_VERSION"),
        "The driver is older than the toolkit that built this code: install a build for the "
        "driver's CUDA version (DRV002), or upgrade the driver.",
        sources=("cuda-minor-compatibility",),
        cause="PTX that is newer than the driver",
    ),
    ErrorPattern(
        (
            "device kernel image is invalid",
            "PTX JIT compilation failed",
            "CUDA_ERROR_INVALID_IMAGE",
        ),
        "The GPU's code could not be loaded: reinstall torch, and check that ptxas and the build "
        "are not newer than the driver (DRV002).",
        sources=("cuda-minor-compatibility",),
        cause="code that the driver cannot load",
    ),
    ErrorPattern(
        ("driver on your system is too old", "driver version is insufficient"),
        "Install a torch that is built for the driver's CUDA version, or upgrade the driver: see "
        "DRV002.",
        sources=("cuda-minor-compatibility",),
        cause="the driver is too old",
    ),
    ErrorPattern(
        (
            "Found no NVIDIA driver",
            "CUDA driver initialization failed",
            "CUDA_ERROR_NOT_INITIALIZED",
        ),
        "CUDA does not start: see DRV001.",
        cause="CUDA does not start",
    ),
    ErrorPattern(
        (
            "No CUDA GPUs are available",
            "No HIP GPUs are available",
            "no CUDA-capable device",
            "CUDA_ERROR_NO_DEVICE",
            "invalid device ordinal",
            "CUDA_ERROR_INVALID_DEVICE",
        ),
        "No such GPU is visible to this process: see GPU001 and CUDA_VISIBLE_DEVICES.",
        cause="the GPU is not visible",
    ),
    GPU_TAKEN,
    BROKEN_GPU,
    ErrorPattern(
        ("device-side assert",),
        "An index was out of range in a kernel: a token beyond the embedding, or a label outside "
        "the classes. CUDA_LAUNCH_BLOCKING=1 names the call.",
        cause="an index out of range",
    ),
    ErrorPattern(
        (
            "illegal memory access",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            "illegal instruction was encountered",
            "unspecified launch failure",
            "CUDA_ERROR_LAUNCH_FAILED",
            "misaligned address",
            "invalid program counter",
            "peer GPU memory over nvlink",
            "hardware stack error",
        ),
        "A kernel accessed memory that is not its own. Check NUM003 and TOR004 first; if they "
        "pass, try another GPU with the same environment.",
        sources=("pytorch-169849",),
        cause="a kernel accessed invalid memory",
    ),
    ErrorPattern(
        ("launch timed out", "CUDA_ERROR_LAUNCH_TIMEOUT"),
        "A display driver ends kernels that run for seconds: use a GPU that drives no display.",
        cause="a display's time limit",
    ),
)
MATH_LIBRARIES = (
    MIXED_CUDNN,
    REFUSES_DEVICE,
    ErrorPattern(
        ("No execution plans support the graph", "mha_graph"),
        "cuDNN attention failed: call torch.backends.cuda.enable_cudnn_sdp(False) before training, "
        "or upgrade torch; see NUM003.",
        sources=("bts-fix3", "pytorch-190321"),
        cause="cuDNN attention failed",
    ),
    ErrorPattern(
        ("CUBLAS_STATUS_INVALID_VALUE", "CUBLAS_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_LICENSE"),
        "cuBLAS refuses a call of torch: another cuBLAS was loaded (TOR004), or the one that torch "
        "pins does not support this GPU. Remove other copies from LD_LIBRARY_PATH, then try "
        "another torch release.",
        sources=("pytorch-180713",),
        commands=LD_PATHS,
        cause="a cuBLAS that does not fit",
    ),
    ErrorPattern(
        (
            "CUBLAS_STATUS_EXECUTION_FAILED",
            "CUBLAS_STATUS_INTERNAL_ERROR",
            "CUBLAS_STATUS_MAPPING_ERROR",
            "CUDNN_STATUS_EXECUTION_FAILED",
            "CUDNN_STATUS_INTERNAL_ERROR",
            "CUDNN_STATUS_NOT_SUPPORTED",
            "CUDNN_STATUS_BAD_PARAM",
            "CUDNN_STATUS_MAPPING_ERROR",
        ),
        "Such an error often follows another: free the GPU, read the lines before it, check "
        "TOR004, then reinstall torch in a fresh environment.",
        cause="a CUDA library failed",
    ),
    ErrorPattern(
        ("cannot open shared object file", "undefined symbol"),
        "Libraries are missing, or were not built for each other: remove other copies of the CUDA "
        "libraries from LD_LIBRARY_PATH and LD_PRELOAD, then reinstall torch together with the "
        "packages that it requires.",
        sources=("pytorch-134929",),
        commands=LD_PATHS,
        cause="a library is missing or does not fit",
    ),
)
