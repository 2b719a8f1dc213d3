"""Texts of errors that end the tests of a GPU: a repetition in another way fails as well.

Read while facts are collected, and by `doctor.judge.error_patterns`, which adds cause and remedy.
"""

from __future__ import annotations

import re

from doctor._util.records import Ended

ALLOCATOR_OPTIONS = (
    "allocator config",
    "ConfigTokenizer",
    "CachingAllocator option",
    "Error parsing CachingAllocator settings",
    "Error, expecting max_split_size_mb",
    "Error, expecting max_non_split_rounding_mb",
    "Error, expecting garbage_collection_threshold",
    "Error, expecting roundup_power2_divisions",
    "Error, expecting backend value",
    "True/False argument for expandable_segments",
    "garbage_collect_threshold",
    "For roundups, the",
    "Unknown allocator backend",
    "Allocator backend parsed at runtime",
)
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
    "out of memory",
    "STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "DEVICE_ALLOCATION_FAILED",
    "busy or unavailable",
    "CUDA-capable devices are busy",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
)
BROKEN_GPU = (
    "uncorrectable ECC",
    "ECC_UNCORRECTABLE",
    "uncorrectable NVLink",
    "NVLINK_UNCORRECTABLE",
    "GPU is lost",
    "GPU requires re",
    "fallen off the bus",
    "Unable to determine the device handle",
    "Insufficient External Power",
    "the sum came back as",
)
"""The last text is the doctor's own message for a wrong sum."""
KILLED = ("SIGKILL",)
NO_SUCH_PRECISION = (
    "does not support bfloat16",
    "has no GradScaler",
    "unsupported autocast device_type",
)
"""This torch does not have the precision on this device: fp32 works, and that shows nothing."""

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


def is_final(ended: Ended) -> bool:
    """Whether other kernels or numbers cannot explain the error; case does not matter."""
    lower = ended.detail.casefold()
    return not ended.ok and any(text.casefold() in lower for text in FINAL)


CODE = {
    "weights only": ("Weights only load failed",),
    "a GPU's file": (
        "Attempting to deserialize object on a CUDA device",
        "Attempting to deserialize object on CUDA device",
    ),
    "no checkpoint": ("invalid load key",),
    "an empty dataset": (
        "num_samples should be a positive integer value, but got num_samples=0",
        "Found no valid file for the classes",
    ),
    "files of workers": (
        "Too many open files",
        "received 0 items of ancdata",
        "unable to open shared memory object",
        "unable to mmap",
    ),
    "a batch of other things": ("default_collate: batch must contain",),
    "storage of a sample": ("Trying to resize storage that is not resizable",),
    "text as a tensor": (
        "too many dimensions 'str'",
        "new(): invalid data type 'str'",
        "can't convert np.ndarray of type numpy.",
    ),
    "dimensions of an input": (
        "Expected 3D (unbatched) or 4D (batched) input",
        "Expected 2D (unbatched) or 3D (batched) input",
        "Expected 4D (unbatched) or 5D (batched) input",
        "expected 2D or 3D input",
        "expected 4D input",
        "expected 3D input",
        "expected 2D input",
        "Expected 2D or 3D",
        "input must have 2 dimensions",
        "For batched 3-D input",
        "For unbatched 2-D input",
        "Expected input to be 2D or 3D",
    ),
    "an image that is too small": (
        "Kernel size can't be greater than actual input size",
        "Output size is too small",
    ),
    "targets with channels": ("only batches of spatial targets supported",),
    "one-hot targets": ("multi-target not supported",),
    "classes in the second place": (
        "Expected target size",
        "size mismatch (got input",
        "input and target batch or spatial sizes don't match",
    ),
    "a state of another batch": (
        "Expected hidden[0] size",
        "Expected hidden size",
        "Expected hidden[1] size",
    ),
    "statistics of a norm": ("running_mean should contain",),
    "one element": (
        "only one element tensors can be converted to Python scalars",
        "cannot be converted to Scalar",
        "only integer tensors of a single element can be converted",
    ),
    "a tuple of outputs": (
        "'tuple' object has no attribute",
        "'list' object has no attribute",
        "must be Tensor, not tuple",
        "must be Tensor, not list",
    ),
    "another type than a tensor": ("must be Tensor, not",),
    "a wrapped model": (
        "'DataParallel' object has no attribute",
        "'DistributedDataParallel' object has no attribute",
        "'OptimizedModule' object has no attribute",
    ),
    "no super().__init__()": ("before Module.__init__() call",),
    "lengths of sequences": (
        "'lengths' argument should be a 1D CPU int64 tensor",
        "must be sorted in decreasing order",
        "Length of all samples has to be greater than 0",
    ),
    "the shape of a mask": (
        "attn_mask is torch.Size",
        "attn_mask must be",
        "Expected attn_mask shape",
        "key_padding_mask",
        "key_padded_mask.shape",
        "correct 3D shape",
        "correct 2D shape",
    ),
    "integers with a gradient": (
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
    "no leaf": ("can't optimize a non-leaf Tensor",),
    "a parameter in two groups": ("some parameters appear in more than one parameter group",),
    "the meta device": ("Cannot copy out of meta tensor",),
    "no labels": ("did not return a loss from the inputs",),
    "no padding token": ("tokenizer does not have a padding token",),
    "texts of other lengths": ("Unable to create tensor, you should probably",),
    "flash in fp32": (
        "FlashAttention only support",
        "Flash Attention only supports",
    ),
    "an RNN in eval mode": ("RNN backward can only be called in training mode",),
    "a generator of another device": (
        "device type for generator but found",
        "Expected a 'cpu' device type for generator",
        "Expected a 'cuda' device type for generator",
    ),
    "a tensor without dimensions": (
        "iteration over a 0-d tensor",
        "zero-dimensional tensor",
    ),
    "an old autograd function": ("Legacy autograd function with non-static forward method",),
    "lengths for CTC": (
        "Expected input_lengths to have value",
        "Expected tensor to have size at least",
        "target_lengths",
    ),
    "a mask of numbers": ("only supports boolean masks", "condition to be a boolean tensor"),
    "groups of channels": ("must be divisible by",),
    "numbers of dimensions": ("must have same number of dimensions",),
    "an optimizer's state": (
        "loaded state dict has a different number of parameter groups",
        "doesn't match the size of optimizer's group",
    ),
    "a checkpointed function": (
        "Recomputed values for the following tensors",
        "different number of tensors was saved during the original forward",
    ),
    "a constant beyond the dtype": ("cannot be converted to type", "without overflow"),
    "strides": ("view size is not compatible",),
    "a killed worker": ("is killed by signal", "exited unexpectedly"),
    "a state dict": ("loading state_dict",),
    "several losses in the graph": ("backward through the graph a second time",),
    "changed in place": (
        "modified by an inplace operation",
        "is being used in an in-place operation",
        "is a view and is being modified inplace",
        "a view of a leaf variable",
    ),
    "two devices": (
        "to be on the same device",
        "at least two devices",
        "is not on the expected device",
        "(torch.cuda.FloatTensor) and weight type (torch.FloatTensor)",
        "(torch.FloatTensor) and weight type (torch.cuda.FloatTensor)",
    ),
    "no CUDA": ("Torch not compiled with CUDA enabled",),
    "channels": ("to have", "channels, but got"),
    "matrix shapes": ("shapes cannot be multiplied", "Expected size for first two dimensions"),
    "batch sizes": (
        "to match target batch_size",
        "Using a target size",
        "Target size (",
        "input and target shapes do not match",
    ),
    "sizes of two tensors": ("size of tensor a (", "must match the existing size ("),
    "shapes": (
        "is invalid for input of size",
        "Sizes of tensors must match",
        "Expected more than 0 dimensions",
        "normalized_shape",
        "size mismatch",
        "Calculated padded input size",
        "does not match the broadcast shape",
        "expected input to have",
        "einsum()",
    ),
    "unequal samples": ("stack expects each tensor to be equal size",),
    "one value per channel": ("Expected more than 1 value per channel",),
    "target dtype": (
        "expected scalar type Long",
        "expected target dtype",
        "nll_loss_forward",
        "cross_entropy_loss(): ",
        "Found dtype Long but expected Float",
        "floating point type for target with class probabilities",
        "result type Float can't be cast to the desired output type Long",
    ),
    "index dtype": ("argument #1 'indices' to have one of the following scalar types",),
    "mixed dtypes": (
        "must have the same dtype",
        "to have the same dtype",
        "should be the same",
        "expected scalar type",
        "Found dtype Double but expected",
        "must have same dtype",
    ),
    "probabilities": ("all elements of input should be between 0 and 1",),
    "unsafe under autocast": ("are unsafe to autocast",),
    "dimensions of an initialization": ("Fan in and fan out can not be computed",),
    "recursion": ("maximum recursion depth exceeded",),
    "an expanded tensor": ("refers to a single memory location",),
    "numpy in half precision": ("unsupported ScalarType BFloat16",),
    "numpy": (
        "Can't call numpy() on Tensor that requires grad",
        "device type tensor to numpy",
    ),
    "no scalar": ("grad can be implicitly created only for scalar outputs",),
    "gradient of a tensor": ("of the differentiated Tensors does not require grad",),
    "no graph": ("does not require grad",),
    "host memory": ("can't allocate memory", "not enough memory", "Cannot allocate memory"),
    "relative import": ("attempted relative import",),
    "a missing name": ("cannot import name",),
    "a missing package": ("No module named",),
    "the network": (
        "couldn't connect to",
        "LocalEntryNotFoundError",
        "offline mode",
        "urlopen error",
        "Max retries exceeded",
        "OfflineModeIsEnabled",
        "is not the path to a directory",
        "not a valid model identifier",
        "Name or service not known",
        "Temporary failure in name resolution",
    ),
    "a process group": (
        "environment variable RANK expected",
        "environment variable MASTER_ADDR expected",
        "environment variable WORLD_SIZE expected",
        "environment variable MASTER_PORT expected",
        "Default process group has not been initialized",
    ),
    "a worker": (
        "DataLoader worker",
        "An attempt has been made to start a new process before",
        "Can't pickle",
        "Cannot re-initialize CUDA in forked subprocess",
    ),
    "sparse gradients": ("does not support sparse gradients",),
    "a lazy module": ("uninitialized parameter", "UninitializedParameter"),
    "a missing file": ("No such file or directory", "FileNotFoundError"),
    "no parameters": ("optimizer got an empty parameter list",),
    "heads": ("divisible by num_heads",),
    "an ambiguous truth": ("Boolean value of Tensor with more than one value is ambiguous",),
    "unused in the graph": ("appears to not have been used in the graph",),
    "no Trainer": ("not attached to a `Trainer`",),
    "input()": ("EOF when reading a line",),
    "data that ends": (
        "EOFError",
        "Ran out of input",
        "PytorchStreamReader failed",
        "unexpected end of file",
        "unexpected EOF",
    ),
    "None": ("'NoneType' object", "object of type 'NoneType'", "<class 'NoneType'>"),
    "a dimension": ("Dimension out of range", "too many indices for tensor"),
    "a Python index": (
        "list index out of range",
        "tuple index out of range",
        "string index out of range",
        "pop from empty list",
    ),
}
"""Errors of the code itself, by their cause: `doctor.checks.training.code_errors` has their fixes.
All of a row's texts must be there if it is in `ALL_TEXTS`, else one of them."""
ALL_TEXTS = ("channels", "a constant beyond the dtype")
CODE_TYPES = (
    "TypeError", "AttributeError", "NameError", "UnboundLocalError", "KeyError", "ImportError",
    "ModuleNotFoundError", "FileNotFoundError", "SyntaxError", "PickleError", "PicklingError",
    "MisconfigurationException", "EOFError", "RecursionError", "StopIteration", "MemoryError",
)  # fmt: skip
"""Exceptions that no kernel and no number raises."""
INDEX = ("index out of range in self", "out of bounds", "Assertion `t >= 0")
_TYPE = re.compile(rf"(?:^|: )(?:[\w.]+\.)?({'|'.join(CODE_TYPES)}):")


_CHECK = re.compile(r"(?:^|: )(?:[\w.]+\.)?(?:ValueError|AssertionError):")
_NUMBERS = re.compile(r"nan|\binf|finite|invalid values", re.IGNORECASE)
"""In a check of the user's own, or of torch.distributions, that numbers made fail."""


def code_error(detail: str) -> str | None:
    """The cause of an error of the code itself, a key of `CODE`; None if it is not known."""
    lower = detail.casefold()
    for cause, texts in CODE.items():
        matching = all if cause in ALL_TEXTS else any
        if matching(text.casefold() in lower for text in texts):
            return cause
    return None


def is_codes_own(ended: Ended) -> bool:
    """Whether an error comes from the code, so that no change of kernels or numbers avoids it."""
    if ended.ok or ended.how != "error":
        return False
    if _CHECK.search(ended.detail) and not _NUMBERS.search(ended.detail):
        return True
    return bool(_TYPE.search(ended.detail)) or code_error(ended.detail) is not None


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
