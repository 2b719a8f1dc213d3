"""What to do where the path from a parameter to the loss ends, or a gradient becomes 0.

Tables of `doctor.checks.training.own_cuts`.
"""

from __future__ import annotations

import re

FIXES = {
    "detached": "Let the gradient pass {place}: remove {name} there, or detach only what must not "
    "train",
    "number": "Keep the value a tensor in {place}: {numbers}. If the number is for logging only, "
    "nothing else uses the value",
    "no_grad": "Run {place} outside of torch.no_grad(), which is a block or a decorator around it",
    "indices": "Let the loss depend on the values too ({place}): {indices}",
    "constant": "Look at {name} in {place}: write it with operations that have a gradient",
    "replaced": "Change the values in place under torch.no_grad(), weight.mul_(0.999), instead of "
    "assigning a new nn.Parameter: the optimizer holds the first one",
    "hook": "Look at the hook {name} in {place}: what it returns, or writes to grad, takes the "
    "place of the gradient",
    "result hook": "Look at what the hook {name} returns: it takes the place of the gradient",
    "cancelled": "Look at {place}: gradients that reach it over two paths cancel. Where a value is "
    "subtracted from itself or divided by itself, as in exp(logp - old) with an old that is "
    "computed anew, use the recorded one, or .detach() the one that is a constant; else check the "
    "signs of the terms",
    "unused": "Use the result of {place}, or remove the part that computes it",
    "none": "Return a gradient for each input of forward() that trains, in the order of forward's "
    "arguments, in backward() of {name}",
}
ZERO_VARIABLE = "of its variables"
ZERO_IN_HOOK = (
    "Look at why that variable of the hook {name} is 0 throughout, such as a mask whose index or "
    "slice is empty, or a number that // rounds down: the hook multiplies the gradient by it"
)
LEFT_OUT = re.compile(r"leaves this part out: \w+ in ([^,;]+, line \d+)")
DIRECTIONS = (
    "Look at {place}: hidden[-1] is the state of the last layer, and of a bidirectional one that "
    "of its backward direction only. Join both directions, torch.cat([hidden[-2], hidden[-1]], -1) "
    "with twice as many features for the next layer, or omit bidirectional=True and layers that "
    "nothing reads"
)
STATE = (
    "Pass the state of the step before to the recurrent layer in {place}, or train on sequences of "
    "more than one step: from an initial state of 0, weight_hh gets no gradient in one step"
)
OF_STATE = re.compile(r"(?:.*\.)?weight_hh\w*")
ZERO_STATE = re.compile(r"(new_)?zeros(_like)?")
"""Origins of an initial state of 0."""
REENTRANT = (
    "Pass use_reentrant=False to checkpoint (gradient_checkpointing_kwargs={'use_reentrant': "
    "False} in transformers), or call model.enable_input_require_grads(): reentrant checkpointing "
    "has no gradient where the inputs of the segment need none"
)
COUNTS = (
    "Count in {place} with a smooth kernel: a histogram has no gradient for its values; weight "
    "each value by torch.softmax(-(x[..., None] - centres) ** 2 / width, -1), and sum over the "
    "values"
)
DERIVED = (
    "Pass create_graph=True to torch.autograd.grad in {place}: without it the gradient that it "
    "returns has no graph of its own, and nothing can be differentiated through it"
)
OF_BACKWARD = (
    "Compute the gradient in {place} with torch.autograd.grad(output, x, create_graph=True)[0] "
    "instead of backward() and .grad, which has no graph: a penalty on it does not train"
)
NUMBERS = (
    (
        "__int__|__index__",
        "a whole number has no gradient; sample at the fractional position "
        "(torch.nn.functional.grid_sample, torch.lerp)",
    ),
    ("tolist", "torch.stack instead of a list of numbers"),
    ("numpy|__array__", "write it with operations of torch instead of those of numpy"),
    (
        ".*",
        "use it without .detach(), float() and .item(), and torch.stack instead of "
        "torch.tensor([...])",
    ),
)
INDICES = (
    (
        "gt|lt|ge|le|eq|ne|__(gt|lt|ge|le|eq|ne)__|greater.*|less.*|logical.*|isclose|bool|where|nonzero",
        "a comparison has no gradient; use torch.sigmoid((x - threshold) / temperature), or a "
        "straight-through estimator, soft + (hard - soft).detach()",
    ),
    (
        "long|int|to|type|short|byte|bucketize|searchsorted|histc|round|floor",
        "a whole number has no gradient; interpolate between the two neighbours (torch.lerp, "
        "grid_sample), or weight them by softmax",
    ),
    (
        "argmin",
        "multiply what is chosen by the softmax weight of its distance, or use a straight-through "
        "estimator; for a codebook codes = z + (codes - z).detach(), with a commitment loss "
        "mse_loss(z, codes.detach())",
    ),
    (
        "argmax",
        "a loss over classes takes the logits themselves, cross_entropy(logits, labels), and "
        "argmax is for the accuracy. Where a network chooses, multiply what is chosen by its "
        "softmax weight, or use torch.nn.functional.gumbel_softmax",
    ),
    (
        ".*",
        "multiply what is chosen by its softmax weight, or use a straight-through estimator or "
        "torch.nn.functional.gumbel_softmax",
    ),
)
"""Functions of a cut -> what to do."""
THROUGH = re.compile(r"\+ *\(.*-.*\)\.detach\(\)")
OWN_LOSS = (
    "A straight-through estimator gives its gradient to the part outside of detach() only: add a "
    "loss of its own for what computes the other part in {place} (a codebook has "
    "mse_loss(codes, z.detach()))"
)
ZEROS = (
    (
        "Sign|Sgn|Heaviside",
        "its derivative is 0 everywhere: use torch.tanh(x / temperature), or a straight-through "
        "estimator, x + (x.sign() - x).detach()",
    ),
    (
        "Round|Floor|Ceil|Trunc|FloorDivide",
        "its derivative is 0 everywhere: use a straight-through estimator, "
        "x + (x.round() - x).detach()",
    ),
    (
        "Bernoulli",
        "a random draw has no gradient: use a straight-through estimator, "
        "p + (torch.bernoulli(p) - p).detach(), or a relaxed distribution",
    ),
    (
        "Clamp|Hardtanh|HardtanhBackward|Hardsigmoid",
        "its inputs are beyond the bounds, where the derivative is 0: scale them, use wider "
        "bounds, or a smooth function such as tanh",
    ),
    (
        "Sigmoid|Tanh|Softmax|LogSoftmax|Erf",
        "it is saturated: normalize its inputs, so that they are near 0",
    ),
    (
        "Relu|Threshold|Softplus|Gelu|Silu|Elu",
        "its inputs are all on its flat side: check the bias and the initialization before it",
    ),
    ("Embedding", "what reads it ignores every token, or all tokens are padding_idx: check masks"),
    (
        "Where|MaskedFill|MaskedSelect|Index|IndexSelect|Gather|Select|Slice|Max|Amax|Maximum|Min|Amin|Minimum|MaxPool.*",
        "nothing of its input is selected: look at the condition, the mask or the padding that "
        "takes its place",
    ),
    ("Mul|Div|Mm|Addmm|Bmm", "the other factor is 0: check its initialization, or the mask"),
)
"""Operations of autograd -> why their gradient is 0, and what to do; after "Look at PLACE: "."""
EMPTY_DATA = (
    "Look at how {name} is made: it is 0 throughout, as a division of whole numbers (//), a mask, "
    "or a buffer that nothing has filled makes it"
)
ZEROED = "look at why the result of {name} is 0 throughout"
ZERO = "its gradient is 0 for these inputs"
ORIGINS = (
    (
        r"floor_divide|div\(rounding.*",
        "a division that rounds down makes 0 of what is below the divisor: divide with /",
    ),
    ("remainder|fmod", "it divides multiples of the divisor, of which nothing is left"),
    (
        "the conversion to .*",
        "whole numbers have no fractions, so that values between -1 and 1 become 0: convert with "
        ".float()",
    ),
    ("sub|rsub", "it subtracts equal values: a value minus itself, or minus a mean over one value"),
    (
        "(bitwise|logical)_.*|eq|ne|gt|ge|lt|le|isin|where|masked_fill|zeros.*|tril|triu",
        "it hides every value: look at the condition or the mask",
    ),
    ("mul", "one of its factors is 0, or they are never both other than 0: look at masks, and at a "
     "number that a division of whole numbers makes 0"),
    ("a constant", "its values are 0 already: look at how they are computed, with // for instance"),
    ("(constant_pad_nd|embedding)", "it reads padding only: look at the batch"),
    ("(round|floor|trunc|clamp.*|relu)", "it makes 0 of every value: look at their scale"),
)  # fmt: skip
"""Operation that made a factor 0 -> what to do; after "Look at PLACE: "."""
PARAMETER = re.compile(r"(computed from )?the parameter ([^\s,]+)")
RANDOM = "with random numbers"
REMARKS = (
    (
        "each channel of its input has the same value",
        "all samples are the same there: look at the batch, or at what makes it constant before "
        "this norm",
    ),
    (
        "a dimension of 1 value",
        "its result is the same for all inputs: use a sigmoid (for a loss over one class "
        "binary_cross_entropy_with_logits), or two outputs, or another dim",
    ),
    (
        "its mode is nearest",
        "it rounds the positions, which then have no gradient: pass mode='bilinear' to grid_sample",
    ),
    (
        "every index is padding_idx",
        "every index is padding_idx, whose row gets no gradient: check the batch",
    ),
    (
        "the others get no gradient",
        "what reads it ignores every token that is not padding: look whether a mask is inverted "
        "(key_padding_mask of torch.nn is True at padding)",
    ),
    ("over 1 key", "its result is the same for all queries and keys: attend to more keys"),
    (
        "normalizes over 1 value",
        "its result is its bias, whatever the input is: normalize over more values "
        "(normalized_shape, num_groups, the size of the input), or leave the norm out",
    ),
    (
        "values of its condition are True",
        "no value of that branch is chosen: look at the condition and at the scale of what it "
        "compares",
    ),
    ("of its mask are True", "the mask fills every value: look whether it is inverted"),
    ("those of the other input", "the other input is chosen everywhere: look at its scale"),
    ("beyond the bounds", "scale the inputs, use wider bounds, or a smooth function such as tanh"),
    (
        "inputs are 0 or less",
        "no unit is active: omit it behind the last layer, whose output it keeps at 0; else look "
        "at the bias and the weights before it, and at the scale of the input",
    ),
    ("results are exactly", "it is saturated: normalize its inputs, so that they are near 0"),
    ("a probability of exactly 1", "it is saturated: divide its inputs by a temperature"),
    ("the parameter", f"initialize {{name}} {RANDOM}"),
    ("the other factor", "look at what computes that factor: a mask, a schedule, or a weight"),
    ("its backward() returns zeros", "look at what it multiplies the gradient by"),
    *(
        (
            f"leaves this part out: {name}",
            "another branch is chosen everywhere: look at the scale of both",
        )
        for name in ("Max", "Amax", "Min", "Amin", "Where")
    ),
    (
        "an assignment overwrites",
        "an assignment such as x[mask] = 0 replaces all of its values: look at the index",
    ),
    ("gives zeros to this part", "look whether a mask or a slice there hides it"),
    ("leaves this part out", "use this part too, or remove what computes it: look at the slice"),
)
"""Part of a remark -> what to do; after "Look at PLACE: "."""
NEW_TENSOR = (
    "Use the value itself in {place}, or torch.stack for a list of them: torch.tensor copies "
    "numbers into a new tensor without their graph, with requires_grad=True as well"
)
VARIABLE = (
    "Use the value of {place} itself, without Variable(..., requires_grad=True) around it: that "
    "copies it without its graph, and backward() reaches nothing behind the copy"
)
BY_NAME = {
    **dict.fromkeys(("tensor", "as_tensor"), NEW_TENSOR),
    "Variable": VARIABLE,
    "grad": DERIVED,
    "backward": OF_BACKWARD,
    **dict.fromkeys(("histc", "histogram", "histogramdd", "bincount"), COUNTS),
}
"""Functions whose result has no graph -> what to do."""
SAMPLED = (
    "Call rsample() in place of sample() in {place}, which draws without a graph; a distribution "
    "without rsample() (Categorical, Bernoulli) needs log_prob() times the reward, or "
    "torch.nn.functional.gumbel_softmax"
)
