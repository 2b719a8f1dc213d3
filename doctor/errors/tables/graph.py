"""Gradients: the graph, values changed in place, functions of one's own."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="view-of-several",
        errors=("RuntimeError",),
        messages=(
            r"is a view and is being modified inplace",
            r"is the output of a function that returns multiple views",
        ),
        examples=(
            "RuntimeError: Output 0 of SplitBackward0 is a view and is being modified inplace. "
            "This view is the output of a function that returns multiple views.",
        ),
        why="Results of chunk, split, unbind and of iterating over a tensor share memory and "
        "cannot be changed in place.",
        fix="Write that line with a new tensor, x = x * y for x *= y: results of chunk, split, "
        "unbind and of iterating over a tensor cannot be changed in place.",
    ),
    Cause(
        id="gradient-of-tensor",
        errors=("RuntimeError",),
        messages=(r"of the differentiated Tensors does not require grad",),
        examples=("RuntimeError: One of the differentiated Tensors does not require grad",),
        why="torch.autograd.grad differentiates with respect to a tensor that records no gradient.",
        fix="Call requires_grad_() on the tensor that torch.autograd.grad or backward(inputs=...) "
        "differentiates with respect to, before it is used: a batch does not require a gradient "
        "by itself.",
    ),
    Cause(
        id="unused-in-graph",
        errors=("RuntimeError",),
        messages=(r"appears to not have been used in the graph",),
        examples=(
            "RuntimeError: One of the differentiated Tensors appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior.",
        ),
        why="torch.autograd.grad got an input that the output does not depend on.",
        fix="Pass allow_unused=True to torch.autograd.grad, or take the gradient of inputs that "
        "the output depends on.",
    ),
    Cause(
        id="no-derivative",
        errors=("RuntimeError", "NotImplementedError"),
        messages=(
            r"derivative for \S{1,60} is not implemented",
            r"trying to differentiate twice a function that was marked with @once_differentiable",
        ),
        examples=(
            "RuntimeError: trying to differentiate twice a function that was marked with "
            "@once_differentiable",
            "RuntimeError: derivative for aten::floor_divide is not implemented",
        ),
        why="torch has no derivative of this operation: floor division, rounding of indices, "
        "comparisons and some kernels.",
        fix="Use an operation with a derivative in the path to the loss (x / y for x // y, "
        "softmax for argmax), or detach() its input where no gradient is meant to flow.",
    ),
    Cause(
        id="inference-mode",
        errors=("RuntimeError",),
        messages=(r"Inference tensors cannot be", r"Inplace update to inference tensor"),
        examples=(
            "RuntimeError: Inplace update to inference tensor outside InferenceMode is not "
            "allowed.",
            "RuntimeError: Inference tensors cannot be saved for backward.",
        ),
        why="Values of inference mode cannot be used in a computation that is differentiated.",
        fix="Use torch.no_grad() instead of torch.inference_mode() around what is not trained: "
        "values of inference mode cannot be used in a computation that is differentiated.",
    ),
    Cause(
        id="hook-changes-size",
        errors=("RuntimeError",),
        messages=(r"has changed the size of value",),
        examples=("RuntimeError: hook '<lambda>' has changed the size of value",),
        why="A hook returned a gradient of another shape.",
        fix="Return a gradient of the same shape from the hook, or None to leave it as it is.",
    ),
    Cause(
        id="copy-of-graph",
        errors=("RuntimeError",),
        messages=(r"support the deepcopy protocol",),
        examples=(
            "RuntimeError: Only Tensors created explicitly by the user (graph leaves) support the "
            "deepcopy protocol at the moment. If you were attempting to deepcopy a",
        ),
        why="copy.deepcopy got a tensor that was computed: the model keeps a result of a forward "
        "pass.",
        fix="Detach what the model keeps of a forward pass, or copy it before its first forward "
        "pass.",
    ),
    Cause(
        id="legacy-function",
        errors=("RuntimeError",),
        messages=(r"Legacy autograd function with non-static forward method",),
        examples=(
            "RuntimeError: Legacy autograd function with non-static forward method is deprecated.",
        ),
        why="The autograd function has the form of old releases.",
        fix="Make forward and backward static methods (@staticmethod) with ctx as their first "
        "argument, and call Function.apply.",
    ),
    Cause(
        id="checkpointed-function",
        errors=("CheckpointError", "RuntimeError"),
        messages=(
            r"Recomputed values for the following tensors",
            r"different number of tensors was saved during the original forward",
        ),
        examples=(
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number "
            "of tensors was saved during the original forward and recomputation.",
            "CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors "
            "have different metadata than during the forward pass. tensor at position",
        ),
        why="A checkpointed function computes something else when it runs again in the backward "
        "pass.",
        fix="Let the checkpointed function compute the same both times: it runs again in the "
        "backward pass, so it must not append to a list or cache, count calls, or depend on "
        "random numbers outside of torch, and autocast must be the same.",
    ),
    Cause(
        id="integers-with-gradient",
        errors=("RuntimeError",),
        messages=(r"Only Tensors of floating point (?:and complex )?dtype can require gradients",),
        examples=(
            "RuntimeError: Only Tensors of floating point and complex dtype can require gradients",
        ),
        why="Gradients exist for floats only.",
        fix="Make parameters from floats: torch.tensor([1.0, 2.0]), or .float().",
    ),
    Cause(
        id="expanded-tensor",
        errors=("RuntimeError",),
        messages=(r"refers to a single memory location",),
        examples=(
            "RuntimeError: unsupported operation: more than one element of the written-to tensor "
            "refers to a single memory location. Please clone() the tensor before performing the "
            "operation.",
        ),
        why="expand and broadcast_to make views in which many elements share one place in memory; "
        "writing to them is ambiguous.",
        fix="Call clone() on the tensor before it is written to: expand and broadcast_to make "
        "views in which many elements share one place in memory.",
    ),
    Cause(
        id="rnn-in-eval",
        errors=("RuntimeError",),
        messages=(r"RNN backward can only be called in training mode",),
        examples=("RuntimeError: cudnn RNN backward can only be called in training mode",),
        why="cuDNN keeps no state for the backward pass in eval mode.",
        fix="Call model.train() before the forward pass: cuDNN keeps no state for the backward "
        "pass in eval mode.",
    ),
)
