"""What torch.func refuses: vmap, grad and functional_call.

https://docs.pytorch.org/docs/stable/func.ux_limitations.html
"""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="random-numbers-under-vmap",
        errors=("RuntimeError",),
        messages=(r"called random operation while in randomness error mode",),
        examples=(
            "RuntimeError: vmap: called random operation while in randomness error mode. Please "
            "either use the 'same' or 'different' randomness flags on vmap",
        ),
        why="dropout, rand, bernoulli and normal_ draw numbers, and vmap does not know whether "
        "all samples are to get the same.",
        fix="Pass randomness='different' to torch.func.vmap, or 'same' for equal draws in every "
        "sample, or draw them outside and pass them in as an argument.",
    ),
    Cause(
        id="number-of-a-tensor-under-vmap",
        errors=("RuntimeError",),
        messages=(
            r"vmap over calling \.item\(\)",
            r"data-dependent control flow",
            r"attempting to use an operator .{0,80}dynamic shape",
            r"vmap: .{0,80}dynamic",
        ),
        examples=(
            "RuntimeError: vmap: It looks like you're attempting to use vmap over calling .item() "
            "on a Tensor.",
            "RuntimeError: vmap: It looks like you're attempting to use a Tensor in some "
            "data-dependent control flow.",
            "RuntimeError: vmap: We do not support batching operators that can output dynamic "
            "shape. Attempting to use an operator that has a dynamic shape",
        ),
        why="Under vmap a tensor stands for all samples, which would go several ways, or have "
        "several shapes (x[mask], nonzero, unique, masked_select).",
        fix="Keep the value a tensor: no .item(), float(), int() or tolist() there, and "
        "torch.where or a factor of a mask in place of x[mask], and of if, while or assert on a "
        "tensor.",
    ),
    Cause(
        id="changed-in-place-under-vmap",
        errors=("RuntimeError",),
        messages=(r"vmap: inplace", r"mutate a captured Tensor"),
        examples=(
            "RuntimeError: vmap: inplace arithmetic(self, *extra_args) is not possible because",
            "RuntimeError: During a functorch (grad, vjp, etc) transform, the function provided "
            "attempted to call in-place operation that would mutate a captured Tensor.",
        ),
        why="The function of torch.func gets one sample, and must not change a tensor from "
        "outside of it.",
        fix="Write the operation without an in-place change (x = x + y, torch.cat, torch.where), "
        "pass the tensor in as an argument and return the new one.",
    ),
    Cause(
        id="batch-norm-under-vmap",
        errors=("RuntimeError", "ValueError"),
        messages=(r"got a batch norm .{0,60}running_mean|running_mean or running_var",),
        examples=(
            "ValueError: Batch norm got a batched tensor as input while the running_mean or "
            "running_var, which will be updated in place, were not batched.",
        ),
        why="Under vmap each call shows a batch norm one sample.",
        fix="Use GroupNorm or LayerNorm in place of BatchNorm; models that are mapped over with "
        "their own batch need torch.func.replace_all_batch_norm_modules_(model).",
    ),
    Cause(
        id="dimensions-of-vmap",
        errors=("ValueError",),
        messages=(r"same size in the mapped dimension", r"in_dim.{0,80}(?:Tensor|map over)"),
        examples=(
            "ValueError: vmap: Expected all tensors to have the same size in the mapped "
            "dimension, got sizes [4, 3] for the mapped dimension",
            "ValueError: vmap(f, in_dims=0, ...)(<inputs>): Got in_dim=0 for an input but the "
            "input is of type <class 'dict'>. We cannot map over non-Tensor arguments",
        ),
        why="vmap maps over dimension 0 of every argument, unless in_dims says otherwise.",
        fix="Pass in_dims to torch.func.vmap with the dimension of the samples in each argument, "
        "None for an argument that every sample shares (parameters, a mask): in_dims=(None, 0).",
    ),
    Cause(
        id="several-values-under-grad",
        errors=("RuntimeError",),
        messages=(r"to return a scalar [Tt]ensor", r"to return a (?:single )?Tensor"),
        examples=(
            "RuntimeError: grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, "
            "got tensor with 1 dims.",
            "RuntimeError: grad_and_value(f)(*args): Expected f(*args) to return a tensor, got "
            "type <class 'tuple'>",
        ),
        why="torch.func.grad differentiates one number.",
        fix="Let the function return one scalar tensor (loss.mean()), or (loss, other) together "
        "with has_aux=True; for an output of more values use torch.func.jacrev or vjp.",
    ),
    Cause(
        id="names-of-functional-call",
        errors=("AttributeError", "RuntimeError", "KeyError"),
        messages=(r"has no attribute `\w{1,60}`", r"(?:Missing|Unexpected) key\(s\): "),
        examples=(
            "AttributeError: MLP has no attribute `module`",
            "RuntimeError: Missing key(s): 'first.weight'.",
        ),
        why="functional_call takes the tensors of a module by their names in it.",
        fix="Give functional_call the names of named_parameters() and named_buffers() of that "
        "very module: without a prefix such as module., and with strict=False for some of them.",
    ),
)
