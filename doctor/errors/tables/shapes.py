"""Sizes that do not fit."""

from __future__ import annotations

from doctor.errors.cause import Cause

PRODUCT = (
    r"mat1 and mat2 shapes cannot be multiplied",
    r"size mismatch, m1: \[",
)
PRODUCT_EXAMPLES = (
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (96x32 and 1024x10)",
    "RuntimeError: size mismatch, m1: [96 x 32], m2: [1024 x 10] at /pytorch/aten/src/TH/generic",
)

ROWS = (
    Cause(
        id="linear-unflattened",
        errors=("RuntimeError",),
        messages=PRODUCT,
        examples=PRODUCT_EXAMPLES,
        why="A Linear works on the last dimension; feature maps or pixels are first joined into "
        "one.",
        fix="Flatten all dimensions but the batch before the first Linear: x = x.flatten(1), or "
        "nn.Flatten().",
        told_by="in_features is the product of several dimensions of the input",
    ),
    Cause(
        id="linear-in-features",
        errors=("RuntimeError",),
        messages=PRODUCT,
        examples=PRODUCT_EXAMPLES,
        why="in_features of a Linear is the last dimension of its input.",
        fix="In (AxB and CxD), B is the number of features that the layer gets and C the number "
        "that it takes: make them equal, by in_features or by what comes before.",
        told_by="the layer before has another number of outputs",
    ),
)
