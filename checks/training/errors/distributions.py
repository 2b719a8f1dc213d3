"""Parameters and values that a distribution of torch refuses, by the constraint that it names."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import Explanation
from doctor.facts.raised import Raised

PARAMETER = re.compile(
    r"Expected parameter (?P<name>\w+) .*?of distribution (?P<kind>\w+)\(.*?"
    r"to satisfy the constraint (?P<constraint>.*?), but found",
    re.DOTALL,
)
VALUE = re.compile(
    r"Expected value argument .*?to be within the support \((?P<constraint>.*?)\) of the "
    r"distribution (?P<kind>\w+)\(",
    re.DOTALL,
)
NAN = re.compile(r"\bnan\b")
CONSTRAINTS = (
    (
        r"Interval\(lower_bound=0\.?0?, upper_bound=1\.?0?\)|Simplex",
        "Pass logits={name} of a layer without activation in place of probs=, or make "
        "probabilities first: torch.sigmoid for each value, torch.softmax over classes",
    ),
    (
        r"GreaterThan|Positive\b|greater_than|nonnegative",
        "Make {name} positive: torch.nn.functional.softplus({name}) + 1e-6, or exp of a "
        "logarithm that the network gives; relu and abs reach 0",
    ),
    (
        r"PositiveDefinite|PositiveSemidefinite",
        "Build {name} so that it is positive definite: L @ L.mT + 1e-4 * torch.eye(n), or pass "
        "scale_tril=L with a lower triangle whose diagonal went through softplus",
    ),
    (
        r"LowerCholesky|LowerTriangular",
        "Pass a lower triangle with a positive diagonal: torch.tril(x, -1) + "
        "torch.diag_embed(torch.nn.functional.softplus(diagonal) + 1e-6)",
    ),
)
"""Constraint of a parameter -> what to do."""


INDICES = (
    "Number the actions or classes from 0: log_prob of {kind} takes indices of its outputs. Give "
    "the network as many outputs as there are numbers."
)


def _count(raised: Raised) -> str:
    """ "54 of 72 values of scale violate GreaterThan(lower_bound=0.0): -0.59 to -0.00018"; "" if
    they were not counted."""
    observed = raised.observed
    if "violations" not in observed:
        return ""
    span = f": {observed['range']}" if "range" in observed else ""
    of = "" if observed["parameter"] == "value" else f" of {observed['parameter']}"
    return f"{observed['violations']}{of} violate {observed['constraint']}{span}"


def explain(raised: Raised) -> Explanation | None:
    """None for values that are NaN: those come from an earlier operation."""
    if NAN.search(raised.message):
        return None
    if match := PARAMETER.search(raised.message):
        fix = next((fix for text, fix in CONSTRAINTS if re.search(text, match["constraint"])), None)
        return Explanation(_count(raised), f"{fix.format(name=match['name'])}.") if fix else None
    if match := VALUE.search(raised.message):
        counted = f": {_count(raised)}" if _count(raised) else ""
        cause = f"log_prob of {match['kind']} takes values in {match['constraint']}{counted}"
        if match["constraint"].startswith("IntegerInterval"):
            return Explanation(cause, INDICES.format(kind=match["kind"]))
        return Explanation(
            cause,
            f"Bring the values that log_prob gets into that range (torch.sigmoid, exp, .round(), "
            f"another scale of the data), or choose a distribution of such values: {match['kind']} "
            "describes the samples, not the output of the network, which gives its parameters.",
        )
    return None
