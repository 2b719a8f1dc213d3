"""Where the path from a parameter to the loss ends, in words, and what to do there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.facts.diagnosis import Cut
from doctor.facts.training import Parameter

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
    "replaced": "the forward pass replaces it by a new parameter",
    "hook": "a hook is registered on it: {name} in {where}",
}
"""Kind of a cut -> what was observed."""

FIXES = {
    "detached": "Let the gradient pass {place}: remove {name} there, or detach the other part (a "
    "straight-through estimator is x + (f(x) - x).detach())",
    "number": "Keep the value a tensor in {place}: torch.stack instead of .item() and numpy, and "
    "operations of torch instead of those of numpy. If the number is for logging only, nothing "
    "else uses the value",
    "no_grad": "Run {place} outside of torch.no_grad(), which is a block or a decorator around it",
    "indices": "Let the loss depend on the values too ({place}): multiply what is chosen by its "
    "softmax weight, or use a straight-through estimator or torch.nn.functional.gumbel_softmax",
    "constant": "Look at {name} in {place}: write it with operations that have a gradient",
    "replaced": "Change the values in place under torch.no_grad(), weight.mul_(0.999), instead of "
    "assigning a new nn.Parameter: the optimizer holds the first one",
    "hook": "Look at what the hook {name} in {place} returns: it takes the place of the gradient",
    "unused": "Use the result of {place}, or remove the part that computes it",
}
REENTRANT = (
    "Pass use_reentrant=False to checkpoint (gradient_checkpointing_kwargs={'use_reentrant': "
    "False} in transformers), or call model.enable_input_require_grads(): reentrant checkpointing "
    "has no gradient where the inputs of the segment need none"
)
ZEROS = (
    (
        "Round|Floor|Ceil|Trunc|Sign|Heaviside|Frac",
        "its derivative is 0 everywhere: use a straight-through estimator, "
        "x + (x.round() - x).detach()",
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
ZERO = "its gradient is 0 for these inputs"


def clause(cuts: Sequence[Cut]) -> str:
    """What was observed about the parameters without a gradient, "" if nothing was."""
    names: dict[tuple[str, str], list[str]] = {}
    for cut in cuts:
        together = names.setdefault((cut.kind, _where(cut)), [])
        name = f"{cut.name} {cut.remark}" if cut.remark else cut.name
        together += [] if name in together else [name]
    return "; ".join(_sentence(*key, names[key]) for key in list(names)[:MOST])


def _where(cut: Cut) -> str:
    """The line with its code, and the module of torch that it calls."""
    line = f"{cut.place}{f' (`{cut.code}`)' if cut.code else ''}"
    return ", in ".join(filter(None, (line, cut.module))) or "a library"


def _sentence(kind: str, where: str, names: Sequence[str]) -> str:
    return CLAUSES[kind].format(name=", ".join(names), where=where)


def fix(cuts: Sequence[Cut]) -> str:
    """The remedy for the first kinds of cuts, as sentences; "" if there are none."""
    return " ".join(dict.fromkeys(f"{_fix(each)}." for each in cuts[:MOST]))


def _fix(cut: Cut) -> str:
    place = cut.module or cut.place or "the library"
    if cut.name == "CheckpointFunction":
        return REENTRANT
    if cut.kind != "zero":
        return FIXES[cut.kind].format(name=cut.name, place=cut.place or place)
    operation = re.sub(r"Backward\d*$", "", cut.name)
    reason = next((text for names, text in ZEROS if re.fullmatch(f"(?:{names})", operation)), ZERO)
    if "Dropout" in cut.module:
        reason = "its probability is 1, which drops everything"
    if cut.remark:
        reason = f"it is {cut.remark}, so its result is the same for all inputs: use a sigmoid, or "
        reason += "two outputs, or another dim"
    return f"Look at {place}: {reason}"


def of(cuts: Sequence[Cut], parameters: Sequence[Parameter]) -> list[Cut]:
    """The cuts that concern these parameters, those of the most parameters first."""
    names = {each.name for each in parameters}
    concerned = [each for each in cuts if names.intersection(each.parameters)]
    return sorted(concerned, key=lambda each: -len(each.parameters))
