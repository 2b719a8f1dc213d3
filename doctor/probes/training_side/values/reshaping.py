"""Names of functions of torch whose result holds the values of their input."""

RESHAPING = (
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "expand", "expand_as", "t",
    "T", "mT", "transpose", "permute", "movedim", "swapaxes", "view_as", "repeat_interleave",
    "__getitem__", "unbind", "chunk", "split", "contiguous", "clone", "detach", "data",
    "requires_grad_", "to", "type", "type_as", "float", "half", "bfloat16", "double", "cpu", "cuda",
)  # fmt: skip
"""Functions whose result holds values of their input."""
