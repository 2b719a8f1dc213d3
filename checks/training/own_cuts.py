"""Where the path from a parameter to the loss ends, in words, and what to do there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.facts.diagnosis import Cut
from doctor.facts.training import Parameter, Smoke

MOST = 3
"""Places in a summary."""

CLAUSES = {
    "detached": "the path to the loss ends at {name} in {where}",
    "number": "the path to the loss ends at {name} in {where}, which returns numbers without graph",
    "no_grad": "the path to the loss ends in {where}: {name} runs under torch.no_grad()",
    "indices": "the path to the loss ends at {name} in {where}: indices, integers and comparisons "
    "have no gradient",
    "constant": "the path to the loss ends at {name} in {where}, whose result has no graph",
    "unused": "nothing was seen to use the result of {name} in {where}",
    "zero": "the gradient becomes 0 in {name}, of {where}",
    "none": "the backward pass of {name}, of {where}, returns None for it",
    "small": "the gradient shrinks in {name}, of {where}",
    "replaced": "the forward pass replaces it by a new parameter",
    "derivative": "the derivative that {name} computes in {where} does not depend on it",
    "copied": "in their place the loss uses {name}, made in {where}",
    "hook": "the hook {name} on it, in {where}, makes its gradient 0",
    "result hook": "a hook on the result of {where} makes it 0: {name}",
    "cancelled": "gradients that are not 0 add up to 0 in {name}, of {where}",
}
"""Kind of a cut -> what was observed."""

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
    "derivative": "Add a term to the loss that depends on the output of {place} itself (initial or "
    "boundary values, measurements), or exempt it: a constant that is added to the output has no "
    "influence on its derivatives",
    "hook": "Look at the hook {name} in {place}: what it returns, or writes to grad, takes the "
    "place of the gradient",
    "result hook": "Look at what the hook {name} returns: it takes the place of the gradient",
    "cancelled": "Look at {place}: terms of the loss with opposite gradients cancel; check "
    "their signs",
    "unused": "Use the result of {place}, or remove the part that computes it",
    "none": "Return a gradient for each input of forward() that trains, in the order of forward's "
    "arguments, in backward() of {name}",
}
ZERO_VARIABLE = "of its variables"
ZERO_IN_HOOK = (
    "Look at why that variable of the hook {name} is 0 throughout, such as a mask whose index or "
    "slice is empty, or a number that // rounds down: the hook multiplies the gradient by it"
)
REENTRANT = (
    "Pass use_reentrant=False to checkpoint (gradient_checkpointing_kwargs={'use_reentrant': "
    "False} in transformers), or call model.enable_input_require_grads(): reentrant checkpointing "
    "has no gradient where the inputs of the segment need none"
)
COPIES = (
    "Compute with the parameters themselves, or train what {place} makes: these copies have no "
    "part in the parameters of the module. Register them (nn.Parameter, nn.ParameterDict) and give "
    "them to the optimizer, or stack the parameters in each forward pass, "
    "torch.stack([m.weight for m in members]), which keeps the graph: "
    "torch.func.stack_module_state, copy.deepcopy, detach() and nn.Parameter(...) end it"
)
TRAINED = (
    "Your optimizer trains the copies that {place} makes, not the parameters of the module, whose "
    "state_dict() stays as it is: register the copies in the module, or write them back into the "
    "parameters under torch.no_grad() after the training"
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
    (".*", "use it without float() and .item(), and torch.stack instead of torch.tensor([...])"),
)
INDICES = (
    (
        "gt|lt|ge|le|eq|ne|__(gt|lt|ge|le|eq|ne)__|greater.*|less.*|logical.*|isclose|bool|where"
        "|nonzero",
        "a comparison has no gradient; use torch.sigmoid((x - threshold) / temperature), or a "
        "straight-through estimator, soft + (hard - soft).detach()",
    ),
    (
        "long|int|to|type|short|byte|bucketize|searchsorted|histc|round|floor",
        "a whole number has no gradient; interpolate between the two neighbours (torch.lerp, "
        "grid_sample), or weight them by softmax",
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
    ("Embedding", "every index is padding_idx, whose row gets no gradient: check the batch"),
    (
        "Where|MaskedFill|MaskedSelect|Index|IndexSelect|Gather|Select|Slice|Max|Amax|Maximum|Min"
        "|Amin|Minimum|MaxPool.*",
        "nothing of its input is selected: look at the condition, the mask or the padding that "
        "takes its place",
    ),
    ("Mul|Div|Mm|Addmm|Bmm", "the other factor is 0: check its initialization, or the mask"),
)
"""Operations of autograd -> why their gradient is 0, and what to do; after "Look at PLACE: "."""
ZEROED = "look at why the result of {name} is 0 throughout"
ZERO = "its gradient is 0 for these inputs"
FLAT = (
    "an activation that is linear piece by piece (ReLU, LeakyReLU, Hardtanh) has no second "
    "derivative: use a smooth one in the network that is differentiated twice, Tanh, SiLU, GELU, "
    "Softplus or a sine"
)
ORIGINS = (
    ("the second derivative.*", FLAT),
    (
        r"floor_divide|div\(rounding.*|remainder|fmod",
        "a division that rounds down makes 0 of what is below the divisor: divide with /",
    ),
    (
        "the conversion to .*",
        "whole numbers have no fractions, so that values between -1 and 1 become 0: convert with "
        ".float()",
    ),
    (
        "sub|rsub",
        "it subtracts equal values: a value minus itself, or minus a mean over one value",
    ),
    (
        "(bitwise|logical)_.*|eq|ne|gt|ge|lt|le|isin|mul|where|masked_fill|zeros.*|a constant"
        "|tril|triu",
        "it hides every value: look at the condition or the mask",
    ),
    ("(constant_pad_nd|embedding)", "it reads padding only: look at the batch"),
    ("(round|floor|trunc|clamp.*|relu)", "it makes 0 of every value: look at their scale"),
)
"""Operation that made a factor 0 -> what to do; after "Look at PLACE: "."""
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
    ("the second derivative of it", FLAT),
    (
        "its mode is nearest",
        "it rounds the positions, which then have no gradient: pass mode='bilinear' to grid_sample",
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
        "no unit is active: look at the bias and the weights before it, and at the scale of the "
        "input",
    ),
    ("results are exactly", "it is saturated: normalize its inputs, so that they are near 0"),
    ("a probability of exactly 1", "it is saturated: divide its inputs by a temperature"),
    (", the parameter", "initialize that parameter with random numbers, or one of the two factors"),
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
BY_NAME = {
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


NO_LINE = "a library"
LEFT_OUT = re.compile(r"leaves this part out: \w+ in ([^,;]+, line \d+)")
DIRECTIONS = (
    "Look at {place}: hidden[-1] is the state of the last layer, and of a bidirectional one that "
    "of its backward direction only. Join both directions, torch.cat([hidden[-2], hidden[-1]], -1) "
    "with twice as many features for the next layer, or omit bidirectional=True and layers that "
    "nothing reads"
)


def clause(cuts: Sequence[Cut]) -> str:
    """What was observed about the parameters without a gradient, "" if nothing was."""
    names: dict[tuple[str, str], list[str]] = {}
    remarks: dict[tuple[str, str], list[str]] = {}
    for cut in cuts:
        key = cut.kind, _where(cut)
        name = f"{cut.remark}, {cut.name}," if cut.remark == "sample()" else cut.name
        for texts, text in ((names, name), (remarks, cut.remark.replace("sample()", ""))):
            together = texts.setdefault(key, [])
            together += [] if text in together or not text else [text]
    return "; ".join(_sentence(*key, names[key], remarks[key]) for key in list(names)[:MOST])


def _where(cut: Cut) -> str:
    """The line with its code, and the module of torch that it calls."""
    line = f"{cut.place}{f' (`{cut.code}`)' if cut.code else ''}"
    return ", in ".join(filter(None, (line, cut.module))) or NO_LINE


def _sentence(kind: str, where: str, names: Sequence[str], remarks: Sequence[str]) -> str:
    if kind == "result hook" and where == NO_LINE:
        return f"a hook on the backward pass makes it 0: {', '.join((*names, *remarks))}"
    observed = f": {', '.join(remarks)}" if remarks else ""
    return f"{CLAUSES[kind].format(name=', '.join(names), where=where)}{observed}"


def fix(cuts: Sequence[Cut]) -> str:
    """The remedy for the first kinds of cuts, as sentences; "" if there are none.

    A factor of 0 that
    another operation made follows from it."""
    causes = [each for each in cuts if ", the result of" not in each.remark] or cuts
    return " ".join(dict.fromkeys(f"{_fix(each)}." for each in causes[:MOST]))


def _fix(cut: Cut) -> str:
    place = cut.module or cut.place or "the library"
    if cut.name == "CheckpointFunction":
        return REENTRANT
    operation = re.sub(r"Backward\d*$", "", cut.name)
    if cut.remark == "sample()":
        return SAMPLED.format(place=cut.place or place)
    if cut.kind == "copied":
        return (TRAINED if cut.remark else COPIES).format(place=cut.place or "the code")
    if cut.kind == "small":
        return f"Look at {place}: {_small(operation)}"
    if cut.kind == "detached" and THROUGH.search(cut.code):
        return OWN_LOSS.format(place=cut.place)
    if special := _special(cut, place):
        return special
    if cut.kind != "zero":
        name = operation if cut.kind == "none" else cut.name
        by_name = {
            key: next(text for names, text in table if re.fullmatch(names, cut.name))
            for key, table in (("numbers", NUMBERS), ("indices", INDICES))
        }
        return FIXES[cut.kind].format(name=name, place=cut.place or place, **by_name)
    return _of_zero(cut, place, operation)


def _special(cut: Cut, place: str) -> str:
    """The remedy for a hook with a variable of zeros, for the states of a recurrent layer, or for
    a function that has its own."""
    if cut.kind in ("hook", "result hook") and ZERO_VARIABLE in cut.remark:
        where = f"{cut.name} in {cut.place}" if cut.kind == "hook" and cut.place else cut.name
        return ZERO_IN_HOOK.format(name=where)
    if (part := LEFT_OUT.search(cut.remark)) and re.search(r"\((LSTM|GRU|RNN)\)", cut.module):
        return DIRECTIONS.format(place=part[1])
    if cut.kind in ("constant", "indices", "no_grad") and cut.name in BY_NAME:
        return BY_NAME[cut.name].format(place=cut.place or place)
    return ""


def _of_zero(cut: Cut, place: str, operation: str) -> str:
    """What to do about an operation that makes a gradient 0, by what was observed in its inputs."""
    if "Dropout" in cut.module:
        return f"Look at {place}: its probability is 1, which drops everything"
    if cut.origin:
        made = next((text for names, text in ORIGINS if re.fullmatch(names, cut.origin)), "")
        return f"Look at {cut.origin_place}: {made or ZEROED.format(name=cut.origin)}"
    if part := LEFT_OUT.search(cut.remark):
        place = part[1]
    if reason := next((text for part, text in REMARKS if part in cut.remark), None):
        return f"Look at {place}: {reason}"
    reason = next((text for names, text in ZEROS if re.fullmatch(f"(?:{names})", operation)), ZERO)
    return f"Look at {place}: {reason}"


def _small(operation: str) -> str:
    """What to do about an operation that makes a gradient a million times smaller."""
    saturating = "Sigmoid|Tanh|Softmax|LogSoftmax|Erf|Gelu|Silu|Softplus|Elu"
    if re.fullmatch(saturating, operation):
        return "it is saturated: normalize its inputs, so that they are near 0"
    return "remove the tiny factor, or divide by the count once and not twice"


def of_zero_loss(steps: Smoke) -> tuple[Cut, ...]:
    """The cuts that explain a loss and gradients of exactly 0."""
    diagnosis = steps.diagnosis
    return diagnosis.cuts if diagnosis and diagnosis.fault == "zero loss" else ()


def of(cuts: Sequence[Cut], parameters: Sequence[Parameter]) -> list[Cut]:
    """The cuts that concern these parameters, those of the most parameters first."""
    names = {each.name for each in parameters}
    concerned = [each for each in cuts if names.intersection(each.parameters)]
    return sorted(concerned, key=lambda each: -len(each.parameters))
