"""Indices and parameters of distributions outside of the range that is allowed."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import Explanation, Proof, first_of, seen_as
from doctor.checks.training.errors.sizes import tensors
from doctor.checks.training.errors.words import allowed, words
from doctor.facts.observations import IndexRange, Violation
from doctor.facts.raised import Raised

IGNORED = (-100, -1, 255)
"""Labels that mark what is to be ignored: in torch, in masks, in images of classes."""


def ignored_label(raised: Raised) -> Explanation | None:
    """A label that marks what is ignored, and is used as an index."""
    for each in raised.all(IndexRange):
        marks = [n for n in (each.low, each.high) if n in IGNORED]
        if marks and raised.function.strip("_") not in ("getitem", "setitem"):
            return Explanation(
                words(each),
                f"Replace the label {marks[0]}, which marks what is ignored, before it is used as "
                f"an index: labels.masked_fill(labels == {marks[0]}, 0), and leave these places "
                "out of the result.",
            )
    return None


def one_hot(raised: Raised) -> Explanation | None:
    for each in raised.all(IndexRange) if raised.function == "one_hot" else ():
        return Explanation(
            words(each),
            f"Pass num_classes={each.high + 1} or more to one_hot, or map the labels to "
            f"{allowed(each)}. A label of its own for the background takes one class more.",
        )
    return None


def rows_of_table(raised: Raised) -> Explanation | None:
    """An index beyond the rows of a parameter or buffer of the model."""
    table = next(iter(tensors(raised)), None)
    for each in raised.all(IndexRange):
        if table is None or not table.parameter or each.size is None or each.low < each.size:
            continue
        made = f" ({each.origin})" if each.origin else ""
        return Explanation(
            words(each),
            f"Create {table.parameter} with {each.high + 1} entries where it has {each.size}: the "
            f"largest index is {each.high}. If that index is too large itself, correct the line "
            f"that computes it{made}.",
        )
    return None


CONSTRAINTS = {
    r"Interval\(lower_bound=0\.?0?, upper_bound=1\.?0?\)|Simplex": (
        "Pass logits= of a layer without activation in place of probs=, or make probabilities "
        "first: torch.sigmoid for each value, torch.softmax over classes."
    ),
    r"GreaterThan|Positive\b|greater_than|nonnegative": (
        "Make the parameter positive: torch.nn.functional.softplus(x) + 1e-6, or exp of a "
        "logarithm that the network gives; relu and abs reach 0."
    ),
    r"Positive(Semi)?[Dd]efinite|Lower(Cholesky|Triangular)": (
        "Build it so that it is positive definite: L @ L.mT + 1e-4 * torch.eye(n), or pass "
        "scale_tril=L, a lower triangle whose diagonal went through softplus: torch.tril(x, -1) + "
        "torch.diag_embed(torch.nn.functional.softplus(diagonal) + 1e-6)."
    ),
}
"""Constraint of a parameter, as torch names it -> what satisfies it."""


def constrained(raised: Raised) -> Explanation | None:
    """Values that a distribution refuses for a parameter; NaN comes from an earlier operation."""
    for each in raised.all(Violation):
        if each.parameter != "value" and not each.nan:
            fixes = (fix for names, fix in CONSTRAINTS.items() if re.search(names, each.constraint))
            return Explanation(words(each), next(fixes, ""))
    return None


PROOFS: dict[str, Proof] = {
    "ignored-label-as-index": ignored_label,
    "index-out-of-range": first_of(one_hot, rows_of_table, seen_as(IndexRange)),
    "distribution-parameters": constrained,
    "sample-outside-support": seen_as(Violation, parameter="value", nan=False),
}
