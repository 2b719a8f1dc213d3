"""Texts of errors that end the tests of a GPU: a repetition in another way fails as well.

Read while facts are collected, and by `doctor.judge.known_errors`, which adds cause and remedy.
"""

from __future__ import annotations

import re

from doctor._util.records import Ended

ALLOCATOR_OPTIONS = (
    "allocator config", "ConfigTokenizer", "CachingAllocator option",
    "Error parsing CachingAllocator settings", "Error, expecting max_split_size_mb",
    "Error, expecting max_non_split_rounding_mb", "Error, expecting garbage_collection_threshold",
    "Error, expecting roundup_power2_divisions", "Error, expecting backend value",
    "True/False argument for expandable_segments", "garbage_collect_threshold", "For roundups, the",
    "Unknown allocator backend", "Allocator backend parsed at runtime",
)  # fmt: skip
"""What torch 2.1 to 2.15 raise about the value of PYTORCH_CUDA_ALLOC_CONF, when CUDA starts."""
NO_GPU_CODE = (
    "no kernel image is available",
    "invalid device function",
    "is not compatible with the current PyTorch installation",
    "STATUS_ARCH_MISMATCH",
)
MIXED_CUDNN = (
    "cuDNN version incompatibility",
    "cuDNN version mismatch",
    "VERSION_MISMATCH",
    "Could not load library libcudnn",
)
REFUSES_DEVICE = ("is not compatible with devices",)
GPU_TAKEN = (
    "out of memory", "STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_NOT_INITIALIZED", "DEVICE_ALLOCATION_FAILED", "busy or unavailable",
    "CUDA-capable devices are busy", "CUDA_ERROR_DEVICE_UNAVAILABLE",
)  # fmt: skip
BROKEN_GPU = (
    "uncorrectable ECC", "ECC_UNCORRECTABLE", "uncorrectable NVLink", "NVLINK_UNCORRECTABLE",
    "GPU is lost", "GPU requires re", "fallen off the bus", "Unable to determine the device handle",
    "Insufficient External Power", "the sum came back as",
)  # fmt: skip
"""The last text is the doctor's own message for a wrong sum."""
KILLED = ("SIGKILL",)
NO_SUCH_PRECISION = (
    "does not support bfloat16",
    "has no GradScaler",
    "unsupported autocast device_type",
)
"""This torch does not have the precision on this device: fp32 works, and that shows nothing."""

NO_CPU_KERNEL = "could not create a primitive"
"""Of oneDNN, whose layers have bf16 kernels on some CPUs only: an LSTM has none with AVX2."""

FINAL = (
    *(
        *ALLOCATOR_OPTIONS,
        *NO_GPU_CODE,
        *GPU_TAKEN,
        *MIXED_CUDNN,
        *REFUSES_DEVICE,
        *BROKEN_GPU,
        *KILLED,
    ),
    *NO_SUCH_PRECISION,
)


LIBRARY_FILE = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^<")
"""Names of files of Python or an installed package, as a traceback has them."""


def is_final(ended: Ended) -> bool:
    """Whether other kernels or numbers cannot explain the error; case does not matter."""
    lower = ended.detail.casefold()
    return not ended.ok and any(text.casefold() in lower for text in FINAL)


INDEX = ("index out of range in self", "out of bounds", "Assertion `t >= 0", "Class values must be")


def is_index(ended: Ended) -> bool:
    """Whether an index exceeds its table, which the values of the batch show."""
    return not ended.ok and names_index(ended.detail)


def names_index(detail: str) -> bool:
    """Whether an error names an index that exceeds its table."""
    lower = detail.casefold()
    return any(text.casefold() in lower for text in INDEX)


ASYNCHRONOUS = (
    "device-side assert",
    "illegal memory access",
    "illegal instruction was encountered",
    "unspecified launch failure",
    "misaligned address",
    "invalid program counter",
    "hardware stack error",
)
"""Errors of a kernel, in small letters, that a later call raises: its line may be another one."""


def is_of_kernel(ended: Ended) -> bool:
    """Whether a kernel failed before the call that raised."""
    lower = ended.detail.casefold()
    return not ended.ok and any(text in lower for text in ASYNCHRONOUS)


CODE_TYPES = (
    "TypeError", "AttributeError", "NameError", "UnboundLocalError", "KeyError", "ImportError",
    "ModuleNotFoundError", "FileNotFoundError", "SyntaxError", "PickleError", "PicklingError",
    "MisconfigurationException", "EOFError", "RecursionError", "StopIteration", "MemoryError",
)  # fmt: skip
"""Exceptions that no kernel and no number raises."""
_TYPE = re.compile(rf"(?:^|: )(?:[\w.]+\.)?({'|'.join(CODE_TYPES)}):")
_NUMBERS = re.compile(
    r"\bnan\b|\binf\b|finite|invalid values|singular|positive-definite|converge|ill-conditioned"
    r"|overflow|out of bounds|index out of range in self|Class values must be"
)
"""Errors that numbers may cause: also in a check of the user's own or of torch.distributions."""
_KERNELS = re.compile(
    r"cuda|cudnn|cublas|cusolver|cufft|\bhip|miopen|rocblas|\bmps|triton|inductor|nccl|onednn|"
    r"mkldnn|primitive|\bengine|\bkernel|is_sm|nvrtc|illegal|not implemented for|_amp_foreach",
    re.IGNORECASE,
)
"""Errors of libraries and kernels, which another kernel or precision may avoid."""
_IN_SPITE = re.compile(
    r"not linked with support for mps|MPS backend is supported on|C\+\+ compiler|C compiler"
    r"|not implemented for '(?:Long|Int|Bool|Byte)'|Attempting to deserialize object on"
    r"|Kernel size can't be greater|device type for generator|without overflow|CppCompileError"
    r"|FloatTensor\) and weight type|Torch not compiled with CUDA|re-initialize CUDA in forked",
    re.IGNORECASE,
)
"""Errors of the code that contain such words."""


def is_codes_own(ended: Ended) -> bool:
    """Whether an error comes from the code, so that no change of kernels or numbers avoids it."""
    if ended.ok or ended.how != "error":
        return False
    if _TYPE.search(ended.detail) or _IN_SPITE.search(ended.detail):
        return True
    return not (_NUMBERS.search(ended.detail) or _KERNELS.search(ended.detail))
