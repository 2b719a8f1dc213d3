"""Losses, labels, distributions and reductions."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="classes-second",
        errors=("RuntimeError", "ValueError"),
        messages=(
            r"Expected target size \[?",
            r"size mismatch \(got input",
            r"input and target batch or spatial sizes don't match",
        ),
        examples=(
            "RuntimeError: input and target batch or spatial sizes don't match: target [2, 7, "
            "5], input [2, 6, 5, 7]",
            "RuntimeError: Expected target size [4, 3], got [4, 10]",
            "RuntimeError: size mismatch (got input: [2, 6, 7, 5] , target: [2, 6, 7]",
        ),
        why="cross_entropy takes the classes in the second dimension, [batch, classes, positions].",
        fix="Put the classes into the second dimension for cross_entropy: logits.transpose(1, "
        "2), or flatten both, logits.flatten(0, 1) with labels.flatten().",
    ),
    Cause(
        id="one-hot-targets",
        errors=("RuntimeError",),
        messages=(r"multi-target not supported",),
        examples=("RuntimeError: 0D or 1D target tensor expected, multi-target not supported",),
        why="cross_entropy got labels with a second dimension of integers: one-hot labels, or a "
        "column.",
        fix="Pass class indices of shape (batch,): targets.squeeze(1) for a column, "
        "targets.argmax(1) for one-hot labels.",
    ),
    Cause(
        id="targets-with-channels",
        errors=("RuntimeError",),
        messages=(r"only batches of spatial targets supported",),
        examples=(
            "RuntimeError: only batches of spatial targets supported (3D tensors) but got "
            "targets of dimension: 4",
        ),
        why="The labels of a segmentation have a dimension of channels.",
        fix="Pass the labels of a segmentation as class indices of shape (batch, height, "
        "width): squeeze(1) removes a dimension of one channel, argmax(1) turns one-hot masks "
        "into indices.",
    ),
    Cause(
        id="class-weights",
        errors=("RuntimeError",),
        messages=(r"weight tensor should be defined either for all",),
        examples=(
            "RuntimeError: weight tensor should be defined either for all 5 classes or no "
            "classes but got weight tensor of shape: [3]",
        ),
        why="weight= of the loss has another length than there are classes.",
        fix="Give weight= one value for each class, in the order of the classes: as many as the "
        "last layer has outputs.",
    ),
    Cause(
        id="not-probabilities",
        errors=("RuntimeError",),
        messages=(r"all elements of input should be between 0 and 1",),
        examples=("RuntimeError: all elements of input should be between 0 and 1",),
        why="binary_cross_entropy takes probabilities, and got raw outputs or NaN.",
        fix="Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) on the raw outputs: "
        "binary_cross_entropy needs probabilities between 0 and 1.",
    ),
    Cause(
        id="bce-under-autocast",
        errors=("RuntimeError",),
        messages=(r"are unsafe to autocast",),
        examples=(
            "RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are "
            "unsafe to autocast.",
        ),
        why="binary_cross_entropy of probabilities is not allowed in half precision.",
        fix="Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) and omit the sigmoid: "
        "binary_cross_entropy is not allowed under autocast.",
    ),
    Cause(
        id="distribution-parameters",
        errors=("ValueError",),
        messages=(r"to satisfy the constraint", r"to satisfy Real\(\)"),
        examples=(
            "ValueError: Expected parameter logits (Tensor of shape (4, 3)) of distribution "
            "Categorical(logits: torch.Size([4, 3])) to satisfy the constraint "
            "IndependentConstraint(Real(), 1)",
            "ValueError: Expected parameter logits to satisfy Real(), but found invalid values",
        ),
        why="A distribution got a parameter outside its range, such as a negative scale, or one "
        "with NaN.",
        fix="Pass valid parameters: softplus(x) + 1e-6 or exp for a scale, logits= instead of "
        "probs= for raw outputs. If the message shows nan, look for its first place: an input, a "
        "weight or a division before this line.",
    ),
    Cause(
        id="no-divergence",
        errors=("NotImplementedError",),
        messages=(r"No KL\(p \|\| q\) is implemented for",),
        examples=(
            "NotImplementedError: No KL(p || q) is implemented for p type Normal and q type "
            "Categorical",
        ),
        why="There is no formula for the divergence of these two distributions.",
        fix="Compare distributions of one kind, or estimate the divergence from samples: x = "
        "p.rsample(); (p.log_prob(x) - q.log_prob(x)).mean().",
    ),
    Cause(
        id="loss-not-scalar",
        errors=("RuntimeError", "ValueError"),
        messages=(r"grad can be implicitly created only for scalar outputs",),
        examples=("RuntimeError: grad can be implicitly created only for scalar outputs",),
        why="backward() needs one number, and the loss has several.",
        fix="Reduce the loss to a scalar: loss.mean() or reduction='mean'.",
    ),
    Cause(
        id="empty-list",
        errors=("RuntimeError", "ValueError", "TypeError"),
        messages=(r"non-empty list of Tensors", r"non-empty TensorList"),
        examples=(
            "RuntimeError: torch.cat(): expected a non-empty list of Tensors",
            "RuntimeError: stack expects a non-empty TensorList",
        ),
        why="torch.stack or torch.cat got an empty list, as after a loop or a filter that took "
        "nothing.",
        fix="Check the list before torch.stack or torch.cat: it is empty, as after a loop or a "
        "filter that took nothing.",
    ),
    Cause(
        id="empty-selection",
        errors=("RuntimeError", "IndexError"),
        messages=(r"with no elements", r"input\.numel\(\) == 0"),
        examples=(
            "RuntimeError: min(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument.",
            "IndexError: argmax(): Expected reduction dim 0 to have non-zero size for a tensor "
            "with no elements",
        ),
        why="A reduction got a tensor without elements, as after a mask that is False throughout.",
        fix="Check the tensor before the reduction: it has no elements, as after a mask that is "
        "False throughout.",
    ),
    Cause(
        id="matrix-not-positive",
        errors=("_LinAlgError", "RuntimeError"),
        messages=(
            r"not positive-definite",
            r"matrix is singular",
            r"is zero, the inversion",
            r"ill-conditioned",
        ),
        examples=(
            "torch._C._LinAlgError: linalg.inv: The diagonal element 3 is zero, the inversion "
            "could not be completed because the input matrix is singular.",
            "torch._C._LinAlgError: linalg.svd: (Batch element 0): The algorithm failed to "
            "converge because the input matrix is ill-conditioned or has too many repeated "
            "singular values",
            "RuntimeError: linalg.solve: The solver failed because the input matrix is singular.",
            "_LinAlgError: linalg.cholesky: The factorization could not be completed because the "
            "input is not positive-definite (the leading minor of order 5 is not",
        ),
        why="A matrix is singular or has an eigenvalue of 0 or less, so it has no such "
        "factorization.",
        fix="Add a small multiple of the identity before this operation, x + 1e-4 * "
        "torch.eye(n), and compute it in fp32 or fp64.",
    ),
    Cause(
        id="matrix-not-finite",
        errors=("_LinAlgError", "RuntimeError"),
        messages=(r"input matrix contained non-finite values",),
        examples=(
            "_LinAlgError: linalg.svd: The algorithm failed to converge because the input matrix "
            "contained non-finite values.",
        ),
        why="A factorization got NaN or inf.",
        fix="Look for the first value that is not finite before this line "
        "(torch.isfinite(x).all()), and compute in fp32: an overflow of fp16 or a division by "
        "zero comes first.",
    ),
)
