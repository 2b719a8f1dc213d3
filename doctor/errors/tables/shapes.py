"""Sizes that do not fit."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="product-sizes",
        errors=("RuntimeError",),
        messages=(
            r"Expected size for first two dimensions of batch2",
            r"Expected batch2_sizes\[0\]",
        ),
        examples=(
            "RuntimeError: Expected batch2_sizes[0] == bs && batch2_sizes[1] == contraction_size "
            "to be true, but got false.",
            "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [2, 8] "
            "but got: [2, 5].",
        ),
        why="The matrices of a batched product do not fit: their batches, or the inner dimensions.",
        fix="Give both the same batch, and make the last dimension of the first equal to the "
        "second last of the second: for attention scores, q @ k.transpose(-2, -1).",
    ),
    Cause(
        id="view-strides",
        errors=("RuntimeError",),
        messages=(r"view size is not compatible with input tensor's size and stride",),
        examples=(
            "RuntimeError: view size is not compatible with input tensor's size and stride (at "
            "least one dimension spans across two contiguous subspaces)",
        ),
        why="The number of values fits, but their order in memory does not, as after transpose "
        "or permute.",
        fix="Write reshape instead of view in that line, or call contiguous() before it: the "
        "number of values fits, their order in memory does not, as after transpose or permute.",
    ),
    Cause(
        id="index-dimensions",
        errors=("RuntimeError",),
        messages=(
            r"Index tensor must have the same number of dimensions as",
            r"Size does not match at dimension \d+ expected index",
        ),
        examples=(
            "RuntimeError: Size does not match at dimension 0 expected index [8, 1] to be "
            "smaller than self [4, 10] apart from dimension 1",
            "RuntimeError: Index tensor must have the same number of dimensions as input tensor",
        ),
        why="gather and scatter take an index with as many dimensions as the tensor.",
        fix="Give the index the missing dimension: values.gather(1, "
        "index.unsqueeze(1)).squeeze(1) picks one value for each row.",
    ),
    Cause(
        id="mask-of-index",
        errors=("IndexError", "RuntimeError"),
        messages=(r"The shape of the mask \[", r"cannot be broadcast to indexing result"),
        examples=(
            "RuntimeError: shape mismatch: value tensor of shape [3, 8] cannot be broadcast to "
            "indexing result of shape [5, 8]",
            "IndexError: The shape of the mask [4, 9] at index 1 does not match the shape of the "
            "indexed tensor [4, 8, 31] at index 1",
        ),
        why="A boolean mask selects from a tensor whose leading sizes differ from the mask's.",
        fix="Compute the mask from the tensor that it selects from, or from one with the same "
        "leading sizes; x[mask] compares the dimensions from the left.",
    ),
    Cause(
        id="einsum-sizes",
        errors=("RuntimeError",),
        messages=(
            r"einsum\(\): (?:operands do not broadcast|subscript \w|fewer operands|more operands"
            r"|the number of subscripts)",
        ),
        examples=(
            "RuntimeError: einsum(): operands do not broadcast with remapped shapes "
            "[original->remapped]: [4, 8]->[4, 8]",
            "RuntimeError: einsum(): subscript i has size 8 for operand 1 which does not "
            "broadcast with previously seen size 4",
        ),
        why="An einsum equation gives one letter to dimensions of different sizes, or names "
        "another number of operands.",
        fix="Print the shapes before that line and write them below the equation: each letter "
        "stands for one size in all operands.",
    ),
    Cause(
        id="tensor-without-dimensions",
        errors=("TypeError", "IndexError", "RuntimeError"),
        messages=(
            r"iteration over a 0-d tensor",
            r"zero-dimensional tensor",
            r"len\(\) of a 0-d tensor",
        ),
        examples=(
            "TypeError: iteration over a 0-d tensor",
            "RuntimeError: zero-dimensional tensor (at position 0) cannot be concatenated",
            "TypeError: len() of a 0-d tensor",
        ),
        why="The tensor is a single number there, as after squeeze() of a batch of one, or a "
        "reduction.",
        fix="Keep a dimension: the tensor is a single number there, as after squeeze() or a "
        "reduction. unsqueeze(0) or reshape(1) adds one.",
    ),
    Cause(
        id="window-size",
        errors=("RuntimeError",),
        messages=(r"maximum size for tensor at dimension",),
        examples=("RuntimeError: maximum size for tensor at dimension 1 is 8 but size is 16",),
        why="unfold asks for windows that are longer than the dimension.",
        fix="Choose a window of at most the length of that dimension, or pad it first: "
        "torch.nn.functional.pad(x, (0, size - x.shape[-1])).",
    ),
    Cause(
        id="scatter-index-shape",
        errors=("RuntimeError",),
        messages=(r"Scatter(?:Add)?Backward0 returned an invalid gradient",),
        examples=(
            "RuntimeError: Function ScatterAddBackward0 returned an invalid gradient at index 1 "
            "- got [4, 8] but expected shape compatible with [6, 8]",
        ),
        why="scatter writes a part of its source with a smaller index; its backward pass needs "
        "equal shapes.",
        fix="Give the index of scatter the shape of what it writes: index.expand_as(source), "
        "and index.unsqueeze(-1).expand(-1, channels) for whole rows. scatter with a smaller "
        "index writes a part only, and its backward pass needs equal shapes; index_add writes "
        "whole rows by an index with one dimension.",
    ),
)
