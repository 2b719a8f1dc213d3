"""What a loss was computed from, read from its graph: no hook in the forward pass, no value."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional, Sequence

from .foreign import Foreign

LAYOUT = frozenset(
    ("AliasBackward0", "CloneBackward0", "ContiguousBackward0", "PermuteBackward0",
     "ReshapeAliasBackward0", "SqueezeBackward0", "SqueezeBackward1", "TBackward0",
     "ToCopyBackward0", "TransposeBackward0", "UnsafeViewBackward0", "UnsqueezeBackward0",
     "ViewBackward0")
)  # fmt: skip
"""What changes the shape or the dtype alone."""
SCORES = frozenset(("AddmmBackward0", "MmBackward0", "ConvolutionBackward0", "BmmBackward0"))
"""The output of a layer without an activation."""
PICKED = frozenset(("GatherBackward0", "IndexBackward0"))
"""What is taken out of it, as the values of the actions that were chosen."""
BOUNDED = {
    "SoftmaxBackward0": "softmax()",
    "SigmoidBackward0": "sigmoid()",
    "ReluBackward0": "relu()",
    "TanhBackward0": "tanh()",
}
DISTANCES = {
    "MseLossBackward0": "mse_loss",
    "SmoothL1LossBackward0": "smooth_l1_loss",
    "HuberLossBackward0": "huber_loss",
}
COMPARISONS = {**DISTANCES, "SubBackward0": "a difference"}
REDUCING = frozenset(
    ("MeanBackward0", "SumBackward0", "NegBackward0", "DivBackward0", "DivBackward1",
     "MulBackward0", "MulBackward1", "AddBackward0")
)  # fmt: skip
"""What lies between a loss and its terms."""
ONE_CLASS = (
    "one-class",
    "the cross entropy has one class: the softmax of one value is 1, and the loss always 0",
)
FEW = 8
"""Nodes of a loss that begins at a tensor made of numbers. Our own number."""
NEAR = 48
"""Nodes of a graph, nearest to the loss first."""
MOST_NODES = 20_000
"""Of a graph that is searched for parameters."""


def kind(node: Foreign) -> str:
    """The class of a node of a graph, "" for none."""
    return "" if node is None else type(node).__name__


def nearest(root: Foreign) -> Iterator[Foreign]:
    """The nodes of the graph, nearest to the loss first."""
    open_, seen = [root], {root}
    for node in open_:
        yield node
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen and len(open_) < NEAR:
                seen.add(parent)
                open_.append(parent)


def reached(root: Foreign, owners: dict[int, int]) -> Optional[List[int]]:
    """The owners of the parameters that a graph reaches, the nearest first, None for a graph that
    is too large; `owners` by the parameters' ids."""
    found: List[int] = []
    all_owners = set(owners.values())
    open_, seen = [root], {root}
    for node in open_:
        owner = owners.get(id(getattr(node, "variable", None)), -1)
        if owner not in (-1, *found):
            found.append(owner)
            if len(found) == len(all_owners):
                return found
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen:
                if len(open_) >= MOST_NODES:
                    return None
                seen.add(parent)
                open_.append(parent)
    return found


def shape(node: Foreign) -> Sequence[int]:
    """That of what the operation returned; () where the version of torch does not say."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[0].shape) if metadata else ()


def size(root: Foreign) -> int:
    """Elements of the first tensor below the loss that is no scalar; 0 where none is near."""
    for node in nearest(root):
        elements = 1
        for length in shape(node):
            elements *= length
        if elements > 1:
            return elements
    return 0


def classes(root: Foreign) -> int:
    """Of a loss that is a mean cross entropy and nothing else; 0 for another one."""
    node = root
    while kind(node) in ("DivBackward0", "MulBackward0"):
        node = node.next_functions[0][0]
    if not kind(node).startswith("NllLoss") or node._saved_reduction != 1:
        return 0
    sizes = node._saved_self.shape
    return int(sizes[1] if len(sizes) > 1 else sizes[0])


def _below(node: Foreign) -> Foreign:
    """What a node got, before its shape was changed."""
    while True:
        parents = node.next_functions
        node = parents[0][0] if parents else None
        if kind(node) not in LAYOUT:
            return node


def _gains_an_axis(node: Foreign) -> bool:
    """Whether unsqueeze() or [:, None] is between a node and what computed its input."""
    parents = [parent for parent, _ in node.next_functions if parent is not None]
    while parents and kind(parents[0]) in LAYOUT | {"ExpandBackward0"}:
        if kind(parents[0]) == "UnsqueezeBackward0":
            return True
        parents = [parent for parent, _ in parents[0].next_functions if parent is not None]
    return False


def misfit(root: Foreign) -> tuple[str, str]:
    """A word for what a loss of the graph cannot have been meant to get, and a sentence; ("", "")
    for nothing, ("none", "") where no known loss is near the root."""
    known = False
    if (found := _one_class(root))[0]:
        return found
    for node in nearest(root):
        name = kind(node)
        rule = RULES.get(name)
        if rule is not None:
            known = True
            found = rule(node)
            if found[0]:
                return found
    return ("", "") if known else ("none", "")


def _one_class(root: Foreign) -> tuple[str, str]:
    """Of a cross entropy with targets that are probabilities, [N, 1], and nothing else."""
    node = root
    while kind(node) in REDUCING:
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        if len(parents) != 1:
            return "", ""
        node = parents[0]
    sizes = shape(node)
    single = kind(node) == "LogSoftmaxBackward0" and len(sizes) == 2 and sizes[1] == 1
    return ONE_CLASS if single and sizes[0] > 1 and node._saved_dim else ("", "")


def _of_logits(text: str) -> Callable[[Foreign], tuple[str, str]]:
    """The rule of a loss that expects logits; `text` with the activation that it gets."""

    def rule(node: Foreign) -> tuple[str, str]:
        name = kind(_below(node))
        return ("logits", text.format(BOUNDED[name])) if name in BOUNDED else ("", "")

    return rule


def _negative_likelihood(node: Foreign) -> tuple[str, str]:
    under, aligns = _below(node), kind(node).startswith("Ctc")
    name = kind(under)
    if name == "LogSoftmaxBackward0" and not aligns:
        sizes, dim = shape(under), getattr(under, "_saved_dim", None)
        if len(sizes) == 2 and dim == 0:
            return "axis", (
                f"log_softmax() normalizes over the batch (dim=0 of {list(sizes)}), not over the "
                "classes"
            )
        if len(sizes) == 2 and sizes[1] == 1:
            return ONE_CLASS
    elif name == "SoftmaxBackward0" or name in SCORES:
        function = "ctc_loss()" if aligns else "nll_loss()"
        what = "probabilities, the result of softmax()" if name not in SCORES else "scores"
        return "logarithms", f"{function} gets {what}: it expects the result of log_softmax()"
    return "", ""


def _distance(node: Foreign) -> tuple[str, str]:
    """[N, 1] against [N]: each prediction is compared with every target."""
    first: Foreign = node.next_functions[0][0] if node.next_functions else None
    expanded = kind(first) == "ExpandBackward0"
    own, theirs = shape(node) or shape(first), shape(first)
    if kind(node) == "SubBackward0":
        if expanded:
            first, theirs = _below(first), tuple(first._saved_self_sym_sizes)
        computed = [parent for parent, _ in node.next_functions if parent is not None]
        scores = {kind(first), kind(_below(node))} & (SCORES | PICKED)
        pairs = len(computed) != 1 or not scores or _gains_an_axis(node)
    else:
        target: Foreign = getattr(node, "_saved_target", None) if expanded else None
        pairs = target is None or 0 not in target.stride()
        if not pairs:
            own, theirs = tuple(target.shape), tuple(first._saved_self_sym_sizes)
            # Of quantiles each is beside each target; a weight of each pair follows.
            pairs = not getattr(node, "_saved_reduction", 1) and _gains_an_axis(node)
    if pairs:
        return "", ""  # on purpose, or of one shape
    if len(own) == 2 and own[0] == own[1] > 1 and list(theirs) in ([own[0], 1], [own[0]]):
        count = own[0]
        return "broadcast", (
            f"{COMPARISONS[kind(node)]} compares each of {count} predictions with all {count} "
            f"targets: one is [{count}, 1] and the other [{count}], so the loss is a mean over "
            f"[{count}, {count}]"
        )
    return "", ""


RULES = {
    "LogSoftmaxBackward0": _of_logits(
        "log_softmax() of the cross entropy gets the result of {}: it expects logits, and cannot "
        "come near 0 with values that are bounded"
    ),
    "NllLossBackward0": _negative_likelihood,
    "NllLoss2DBackward0": _negative_likelihood,
    "CtcLossBackward0": _negative_likelihood,
    "BinaryCrossEntropyWithLogitsBackward0": _of_logits(
        "binary_cross_entropy_with_logits() gets the result of {}: it applies sigmoid() itself"
    ),
    **dict.fromkeys(COMPARISONS, _distance),
}


def not_finite(root: Foreign) -> tuple[str, str]:
    """The operation near a loss that is not finite whose own input explains it, ("", "") for none.

    Reads values, so it waits for a device.
    """
    found = "", ""
    for node in nearest(root):
        try:
            cause, text = _undefined(node)
        except (AttributeError, RuntimeError):  # freed, or changed in place since
            continue
        if cause:
            found = cause, text  # the deepest: what is above it follows
    return found


def begins_anew(loss: Foreign) -> bool:
    """Whether it is computed of tensors alone that the program made, by a few operations."""
    root = getattr(loss, "grad_fn", None)
    nodes = [] if root is None else list(nearest(root))
    leaves = [node.variable for node in nodes if hasattr(node, "variable")] if nodes else [loss]
    made = [each for each in leaves if type(each).__name__ == "Tensor" and each.requires_grad]
    return bool(made) and len(made) == len(leaves) and len(nodes) <= FEW


def is_sum(root: Foreign) -> bool:
    """Whether a loss is a sum over samples that nothing divides."""
    if kind(root) == "SumBackward0":
        return True
    return getattr(root, "_saved_reduction", 1) == 2


def _constant(node: Foreign, name: str) -> bool:
    """Whether what has no gradient, a target or a factor, is not finite."""
    if name == "MulBackward0":
        kept = ("_saved_other", "_saved_self")
        parents = [parent for parent, _ in node.next_functions]
        values = [getattr(node, k) for k, p in zip(kept, reversed(parents)) if p is None]
    else:
        computed = len(node.next_functions) > 1 and node.next_functions[1][0] is not None
        values = [] if computed else [getattr(node, "_saved_target", None)]
    found = [v for v in values if hasattr(v, "isfinite") and v.is_floating_point()]
    return any(not bool(value.isfinite().all()) for value in found)


def _undefined(node: Foreign) -> tuple[str, str]:
    name = kind(node)
    if (name == "MulBackward0" or name in COMPARISONS) and _constant(node, name):
        return "constant", "a target or a factor without a gradient that is not finite"
    mean = name.startswith("NllLoss") and node._saved_reduction == 1
    if mean and bool(node._saved_total_weight == 0):
        return "empty", "the mean over no label: every target of the batch is the ignored one"
    if name == "DivBackward0" and bool((node._saved_other == 0).any()):
        return "empty", "a division by 0, as by the sum of an empty mask"
    if name == "LogBackward0" and bool((node._saved_self <= 0).any()):
        return "undefined", "log() of 0 or less"
    if name == "SqrtBackward0" and bool((node._saved_result != node._saved_result).any()):
        return "undefined", "sqrt() of less than 0"
    if name == "ExpBackward0" and bool((node._saved_result == float("inf")).any()):
        return "undefined", "exp() of a value that is too large"
    return "", ""
