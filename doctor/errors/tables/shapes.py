"""Sizes that do not fit."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="sizes-of-one-function",
        errors=("RuntimeError", "TypeError", "IndexError"),
        wordings=(
            Wording(r"einsum\(\): (?:operands do not broadcast|subscript \w|fewer operands|more "
                r"operands|the number of subscripts)",
                "RuntimeError: einsum(): operands do not broadcast with remapped shapes "
                    "[original->remapped]: [4, 8]->[4, 8]",
                "An einsum equation gives one letter to dimensions of different sizes, or names "
                    "another number of operands.",
                "Print the shapes before that line and write them below the equation: each letter "
                    "stands for one size in all operands."),
            Wording(r"the batch number of src and tgt must be equal|batch size of .{1,60} must "
                r"(?:be equal|match)",
                "RuntimeError: the batch number of src and tgt must be equal",
                "nn.Transformer reads [length, samples, width] unless it is told that the samples "
                    "come first.",
                "Pass batch_first=True to nn.Transformer where the samples come first; else give "
                    "source and target as many samples."),
            Wording(r"quantile\(\) input tensor is too large",
                "RuntimeError: quantile() input tensor is too large",
                "torch.quantile sorts at most 16 million values.",
                "Take a sample of the values, torch.kthvalue on the flat tensor, or numpy.quantile "
                    "on the CPU."),
            Wording(r"maximum size for tensor at dimension",
                "RuntimeError: maximum size for tensor at dimension 1 is 8 but size is 16",
                "unfold asks for windows that are longer than the dimension.",
                "Choose a window of at most the length of that dimension, or pad it first: "
                    "torch.nn.functional.pad(x, (0, size - x.shape[-1]))."),
            Wording(r"Scatter(?:Add)?Backward0 returned an invalid gradient",
                "RuntimeError: Function ScatterAddBackward0 returned an invalid gradient at index "
                    "1 - got [4, 8] but expected shape compatible with [6, 8]",
                "scatter writes a part of its source with a smaller index; its backward pass needs "
                    "equal shapes.",
                "Give the index of scatter the shape of what it writes: index.expand_as(source), "
                    "and index.unsqueeze(-1).expand(-1, channels) for whole rows. scatter with a "
                    "smaller index writes a part only, and its backward pass needs equal shapes; "
                    "index_add writes whole rows by an index with one dimension."),
            Wording(r"view size is not compatible with input tensor's size and stride",
                "RuntimeError: view size is not compatible with input tensor's size and stride (at "
                    "least one dimension spans across two contiguous subspaces)",
                "The number of values fits, but their order in memory does not, as after transpose "
                    "or permute.",
                "Write reshape instead of view in that line, or call contiguous() before it: the "
                    "number of values fits, their order in memory does not, as after transpose or "
                    "permute."),
            Wording(r"invalid index of a 0-dim tensor",
                "IndexError: invalid index of a 0-dim tensor. Use `tensor.item()` in Python",
                "The tensor is a single number, such as a loss, and an index is taken of it.",
                "Write loss.item() in place of loss[0] or loss.data[0], which is code for torch "
                    "before 0.4. If the tensor should have a dimension, keep it: squeeze() drops "
                    "that of a batch of one, reshape(1) adds one."),
            Wording(r"iteration over a 0-d tensor|zero-dimensional tensor|len\(\) of a 0-d tensor",
                "TypeError: iteration over a 0-d tensor",
                "The tensor is a single number there, as after squeeze() of a batch of one, or a "
                    "reduction.",
                "Keep a dimension: the tensor is a single number there, as after squeeze() or a "
                    "reduction. unsqueeze(0) or reshape(1) adds one.",
                more=("RuntimeError: zero-dimensional tensor (at position 0) cannot be "
                        "concatenated",
                    "TypeError: len() of a 0-d tensor"))),
        why="The sizes do not satisfy the rule of this one function.",
        sources=("torch-tensor-docs", "torch-tensor"),
    ),
)  # fmt: skip
