"""Sizes that do not fit."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="linear-unflattened",
        errors=("RuntimeError",),
        messages=(r"mat1 and mat2 shapes cannot be multiplied", r"size mismatch, m1: \["),
        examples=(
            "RuntimeError: size mismatch, m1: [96 x 32], m2: [1024 x 10] at "
            "/pytorch/aten/src/TH/generic",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x16 and 17x5)",
        ),
        told_by="in_features is the product of several dimensions of the input",
        why="A Linear works on the last dimension only: feature maps, pixels or steps of a "
        "sample are not joined into one dimension.",
        fix="Flatten all dimensions but the batch before the first Linear: x = x.flatten(1), or "
        "nn.Flatten().",
    ),
    Cause(
        id="linear-in-features",
        errors=("RuntimeError",),
        messages=(r"mat1 and mat2 shapes cannot be multiplied", r"size mismatch, m1: \["),
        examples=(
            "RuntimeError: size mismatch, m1: [96 x 32], m2: [1024 x 10] at "
            "/pytorch/aten/src/TH/generic",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x16 and 17x5)",
        ),
        told_by="another layer, a concatenation or the data gives the input another number of "
        "features",
        why="in_features of a Linear is not the last dimension of its input, or the inner "
        "dimensions of a product differ.",
        fix="Match the inner dimensions of the two matrices (print their shapes before that "
        "line): for a linear layer, in_features is the last dimension of its input, and after a "
        "convolution flatten(1) gives channels * height * width; for the product of two "
        "activations transpose one, as in q @ k.transpose(-2, -1).",
    ),
    Cause(
        id="product-sizes",
        errors=("RuntimeError",),
        messages=(
            r"Expected size for first two dimensions of batch2",
            r"Expected batch2_sizes\[0\]",
            r"batch1 must be a 3D tensor",
        ),
        examples=(
            "RuntimeError: Expected batch2_sizes[0] == bs && batch2_sizes[1] == contraction_size "
            "to be true, but got false.",
            "RuntimeError: batch1 must be a 3D tensor",
            "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [2, 8] "
            "but got: [2, 5].",
        ),
        why="The matrices of a batched product do not fit: their batches, or the inner dimensions.",
        fix="Give both the same batch, and make the last dimension of the first equal to the "
        "second last of the second: for attention scores, q @ k.transpose(-2, -1).",
    ),
    Cause(
        id="view-size",
        errors=("RuntimeError",),
        messages=(r"is invalid for input of size",),
        examples=("RuntimeError: shape '[32, 144]' is invalid for input of size 1440",),
        why="A view or reshape names sizes whose product is not the number of values of the "
        "tensor.",
        fix="Print the shape before that line. To keep the batch, write x.flatten(1) or "
        "x.view(x.size(0), -1), which compute the other size.",
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
        id="sizes-do-not-broadcast",
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"The size of tensor a \(\d+\) must match the size of tensor b",
            r"must match the existing size \(",
            r"(?:doesn't|does not) match the broadcast shape",
            r"Shape mismatch: objects cannot be broadcast",
            r"operands could not be broadcast together",
        ),
        examples=(
            "RuntimeError: output with shape [4, 1] doesn't match the broadcast shape [4, 3]",
            "ValueError: Shape mismatch: objects cannot be broadcast to a single shape",
            "ValueError: operands could not be broadcast together with shapes (4,3) (4,2)",
            "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at "
            "non-singleton dimension 1",
            "RuntimeError: The expanded size of the tensor (20) must match the existing size "
            "(16) at non-singleton dimension 1. Target sizes: [2, 20]. Tensor sizes: [1, 16]",
        ),
        told_by="both are activations, or a mask or table was built for another length",
        why="Two tensors are combined element by element, and sizes that differ are not 1 in "
        "one of them.",
        fix="Print the shapes of both tensors in that line: sizes that differ must be 1 in one "
        "of them. Prediction and target of a regression need equal shapes, as squeeze(-1) makes "
        "them; a residual connection needs a branch that keeps the shape.",
    ),
    Cause(
        id="prediction-and-target",
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"Target size \(torch\.Size",
            r"Using a target size \(",
            r"input and target shapes do not match",
            r"The size of tensor a \(\d+\) must match the size of tensor b",
        ),
        examples=(
            "UserWarning: Using a target size (torch.Size([8])) that is different to the input "
            "size (torch.Size([8, 1])).",
            "RuntimeError: input and target shapes do not match: input [4 x 3], target [4]",
            "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at "
            "non-singleton dimension 1",
        ),
        told_by="the line computes a loss",
        why="A loss that compares values one by one got prediction and target of different shapes.",
        fix="Give prediction and target of a regression or of BCE one shape: "
        "prediction.squeeze(-1) removes the last dimension of 1, target.unsqueeze(-1) adds one. "
        "Class indices are for cross_entropy.",
    ),
    Cause(
        id="batch-sizes-differ",
        errors=("ValueError",),
        messages=(r"Expected input batch_size \(\d+\) to match target batch_size",),
        examples=("ValueError: Expected input batch_size (32) to match target batch_size (4).",),
        told_by="one number is a multiple of the other, or the model adds or removes positions",
        why="Predictions and labels of cross_entropy differ in number: a view that joins "
        "features with the batch, or labels for other positions.",
        fix="Give prediction and target the shape that the loss needs: logits (batch, classes) "
        "with labels (batch,), for tokens logits.flatten(0, 1) with labels.flatten(), for a "
        "regression two equal shapes, as squeeze(-1) makes them.",
    ),
    Cause(
        id="time-first-batch",
        errors=("ValueError", "RuntimeError", "AssertionError"),
        messages=(
            r"Expected input batch_size \(\d+\) to match target batch_size",
            r"key_padded_mask\.shape\[\d\] to be",
            r"start \(\d+\) \+ length \(\d+\) exceeds dimension size",
        ),
        examples=(
            "ValueError: Expected input batch_size (32) to match target batch_size (4).",
            "AssertionError: Expected key_padded_mask.shape[0] to be 7, but got 4",
            "RuntimeError: start (16) + length (4) exceeds dimension size (16).",
        ),
        told_by="one of the two numbers is the length of the sequences",
        why="One tensor has the batch first, [batch, time], and the other the time: "
        "pad_sequence, recurrent layers and attention have time first unless batch_first=True.",
        fix="Pass batch_first=True to pad_sequence, to the recurrent or attention layer, and to "
        "pad_packed_sequence, so that all tensors have the batch first.",
    ),
    Cause(
        id="sizes-to-concatenate",
        errors=("RuntimeError",),
        messages=(r"Sizes of tensors must match except in dimension",),
        examples=(
            "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 25 "
            "but got size 24 for tensor number 1 in the list.",
        ),
        why="torch.cat needs tensors whose sizes agree in every dimension but the one along "
        "which they are joined; odd sizes differ by one after pooling and upsampling.",
        fix="Print the shapes before that line. For a skip connection of an image network, "
        "interpolate to the size of the other (F.interpolate(x, size=skip.shape[-2:])) or use "
        "sizes that are divisible by all strides; dim= names the dimension that may differ.",
    ),
    Cause(
        id="number-of-dimensions",
        errors=("RuntimeError", "IndexError", "ValueError"),
        messages=(
            r"Dimension out of range \(expected to be in range",
            r"too many indices for tensor of dimension",
            r"must have same number of dimensions",
            r"does not match the length of the desired ordering",
            r"number of subscripts in the equation .{0,20}does not match the number of dimensions",
            r"Expected more than 0 dimensions",
            r"the number of sizes provided .{0,20}must be greater or equal to the number of dime"
            r"nsions",
        ),
        examples=(
            "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)",
            "RuntimeError: Tensors must have same number of dimensions: got 3 and 2",
            "RuntimeError: Expected more than 0 dimensions",
            "RuntimeError: expand(torch.FloatTensor{[4, 8]}, size=[8]): the number of sizes "
            "provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
            "IndexError: too many indices for tensor of dimension 2",
            "RuntimeError: permute(sparse_coo): number of dimensions in the tensor input does "
            "not match the length of the desired ordering of dimensions i.e. input.dim() =",
            "RuntimeError: einsum(): the number of subscripts in the equation (2) does not match "
            "the number of dimensions (3) for operand 0 and no ellipsis was given",
        ),
        why="A tensor has another number of dimensions than the line expects, as after "
        "squeeze(), or an index that removes one.",
        fix="Print the shape before that line. unsqueeze(dim) adds a dimension of 1, x[:, None] "
        "too; squeeze() without a number removes every dimension of 1, also that of a batch of "
        "one.",
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
        id="unequal-samples",
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"stack expects each tensor to be equal size",
            r"all input arrays must have the same shape",
            r"each element in list of batch should be of equal size",
        ),
        examples=(
            "ValueError: all input arrays must have the same shape",
            "RuntimeError: each element in list of batch should be of equal size",
            "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 "
            "and [4] at entry 1",
        ),
        why="The samples of a batch have different sizes, so they cannot be stacked.",
        fix="Pad or resize the samples of a batch to one size before they are stacked, in "
        "collate_fn or __getitem__: torch.nn.utils.rnn.pad_sequence for sequences, a transform "
        "(Resize, CenterCrop) for images, a data collator of transformers for texts.",
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
