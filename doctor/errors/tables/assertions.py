"""Assertions that a kernel on a GPU prints."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="assert-labels",
        refines=("device-side-assert",),
        errors=("RuntimeError",),
        messages=(r"t ?< ?n_classes", r"cur_target [<>]"),
        examples=(
            "nll_loss_forward_reduce_cuda_kernel_2d: Assertion `t >= 0 && t < n_classes` failed.",
            "ScatterGatherKernel: Assertion `cur_target >= 0` failed.",
        ),
        why="A label is outside the classes of the loss.",
        fix="Fix the labels: one is outside the classes, 0 <= label < classes. Count the classes "
        "that the last layer has, map labels that start at 1 to 0, and mark what is to be ignored "
        "with -100.",
    ),
    Cause(
        id="assert-probabilities",
        refines=("device-side-assert",),
        errors=("RuntimeError",),
        messages=(r"input_val >= zero", r"target_val >= zero"),
        examples=(
            "Loss.cu:94: operator(): Assertion `input_val >= zero && input_val <= one` failed.",
            "Assertion `target_val >= zero && target_val <= one` failed.",
        ),
        why="binary_cross_entropy got a value outside [0, 1], or NaN.",
        fix="Pass probabilities to binary_cross_entropy: inputs and targets in [0, 1], and no "
        "NaN. binary_cross_entropy_with_logits takes raw outputs.",
    ),
    Cause(
        id="assert-multinomial",
        errors=("RuntimeError",),
        messages=(r"probability tensor contains", r"sum of probabilities", r"cumdist"),
        examples=(
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
            "RuntimeError: invalid multinomial distribution (sum of probabilities <= 0)",
            "MultinomialKernel.cu: binarySearchForMultinomial: Assertion `cumdist[size - 1] > "
            "scalar_t(0)` failed.",
        ),
        why="torch.multinomial got probabilities that are negative, NaN, or add up to 0.",
        fix="Pass probabilities to torch.multinomial: finite, not negative, and with a sum above "
        "0. Look for the first NaN before it: in generation and RL usually fp16 that overflowed "
        "(use bfloat16, or float32 on GPUs without it), broken or half-merged weights, or a mask "
        "that leaves no token.",
    ),
    Cause(
        id="assert-embedding",
        refines=("device-side-assert",),
        errors=("RuntimeError",),
        messages=(r"srcIndex < srcSelectDimSize", r"ind_dim_size", r"vectorized gather"),
        examples=(
            "indexSelectLargeIndex: block: [63,0,0], thread: [0,0,0] Assertion `srcIndex < "
            "srcSelectDimSize` failed.",
            'Assertion `ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of '
            'bounds"` failed.',
        ),
        why="An index exceeds the rows of an embedding, index_select or gather.",
        fix="Fix the index of an embedding, index_select or gather: it exceeds the rows of the "
        "table. After adding tokens call resize_token_embeddings; compare positions with the "
        "model's length, and do not use a label of -100 as an index.",
    ),
    Cause(
        id="assert-index",
        refines=("device-side-assert",),
        errors=("RuntimeError",),
        messages=(
            r"-sizes\[i\] <= index",
            r"index < sizes\[i\]",
            r"idx_dim < index_size",
            r"idx_dim >= 0",
        ),
        examples=(
            "IndexKernel.cu: operator(): Assertion `-sizes[i] <= index && index < sizes[i] && "
            '"index out of bounds"` failed.',
            'ScatterGatherKernel.cu: Assertion `idx_dim >= 0 && idx_dim < index_size && "index '
            'out of bounds"` failed.',
        ),
        why="An index of x[index], gather or scatter exceeds the dimension.",
        fix="Fix the index of x[index], gather or scatter: it exceeds the dimension that it "
        "selects from. A label of -100 is no index: use labels.clamp(min=0), and mask the result.",
    ),
)
