"""Errors of the user's own code: each has its fix, and no bisection."""

from __future__ import annotations

import pytest

from doctor._util.records import Ended
from doctor.errors.fitted import fitted
from doctor.errors.match import with_message
from doctor.facts.error_texts import is_codes_own

MESSAGES = {
    "RuntimeError: Trying to backward through the graph a second time": "before backward() is",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x16 and 17x5)": "in_features",
    "RuntimeError: Given groups=1, weight of size [4, 3, 3, 3], expected input[4, 16, 16, 3] to "
    "have 3 channels, but got 16 channels instead": "permute",
    "ValueError: Expected input batch_size (32) to match target batch_size (4).": "flatten",
    "AssertionError: Torch not compiled with CUDA enabled": "torch.cuda.is_available()",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate "
    "memory: you tried to allocate 40000000000 bytes": "control group",
    "TypeError: Net.forward() takes 2 positional arguments but 3 were given": "module(*batch)",
    "TypeError: forward() got an unexpected keyword argument 'labels'": "module(**batch)",
    "ImportError: attempted relative import with no known parent package": "__init__.py",
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
    "variable RANK expected, but not set": "WORLD_SIZE=1",
    "RuntimeError: Error(s) in loading state_dict for Sequential: size mismatch for 2.weight: "
    "copying a param with shape torch.Size([5, 16]) from checkpoint": "Build the model as it was",
    "UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed": "add_safe_globals",
    "RuntimeError: One of the differentiated Tensors does not require grad": "requires_grad_()",
    "RuntimeError: element 0 of tensors does not require grad and does not have": "trainable",
    "EOFError: EOF when reading a line": "read from the terminal",
    "EOFError: Ran out of input": "cut off",
    "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [2, 8] but got: "
    "[2, 5].": "transpose",
    "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
    "dimension 1": "squeeze",
    "RuntimeError: view size is not compatible with input tensor's size and stride (at least one "
    "dimension spans across two contiguous subspaces)": "reshape instead of view",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.": "kernel log",
    "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly": "kernel log",
    "PicklingError: Can't pickle <function <lambda>>: attribute lookup failed": "of the module",
    "ImportError: cannot import name 'AdamW' from 'transformers'": "torch.optim.AdamW",
    "ModuleNotFoundError: No module named 'flash_attn'": "sdpa",
    "RuntimeError: value cannot be converted to type at::Half without overflow": "torch.finfo",
    "TypeError: object of type 'NoneType' has no len()": "a function without return",
    "AttributeError: 'tuple' object has no attribute 'shape'": "output[0]",
    "TypeError: linear(): argument 'input' (position 1) must be Tensor, not str": "Pass a tensor",
    "RuntimeError: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
    "[3]": "unsqueeze",
    "RuntimeError: 0D or 1D target tensor expected, multi-target not supported": "argmax(1)",
    "RuntimeError: Expected target size [4, 3], got [4, 10]": "transpose(1, 2)",
    "RuntimeError: Expected hidden[0] size (1, 2, 5), got [1, 7, 5]": "for the batch at hand",
    "RuntimeError: a Tensor with 3 elements cannot be converted to Scalar": "torch.stack",
    "RuntimeError: where expected condition to be a boolean tensor, but got a tensor with dtype "
    "Float": "mask.bool()",
    "NotImplementedError: Cannot copy out of meta tensor; no data! Please use": "to_empty",
    "ValueError: num_samples should be a positive integer value, but got num_samples=0": "path",
    "IndexError: list index out of range": "length of that list",
    "ValueError: expected sequence of length 4 at dim 1 (got 2)": "pad",
    "RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating "
    "point or complex dtype. Got: Long": ".float().mean()",
    "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported.": "~mask",
    "IndexError: tensors used as indices must be long, byte or bool tensors": ".long()",
    "RuntimeError: stack expects a non-empty TensorList": "empty",
    "RuntimeError: torch.cat(): expected a non-empty list of Tensors": "empty",
    "TypeError: empty() received an invalid combination of arguments - got (tuple, dtype=NoneType, "
    "device=NoneType)": "whole numbers",
    "AttributeError: Can't pickle local object 'make.<locals>.<lambda>'": "level of the module",
    "AttributeError: Can't get local object 'make.<locals>.<lambda>'": "level of the module",
    "ValueError: DataLoader with IterableDataset: expected unspecified shuffle option, but got "
    "shuffle=True": "Omit shuffle",
    "RuntimeError: DataLoader timed out after 1 seconds": "__getitem__",
    "RuntimeError: Numpy is not available": "numpy<2",
    "RuntimeError: Inference tensors cannot be saved for backward.": "torch.no_grad()",
    "RuntimeError: function ScaleBackward returned an incorrect number of gradients (expected 2, "
    "got 1)": "as many values as forward",
    "RuntimeError: Output 0 of SplitBackward0 is a view and is being modified inplace. This view "
    "is the output of a function that returns multiple views.": "x = x * y",
    "TypeError: torch.nn.modules.activation.ReLU is not a Module subclass": "nn.ReLU()",
    "ValueError: Tried to step 3 times. The specified number of total steps is 2": "len(loader)",
    "KeyError: param 'initial_lr' is not specified in param_groups[0] when resuming": "last_epoch",
    "TypeError: MLP is not an Optimizer": "StepLR(optimizer",
    "ValueError: Module 'MLP()' has no parameter or buffer with name 'weight'": "nn.Linear",
    "ValueError: self.model.config.decoder_start_token_id has to be defined.": "pad token for T5",
    "ValueError: Make sure to set the decoder_start_token_id attribute of the model's "
    "configuration.": "decoder_start_token_id",
    "ValueError: Cannot handle batch sizes > 1 if no padding token is defined.": "pad_token_id",
    "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following "
    "error: the package flash_attn seems to be not installed.": "sdpa",
    "AttributeError: 'AttributeDict' object has no attribute 'lr'": "save_hyperparameters",
    "InductorError: InvalidCxxCompiler: No working C++ compiler found": "g++",
    "ValueError: The model did not return a loss from the inputs": "DataCollatorForLanguage",
    "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)": "squeeze",
}


def raised(message: str) -> Ended:
    return Ended(how="error", detail=f"forward: {message}")


@pytest.mark.parametrize("message", MESSAGES)
def test_a_real_message_gets_its_fix(message: str) -> None:
    detail = raised(message).detail
    fixes = " ".join(fitted(row, detail).fix for row in with_message(detail))
    assert MESSAGES[message] in fixes
    assert is_codes_own(raised(message))


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ("KeyError: 'input'", True),
        ("RuntimeError: a message that nobody has seen", True),
        ("RuntimeError: linalg.eigh: The algorithm failed to converge", False),
        ("RuntimeError: No available kernel. Aborting execution.", False),
        ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid", False),
        ("OverflowError: math range error: inf", False),
        ("IndexError: Target 7 is out of bounds.", False),
        ("IndexError: index out of range in self", False),
        ("ValueError: batch_norm eps must be positive", True),
        (
            "ValueError: Expected parameter logits to satisfy Real(), but found invalid values",
            False,
        ),
        ("AssertionError: the loss is nan", False),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", False),
        ("NotImplementedError: \"x_cuda\" not implemented for 'Half'", False),
    ],
)
def test_what_numbers_or_kernels_may_cause_is_bisected(message: str, own: bool) -> None:
    assert is_codes_own(raised(message)) is own
    assert not is_codes_own(Ended(how="ok"))
    assert not is_codes_own(Ended(how="signal", detail="SIGSEGV inside forward"))
