"""Texts of errors of the user's own code, by their cause, which no change of numbers avoids.

Read while facts are collected; `doctor.checks.training.errors.fixes` has the remedies.
"""

from __future__ import annotations

import re

from doctor._util.records import Ended

CODE = {
    "the size of images": ("doesn't match model (",),
    "a number of another type": ("object cannot be interpreted as an integer",),
    "mps": ("not linked with support for mps", "MPS backend is supported on"),
    "the name of a device": ("device type at start of device string", "Invalid device string"),
    "weights of classes": ("weight tensor should be defined either for all",),
    "a slice of floats": ("slice indices must be integers",),
    "one-hot of floats": ("one_hot is only applicable to index tensor",),
    "a kernel for integers": (
        "not implemented for 'Long'",
        "not implemented for 'Int'",
        "not implemented for 'Bool'",
        "not implemented for 'Byte'",
    ),
    "a mode of a schedule": ("mode ", "is unknown!"),
    "a variable of a branch": (
        "cannot access local variable",
        "cannot access free variable",
        "referenced before assignment",
    ),
    "a view of several": ("is the output of a function that returns multiple views",),
    "no compiler": (
        "No working C++ compiler",
        "Failed to find C compiler",
        "Failed to find a C compiler",
        "CppCompileError",
        "InvalidCxxCompiler",
    ),
    "lists of other lengths": ("expected sequence of length",),
    "a mean of integers": ("could not infer output dtype",),
    "arithmetic with a mask": (
        "with a bool tensor is not supported",
        "on a bool tensor is not supported",
    ),
    "an index of floats": ("tensors used as indices must be",),
    "features of a recurrent layer": (
        "must be equal to input_size",
        "inconsistent input_size",
    ),
    "an empty list": (
        "non-empty list of Tensors",
        "non-empty TensorList",
    ),
    "an empty selection": (
        "with no elements",
        "input.numel() == 0",
    ),
    "a size that is called": ("'torch.Size' object is not callable",),
    "sizes of a layer": (
        "must be tuple of ints",
        "received an invalid combination of arguments - got (tuple",
        "failed to unpack the object at pos",
    ),
    "a local function in a worker": (
        "Can't pickle local object",
        "Can't get local object",
    ),
    "the shuffle of a stream": ("expected unspecified shuffle option",),
    "a sampler and shuffle": ("mutually exclusive with shuffle",),
    "tensors of a dataset": ("Size mismatch between tensors",),
    "a split": ("Sum of input lengths does not equal",),
    "a slow loader": ("DataLoader timed out",),
    "prefetching": ("prefetch_factor option could only be specified",),
    "no training data": ("training requires a train_dataset",),
    "numpy of another version": ("Numpy is not available",),
    "no GPU for the precision": (
        "mixed precision requires a GPU",
        "doesn't support bf16/gpu",
        "requires Ampere+ GPU",
    ),
    "no accelerate": ("requires `accelerate",),
    "inference mode": ("Inference tensors cannot be",),
    "gradients of a function": ("returned an incorrect number of gradients",),
    "the shape of an index": (
        "ScatterBackward0 returned an invalid gradient",
        "ScatterAddBackward0 returned an invalid gradient",
    ),
    "the shape of a gradient": ("returned an invalid gradient at index",),
    "a hook": ("has changed the size of value",),
    "a copy of a graph": ("support the deepcopy protocol",),
    "not a parameter": ("(torch.nn.Parameter or None expected)",),
    "no forward": ('is missing the required "forward" function',),
    "not a module": ("is not a Module subclass",),
    "parameters of an optimizer": ("params argument given to the optimizer",),
    "a learning rate": ("Invalid learning rate",),
    "implementations of an optimizer": ("`fused` and `foreach` cannot be",),
    "a tensor as learning rate": ("lr as a Tensor is not supported",),
    "an optimizer of sparse gradients": ("SparseAdam does not support dense gradients",),
    "the end of a schedule": ("The specified number of total steps is",),
    "a schedule without steps": (
        "Expected positive integer total_steps",
        "Expected positive integer steps_per_epoch",
        "Expected positive integer epochs",
    ),
    "a resumed schedule": ("'initial_lr' is not specified",),
    "a schedule of something else": ("is not an Optimizer",),
    "factors of a schedule": ("lr_lambdas, but got",),
    "momentum of a schedule": ("`cycle_momentum` option enabled",),
    "a model as weights": ("Expected state_dict to be dict-like",),
    "a probability of dropout": ("dropout probability has to be",),
    "same padding": ("padding='same' is not supported for strided",),
    "the row of padding": ("Padding_idx must be within",),
    "a weight to parametrize": ("has no parameter or buffer with name",),
    "no padding token in the config": ("if no padding token is defined",),
    "the first token of a decoder": (
        "decoder_start_token_id has to be defined",
        "set the decoder_start_token_id",
    ),
    "ids and embeddings": (
        "exactly one of input_ids or inputs_embeds",
        "both input_ids and inputs_embeds",
    ),
    "modules of adapters": ("not found in the base model",),
    "flash attention is missing": ("has been toggled on, but it cannot be used",),
    "hyperparameters": (
        "'AttributeDict' object has no attribute",
        'Missing attribute "',
    ),
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
    "a mask of integers": ("only bool and floating types of",),
    "the size of an interpolation": ("only one of size or scale_factor should be defined",),
    "dimensions of an interpolation": ("Input Error: Only 3D, 4D and 5D input Tensors supported",),
    "a divergence": ("No KL(p || q) is implemented for",),
    "windows": ("maximum size for tensor at dimension",),
    "values for a mask": ("cannot be broadcast to indexing result",),
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
        "only Tensors of floating point dtype can require gradients",
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
    "one spatial element": ("Expected more than 1 spatial element",),
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
    "None": (
        "and 'NoneType'",
        "'NoneType' and",
        "'NoneType' object",
        "object of type 'NoneType'",
        "<class 'NoneType'>",
    ),
    "a dimension": ("Dimension out of range", "too many indices for tensor"),
    "a Python index": (
        "is out of range",
        "list index out of range",
        "tuple index out of range",
        "string index out of range",
        "pop from empty list",
    ),
}
"""Errors of the code itself, by their cause: `doctor.checks.training.errors.fixes` has their fixes.
All of a row's texts must be there if it is in `ALL_TEXTS`, else one of them."""
ALL_TEXTS = ("channels", "a mode of a schedule", "a constant beyond the dtype")
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
    r"cuda|cudnn|cublas|cusolver|cufft|\bhip|miopen|rocblas|\bmps|triton|inductor|nccl|onednn|mkldnn"
    r"|primitive|\bengine|\bkernel|is_sm|nvrtc|illegal|not implemented for|_amp_foreach",
    re.IGNORECASE,
)
"""Errors of libraries and kernels, which another kernel or precision may avoid."""


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
    if _TYPE.search(ended.detail) or code_error(ended.detail) is not None:
        return True
    return not (_NUMBERS.search(ended.detail) or _KERNELS.search(ended.detail))
