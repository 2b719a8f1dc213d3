"""Losses, labels, distributions and reductions."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="assert-multinomial",
        errors=("RuntimeError",),
        messages=("probability tensor contains",
            "sum of probabilities",
            "cumdist"),
        examples=("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            "RuntimeError: invalid multinomial distribution (sum of probabilities <= 0)",
            "MultinomialKernel.cu: binarySearchForMultinomial: Assertion `cumdist[size - 1] > "
            "scalar_t(0)` failed."),
        why="torch.multinomial got probabilities that are negative, NaN, or add up to 0.",
        fix="Pass probabilities to torch.multinomial: finite, not negative, and with a sum "
            "above 0. Look for the first NaN before it: in generation and RL usually fp16 that "
            "overflowed (use bfloat16, or float32 on GPUs without it), broken or half-merged "
            "weights, or a mask that leaves no token.",
        sources=("torch-docs",)),
    Cause(id="distribution-parameters",
        errors=("ValueError", "NotImplementedError", "RuntimeError"),
        messages=("to satisfy the constraint",
            r"to satisfy Real\(\)",
            "normal expects (?:all elements of )?std >= 0"),
        examples=("ValueError: Expected parameter logits (Tensor of shape (4, 3)) of "
            "distribution Categorical(logits: torch.Size([4, 3])) to satisfy the constraint "
            "IndependentConstraint(Real(), 1)",
            "ValueError: Expected parameter logits to satisfy Real(), but found invalid values",
            "RuntimeError: normal expects all elements of std >= 0.0"),
        wordings=(
            Wording(r"No KL\(p \|\| q\) is implemented for",
                "NotImplementedError: No KL(p || q) is implemented for p type Normal and q type "
                "Categorical",
                "There is no formula for the divergence of these two distributions.",
                "Compare distributions of one kind, or estimate the divergence from samples: x "
                "= p.rsample(); (p.log_prob(x) - q.log_prob(x)).mean()."),
            Wording("are unsafe to autocast",
                "RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss "
                "are unsafe to autocast.",
                "binary_cross_entropy of probabilities is not allowed in half precision.",
                "Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) and omit the sigmoid: "
                "binary_cross_entropy is not allowed under autocast."),
            Wording("all elements of input should be between 0 and 1",
                "RuntimeError: all elements of input should be between 0 and 1",
                "binary_cross_entropy takes probabilities, and got raw outputs, values outside "
                "[0, 1] or NaN.",
                "Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) on the raw outputs: "
                "binary_cross_entropy needs inputs and targets between 0 and 1, and no NaN.")),
        why="A distribution got a parameter outside its range, or one with NaN: a layer without "
            "activation gives any number.",
        fix="Pass valid parameters: logits= of a layer without activation in place of probs= "
            "(torch.sigmoid or torch.softmax make probabilities); softplus(x) + 1e-6 or exp for "
            "what must be above 0, such as a scale (relu and abs reach 0); scale_tril=L for a "
            "covariance, a lower triangle whose diagonal went through softplus. If the message "
            "shows nan, look for its first place: an input, a weight or a division before this "
            "line.",
        sources=("torch-distribution", "torch-losses")),
    Cause(id="empty-tensors",
        messages=("non-empty list of Tensors",
            "non-empty TensorList",
            "with no elements",
            r"input\.numel\(\) == 0",
            r"Expected reduction dim .{0,60}to have non-zero size"),
        examples=("RuntimeError: torch.cat(): expected a non-empty list of Tensors",
            "RuntimeError: stack expects a non-empty TensorList",
            "IndexError: argmax(): Expected reduction dim 0 to have non-zero size for a tensor "
            "with no elements",
            "RuntimeError: min(): Expected reduction dim to be specified for input.numel() == "
            "0. Specify the reduction dim with the 'dim' argument."),
        wordings=(
            Wording(r"need at least one array to (?:concatenate|stack)|(?:max|min)\(\) "
                r"(?:iterable )?arg(?:ument)? is (?:an empty sequence|empty)|reduction "
                r"operation \S{1,40} which has no identity",
                "ValueError: max() arg is an empty sequence",
                "A list that should hold something is empty: no files, no samples after "
                "filtering, no trainable parameters, nothing that was logged.",
                "Look in the frame above at what is listed. In an optimizer or in DeepSpeed: no "
                "parameter has requires_grad, all are frozen. In the data: the path or the "
                "filter leaves no sample; print its length."),),
        why="torch.stack, torch.cat or a reduction got nothing: an empty list, or a tensor "
            "without elements.",
        fix="Check what it gets: it is empty, as after a loop or a filter that took nothing, or "
            "a mask that is False throughout."),
    Cause(id="matrix-not-positive",
        errors=("_LinAlgError", "RuntimeError"),
        messages=("not positive-definite",
            "matrix is singular",
            "is zero, the inversion",
            "ill-conditioned"),
        examples=("torch._C._LinAlgError: linalg.inv: The diagonal element 3 is zero, the "
            "inversion could not be completed because the input matrix is singular.",
            "torch._C._LinAlgError: linalg.svd: (Batch element 0): The algorithm failed to "
            "converge because the input matrix is ill-conditioned or has too many repeated "
            "singular values",
            "RuntimeError: linalg.solve: The solver failed because the input matrix is singular.",
            "_LinAlgError: linalg.cholesky: The factorization could not be completed because "
            "the input is not positive-definite (the leading minor of order 5 is not"),
        wordings=(
            Wording("input matrix contained non-finite values",
                "_LinAlgError: linalg.svd: The algorithm failed to converge because the input "
                "matrix contained non-finite values.",
                "A factorization got NaN or inf.",
                "Look for the first value that is not finite before this line "
                "(torch.isfinite(x).all()), and compute in fp32: an overflow of fp16 or a "
                "division by zero comes first."),),
        sources=("torch-cholesky",),
        why="A matrix is singular or has an eigenvalue of 0 or less, so it has no such "
            "factorization.",
        fix="Add a small multiple of the identity before this operation, x + 1e-4 * "
            "torch.eye(n), and compute it in fp32 or fp64. In GPTQ raise damp_percent, and take "
            "more or other calibration data."),
    Cause(id="keras-shapes-differ",
        messages=(r"Arguments `target` and `output` must have the same (?:rank|shape)|"
            r"Shapes \(None, \d{1,6}\) and \(None, \d{1,6}\) are incompatible|"
            r"`logits` and `labels` must have the same shape",),
        examples=("ValueError: Arguments `target` and `output` must have the same rank (ndim). "
            "Received: target.shape=(None,), output.shape=(None, 1)",
            "ValueError: Shapes (None, 1) and (None, 10) are incompatible"),
        why="The loss and the last layer of the Keras model do not fit the labels: class numbers "
            "against one output per class, or a vector against a column.",
        fix="Class numbers (None,) or (None, 1) with N outputs: sparse_categorical_crossentropy. "
            "One-hot labels (None, N): categorical_crossentropy. Two classes: one output with "
            "binary_crossentropy and labels of shape (None, 1), y[:, None]. Regression: as many "
            "outputs as targets. Print the shapes: next(iter(dataset))[1].shape and "
            "model.output_shape."),
)  # fmt: skip
