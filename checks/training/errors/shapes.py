"""Sizes that do not fit, by the arguments of the call."""

from __future__ import annotations

import math
import re

from doctor.checks.training.errors import heads, views
from doctor.checks.training.errors.branches import added_maps, compared_maps
from doctor.checks.training.errors.explanation import Explanation, Proof, first_of, module, named
from doctor.checks.training.errors.layers import (
    LAYERS,
    kind_of_layer,
    layer_size,
    recurrent_state,
)
from doctor.checks.training.errors.norms import fix_of_norm
from doctor.checks.training.errors.sizes import Call, broadcast, call_of, refused, sizes_of, text
from doctor.facts.raised import Operand, Raised

CLASSES = ("cross_entropy", "nll_loss")
LOSSES = re.compile(r"loss|entropy")
PRODUCTS = r"(__)?r?matmul(__)?|bmm|mm"
LARGE = 1000
"""Values of a result for each value of its larger argument. Our own number."""


def _listed(call: Call) -> str:
    return " and ".join(
        f"{named(each, 'an argument')} {text(sizes_of(each))}" for each in call.operands
    )


def _source(raised: Raised, operand: Operand) -> str:
    """ "the input of head", "target", "the argument"."""
    if operand.name == "input" and kind_of_layer(raised) in LAYERS:
        return f"the input of {module(raised)}"
    return named(operand, "the argument")


# One change makes the call fit


def fitted(raised: Raised, codes: str = "") -> Explanation | None:
    """`codes`: a pattern of the change; any if empty."""
    call = refused(raised)
    found = call.fitted() if call else None
    if call is None or found is None or not re.search(codes, found[1].code):
        return None
    operand, change = found
    fix = fix_of_norm(raised, operand, change) or (
        f"Write {named(operand, 'x')}{change.code} for {_source(raised, operand)}: "
        f"{text(sizes_of(operand))} becomes {text(change.sizes)}."
    )
    return Explanation(f"{_listed(call)}: {named(operand, 'x')}{change.code} fits", fix)


# Products, losses, and what is combined


def inner_sizes(raised: Raised) -> Explanation | None:
    """The inner sizes of a product differ."""
    call = refused(raised)
    if call is None or not re.fullmatch(PRODUCTS, raised.function):
        return None
    first, second = call.sizes
    if first[-1] == second[-2]:
        return Explanation(f"{text(first)} and {text(second)} are other numbers of matrices")
    return Explanation(f"the inner sizes are {first[-1]} and {second[-2]}")


def outputs_and_targets(raised: Raised) -> Explanation | None:
    """A loss that compares values, with another number of outputs than of targets."""
    call = refused(raised)
    if call is None or not LOSSES.search(raised.function) or raised.function in CLASSES:
        return None
    have, want = call.sizes
    if have[:1] != want[:1]:
        return None
    if call.fitted():
        return fitted(raised, r"^\.flatten\(1\)")
    if of_maps := compared_maps(have, want):
        return Explanation(f"{_listed(call)}: {of_maps[0]}", of_maps[1])
    outputs = want[-1] if len(want) > 1 else 1
    if raised.function.startswith("binary_cross_entropy") and len(want) == 1 < have[-1]:
        return Explanation(
            f"{_listed(call)}: {have[-1]} outputs for each sample, 1 target",
            f"If the target is one class of {have[-1]}, use nn.CrossEntropyLoss() with "
            "labels.long() and logits, without a softmax or sigmoid before it. If it is yes or no, "
            "use nn.BCEWithLogitsLoss() with labels.float(), give the last layer 1 output "
            "(out_features=1), and remove that dimension, output.squeeze(-1).",
        )
    return Explanation(
        f"{_listed(call)}: {have[-1]} outputs for each sample, {outputs} targets",
        f"Give the last layer {outputs} outputs (out_features={outputs}), as many as the targets "
        f"have{SQUEEZED * (len(want) == 1)}; for one class of several use cross_entropy with "
        "labels.long().",
    )


SQUEEZED = ", and remove that dimension, output.squeeze(-1)"


def rows_and_labels(raised: Raised) -> Explanation | None:
    """Another number of predictions than of labels."""
    call = refused(raised)
    if call is None or raised.function not in CLASSES or call.fitted():
        return None
    rows, labels = call.sizes
    if len(rows) > 2 and len(labels) > 1 and rows[0] == labels[0]:
        return Explanation(
            f"in each sample predictions for {text(rows[2:])} positions against labels for "
            f"{text(labels[1:])}",
            "Make both of one size: where the model puts positions before its input (a prompt, a "
            "class token, an image), give these places ignored labels (-100) or leave them out of "
            "the logits; resize masks of images with mode='nearest' to the size of the logits.",
        )
    if len(rows) != 2 or len(labels) != 1 or rows[0] == labels[0]:
        return None
    whole = labels[0] and rows[0] % labels[0] == 0
    each = f", {rows[0] // labels[0]} for each" if whole else ""
    cause = f"{rows[0]} predictions against {labels[0]} labels{each}"
    if whole and rows[0] == rows[1]:
        return Explanation(f"{cause}; the predictions are square, as similarities are", VIEWS_FIX)
    return Explanation(cause)


VIEWS_FIX = (
    "Give each row its label, the number of the row that belongs to it. Of two views that were "
    "joined, torch.cat([first, second]) with n rows each, these are torch.cat([arange(n) + n, "
    "arange(n)]); of similarities of one view with the other, first @ second.t(), arange(n)."
)


def short_parameter(raised: Raised) -> Explanation | None:
    """A table of the model, as one of positions, that is shorter or longer than what it is added
    to."""
    call = refused(raised)
    if call is None or len(call.operands) != 2 or kind_of_layer(raised) in LAYERS:
        return None
    table = next((each for each in call.operands if each.parameter), None)
    other = next((each for each in call.operands if not each.parameter), None)
    if table is None or other is None or len(sizes_of(table)) != len(sizes_of(other)):
        return None
    pairs = enumerate(zip(sizes_of(table), sizes_of(other), strict=True))
    differing = [(n, a, b) for n, (a, b) in pairs if a != b and 1 not in (a, b)]
    if len(differing) != 1:
        return None
    n, have, need = differing[0]
    return Explanation(
        f"{table.parameter} has {have} in dimension {n}, the other {need}",
        f"Give {table.parameter} {need} in dimension {n}, or cut the longer one with "
        f"narrow({n}, 0, {min(have, need)}). A class token needs a position of its own, + 1.",
    )


def differing_sizes(raised: Raised) -> Explanation | None:
    """Two tensors that are combined."""
    call = refused(raised)
    if call is None or call.fitted():
        return None
    if len(call.operands) == 1:
        return Explanation(
            f"{_listed(call)} does not expand to {text(views.target_sizes(raised))}",
            "Expand dimensions of size 1 only and repeat the others (x.repeat, "
            "repeat_interleave). For a table of positions truncate the samples (truncation=True, "
            "max_length=), or build the model with more positions.",
        )
    of_others = kind_of_layer(raised) in LAYERS or re.fullmatch(PRODUCTS, raised.function)
    if of_others or LOSSES.search(raised.function):
        return None
    if of_maps := added_maps(raised, call):
        return of_maps
    first, second = call.sizes
    if len(first) != len(second) and raised.function != "__getitem__":
        return Explanation(f"{_listed(call)} have other numbers of dimensions")
    numbers = [n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    sizes = "; ".join(f"dimension {n}: {first[n]} against {second[n]}" for n in numbers)
    of_heads = numbers == [0] and len(first) > 2  # [samples * heads, queries, keys]
    few, many = sorted((first[0], second[0])) if of_heads else (0, 0)
    if few > 1 and many % few == 0:
        return Explanation(
            f"{_listed(call)}, {sizes}",
            f"If {many} is {few} samples of {many // few} heads (or beams, or frames), repeat the "
            f"smaller one for each of them: x.repeat_interleave({many // few}, dim=0) where those "
            f"of a sample are neighbors, [samples * heads], or x.repeat({many // few}, ...) where "
            "the samples are, [heads * samples]. Else make these sizes equal.",
        )
    return Explanation(
        f"{_listed(call)}, {sizes}",
        "Make these sizes equal, or 1 in one of them: cut a mask as its tensor was cut, and give "
        "both branches of a residual block the same stride.",
    )


def memory_of_a_broadcast(raised: Raised) -> Explanation | None:
    """Two shapes that fit, and give many times as many values."""
    call = call_of(raised)
    if call is None or len(call.operands) != 2 or not call.fits:
        return None
    together = broadcast(*call.sizes) or ()
    if math.prod(together) < LARGE * max(map(math.prod, call.sizes)):
        return None
    return Explanation(
        f"{_listed(call)} broadcast to {text(together)}, {math.prod(together):,} values"
    )


def fitted_by(codes: str) -> Proof:
    """`codes`: a pattern of what is written behind the argument."""
    return lambda raised: fitted(raised, codes)


PROOFS: dict[str, Proof] = {
    "linear-unflattened": fitted_by(r"^\.flatten\(1\)"),
    "extra-dimension": fitted_by(r"^\.squeeze"),
    "order-of-dimensions": fitted_by(r"^\.(transpose|permute)"),
    "missing-dimension": fitted_by(r"None|^\.unsqueeze"),
    "recurrent-state": recurrent_state,
    "layer-size": first_of(layer_size, heads.width_of_keys, inner_sizes),
    "short-parameter": short_parameter,
    "outputs-and-targets": outputs_and_targets,
    "rows-and-labels": first_of(fitted_by(r"^\.flatten\(\)"), views.regrouped, rows_and_labels),
    "memory-of-a-broadcast": memory_of_a_broadcast,
    "differing-sizes": first_of(heads.grouped_heads, views.regrouped, differing_sizes),
}
