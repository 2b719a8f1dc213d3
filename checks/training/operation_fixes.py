"""Stable forms of the operations whose result is not finite, by the operation."""

from __future__ import annotations

STABLE_FORMS = {
    "Sqrt": "torch.sqrt(x.clamp(min=0) + 1e-12)",
    "Rsqrt": "torch.rsqrt(x.clamp(min=0) + 1e-12)",
    "Log": "torch.log(x + 1e-7), or torch.logsumexp and log_softmax instead of a log of "
    "exponentials",
    "Div": "a / (b + 1e-8)",
    "Reciprocal": "1 / (x + 1e-8)",
    "Pow": "(x + 1e-12) ** p for p below 1",
    "Exp": "torch.exp(x.clamp(max=80))",
    "Softmax": "torch.nn.functional.log_softmax instead of log(softmax(x))",
    "LinalgVectorNorm": "torch.sqrt((x * x).sum(-1) + 1e-12), whose gradient at 0 is finite",
    "Norm": "torch.sqrt((x * x).sum(-1) + 1e-12), whose gradient at 0 is finite",
    "Acos": "torch.acos(x.float() * (1 - 1e-6)); a clamp has gradient 0 beyond its bounds",
    "Asin": "torch.asin(x.float() * (1 - 1e-6)); a clamp has gradient 0 beyond its bounds",
    "Hypot": "torch.sqrt(x * x + y * y + 1e-12)",
    "Atan2": "torch.atan2(y, x + 1e-12) where both can be 0",
    "Std": "torch.sqrt(x.var(dim) + 1e-12)",
    "Cdist": "torch.sqrt(squared distances + 1e-12)",
    "LinalgEigh": "a matrix whose eigenvalues differ (add a small diagonal of distinct values)",
    "LinalgSvd": "a matrix whose singular values differ (add a small diagonal of distinct values)",
}
"""Operation in autograd -> a form of it whose value and gradient stay finite. A torch.where around
it does not help: the gradient of the branch that is not chosen is 0 * inf."""

_MASK = (
    "Leave at least one key visible in every row of the mask, or replace the rows of samples that "
    "are padding throughout: the softmax of a row of -inf is NaN"
)
_OVERFLOW = (
    "Scale the inputs, compute this line in fp32 (torch.autocast(device, enabled=False) and "
    ".float()), and check the initialization if values grow from layer to layer"
)
_LOG_OF_0 = (
    "Use a fused form where there is one (torch.logsumexp, log_softmax, torch.special.xlogy for "
    "p * log(p)), or add an epsilon, torch.log(x + 1e-7)"
)
_ONE_VALUE = (
    "Take the deviation over two values or more: more samples or answers in each group, or another "
    "dimension. unbiased=False makes it 0 for one value, whose normalized value is then always 0"
)
OPERATION_FIXES = {
    "div": "Add an epsilon to the divisor (a / (b + 1e-8)) or clamp it (b.clamp(min=1)), and look "
    "at why it is 0: an empty mask, a count of 0, a constant row",
    "true_divide": "Add an epsilon to the divisor, or clamp it",
    "remainder": "Clamp the divisor above 0, and look at why it is 0",
    "fmod": "Clamp the divisor above 0, and look at why it is 0",
    "reciprocal": "Add an epsilon: 1 / (x + 1e-8)",
    "log": _LOG_OF_0,
    "log2": "Clamp the input before the logarithm",
    "log10": "Clamp the input before the logarithm",
    "log1p": "Clamp the input above -1",
    "sqrt": "Clamp the input, torch.sqrt(x.clamp(min=0) + 1e-12)",
    "rsqrt": "Clamp the input and add an epsilon, torch.rsqrt(x.clamp(min=0) + 1e-12)",
    "pow": "Clamp the base above 0: a negative base has no real power, and 0 no negative one",
    "exp": "Scale the features that the input is computed from, subtract the maximum first "
    "(softmax, torch.logsumexp), or bound it, torch.exp(x.clamp(-30, 20))",
    "acos": "Clamp the input to [-1, 1] and scale it, torch.acos(x.float().clamp(-1, 1) * "
    "(1 - 1e-6)): at 1 itself the gradient is infinite",
    "asin": "Clamp the input to [-1, 1] and scale it, torch.asin(x.float().clamp(-1, 1) * "
    "(1 - 1e-6)): at 1 itself the gradient is infinite",
    "atanh": "Clamp the input inside (-1, 1), torch.atanh(x.float().clamp(-1 + 1e-6, 1 - 1e-6))",
    "erfinv": "Keep the input inside (-1, 1): quantiles of ranks are (rank + 0.5) / count, and "
    "torch.erfinv(x.clamp(-1 + 1e-6, 1 - 1e-6)) bounds others",
    "logit": "Bound the probabilities, torch.logit(p, eps=1e-6)",
    "softmax": _MASK,
    "log_softmax": _MASK,
    "safe_softmax": _MASK,
    "scaled_dot_product_flash_attention_for_cpu": _MASK,
    "scaled_dot_product_efficient_attention": _MASK,
    "std": _ONE_VALUE,
    "var": _ONE_VALUE,
    "native_batch_norm": "Give the norm a positive eps, and batches of more than one value",
    "mean": "Do not take the mean of an empty selection: count first, or use .sum() / n.clamp(1)",
    "nll_loss_forward": "Leave at least one label that is not ignored and whose class has a "
    "weight above 0, or divide the sum by the count, clamped to 1",
    "nll_loss2d_forward": "Leave at least one label that is not ignored and whose class has a "
    "weight above 0",
    "ctc_loss": "Give each sample at least as many frames as it has labels, and one more for each "
    "label that repeats the one before it: a smaller stride in the encoder, longer inputs or "
    "shorter labels. zero_infinity=True (ctc_zero_infinity in a config of transformers) leaves "
    "out the loss of samples that are too short",
    "logdet": "Use torch.linalg.slogdet(x), whose second value is the logarithm of the absolute "
    "determinant, or parametrize the matrix so that its determinant is positive",
    "mm": _OVERFLOW,
    "addmm": _OVERFLOW,
    "bmm": _OVERFLOW,
    "mse_loss": _OVERFLOW,
    "mul": _OVERFLOW,
    "sum": _OVERFLOW,
    "to_copy": _OVERFLOW,
}
"""Operation of the forward pass -> its remedy, without a full stop."""

_LOGSIGMOID = (
    "Use the logits: torch.nn.functional.logsigmoid(x) for log(sigmoid(x)), logsigmoid(-x) for "
    "log(1 - sigmoid(x)), or binary_cross_entropy_with_logits"
)
_LOG_SOFTMAX = (
    "Use torch.nn.functional.log_softmax(x, dim) in place of log(softmax(x)), or cross_entropy on "
    "the logits: in fp32 a probability below 1e-45 is 0"
)
_DEVIATION = (
    "Add an epsilon to the deviation, (x - mean) / (std + 1e-8): it is 0 where all values are the "
    "same, as in a constant column or row"
)
_NORMALIZE = (
    "Use torch.nn.functional.normalize(x, dim=...), which has an epsilon: the norm of a vector of "
    "zeros is 0"
)
_COUNT = (
    "Clamp the count or the sum, a / b.clamp(min=1) for a count, a / (b + 1e-8) for other sums: it "
    "is 0 where a mask, a class or a neighbourhood is empty"
)
_LARGEST = "Clamp the largest value, a / b.clamp(min=1e-8): it is 0 where all values are 0"
_DIFFERENCE = (
    "Clamp the difference, a / (b - c).clamp(min=1e-8) where it is not negative: it is 0 where "
    "both are equal"
)
DIVISORS = {
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), _DEVIATION),
    **dict.fromkeys(("norm", "vector_norm", "linalg_vector_norm", "linalg_norm"), _NORMALIZE),
    **dict.fromkeys(("sum", "index_add", "scatter_add", "bincount", "count_nonzero"), _COUNT),
    **dict.fromkeys(("amax", "max", "abs"), _LARGEST),
    **dict.fromkeys(("sub", "rsub"), _DIFFERENCE),
}
"""Function whose result is a divisor -> the remedy."""
MADE_BY_FIXES = {
    **{("div", name): remedy for name, remedy in DIVISORS.items()},
    ("log", "softmax"): _LOG_SOFTMAX,
    ("log", "sigmoid"): _LOGSIGMOID,
    ("log", "rsub"): _LOGSIGMOID + "; for another probability torch.log1p(-p.clamp(max=1 - 1e-6))",
    ("log", "__rsub__"): _LOGSIGMOID
    + "; for another probability torch.log1p(-p.clamp(max=1 - 1e-6))",
    ("log", "relu"): "relu gives exact 0: use softplus or exp in its place, or add an epsilon, "
    "torch.log(x + 1e-7)",
}
"""Operation, and the function that made its inputs -> the remedy."""
ORIGIN_FIXES = {
    "div": (
        (
            "the parameter",
            "Initialize that parameter away from 0, or divide by its exponential or softplus, "
            "which is never 0",
        ),
        ("the buffer", "Look at how that buffer is computed, and clamp it there (min=1e-8)"),
        ("of the batch", "The data hold 0 there: leave these values out, or add an epsilon"),
    ),
    "exp": (
        (
            "the parameter",
            "Initialize that parameter smaller, or clamp it (a logarithmic scale to math.log(100))",
        ),
    ),
}
"""Operation -> part of what its inputs are, and the remedy."""
SPECTRAL_FIX = (
    "Initialize the weight with random numbers before spectral_norm is applied to it: it is "
    "divided by its largest singular value, which is 0 for a weight of zeros"
)
REMARK_FIXES = (
    (
        "of the running variance are negative",
        "Look at what writes that variance: it is never below 0. Let the norm update it in train "
        "mode with a momentum of 0 to 1, and call reset_running_stats() if values were changed",
    ),
    (
        "in float16 an epsilon",
        "Compute this line in fp32, and what it reads: leave out .half() and float16 where the "
        "value is made, or write x.float() before the epsilon is added. float16 has none below "
        "3e-8, and the reciprocal of less than 2e-5 overflows there",
    ),
    (
        "on the diagonal",
        "Leave out the pairs of each element with itself: set the diagonal to 1 or to inf before "
        "(masked_fill with torch.eye), or add an epsilon",
    ),
    (
        "the tensor has no values",
        "Guard the empty selection: divide the sum by count.clamp(min=1), or leave this part out "
        "where nothing is selected",
    ),
    (
        "-inf throughout",
        "Leave at least one value of each row that is not masked: one visible key for each query, "
        "one allowed class for each position, also of samples that are padding throughout and of "
        "positions whose label is ignored: mask | ~mask.any(-1, keepdim=True) where True is "
        "visible",
    ),
    ("hide every key", _MASK),
    (
        "and label_smoothing",
        "Omit label_smoothing where classes are masked with -inf, mask them with a finite number "
        "(torch.finfo(x.dtype).min / 2), or smooth over the allowed classes by hand: a share of "
        "the label times -inf is inf",
    ),
    (
        "input and target are swapped",
        "Exchange the arguments: kl_div(log-probabilities of the model, probabilities of the "
        "target). The target may be log-probabilities too, with log_target=True",
    ),
    (
        "of its target are negative",
        "Give kl_div probabilities as its target (softmax), or log-probabilities with "
        "log_target=True",
    ),
    (
        "rows of the direction have",
        "Initialize that weight with random numbers before weight_norm is applied to it: the "
        "direction is divided by its norm. To start from 0, set the magnitude to 0 "
        "(parametrizations.weight.original0, weight_g)",
    ),
    (
        "0 * inf",
        "Do not multiply a mask of -inf: 0 * inf is NaN. Use torch.where or masked_fill, a finite "
        "number such as torch.finfo(x.dtype).min, or torch.xlogy(p, p) for p * log(p)",
    ),
    (
        "pos_weight are inf",
        "Look at how pos_weight is computed: a class without positives gives a division by 0; "
        "clamp the count, negatives / positives.clamp(min=1)",
    ),
    (
        "are -inf already",
        "Look at why the loss reads values that are masked with -inf: a label, an index or a "
        "reduction that includes them. Leave them out, or mask with a finite number "
        "(torch.finfo(x.dtype).min / 2)",
    ),
    (
        " already",
        "Look at where that value is made: in the constructor, in the factory or in the data",
    ),
    (
        " negative)",
        "Make the value positive where it is made{origin}, so that every line that reads it gets "
        "the same one: softplus(x) + 1e-6, or exp, of the raw value. If it is a rate of "
        "poisson_nll_loss, log_input=True does so",
    ),
    (
        "matrix products before it grow",
        "Let each product keep the scale of its input: initialize with torch.nn.init.orthogonal_, "
        "or normalize between the products. A matrix that is applied many "
        "times, as in a recurrent layer, must have no singular value above 1",
    ),
    ("holds up to", _OVERFLOW),
)
"""Part of a remark on the inputs -> the remedy, which is better than that of the operation."""

NAN_SOURCES = (
    "NaNs come from log or sqrt of 0 or less, a division by 0, exp of a large number, or 0 * inf "
    "after one of them. Add an epsilon inside, clamp before, or use a fused form (log_softmax, "
    "cross_entropy)"
)

STAGE_FIXES = {
    "crashed": "Run the training alone with python -X faulthandler, which names the line.",
    "hung": "Run the training alone and call faulthandler.dump_traceback_later(60) at its start, "
    "which names the line.",
    "no gradient": "Look for detach(), .data, no_grad() and for parameters that the forward pass "
    "does not use.",
}
"""Fault -> the first step where no change fixes it."""
