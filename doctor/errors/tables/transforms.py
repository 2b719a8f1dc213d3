"""What torch.func refuses: vmap, grad and functional_call.

https://docs.pytorch.org/docs/stable/func.ux_limitations.html
"""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="under-vmap",
        errors=("RuntimeError", "ValueError", "AttributeError", "KeyError"),
        wordings=(
            Wording(r"vmap: inplace|mutate a captured Tensor",
                "RuntimeError: vmap: inplace arithmetic(self, *extra_args) is not possible because",
                "The function of torch.func gets one sample, and must not change a tensor from "
                    "outside of it.",
                "Write the operation without an in-place change (x = x + y, torch.cat, "
                    "torch.where), pass the tensor in as an argument and return the new one."),
            Wording(r"vmap over calling \.item\(\)|data-dependent control flow|attempting to use "
                r"an operator .{0,80}dynamic shape|vmap: .{0,80}dynamic",
                "RuntimeError: vmap: It looks like you're attempting to use vmap over calling "
                    ".item() on a Tensor.",
                "Under vmap a tensor stands for all samples, which would go several ways, or have "
                    "several shapes (x[mask], nonzero, unique, masked_select).",
                "Keep the value a tensor: no .item(), float(), int() or tolist() there, and "
                    "torch.where or a factor of a mask in place of x[mask], and of if, while or "
                    "assert on a tensor."),
            Wording(r"called random operation while in randomness error mode",
                "RuntimeError: vmap: called random operation while in randomness error mode. "
                    "Please either use the 'same' or 'different' randomness flags on vmap",
                "dropout, rand, bernoulli and normal_ draw numbers, and vmap does not know whether "
                    "all samples are to get the same.",
                "Pass randomness='different' to torch.func.vmap, or 'same' for equal draws in "
                    "every sample, or draw them outside and pass them in as an argument."),
            Wording(r"got a batch norm .{0,60}running_mean|running_mean or running_var",
                "ValueError: Batch norm got a batched tensor as input while the running_mean or "
                    "running_var, which will be updated in place, were not batched.",
                "Under vmap each call shows a batch norm one sample.",
                "Use GroupNorm or LayerNorm in place of BatchNorm; models that are mapped over "
                    "with their own batch need torch.func.replace_all_batch_norm_modules_(model)."),
            Wording(r"same size in the mapped dimension|in_dim.{0,80}(?:Tensor|map over)",
                "ValueError: vmap: Expected all tensors to have the same size in the mapped "
                    "dimension, got sizes [4, 3] for the mapped dimension",
                "vmap maps over dimension 0 of every argument, unless in_dims says otherwise.",
                "Pass in_dims to torch.func.vmap with the dimension of the samples in each "
                    "argument, None for an argument that every sample shares (parameters, a mask): "
                    "in_dims=(None, 0)."),
            Wording(r"to return a scalar [Tt]ensor|to return a (?:single )?Tensor",
                "RuntimeError: grad_and_value(f)(*args): Expected f(*args) to return a scalar "
                    "tensor, got tensor with 1 dims.",
                "torch.func.grad differentiates one number.",
                "Let the function return one scalar tensor (loss.mean()), or (loss, other) "
                    "together with has_aux=True; for an output of more values use "
                    "torch.func.jacrev or vjp."),
            Wording(r"has no attribute `\w{1,60}`|(?:Missing|Unexpected) key\(s\): ",
                "AttributeError: MLP has no attribute `module`",
                "functional_call takes the tensors of a module by their names in it.",
                "Give functional_call the names of named_parameters() and named_buffers() of that "
                    "very module: without a prefix such as module., and with strict=False for some "
                    "of them.")),
        why="torch.func calls a pure function with tensors that stand for many samples: no changed "
            "state, no numbers of Python, equal sizes in the mapped dimension.",
    ),
)  # fmt: skip
